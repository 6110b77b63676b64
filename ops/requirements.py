"""Prints what pip must install for the project and the named extras: `python ops/requirements.py [EXTRA ...]`.

Each line is a version of constraints.txt with the hashes of its files, for `pip install --require-hashes`.  The project
itself is not among them, so an image installs them in a layer below its code: a change of code keeps the layer.

Torch is installed before (ops/install_torch.sh).  A CPU build needs none of NVIDIA's packages, which PyPI's build for
Linux does need, so what is printed depends on the build that is installed.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = "whetstone-farm"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Locked:
    """One distribution of constraints.txt: its lines for pip, and the names of those that require it."""

    text: str
    required_by: frozenset[str]


def requirements(extras: Iterable[str]) -> list[str]:
    """What pyproject.toml requires for the project and these extras, with the extras that they include."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            included = re.match(rf"{PROJECT}\[([\w,]+)\]", line)
            lines += requirements(included[1].split(",")) if included else [line]
    return lines


def read_locked(text: str) -> Mapping[str, Locked]:
    """The distributions of a file that `uv pip compile` wrote, by name."""
    found = {}
    for block in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE):
        lines = block.splitlines()
        if not lines or not NAME.match(lines[0]):
            continue
        via = [line.partition("# via ")[2] for line in lines if "# via " in line]
        names = {name_of(part) for line in via for part in line.split(",")}
        kept = [line for line in lines if not line.lstrip().startswith("#")]
        found[name_of(lines[0])] = Locked("\n".join(kept), frozenset(names))
    return found


def closure(locked: Mapping[str, Locked], names: Iterable[str], without: Iterable[str] = ()) -> Iterator[str]:
    """The names, and those of all that they require, but for what only those of `without` require."""
    excluded = {name_of(name) for name in without}
    found: set[str] = set()
    new = {name_of(name) for name in names} - excluded
    while new:
        found |= new
        parents = frozenset(found)
        new = {
            name
            for name, one in locked.items()
            if any(_requires(parent, name) for parent in one.required_by & parents)
        } - found - excluded  # fmt: skip
    return iter(sorted(found))


def name_of(requirement: str) -> str:
    """The normalized name at the beginning of a requirement."""
    match = NAME.match(requirement.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _requires(parent: str, name: str) -> bool:
    """Whether this build of `parent` requires `name`: builds of torch differ.  True where none is installed."""
    if parent != "torch":
        return True
    try:
        return name in {name_of(line) for line in metadata.requires("torch") or []}
    except metadata.PackageNotFoundError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    parser.add_argument("--without", action="append", default=[], metavar="NAME", help="may be repeated")
    options = parser.parse_args()
    locked = read_locked((ROOT / "constraints.txt").read_text("utf-8"))
    names = closure(locked, requirements(options.extras), options.without)
    print("\n".join(locked[name].text for name in names))


if __name__ == "__main__":
    main()
