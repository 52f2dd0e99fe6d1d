"""Scenes as a reader gives them, made by hand, and a reader that gives them."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, SourceSign
from l5kit.readers.source_scene import LightState, SourceEgo, SourceLights, SourceScene, SourceTracks

NUM_STEPS = 12
INFO = SourceInfo(
    dataset="Made by hand",
    version="7",
    licence="for tests",
    step_time_s=0.1,
    label_mapping={"car": "PERCEPTION_LABEL_CAR", "man": "PERCEPTION_LABEL_PEDESTRIAN"},
    missing=("There is no weather.",),
    made_up=("All sizes.",),
)


def line(*points):
    """A line at height 1 through x and y of points."""
    return np.array([(x, y, 1.0) for x, y in points], float)


def made_map(name="town", *, shift_m=0.0):
    """Two lanes, the second in a junction, and a neighbouring one; with a sign, a crosswalk and a drivable area."""
    shift = np.array([shift_m, 0.0, 0.0])
    lanes = (
        SourceLane("in", line((-50, 0), (0, 0), (50, 0)) + shift, successors=("on",), speed_limit_mps=12.5),
        SourceLane("on", line((50, 0), (70, 0)) + shift, predecessors=("in", "far"), is_in_junction=True),
        SourceLane("beside", line((-50, 4), (50, 4)) + shift, right_neighbour="in", speed_limit_mps=12.5, kind="bus"),
    )
    areas = (
        SourceArea("1", "crosswalk", line((45, -5), (48, -5), (48, 5)) + shift),
        SourceArea("1", "drivable_area", line((-50, -9), (90, -9), (90, 9), (-50, 9)) + shift),
    )
    return SourceMap(name, lanes, areas, (SourceSign("s", np.array([50.0 + shift_m, -3.0, 1.0]), ("beside",)),))


def made_scene(name="a", *, source_map=None, shift_m=0.0, ids=("17", "23"), **changes):
    """The AV at 10 m/s along x, a car ahead, a pedestrian who is hidden for a while, and a light that turns red."""
    steps = np.arange(NUM_STEPS)
    x_m = steps * 1.0 + shift_m
    is_valid = np.ones((2, NUM_STEPS), bool)
    is_valid[1, 4:7] = False
    positions_m = np.zeros((2, NUM_STEPS, 2))
    positions_m[0, :, 0] = x_m + 20.0
    positions_m[1] = np.stack([np.full(NUM_STEPS, 30.0 + shift_m), -4.0 + 0.12 * steps], axis=1)
    positions_m[~is_valid] = np.nan
    states = np.full((1, NUM_STEPS), LightState.GREEN, np.uint8)
    states[0, 5:], states[0, 10], states[0, 11] = LightState.RED, LightState.UNKNOWN, LightState.ABSENT
    fields = {
        "name": name,
        "timestamps_ns": 1_500_000_000_000_000_000 + steps * 100_000_000,
        "ego": SourceEgo(
            np.stack([x_m, 0 * x_m, 0 * x_m + 1.0], axis=1), np.zeros(NUM_STEPS), np.array([4.8, 1.9, 1.5])
        ),
        "tracks": SourceTracks(
            ids=ids,
            classes=("car", "man"),
            is_valid=is_valid,
            positions_m=positions_m,
            yaws_rad=np.array([[0.0], [np.pi / 2]]) + np.zeros(NUM_STEPS),
            velocities_mps=np.array([[[10.0, 0.0]], [[0.0, 1.2]]]) + np.zeros((NUM_STEPS, 2)),
            sizes_m=np.array([[4.5, 1.8, 1.5], [0.6, 0.6, 1.7]]),
            is_target=np.array([True, False]),
        ),
        "lights": SourceLights(("in",), states, np.array([[np.nan] * 3])),
        "map": made_map(shift_m=shift_m) if source_map is None else source_map,
    }
    return SourceScene(**fields | changes)


def read_once(reader, ref):
    """Record that a scene was read, in a file next to those of the source."""
    with (reader.source / "read.log").open("a") as log:
        log.write(f"{ref.name}\n")


@dataclass(frozen=True)
class MadeReader:
    """Reader of files that hold the name of a map; a file that holds an error raises it.

    Attributes:
        source: The folder.
        info: Its information.
    """

    source: Path
    info: SourceInfo = INFO

    def list_scenes(self):
        files = sorted(path.name for path in self.source.glob("*.txt"))
        return [SceneRef(file.split("-")[0], file.removesuffix(".txt"), file) for file in files]

    def read(self, ref):
        read_once(self, ref)
        content = (self.source / ref.file).read_text()
        if content == "damaged":
            raise SourceDataError(ref.file, "line 1", "it is damaged")
        if content == "a mistake of the reader":
            raise RuntimeError("that was not foreseen")
        if content == "the end of the process":
            raise SystemExit(0)
        if content == "too large":
            raise MemoryError
        if content == "another class":
            scene = made_scene(ref.name)
            return replace(scene, tracks=replace(scene.tracks, classes=("car", "horse")))
        number = int(ref.name.rpartition("-")[2])
        shift_m = 1000.0 * number if content.startswith("far") else 0.0
        return made_scene(ref.name, source_map=made_map(content, shift_m=shift_m), shift_m=shift_m)


def made_source(folder, contents):
    """Write a source: by name of the scene, ``SPLIT-NUMBER``, the name of its map, or what is wrong with it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.txt").write_text(content)
    return MadeReader(folder)
