"""The error of a row of the benchmark that is left out."""

from l5kit.errors import L5KitError


class RowLeftOutError(L5KitError):
    """A row cannot be measured here; the message says what it lacks."""
