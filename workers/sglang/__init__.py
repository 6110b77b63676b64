"""The target server of a gpu worker: its process, its GPU, and its life cycle."""
