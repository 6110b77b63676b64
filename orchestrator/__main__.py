"""The console script, and `python -m orchestrator`."""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a command has something to stop (`raise_on_signals`), Ctrl+C ends the process without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main())
