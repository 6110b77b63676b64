"""The embedded OpenAI endpoint: chat completions with strict JSON schemas, answered by rules.

For farms without an API key.  It is a real HTTP server, so a call goes the way that it goes to OpenAI.  Only the
content comes from rules, which its `system_fingerprint` and its model name state.
"""

ENDPOINT_KEY_VARIABLE = "WHETSTONE_ENDPOINT_KEY"
"""The key that clients must send; WHETSTONE_ENDPOINT_KEY_FILE names a file with it."""
ENDPOINT_SOCKET = "rules"
"""What the socket of a farm's endpoint is called (workers/embedded/sockets.py)."""
