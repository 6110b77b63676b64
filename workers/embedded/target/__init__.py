"""A small server that speaks SGLang's /generate on a CPU.  Its answers never depend on what else is in flight.

`protocol` checks requests, `app` speaks HTTP, `engine` schedules requests into rows, `decoder` runs the model with
`attention`, `cache` holds keys and values, `sampling` chooses tokens, `processor_file` loads a generated processor,
`determinism` tests what this machine computes exactly.
"""
