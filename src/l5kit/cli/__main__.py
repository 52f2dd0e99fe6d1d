"""``python -m l5kit.cli`` is the ``l5kit`` command."""

import sys


def start() -> None:
    """Run the command; Ctrl+C ends it in one line while its libraries are still being imported, too."""
    try:
        from l5kit.cli.main import run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    start()
