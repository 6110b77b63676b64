"""A small server that speaks SGLang's /generate on a CPU, with answers that never depend on what else is in flight.

`protocol` reads requests, `app` speaks HTTP, `engine` schedules rows, `decoder` runs the model, `attention` and
`rows` hold each row's keys and values, `prompts` remembers finished prompts, `sampling` chooses tokens.
"""
