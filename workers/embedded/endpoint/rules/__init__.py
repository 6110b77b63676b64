"""The rules, one module for each schema. For another schema, add a module with `SCHEMA_NAME` and `answer`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

# (system message, user message) -> the reply; depends on nothing else.
# Raises: ValueError for a prompt of another form.
Rule = Callable[[str, str], dict[str, Any]]


def all_rules() -> dict[str, Rule]:
    """Every rule of this package, by the name of its schema."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return {module.SCHEMA_NAME: module.answer for module in modules}
