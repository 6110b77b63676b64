"""The environment of `orchestrator route`: programming problems, loopholes, and a sandbox that grades."""
