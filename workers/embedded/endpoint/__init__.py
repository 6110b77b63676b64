"""The embedded OpenAI endpoint: chat completions with strict JSON schemas, answered by plain rules.

For farms without a key.  It is a real HTTP server and answers as the real one does, errors and limits included; only
what it says comes from rules, and its `system_fingerprint` and model name say so.
"""
