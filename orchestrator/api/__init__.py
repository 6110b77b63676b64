"""The Python API: runs, and what they have found, from a script or a notebook (docs/python.md).

Its names are those of the package `orchestrator`.  Each module here imports what is heavy when it is called.
"""
