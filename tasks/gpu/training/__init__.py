"""The child process of the jobs that train: `start` is the worker's side, `python -m tasks.gpu.training` the other."""
