"""Steering inside the served model: checked request parameters, and the biases that they add to the logits.

Imports torch, numpy and SGLang only.  Inside a server the package is called `whetstone_steering`.
"""

NAME = "whetstone_steering"
VERSION = "0.1.0"
PLUGIN = "whetstone_steering.plugin:register"
PREFIX_CACHE_VARIABLE = "WHETSTONE_PREFIX_CACHE"  # in the environment of a server's processes, see `prefix_cache`
