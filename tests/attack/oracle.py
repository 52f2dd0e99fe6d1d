"""Oracle of readers: the same records in memory, with scene, frame and track given by the test.

It never looks up the scene of an index, decodes a chunk, makes a batch or keeps a cache.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attack.clean_sets import raster_cfg, vector_cfg
from attack.record_files import ATTRIBUTES, Records
from l5kit.data import ChunkedDataset
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_table import read_scene_table
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import find_valid_agents
from l5kit.rasterization import build_rasterizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from l5kit.visualization.scene_content import read_scene_content

MIN_HISTORY, MIN_FUTURE = 1, 1
THRESHOLDS = MaskThresholds(0.5)


class Tools:
    """Rasterizer over the map of a set.

    Args:
        root: The folder of the set.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cfg = raster_cfg("py_semantic")
        self.vector_cfg = vector_cfg()

    @cached_property
    def rasterizer(self) -> Any:
        return build_rasterizer(self.cfg, LocalDataManager(self.root))

    @cached_property
    def vectorizer(self) -> Any:
        return build_vectorizer(self.vector_cfg, LocalDataManager(self.root))

    @cached_property
    def map_api(self) -> MapAPI:
        return MapAPI.from_cfg(LocalDataManager(self.root), self.cfg)


@dataclass(frozen=True, eq=False)
class Oracle:
    """The right answers for rows, which may be those of a damaged log.

    Attributes:
        records: The rows.
        tools: What draws samples.
    """

    records: Records
    tools: Tools

    @cached_property
    def log(self) -> ChunkedDataset:
        return ChunkedDataset.in_memory(**{name: self.records[key] for key, name in ATTRIBUTES.items()})

    @cached_property
    def _egos(self) -> EgoDataset:
        return EgoDataset(self.tools.cfg, self.log, self.tools.rasterizer)

    @cached_property
    def _vectors(self) -> EgoDatasetVectorized:
        return EgoDatasetVectorized(self.tools.vector_cfg, self.log, self.tools.vectorizer)

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def _keep(self, key: Any, make: Any) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def sample(self, scene: int, state: int, track_id: int | None = None) -> dict[str, Any]:
        """Return the raster sample of the AV or of an agent."""
        return self._keep(("sample", scene, state, track_id), lambda: self._egos.get_frame(scene, state, track_id))

    def vector_sample(self, scene: int, state: int) -> dict[str, Any]:
        """Return the vector sample of the AV."""
        return self._keep(("vector", scene, state), lambda: self._vectors.get_frame(scene, state))

    def mask(self, scene: int) -> np.ndarray:
        """Return the agents mask of the rows of a scene."""
        start, stop = self.records.bounds("scenes", "frame_index_interval")[scene].tolist()
        valid = find_valid_agents(self.log, start, stop, thresholds=THRESHOLDS)
        return valid.counts

    def scene_rows(self, scene: int) -> dict[str, np.ndarray]:
        """Return the rows of a scene, with intervals that start at 0, by plain slicing."""
        scenes = self.records["scenes"][scene : scene + 1].copy()
        start, stop = self.records.bounds("scenes", "frame_index_interval")[scene].tolist()
        frames = self.records["frames"][start:stop].copy()
        rows = {"scenes": scenes, "frames": frames}
        for key, field in (
            ("agents", "agent_index_interval"),
            ("traffic_light_faces", "traffic_light_faces_index_interval"),
        ):
            bounds = frames[field]
            first, end = (int(bounds[0, 0]), int(bounds[-1, 1])) if len(frames) else (0, 0)
            rows[key] = self.records[key][first:end].copy()
            frames[field] -= first
        scenes["frame_index_interval"] -= start
        return rows

    def content(self, scene: int) -> Any:
        """Return a scene as the viewer shows it."""
        return self._keep(("content", scene), lambda: read_scene_content(self.log, scene, map_api=self.tools.map_api))

    @cached_property
    def _table(self) -> Any:
        return read_scene_table(self.log)

    def table_row(self, scene: int) -> tuple[Any, ...]:
        """Return the row of a scene in the table of scenes, and whether it has an error."""
        return table_row(self._table, scene)


def table_row(table: Any, scene: int) -> tuple[Any, ...]:
    """Return one row of a table of scenes."""
    columns = (table.num_frames, table.lengths_s, table.agents_per_frame, table.distances_m, table.turns_deg)
    return (table.hosts[scene], *(column[scene] for column in columns), scene in table.errors)
