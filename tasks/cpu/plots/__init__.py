"""The pictures of a run, as PNG bytes: pure functions of the history and of the tree.

Importing this package imports matplotlib (about 60 MB): whoever only may need a plot imports it in a function.
"""

from tasks.cpu.plots.curves import fitness_png, lengths_png
from tasks.cpu.plots.tree import tree_png
from tasks.cpu.plots.wasted import wasted_png

__all__ = ["fitness_png", "lengths_png", "tree_png", "wasted_png"]
