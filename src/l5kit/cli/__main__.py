"""``python -m l5kit.cli`` is the ``l5kit`` command."""

from l5kit.cli.main import run

if __name__ == "__main__":
    run()
