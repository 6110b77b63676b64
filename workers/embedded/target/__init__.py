"""A small server with SGLang's /generate, for a CPU.  Its answers never depend on what else is in flight.

`protocol` checks requests, `__main__` serves HTTP, `engine` schedules requests into rows, `decoder` runs the model with
`attention`, `sampling` chooses tokens.
"""
