"""Made scenes with a map each, imported with one map and with a folder of many."""

from l5kit.readers.importing import import_dataset
from support.source_scenes import made_source

NUM_SCENES = 5


def import_both(folder):
    """Import the same scenes, whose maps lie in one place in the source, and return both dataset folders by layout."""
    reader = made_source(folder / "source", {f"val-{number}": f"m{number}" for number in range(NUM_SCENES)})
    for maps in ("one", "apart"):
        import_dataset(reader, folder / maps, maps=maps)
    return {maps: folder / maps for maps in ("one", "apart")}
