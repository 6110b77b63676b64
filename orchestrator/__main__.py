"""The console script, and `python -m orchestrator`."""

from orchestrator.signals import end_on_interrupt

end_on_interrupt()  # until a command has something to stop (`raise_on_signals`)

from orchestrator import cli  # noqa: E402


def main() -> None:
    """Run the command of the arguments, and exit with its status."""
    try:
        cli.main()
    finally:
        end_on_interrupt()


if __name__ == "__main__":
    main()
