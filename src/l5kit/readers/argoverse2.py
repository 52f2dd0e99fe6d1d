"""Argoverse 2 motion forecasting: scenarios of 11 s at 10 Hz, each with a Parquet file of tracks and a JSON map."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from l5kit._types import Float64Array, Int64Array, NumericArray
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.argoverse2_map import heights_at, map_of, read_elements
from l5kit.readers.arrow_columns import codes_of, require_columns, unpacked_bytes
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, naming_source, require_source_folder
from l5kit.readers.source_bounds import FURTHEST_M, as_times_ns, is_within, require_few_states, require_one_state
from l5kit.readers.source_map import SourceMap
from l5kit.readers.source_scene import SourceEgo, SourceLights, SourceScene, SourceTracks

_CLASSES: Final = {
    "vehicle": "PERCEPTION_LABEL_CAR",
    "bus": "PERCEPTION_LABEL_BUS",
    "pedestrian": "PERCEPTION_LABEL_PEDESTRIAN",
    "cyclist": "PERCEPTION_LABEL_CYCLIST",
    "motorcyclist": "PERCEPTION_LABEL_MOTORCYCLIST",
    "riderless_bicycle": "PERCEPTION_LABEL_BICYCLE",
    "static": "PERCEPTION_LABEL_UNKNOWN",
    "background": "PERCEPTION_LABEL_UNKNOWN",
    "construction": "PERCEPTION_LABEL_UNKNOWN",
    "unknown": "PERCEPTION_LABEL_UNKNOWN",
}
_SIZES_M: Final = {
    "vehicle": (4.6, 1.9, 1.6),
    "bus": (11.5, 2.9, 3.2),
    "pedestrian": (0.6, 0.6, 1.75),
    "cyclist": (1.8, 0.7, 1.7),
    "motorcyclist": (2.1, 0.8, 1.6),
    "riderless_bicycle": (1.8, 0.6, 1.1),
}
_OTHER_SIZE_M: Final = (1.0, 1.0, 1.0)
_AV_SIZE_M: Final = (4.87, 1.85, 1.48)
_AV: Final = "AV"
_FOCAL, _SCORED = 3, 2
_COLUMNS: Final = {
    **dict.fromkeys(("track_id", "object_type", "city"), "text"),
    **dict.fromkeys(("object_category", "timestep"), "whole numbers"),
    **dict.fromkeys(("position_x", "position_y", "heading", "velocity_x", "velocity_y"), "numbers"),
    **dict.fromkeys(("start_timestamp", "end_timestamp", "num_timestamps"), "numbers"),
}
_SPLITS: Final = ("train", "val", "test")
_SCENARIO_FOLDER: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_STEPS: Final = 100_000
_MOST_ROWS: Final = 5_000_000
_MOST_BYTES: Final = 1 << 30
"""Files with more bytes or rows are refused before decompression; real ones have about 10,000 rows and 1 MB."""

_INFO: Final = SourceInfo(
    dataset="Argoverse 2 motion forecasting",
    version="unknown",
    licence="CC BY-NC-SA 4.0: not for commercial use, shared alike, naming Argoverse 2 (Wilson et al., 2021)",
    step_time_s=0.1,
    label_mapping=_CLASSES,
    missing=(
        "Boxes have no sizes.",
        "There are no traffic lights, stop signs and speed limits.",
        "Tracks and the AV have no height.",
        "Scenarios of the test set end after the first 5 s.",
    ),
    made_up=(
        "Sizes of boxes are usual ones of their class, that of the AV is 4.87 x 1.85 x 1.48 m.",
        "Times between the first and the last step are evenly spaced, as in the official reader.",
        "The AV is as high as the nearest lane boundary, centre lines as the boundaries of their lane.",
        "Centre lines where the map has none, as in sensor logs: the middle of the boundaries.",
        "Lane changes are allowed to neighbours in the same direction unless the marking is solid.",
        "Solid things, construction and what is unknown have the class UNKNOWN.",
    ),
)


class Argoverse2Reader:
    """Reader of scenarios of Argoverse 2 motion forecasting.

    Args:
        source: A folder of scenarios, as they are shipped, with or without folders ``train``, ``val`` and ``test``; or
            the folder of one scenario.

    Attributes:
        source: The folder.
        info: Facts that hold for all scenes.
    """

    info = _INFO

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = Path(source)

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenarios, sorted, without opening their files.

        Raises:
            DatasetNotFoundError: The folder does not exist, or has no scenarios.
        """
        require_source_folder(self.source, called="dataset of Argoverse 2")
        splits = [name for name in _SPLITS if (self.source / name).is_dir()]
        refs = [ref for name in splits for ref in self._refs_in(name, split=name)]
        if not splits:
            own_name = self.source.resolve().name
            refs = list(self._refs_in("", split=own_name if own_name in _SPLITS else "sample"))
        if not refs:
            raise DatasetNotFoundError(
                f"no scenario of Argoverse 2 motion forecasting in {str(self.source)!r}: there is no "
                "scenario_ID.parquet in it, in its folders, or in those of train, val and test"
            )
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scenario with its map.

        Raises:
            SourceDataError: A file is damaged, missing, or holds impossible values.
        """
        columns = self._read_columns(ref.file)
        map_file = _map_file_of(ref.file, ref.name)
        elements = read_elements(self.source, map_file)
        remarks: list[str] = []
        with naming_source(ref.file):
            city = _only(columns, "city")

            # x and y of the AV in its first step, (2,)
            rows = np.flatnonzero(
                pyarrow.compute.equal(columns["track_id"].combine_chunks(), _AV).to_numpy(zero_copy_only=False)
            )
            if not len(rows):
                raise ValueError(f"there is no track {_AV}, the recording vehicle")
            row = rows[np.argmin(_values_of(columns["timestep"], np.int64)[rows])]
            position_m = np.array([_values_of(columns[f"position_{axis}"], np.float64)[row] for axis in "xy"])
        with naming_source(map_file):
            source_map = map_of(map_file, elements, city, remarks)
            if is_within(position_m, FURTHEST_M).all():  # otherwise the tracks are at fault, reported below
                source_map.require_near(np.append(position_m, heights_at(position_m[None], source_map)))
        with naming_source(ref.file):
            return _scene_of(ref.name, columns, source_map, remarks)

    def _refs_in(self, folder: str, *, split: str) -> Iterator[SceneRef]:
        """Yield the scenarios of a folder, which lie in it or in subfolders."""
        with os.scandir(self.source / folder) as entries:
            listed = [(entry.name, entry.is_dir()) for entry in entries]
        for name, is_folder in listed:
            if is_folder:
                file = f"{folder}/{name}/scenario_{name}.parquet".lstrip("/")
                if _SCENARIO_FOLDER.fullmatch(name) or (self.source / file).exists():
                    yield SceneRef(split, name, file, others=(_map_file_of(file, name),))
            elif name.startswith("scenario_") and name.endswith(".parquet"):
                file, scenario = f"{folder}/{name}".lstrip("/"), name[len("scenario_") : -len(".parquet")]
                yield SceneRef(split, scenario, file, others=(_map_file_of(file, scenario),))

    def _read_columns(self, file: str) -> dict[str, pyarrow.ChunkedArray]:
        """Return the columns of a scenario, with types checked."""
        path = self.source / file
        if not path.is_file():
            raise SourceDataError(file, "", "there is no such file, although its folder exists")
        try:
            with pyarrow.parquet.ParquetFile(path) as opened:
                # checked before decompression, which might exhaust the memory
                num_rows, num_bytes = opened.metadata.num_rows, unpacked_bytes(opened.metadata)
                if num_rows > _MOST_ROWS or num_bytes > _MOST_BYTES:
                    raise ValueError(
                        f"it has {num_rows} rows of {num_bytes} bytes, but a scenario has {_MOST_ROWS} of "
                        f"{_MOST_BYTES} at most"
                    )
                names = set(opened.schema_arrow.names)
                # without threads, which is ten times as fast for files this small
                table = opened.read([name for name in _COLUMNS if name in names], use_threads=False)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise SourceDataError(file, "", f"it cannot be read as Parquet: {error}") from error
        with naming_source(file):
            if not num_rows:
                raise ValueError("it has no rows; the scenario is empty")
            require_columns(table, _COLUMNS)
        return {name: table.column(name) for name in _COLUMNS}


def _map_file_of(file: str, name: str) -> str:
    return f"{Path(file).parent.as_posix()}/log_map_archive_{name}.json"


def _only(columns: dict[str, pyarrow.ChunkedArray], name: str) -> str:
    """Return the text that all rows of a column have."""
    values = columns[name].unique().to_pylist()
    if len(values) != 1 or values[0] in (None, ""):
        raise ValueError(f"column {name} must have one value in all rows, got {values[:3]}")
    return str(values[0])


def _scene_of(
    name: str, columns: dict[str, pyarrow.ChunkedArray], source_map: SourceMap, remarks: list[str]
) -> SourceScene:
    """Return the scene of the columns of a scenario."""
    times_ns = _times_of(columns)
    codes, ids = codes_of(columns["track_id"])
    steps = _values_of(columns["timestep"], np.int64)
    require_few_states(len(ids), len(times_ns))
    values = _states_of(columns, codes, steps, ids, len(times_ns))
    is_valid = np.zeros((len(ids), len(times_ns)), np.bool_)
    is_valid[codes, steps] = True

    # Keep the steps from the AV's first to its last, as a log has a pose of the AV in each frame.
    av = ids.index(_AV)
    av_steps = np.flatnonzero(is_valid[av])
    kept = slice(int(av_steps[0]), int(av_steps[-1]) + 1)
    if len(av_steps) != kept.stop - kept.start:
        raise ValueError(f"track {_AV} has a gap after timestep {int(av_steps[np.argmax(np.diff(av_steps) > 1)])}")
    if len(av_steps) != len(times_ns):
        remarks.append(f"Steps {kept.start} to {kept.stop - 1} of {len(times_ns)} are kept, those with the AV.")

    # constant properties of a track are taken from its first row
    others = np.array([code for code in range(len(ids)) if code != av and is_valid[code, kept].any()], np.int64)
    rows_of_tracks = np.unique(codes, return_index=True)[1]
    classes = columns["object_type"].take(pyarrow.array(rows_of_tracks[others])).to_pylist()
    categories = _values_of(columns["object_category"], np.int64)[rows_of_tracks[others]]
    positions_m = values[av, kept, :2]
    return SourceScene(
        name=name,
        timestamps_ns=times_ns[kept],
        ego=SourceEgo(
            np.column_stack([positions_m, heights_at(positions_m, source_map)]),
            values[av, kept, 2],
            np.array(_AV_SIZE_M),
        ),
        tracks=SourceTracks(
            ids=tuple(ids[code] for code in others),
            classes=tuple(classes),
            is_valid=is_valid[others, kept],
            positions_m=values[others, kept, :2],
            yaws_rad=values[others, kept, 2],
            velocities_mps=values[others, kept, 3:],
            sizes_m=np.array([_SIZES_M.get(each, _OTHER_SIZE_M) for each in classes]).reshape(-1, 3),
            is_target=(categories == _FOCAL) | (categories == _SCORED),
        ),
        lights=SourceLights.none(kept.stop - kept.start),
        map=source_map,
        remarks=remarks,
    )


def _states_of(
    columns: dict[str, pyarrow.ChunkedArray], codes: Int64Array, steps: Int64Array, ids: list[str], num_steps: int
) -> Float64Array:
    """Return x, y, heading and velocity of each track in each step, NaN where it is absent, (N, T, 5).

    Raises:
        ValueError: A step is out of range, or a track has two rows in a step.
    """
    if steps.min() < 0 or steps.max() >= num_steps:
        raise ValueError(f"timestep must be 0 to {num_steps - 1}, got {steps.min()} to {steps.max()}")
    require_one_state(ids, codes, steps, num_steps, problem_of=lambda step: f"is in timestep {step} twice")
    names = ("position_x", "position_y", "heading", "velocity_x", "velocity_y")
    values = np.full((len(ids), num_steps, len(names)), np.nan)
    values[codes, steps] = np.stack([_values_of(columns[name], np.float64) for name in names], axis=1)
    return values


def _times_of(columns: dict[str, pyarrow.ChunkedArray]) -> Int64Array:
    """Return the times of the steps, evenly spaced from the first to the last."""
    first, last, count = (
        float(_only(columns, f"{name}")) for name in ("start_timestamp", "end_timestamp", "num_timestamps")
    )
    if not 1 <= count <= _MOST_STEPS or count != int(count):
        raise ValueError(f"num_timestamps must be a number of steps from 1 to {_MOST_STEPS}, got {count:g}")
    if count > 1 and not last > first:
        raise ValueError(f"time goes backwards: start_timestamp is {first:.0f} and end_timestamp {last:.0f}")
    # check the ends first, as interpolating between huge values may overflow
    as_times_ns("start_timestamp and end_timestamp", np.array([first, last]), ns_per_unit=1.0)
    return as_times_ns("timestamps", np.linspace(first, last, int(count)), ns_per_unit=1.0)


def _values_of(column: pyarrow.ChunkedArray, dtype: type) -> NumericArray:
    values: NumericArray = column.to_numpy().astype(dtype)
    return values
