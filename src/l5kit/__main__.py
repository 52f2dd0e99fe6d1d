"""``python -m l5kit`` is the ``l5kit`` command."""

from l5kit.cli.__main__ import start

if __name__ == "__main__":
    start()
