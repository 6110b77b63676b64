"""README.md and the pages in docs/ name only files, commands, options and settings that exist."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ops" / "README.md", ROOT / "configs" / "data" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
FOLDERS = "orchestrator|tasks|workers|ops|configs|benchmarks|tests|examples"
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code_in(text: str) -> Iterator[str]:
    """Inline code and the lines of code blocks."""
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(r"^(?:    | {0,3}\$ )(.+)$", text, re.MULTILINE)
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


@each_page
def test_a_relative_link_resolves(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(linked), f"{target} has no such heading"


@each_page
def test_a_named_file_exists(page: Path) -> None:
    named = re.compile(rf"(?<![\w/.*-])((?:{FOLDERS})/[\w./{{}},*<>-]*)")
    for code in code_in(page.read_text("utf-8")):
        for path in named.findall(code):
            if not re.search(r"[{}<>*]|QUEUE|NAME", path):
                assert (ROOT / path.rstrip("./,")).exists(), f"{path} does not exist"


@each_page
def test_a_named_part_of_a_file_exists(page: Path) -> None:
    """As in "`Dispatcher.wait` in `orchestrator/dispatch/dispatcher.py`"; several names may share the file."""
    named = rf"((?:`[\w.]+`(?:, | and ))*`[\w.]+`) (?:in|of) `((?:{FOLDERS})/[\w./]+\.\w+)`"
    for names, path in re.findall(named, page.read_text("utf-8")):
        words = set(re.findall(r"\w+", (ROOT / path).read_text("utf-8")))
        for name in re.findall(r"`([\w.]+)`", names):
            assert set(name.split(".")) <= words, f"{path} has no {name}"


def test_the_architecture_page_lists_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for top in ("orchestrator", "tasks", "workers"):
        for package in sorted((ROOT / top).glob("*/__init__.py")):
            assert f" {package.parent.name}/" in page, f"{top}/{package.parent.name} is not on the page"


@each_page
def test_a_make_target_exists(page: Path) -> None:
    lines = re.findall(r"^([a-z0-9 -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = {target for line in lines for target in line.split()}
    for code in code_in(page.read_text("utf-8")):
        for target in re.findall(r"(?:^|[&;] *)make ([a-z][a-z0-9-]*)\b", code):
            assert target in targets, f"make {target} does not exist"


@each_page
def test_a_command_and_its_options_exist(page: Path) -> None:
    for code in code_in(page.read_text("utf-8")):
        for command, rest in re.findall(r"(?:^|[\s/;])orchestrator ([a-z]+)\b([^;|&#`]*)", code):
            assert command in COMMANDS, f"orchestrator {command} does not exist"
            parser = importlib.import_module(f"orchestrator.commands.{command}").make_parser()
            for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", rest):
                assert option in parser.format_help(), f"orchestrator {command} has no {option}"


@each_page
def test_a_module_that_is_run_exists(page: Path) -> None:
    for code in code_in(page.read_text("utf-8")):
        for module in re.findall(r"python -m ((?:orchestrator|tasks|workers)[\w.]*)", code):
            found = importlib.util.find_spec(module)
            assert found is not None, f"python -m {module}: there is no such module"
            if found.submodule_search_locations is not None:
                assert importlib.util.find_spec(f"{module}.__main__"), f"python -m {module} cannot be run"


@each_page
def test_an_imported_name_exists(page: Path) -> None:
    """As in "from orchestrator.guide import StageBPipeline", on one line."""
    imported = r"^from ((?:orchestrator|tasks|workers)[\w.]*) import ([\w, ]+)"
    for code in code_in(page.read_text("utf-8")):
        for module, names in re.findall(imported, code):
            for name in names.split(","):
                assert hasattr(importlib.import_module(module), name.strip()), f"{module} has no {name.strip()}"


@each_page
def test_a_setting_exists(page: Path) -> None:
    symbols = re.findall(r"^\s*config (\w+)$", (ROOT / "Kconfig").read_text(), re.MULTILINE)
    symbols.append("NAME")  # stands for any option where a page describes the format
    text = page.read_text("utf-8")
    for name, star in re.findall(r"CONFIG_([A-Z0-9_]+)(\*?)", text):
        exists = any(symbol.startswith(name) for symbol in symbols) if star else name in symbols
        assert exists, f"CONFIG_{name}{star} is not in Kconfig"
    for name in re.findall(r"--set ([A-Z0-9_]+)=", text):
        assert name in symbols, f"--set {name}: there is no such option in Kconfig"
