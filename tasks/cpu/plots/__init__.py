"""The plots of a run, as PNG bytes: pure functions of its history and its tree.

This package imports matplotlib (about 60 MB), so it is imported inside the functions that draw.
"""

from tasks.cpu.plots.curves import fitness_png, lengths_png
from tasks.cpu.plots.tree import tree_png
from tasks.cpu.plots.wasted import wasted_png

__all__ = ["fitness_png", "lengths_png", "tree_png", "wasted_png"]
