"""Entry point of ``python -m l5kit.cli``, the ``l5kit`` command."""

import sys


def start() -> None:
    """Run the command; Ctrl+C ends it in one line, even while libraries are still being imported."""
    try:
        from l5kit.cli.main import run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        # CPython remembers a Ctrl+C that passes through executed text (dataclasses and numba execute text), and then
        # ends `python -m` by that signal whatever the exit status. Executing text without a Ctrl+C resets this.
        exec("")


if __name__ == "__main__":
    start()
