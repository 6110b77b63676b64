"""The embedded OpenAI endpoint: chat completions with strict JSON schemas, answered by rules.

For farms without an API key.  It is a real HTTP server and answers as OpenAI's does, errors and limits included.
Only the content comes from rules, which its `system_fingerprint` and its model name state.
"""
