"""The ``l5kit`` command."""
