"""Files of an imported dataset, written scene by scene from its parts."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from l5kit import __version__
from l5kit._types import Float64Array, JsonObject
from l5kit.data.jobs.owned_outputs import LOG_FILES, OutputKind, holds_keys
from l5kit.data.jobs.receipts import RECEIPT_FILE
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_writer import write_log
from l5kit.data.map.builder import MapBuilder
from l5kit.data.map.map_folder import INDEX_FILE, MAPS_FOLDER, MapIndexWriter
from l5kit.errors import MapTooLargeError
from l5kit.readers.joined_map import JoinedMap
from l5kit.readers.map_writing import WORLD_TO_ECEF, add_map, areas_as_json
from l5kit.readers.parts import Part, PartHead
from l5kit.readers.reader import SourceInfo
from l5kit.readers.scene_conversion import with_lights_renamed

_IMPORT_FILE: Final = "import.json"
IMPORT: Final = OutputKind(
    "an import",
    lambda folder: holds_keys(folder / _IMPORT_FILE, {"l5kit_version", "dataset", "scenes"}),
    rf"{_IMPORT_FILE}|{RECEIPT_FILE}|meta\.json|semantic_map/(?:semantic_map\.pb|areas\.json)|sources/[\w-]+\.jsonl"
    rf"|{MAPS_FOLDER}/(?:{INDEX_FILE}|\d+/\d+\.pb)"
    rf"|scenes/[\w-]+\.zarr/{LOG_FILES}",
)
"""The folder of an import."""

_TILE_M = 1000.0
_APART_M = 500.0
_AROUND_M = np.array([[-200.0], [200.0]])
"""Margin around a map in its folder's index, as vehicles may leave the map; less than half the gap between maps."""

_FURTHEST_M = 2e7
"""Largest coordinate that the format of semantic maps can represent, roughly."""


@dataclass(frozen=True, eq=False)
class ImportFiles:
    """Writer of the files of an import.

    Attributes:
        parts: The scenes, in order, at least one.
        info: Facts of the source.
        failed: Scenes that could not be read, as JSON.
        has_one_map: Whether all maps of the source become one semantic map, or a folder of many.
    """

    parts: Sequence[Part]
    info: SourceInfo
    failed: Sequence[JsonObject]
    has_one_map: bool = True

    @property
    def splits(self) -> list[str]:
        """Splits of the source that have scenes."""
        return list(self._by_split)

    def write(self, folder: Path) -> int:
        """Write all files into a folder, and return the number of remarks in them."""
        for name in ("scenes", "semantic_map" if self.has_one_map else MAPS_FOLDER, "sources"):
            (folder / name).mkdir()
        map_remarks, renamed = self._write_maps(folder)

        # The AV of the logs has the median size of the scenes' AVs, in each dimension separately.
        info = self.info
        length_m, width_m, height_m = np.median([head.ego_size_m for head in self._heads], axis=0).round(3).tolist()
        source = {"dataset": info.dataset, "version": info.version, "licence": info.licence}
        facts = LogFacts((length_m, width_m, height_m), info.step_time_s, dict(info.label_mapping), sources=(source,))
        num_remarks = len(map_remarks)
        for split in self._by_split:
            num_remarks += self._write_split(folder, split, facts, renamed)
        _write_json(folder / "meta.json", {"world_to_ecef": WORLD_TO_ECEF.tolist()})
        content = {
            "l5kit_version": __version__,
            **source,
            "step_time_s": info.step_time_s,
            "label_mapping": dict(info.label_mapping),
            "missing": list(info.missing),
            "made_up": list(info.made_up),
            "scenes": {split: len(indices) for split, indices in self._by_split.items()},
            "map_offsets_m": {name: offset_m.tolist() for name, offset_m in self._offsets.items()},
            "map_remarks": map_remarks,
            "failed": list(self.failed),
        }
        _write_json(folder / _IMPORT_FILE, content)
        return num_remarks

    @cached_property
    def _heads(self) -> list[PartHead]:
        return [part.read_head() for part in self.parts]

    @cached_property
    def _by_split(self) -> dict[str, list[int]]:
        """Indices of the parts of each split."""
        return _grouped(head.ref.split for head in self._heads)

    @cached_property
    def _by_map(self) -> dict[str, list[int]]:
        """Indices of the parts of each map."""
        return _grouped(head.map_name for head in self._heads)

    @cached_property
    def _bounds_m(self) -> Mapping[str, Float64Array]:
        """[[x_min, y_min], [x_max, y_max]] of each map, in its own frame."""
        bounds = {
            name: np.array([self._heads[index].bounds_m for index in indices]) for name, indices in self._by_map.items()
        }
        return {name: np.stack([b[:, 0].min(0), b[:, 1].max(0)]) for name, b in bounds.items()}

    @cached_property
    def _offsets(self) -> Mapping[str, Float64Array]:
        whole = self._bounds_m
        offsets = offsets_of(whole)
        for name, offset_m in offsets.items():
            if np.abs(whole[name] + offset_m).max() > _FURTHEST_M:
                raise MapTooLargeError(
                    f"{len(offsets)} maps do not fit next to each other within {_FURTHEST_M / 1000:,.0f} km; import "
                    "fewer scenes (--max-scenes), or parts of the source into separate folders"
                )
        return offsets

    def _write_split(self, folder: Path, split: str, facts: LogFacts, renamed: Mapping[int, Mapping[str, str]]) -> int:
        """Write the log of a split and the origin of its scenes, and return the number of remarks.

        Args:
            folder: Output folder.
            split: The split.
            facts: Facts of the log.
            renamed: New names of lanes with lights, by their ids, by the index of the part.
        """
        num_remarks = 0
        with ExitStack() as stack:
            table = stack.enter_context(
                (folder / "sources" / f"{split}.jsonl").open("w", encoding="utf-8", newline="\n")
            )
            log = stack.enter_context(write_log(folder / "scenes" / f"{split}.zarr", facts=facts))
            for number in self._by_split[split]:
                head = self._heads[number]
                offset_m = self._offsets[head.map_name]
                records = self.parts[number].read_records(offset_m)
                scene = log.append(with_lights_renamed(records, head.map_name, renamed.get(number, {})))
                origin = {
                    "scene": scene,
                    "name": head.ref.name,
                    "file": head.ref.file,
                    "record": head.ref.record,
                    "map": head.map_name,
                    "offset_m": offset_m.tolist(),
                    "targets": head.targets,
                    "track_ids": head.track_ids,
                    "remarks": head.remarks,
                }
                table.write(json.dumps(origin, ensure_ascii=False, allow_nan=False) + "\n")
                num_remarks += len(head.remarks)
        return num_remarks

    def _write_maps(self, folder: Path) -> tuple[list[str], dict[int, dict[str, str]]]:
        """Write the semantic map and the areas.

        Returns:
            Remarks on pieces of maps that contradict each other, and the lanes with lights that are renamed because of
            that, by the index of the part.
        """
        whole, many = MapBuilder(WORLD_TO_ECEF, name=self.info.dataset), MapIndexWriter(folder / MAPS_FOLDER)
        areas: list[JsonObject] = []
        remarks: list[str] = []
        renamed: dict[int, dict[str, str]] = {}
        for name, indices in self._by_map.items():
            # join the pieces of the map; if lanes with lights are renamed, the records of lights must follow
            joined = JoinedMap(name)
            for index in indices:
                lanes = joined.add(self.parts[index].read_map(), scene=self._heads[index].ref.name)
                if with_lights := joined.add_lights(self._heads[index].lights, lanes):
                    renamed[index] = with_lights
            offset_m = self._offsets[joined.name]
            own = whole if self.has_one_map else MapBuilder(WORLD_TO_ECEF, name=joined.name)
            add_map(own, joined, offset_m)
            if self.has_one_map:
                areas += areas_as_json(joined, offset_m)
            else:
                many.add(joined.name, self._bounds_m[joined.name] + offset_m + _AROUND_M, own.save)
            remarks += joined.remarks
        if self.has_one_map:
            whole.save(folder / "semantic_map" / "semantic_map.pb")
            _write_json(folder / "semantic_map" / "areas.json", {"frame": "world", "areas": areas})
        else:
            many.finish()
        return remarks, renamed


def offsets_of(bounds_m: Mapping[str, Float64Array]) -> dict[str, Float64Array]:
    """Return an offset of x and y for each map that places all maps in one world, on a square grid.

    A single map is not moved. Offsets are whole metres, so that no position is rounded.

    Args:
        bounds_m: [[x_min, y_min], [x_max, y_max]] of each map, by its name, in the order of the grid.
    """
    if len(bounds_m) == 1:
        return {name: np.zeros(2) for name in bounds_m}
    widest_m = max(float((bounds[1] - bounds[0]).max()) for bounds in bounds_m.values())
    tile_m = math.ceil((widest_m + _APART_M) / _TILE_M) * _TILE_M
    num_columns = math.ceil(math.sqrt(len(bounds_m)))
    return {
        name: np.array([number % num_columns, number // num_columns]) * tile_m - np.round(bounds.mean(axis=0))
        for number, (name, bounds) in enumerate(bounds_m.items())
    }


def _grouped(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the indices of each name, sorted by name."""
    rows = defaultdict(list)
    for row, name in enumerate(names):
        rows[name].append(row)
    return dict(sorted(rows.items()))


def _write_json(path: Path, content: JsonObject) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
