"""`orchestrator export`: what a run has found as a file for an inference engine that Whetstone does not start.

`steering` is what is exported, `targets` the engines.  Each engine has a module with the text of its file; all files
steer alike: logits += deltas[labels].
"""
