"""One command a module: `make_parser()` says what it takes, `run(arguments)` does it and returns the exit status."""
