"""Training with gradient routing: the jobs of a `route` run, what they compute, and the statistics of its claims.

`jobs` and `claims` need no torch; `problems`, `grading` and `confinement` are the world of the programming problems
without a model; all else computes.
"""
