"""The images copy every module that they run."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FARM = (ROOT / "ops" / "farm" / "Dockerfile").read_text()
PACKAGES = ("orchestrator", "tasks", "workers")


def project_imports(path: Path) -> set[Path]:
    """The files of the project's modules that a file imports, with those that they import."""
    imported: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            if module.partition(".")[0] in PACKAGES:
                file = ROOT / (module.replace(".", "/") + ".py")
                imported |= {file} | project_imports(file)
    return imported


def test_the_stage_that_unpacks_the_model_copies_all_that_it_imports() -> None:
    stage = FARM[FARM.index(" AS models") : FARM.index(" AS embedded")]
    copied = {
        ROOT / name for line in re.findall(r"^COPY (?!--)(.*) \S+$", stage, re.MULTILINE) for name in line.split()
    }
    assert project_imports(ROOT / "workers" / "embedded" / "models.py") <= copied


@pytest.mark.parametrize("image", ["farm", "flower", "gpu"])
def test_an_image_that_builds_the_wheel_copies_the_files_that_it_includes(image: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    lines = re.findall(r"^COPY (?!--)(.*) \S+$", (ROOT / "ops" / image / "Dockerfile").read_text(), re.MULTILINE)
    assert set(included) <= {name for line in lines for name in line.split()}
