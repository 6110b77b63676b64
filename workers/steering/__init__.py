"""Steering inside the served model: parameters that are checked, and the biases that they add.

Imports torch, numpy and SGLang alone: inside a server this package is called `whetstone_steering`.
"""

NAME = "whetstone_steering"
VERSION = "0.1.0"
PLUGIN = "whetstone_steering.plugin:register"
