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
    finally:
        # CPython notes a Ctrl+C that passes through text that is executed, as dataclasses and numba do, and has
        # `python -m` end by that signal at last although the status is another one; text without Ctrl+C ends the note
        exec("")


if __name__ == "__main__":
    start()
