"""Reader of ScenarioNet: MetaDrive scenarios, converted from Waymo, nuScenes, nuPlan, Argoverse 2 and others."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np

from l5kit._types import Int64Array, PickledState
from l5kit.configs.texts import require_regular_file
from l5kit.errors import DatasetNotFoundError
from l5kit.readers.motion import steps_seen
from l5kit.readers.plain_pickle import load_plain_pickle
from l5kit.readers.reader import SceneRef, SourceDataError, SourceInfo, licence_of, naming_source, require_source_folder
from l5kit.readers.scenarionet_map import read_lights, read_map
from l5kit.readers.scenarionet_tracks import CLASSES, ego_of, read_tracks
from l5kit.readers.scenarionet_windows import Window, join_windows, reported_times_s, windows_of_logs
from l5kit.readers.source_bounds import as_times_ns, is_text
from l5kit.readers.source_fields import SourceFields
from l5kit.readers.source_scene import SourceScene

_SUMMARY, _MAPPING = "dataset_summary.pkl", "dataset_mapping.pkl"
_MOST_BYTES: Final = 1 << 30
_SPLIT: Final = re.compile(r"(?:^|[^a-z])(train|val|test)(?:ing|idation)?(?![a-z])")
_START_NS: Final = 1_000_000_000
"""Start of times that are relative to the beginning of a scenario, as 0 is not a valid time of a log."""

_SINCE_1970_S: Final = 1e8
"""Smallest time that counts as time since 1970."""

_USUAL_STEP_S: Final = 0.1


@dataclass(frozen=True)
class _Listing:
    """Scenarios of a folder.

    Attributes:
        files: File of each scenario, relative to the folder, by its name, in order.
        metadata: Metadata of each scenario from ``dataset_summary.pkl``; empty without this file.
    """

    files: Mapping[str, str]
    metadata: Mapping[str, SourceFields]


class ScenarionetReader:
    """Reader of a folder of ScenarioNet scenarios; a :class:`~l5kit.readers.reader.Reader`.

    Args:
        source: The folder, with ``dataset_summary.pkl`` or with files ``sd_*.pkl`` in it or in subfolders.
        joins: Whether consecutive windows cut out of one log become one scene.

    Attributes:
        source: The folder.
    """

    def __init__(self, source: str | os.PathLike[str], *, joins: bool = False) -> None:
        self.source = Path(source)
        self._joins = joins

    def __getstate__(self) -> PickledState:
        """Return the state without the large listing; cached facts are included."""
        return {name: value for name, value in vars(self).items() if name != "_listing"}

    @cached_property
    def info(self) -> SourceInfo:
        """Facts that hold for all scenes.

        Raises:
            DatasetNotFoundError: The folder does not exist, or holds no scenarios.
            SourceDataError: ``dataset_summary.pkl`` is damaged.
        """
        names = sorted({_dataset_of(name, self._listing.metadata.get(name)) for name in self._listing.files})
        versions = sorted({_parts_of_name(name)[1] for name in self._listing.files} - {""})
        return SourceInfo(
            dataset=f"ScenarioNet ({', '.join(names)})",
            version=", ".join(versions[:10]) or "unknown",
            licence="; ".join(dict.fromkeys(licence_of(name) for name in names)),
            step_time_s=self._step_time_s(),
            label_mapping=CLASSES,
            missing=(
                "Which vehicles are trucks, buses or motorcycles: all are cars.",
                "Single bulbs of traffic lights: one state per lane, arrows like others; flashing red is red, and "
                "flashing yellow is yellow.",
                "Speed limits and lights, in sets converted from nuScenes and Argoverse 2.",
                "Guard rails and other lines, except as boundaries of lanes.",
            ),
            made_up=(
                "A start one second after the beginning of 1970, for times relative to the start of a scenario.",
                "Boundaries of lanes: from painted lines and road edges that lanes refer to, from the polygon of the "
                "lane if it has one, else half a default width beside its centre line.",
                "Length and width of boxes are swapped back in nuScenes sets whose vehicles are wider than long.",
                "The ground below the AV: half its height below the centre of its box in sets made from Waymo, else "
                "at its pose.",
                "Poses of the AV in steps in which it is not seen, by interpolation.",
                "Lanes of the type LANE_SURFACE_UNSTRUCTURE are in junctions; if a map has none, lanes that "
                "diverge, merge or cross another.",
                "Stop lines of lights without a stop point: where their lane begins.",
            ),
        )

    def list_scenes(self) -> list[SceneRef]:
        """Return the locations of the scenarios, ordered by name, without reading them.

        Raises:
            DatasetNotFoundError: The folder does not exist, or holds no scenarios.
            SourceDataError: ``dataset_summary.pkl`` or ``dataset_mapping.pkl`` is damaged.
        """
        self.info  # noqa: B018 - workers need it, and must not read the summary again
        files = self._listing.files
        groups = [[name] for name in files]
        if self._joins:
            groups = windows_of_logs({name: self._listing.metadata.get(name) for name in files})
        refs = []
        for names in groups:
            # the split is named by the folders of a file, nearest first, or else by the source folder
            file, *others = (files[name] for name in names)
            folders = (*reversed(PurePosixPath(file).parts[:-1]), self.source.absolute().name)
            split = next((known[1] for name in folders if (known := _SPLIT.search(name.lower()))), "sample")
            record = "" if not others else f"{len(names)} windows of one log, the first of them"
            refs.append(SceneRef(split, PurePosixPath(names[0]).stem, file, record, others=tuple(others)))
        return sorted(refs)

    def read(self, ref: SceneRef) -> SourceScene:
        """Return a scenario with its map, or the windows of a log as one scene.

        Raises:
            SourceDataError: A file is damaged, missing, or holds impossible values; the message names it.
        """
        windows = []
        for file in (ref.file, *ref.others):
            with naming_source(file):
                windows.append(self._read_window(file))
        if len(windows) == 1:
            return windows[0].scene
        with naming_source(ref.file, ref.record):
            return join_windows(ref.name, windows)

    @cached_property
    def _listing(self) -> _Listing:
        require_source_folder(self.source, called="scenarios of ScenarioNet")
        listed_files = {
            path.name: path.relative_to(self.source).as_posix()
            for path in sorted(self.source.rglob("sd_*.pkl"), reverse=True)
        }
        metadata = self._read_names(_SUMMARY)
        folders = self._read_names(_MAPPING)
        files = dict(listed_files)
        for name in {**metadata, **folders}:
            if not is_text(name) or not name.endswith(".pkl") or "/" in name or "\\" in name:
                file = _SUMMARY if name in metadata else _MAPPING
                raise SourceDataError(
                    file, "", f"names must be those of files, such as sd_waymo_v1.2_a.pkl, got {name!r:.80}"
                )
            folder = folders.get(name)
            if isinstance(folder, str) and is_text(folder or "."):
                files[name] = PurePosixPath(folder.replace("\\", "/"), name).as_posix()
            files.setdefault(name, name)
        if not files:
            raise DatasetNotFoundError(
                f"no scenarios of ScenarioNet in {str(self.source)!r}: there is no {_SUMMARY} in it, and no sd_*.pkl "
                "in it or in folders within"
            )
        summaries = {name: SourceFields(each, name) for name, each in metadata.items() if isinstance(each, dict)}
        return _Listing(dict(sorted(files.items())), summaries)

    def _read_names(self, file: str) -> dict[str, object]:
        """Return the content of a file of the folder by scenario name; empty without such a file."""
        if not (self.source / file).exists():
            return {}
        with naming_source(file):
            content = _load(self.source / file)
            return {str(name): value for name, value in SourceFields.of(content).values.items()}

    def _step_time_s(self) -> float:
        """Return the most frequent step time in the summary, or else that of the first scenario."""
        counts: Counter[float] = Counter()
        for each in self._listing.metadata.values():
            counts[_step_of(each)] += 1
        del counts[0.0]  # scenarios without times
        if not counts:
            for file in list(self._listing.files.values())[:10]:
                try:
                    scenario = SourceFields.of(_load(self.source / file))
                    counts[_step_of(scenario.fields("metadata"))] += 1
                except (OSError, ValueError, TypeError):  # reported by read
                    continue
                del counts[0.0]
                if counts:
                    break
        return min(counts, key=lambda step_s: (-counts[step_s], step_s), default=_USUAL_STEP_S)

    def _read_window(self, file: str) -> Window:
        scenario = SourceFields.of(_load(self.source / file))
        metadata = scenario.fields("metadata")
        name, dataset = PurePosixPath(file).stem, _dataset_of(PurePosixPath(file).name, metadata)
        remarks = []
        scenario_id = scenario.values.get("id")
        if isinstance(scenario_id, str | int) and str(scenario_id) not in name:
            remarks.append(f"The file is called {name}, but its scenario {str(scenario_id)[:80]}; was it renamed?")
        times_ns = _times_of(metadata, scenario, remarks)
        tracks, originals = read_tracks(scenario, metadata, len(times_ns))
        steps = steps_seen(tracks.is_valid[tracks.ego_row], f"the AV, track {tracks.ids[tracks.ego_row]!r},")
        if steps.stop - steps.start < len(times_ns):
            remarks.append(f"Steps {steps.start} to {steps.stop - 1} of {len(times_ns)} are kept, those with the AV.")

        # If a scenario has both the name of its map and the origin that was subtracted from its positions, the origin
        # is added back, so that scenarios of one map share a frame. Else each has its own frame.
        map_name, shift_m, own_map = name, np.zeros(3), metadata.values.get("map")
        if metadata.has("old_origin_in_current_coordinate") and isinstance(own_map, str) and is_text(own_map):
            origin_m = metadata.floats("old_origin_in_current_coordinate", None)
            if len(origin_m) in (2, 3) and np.isfinite(origin_m).all():
                map_name, shift_m = own_map, -np.append(origin_m[:2], 0.0)
        tracks = replace(tracks, positions_m=tracks.positions_m + shift_m)
        source_map = read_map(scenario.fields("map_features"), map_name, shift_m, remarks)
        lanes = {lane.lane_id: lane for lane in source_map.lanes}
        states = scenario.values.get("dynamic_map_states")
        lights = read_lights(
            SourceFields.of({} if states is None else states, "dynamic_map_states"), lanes, len(times_ns), shift_m
        )
        times_ns = times_ns[steps]
        is_middle = dataset.startswith("waymo")
        scene = SourceScene(
            name=name,
            timestamps_ns=times_ns,
            ego=ego_of(tracks, steps, times_ns, remarks, is_middle=is_middle),
            tracks=tracks.to_source(steps, times_ns),
            lights=replace(lights, states=lights.states[:, steps]),
            map=source_map,
            remarks=(*tracks.remarks, *remarks),
        )
        return Window(scene, originals)


def _load(path: Path) -> object:
    """Return the plain value of a pickle.

    Raises:
        ValueError: It is missing, too large, or holds values that are not plain.
    """
    try:
        require_regular_file(path, called="scenario")
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ValueError(f"it has {size} bytes, but a scenario has {_MOST_BYTES} at most")
        return load_plain_pickle(path.read_bytes())
    except FileNotFoundError as error:
        raise ValueError("there is no such file, although the folder lists it; copy it, or remove its entry") from error
    except IsADirectoryError as error:
        raise ValueError("this is a folder, and must be a file") from error


def _parts_of_name(name: str) -> tuple[str, str]:
    """Return dataset and version of ``sd_DATASET_VERSION_ID.pkl``; empty for other file names."""
    parts = name.removesuffix(".pkl").split("_")
    return (parts[1], parts[2]) if len(parts) > 3 and parts[0] == "sd" else ("", "")


def _dataset_of(name: str, metadata: SourceFields | None) -> str:
    dataset = metadata.values.get("dataset") if metadata is not None else None
    return (dataset if isinstance(dataset, str) and is_text(dataset) else _parts_of_name(name)[0]).lower() or "unknown"


def _step_of(metadata: SourceFields) -> float:
    """Return the median time between two steps, rounded to milliseconds; 0 if unknown."""
    times_s = reported_times_s(metadata)
    step_s = 0.0 if times_s is None else round(float(np.median(np.diff(times_s))), 3)
    return step_s if 0 < step_s < np.inf else 0.0


def _times_of(metadata: SourceFields, scenario: SourceFields, remarks: list[str]) -> Int64Array:
    """Return the times of the steps.

    Raises:
        ValueError: There are none, or their number differs from the length of the scenario.
    """
    length = scenario.number("length")
    if metadata.has("ts"):
        times_s = metadata.floats("ts", None)
    elif length is not None and 0 < length <= 1e6:
        times_s = np.arange(int(length), dtype=np.float64) * _USUAL_STEP_S
        remarks.append("There are no times; steps are assumed to be 0.1 s apart.")
    else:
        raise ValueError("metadata.ts is missing, and so is length; the times of the steps are unknown")
    if not len(times_s) or (length is not None and length != len(times_s)):
        raise ValueError(f"there are {len(times_s)} times (metadata.ts) for a length of {length or 0:g} steps")
    start_ns = 0 if times_s[0] > _SINCE_1970_S else _START_NS
    return as_times_ns("metadata.ts", times_s, ns_per_unit=1e9, start_ns=start_ns)
