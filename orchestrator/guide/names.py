"""Names of missions, as folders and as keys."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from tasks.escape import quote

LONGEST_NAME = 120  # bytes of UTF-8
OWN_SUFFIXES = (".json", ".jsonl", ".yaml", ".log", ".html", ".part")  # of the files beside the missions' folders


def mission_name(name: str) -> str:
    """A mission's name in Unicode's composed form (NFC): one name of several spellings of the same characters."""
    return unicodedata.normalize("NFC", name)


def mission_name_fault(name: str) -> str | None:
    """Why a name can be no folder's, None where it can."""
    name = mission_name(name)
    size = len(name.encode("utf-8", "replace"))
    faults = {
        "it is blank": not name.strip(),
        "it begins with a point": name.startswith("."),
        "it has a control character": has_control(name),
        "it has a separator of folders": "/" in name or "\\" in name,
        f"it ends as a file of the run does ({', '.join(OWN_SUFFIXES)})": name.casefold().endswith(OWN_SUFFIXES),
        f"it has {size} bytes, more than {LONGEST_NAME}": size > LONGEST_NAME,
    }
    return next((fault for fault, is_so in faults.items() if is_so), None)


def has_control(name: str) -> bool:
    """Whether a name has a control character, one that ends a line, or half of a surrogate pair."""
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name)


def mission_name_problems(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names that cannot be used, and why: also a name that is a folder's of an earlier one."""
    earlier: dict[str, str] = {}
    for name in names:
        alike = earlier.setdefault(mission_name(name).casefold(), name)
        if fault := mission_name_fault(name):
            yield name, f"is no name of a folder: {fault}"
        elif alike is not name:
            yield name, f"has the same folder as {quote(alike)}"
