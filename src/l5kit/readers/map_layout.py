"""How the maps of a source lie in the dataset folder that an import writes."""

from enum import StrEnum


class MapLayout(StrEnum):
    """How the maps of a source are written."""

    ONE = "one"
    """One semantic map with all of them, side by side: what 1.5 reads, too."""
    APART = "apart"
    """A folder with an index and a file for each, which is read when it is needed."""
