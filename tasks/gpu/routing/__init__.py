"""Gradient routing: which share of each row's gradient goes into knobs that the deployed model does not have.

Nothing here knows Celery or the store.  `loop.Trajectory` is the whole experiment; docs/route.md has the mathematics.
"""
