"""The rules, one module a schema: to answer another schema, add a module with `SCHEMA_NAME` and `answer`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

# The system and the user message -> the reply, a function of nothing else.
# Raises: ValueError for a prompt that is not the one it knows.
Rule = Callable[[str, str], dict[str, Any]]


def all_rules() -> dict[str, Rule]:
    """Every rule of this package, by the name of the schema that it answers."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return {module.SCHEMA_NAME: module.answer for module in modules}
