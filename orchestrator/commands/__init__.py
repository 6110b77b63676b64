"""The commands: each is a function with click's options, which returns the exit status."""
