"""A small made city for the tests of any package."""

from pathlib import Path

from l5kit.synthetic import CityFolder, make_city

NUM_SCENES = 3
NUM_FRAMES = 100


def small_city(path: Path) -> CityFolder:
    """Make a town of nine intersections with three scenes of 100 frames in a folder that does not exist yet."""
    return make_city(path, seed=11, num_scenes=NUM_SCENES, num_frames=NUM_FRAMES, town_size=300.0)
