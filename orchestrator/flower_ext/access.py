"""User names and passwords of the pages; there are no default ones."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.secret import SecretError, secret

VARIABLE = "FLOWER_BASIC_AUTH"
SHORTEST = 8  # characters of a password
WANTED = "it holds USER:PASSWORD, several separated by commas, and there is no default"


class NoAccess(Exception):
    """No usable user name and password was given; says so in one line that holds nothing of what was given."""


def credentials(environment: Mapping[str, str]) -> list[str]:
    """Each accepted "user:password", from FLOWER_BASIC_AUTH or the file that FLOWER_BASIC_AUTH_FILE names.

    Raises: NoAccess.
    """
    try:
        text = secret(VARIABLE, environment)
    except SecretError as error:
        raise NoAccess(str(error)) from None
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise NoAccess(f"neither {VARIABLE} nor {VARIABLE}_FILE is set: {WANTED}")
    for number, pair in enumerate(found, 1):
        user, colon, password = pair.partition(":")
        which = VARIABLE if len(found) == 1 else f"entry {number} of {VARIABLE}"
        if not user or not colon:
            raise NoAccess(f"{which} has no user name and password: {WANTED}")
        if len(password) < SHORTEST:
            raise NoAccess(f"the password in {which} is shorter than {SHORTEST} characters")
        if not pair.isascii() or not pair.isprintable():
            raise NoAccess(f"{which} has characters that a browser does not send: letters, digits and signs of ASCII")
    return found
