"""The embedded farm: a Valkey, a target server and an OpenAI-compatible endpoint on one machine."""
