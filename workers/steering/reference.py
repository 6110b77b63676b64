"""How the processor's class is named in a request: pickled by reference, written and read without pickle.

SGLang expects `{"callable": "<hex>"}`, the hex of a pickled class.  A class of an importable module pickles to its
two names, so that plain bytes will do, and a reader can compare names instead of running what it was sent.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

MODULE = "whetstone_steering.processor"  # as the module is called inside the server, see pyproject.toml beside this
CLASS = "ClusterBias"

# Protocol 4, the GLOBAL opcode with module and class each on a line, STOP.
_PICKLED = re.compile(rb"\x80\x04c([\w.]+)\n(\w+)\n\.")


def reference_string() -> str:
    """The value of `custom_logit_processor` that selects our processor in SGLang and in the embedded server."""
    pickled = b"\x80\x04c" + f"{MODULE}\n{CLASS}\n".encode() + b"."
    return json.dumps({"callable": pickled.hex()})


def referenced(string: str) -> tuple[str, str]:
    """The module and the class that such a string names. Nothing is imported and nothing un-pickled.

    Raises: ValueError when the string is anything but a class by reference.
    """
    try:
        pickled = bytes.fromhex(json.loads(string)["callable"])
    except (ValueError, TypeError, KeyError):
        pickled = b""
    match = _PICKLED.fullmatch(pickled)
    if match is None:
        raise ValueError("custom_logit_processor is not a class by reference")
    return match[1].decode("ascii"), match[2].decode("ascii")


def is_ours(string: object) -> bool:
    """Whether a request's `custom_logit_processor` names our class, however it is spelt."""
    return isinstance(string, str) and _names_ours(string)


@lru_cache(maxsize=64)
def _names_ours(string: str) -> bool:
    try:
        return referenced(string) == (MODULE, CLASS)
    except ValueError:
        return False
