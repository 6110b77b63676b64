"""The plots of a run, as PNG bytes: pure functions of its history, its tree or its selected tokens.

The modules of this package import matplotlib (about 60 MB).  `tasks/cpu/plot.py` has the table of the plots, and
imports a plot's module when it draws the plot.
"""
