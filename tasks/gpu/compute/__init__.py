"""A process of its own for what computes on the worker's card: `process` is the worker's side, `child` the other."""
