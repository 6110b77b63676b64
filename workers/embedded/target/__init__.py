"""A small server with SGLang's /generate, for a CPU.  Its answers never depend on what else is in flight.

`protocol` checks requests, `app` serves HTTP, `engine` schedules requests into rows, `decoder` runs the model with
`attention`, `cache` holds keys and values, `sampling` chooses tokens, `processor_file` loads a generated processor,
`determinism` tests what this machine computes exactly.
"""
