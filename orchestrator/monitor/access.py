"""Who may look: the user names and passwords of the page, which nobody has unless they were given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "FLOWER_BASIC_AUTH"
FILE_VARIABLE = "FLOWER_BASIC_AUTH_FILE"
SHORTEST = 8  # characters of a password
WANTED = "it holds USER:PASSWORD, several separated by commas, and there is no default"


class NoAccess(Exception):
    """No usable user name and password was given; says so in one line, without telling what was given."""


def credentials(environment: Mapping[str, str]) -> list[str]:
    """Each "user:password" that may look, from FLOWER_BASIC_AUTH or the file that FLOWER_BASIC_AUTH_FILE names.

    Raises: NoAccess.
    """
    source, text = _given(environment)
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise NoAccess(f"{source} is empty: {WANTED}")
    for number, pair in enumerate(found, 1):
        user, colon, password = pair.partition(":")
        which = source if len(found) == 1 else f"entry {number} of {source}"
        if not user or not colon:
            raise NoAccess(f"{which} has no user name and password: {WANTED}")
        if len(password) < SHORTEST:
            raise NoAccess(f"the password in {which} is shorter than {SHORTEST} characters")
        if not pair.isascii() or not pair.isprintable():
            raise NoAccess(f"{which} has characters that a browser does not send: letters, digits and signs of ASCII")
    return found


def _given(environment: Mapping[str, str]) -> tuple[str, str]:
    if VARIABLE in environment:
        return VARIABLE, environment[VARIABLE]
    if not (name := environment.get(FILE_VARIABLE)):
        raise NoAccess(f"neither {VARIABLE} nor {FILE_VARIABLE} is set: {WANTED}")
    try:
        return name, Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NoAccess(f"{FILE_VARIABLE}: {name} cannot be read: {error}") from None
