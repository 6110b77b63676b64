"""Data never becomes code: no pickle is loaded anywhere, and no model brings code of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from orchestrator.collect.settings import read_collect_settings
from orchestrator.settings import SettingsError

ROOT = Path(__file__).parents[1]
FOLDERS = ("orchestrator", "tasks", "workers", "benchmarks", "ops")

FORBIDDEN = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "joblib.load", "dill.load", "dill.loads", "cloudpickle.load"),
    *("cloudpickle.loads", "marshal.load", "marshal.loads", "shelve.open", "pandas.read_pickle", "numpy.fromregex"),
    *("yaml.unsafe_load", "yaml.full_load", "yaml.unsafe_load_all", "yaml.full_load_all", "eval", "exec"),
}
# What a call must state: the defaults of these libraries have changed from version to version.
REQUIRED = {
    "torch.load": ("weights_only", True),
    "numpy.load": ("allow_pickle", False),
    "numpy.save": ("allow_pickle", False),
    "numpy.lib.format.read_array": ("allow_pickle", False),
    "sentence_transformers.SentenceTransformer": ("trust_remote_code", False),
    ".from_pretrained": ("trust_remote_code", False),
}

MEANT = {"tasks/route/confinement.py": ["exec"]}
"""Where code is run on purpose: solutions of programming problems, in a process that the kernel confines."""


def imported(tree: ast.AST) -> dict[str, str]:
    """What each imported name stands for: {"np": "numpy", "loads": "pickle.loads"}."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname: a.name for a in node.names if a.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {(a.asname or a.name): f"{node.module}.{a.name}" for a in node.names}
    return names


def faults(source: str) -> list[str]:
    """Each call that could run code from data, with its line."""
    tree = ast.parse(source)
    names, found = imported(tree), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            first, dot, rest = called.partition(".")
            called = names.get(first, first) + dot + rest
            stated = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            required = REQUIRED.get(called) or REQUIRED.get("." + called.rpartition(".")[2])
            if called in FORBIDDEN or (required and stated.get(required[0], "absent") is not required[1]):
                found.append(f"line {node.lineno}: {called}")
            if called in ("yaml.load", "yaml.load_all") and ast.unparse(node).rpartition("Loader=")[2] != "_Loader)":
                found.append(f"line {node.lineno}: {called}")
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = getattr(key, "value", "")
                celery = isinstance(name, str) and name.endswith(("serializer", "accept_content"))
                if celery and ast.unparse(value) not in ("'json'", "['json']"):
                    found.append(f"line {node.lineno}: {name}")
    return found


def test_no_module_loads_what_could_hold_code() -> None:
    paths = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): faults(path.read_text()) for path in paths}
    assert len(found) > 200
    called = {path: [line.rpartition(" ")[2] for line in lines] for path, lines in found.items() if lines}
    assert called == MEANT, {path: found[path] for path in called}


def test_a_yaml_file_makes_no_objects(tmp_path: Path) -> None:
    (tmp_path / "collect.yaml").write_text(f"!!python/object/apply:os.mkdir ['{tmp_path}/made']")
    with pytest.raises(SettingsError, match="collect"):
        read_collect_settings(tmp_path / "collect.yaml")
    assert not (tmp_path / "made").exists()
