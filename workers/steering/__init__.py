"""Steering inside the served model: checked request parameters, and the biases that they add to the logits.

Imports torch, numpy and SGLang only.  Inside a server the package is called `whetstone_steering`.
"""

NAME = "whetstone_steering"
VERSION = "0.1.0"
PLUGIN = "whetstone_steering.plugin:register"
# In the environment of a server's processes, see `farm`.
PREFIX_CACHE_VARIABLE = "WHETSTONE_PREFIX_CACHE"
SOCKET_VARIABLE, DESCRIPTOR_VARIABLE = "WHETSTONE_TARGET_SOCKET", "WHETSTONE_TARGET_FD"


def distribution_metadata() -> dict[str, str]:
    """What makes the package, on a module path, an installed distribution whose plugin SGLang loads: file, text."""
    folder = f"{NAME}-{VERSION}.dist-info"
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{folder}/entry_points.txt": f"[sglang.srt.plugins]\nwhetstone = {PLUGIN}\n",
    }
