"""Rows that read the log and the map, and that generate a city."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.rasterization.rasterizer_builder import build_rasterizer
from l5kit.warmup.workloads import AGENT_SEMANTIC, config_with_files
from l5kit_bench.row import PreparedRow, Row
from l5kit_bench.workplace import Workplace

CityMaker = Callable[[Path, int], object]
"""Function that generates a city with a number of scenes in a folder, which may exist."""


def log_rows() -> tuple[Row, ...]:
    """Return the rows of the agents mask, random reading, and the map."""
    mask = Row(
        key="mask",
        title="agents mask of a scene",
        unit="rows",
        prepare=_prepare_mask,
        floor=50,
        reference="agents mask of a scene",
    )
    frames = Row(
        key="frames",
        title="random frame with its agents and faces",
        unit="frames",
        prepare=_prepare_frames,
        floor=50,
        reference="random frame with its agents and faces",
    )
    build = Row(
        key="build",
        title="build_rasterizer py_semantic",
        unit="builds",
        prepare=_prepare_build,
        floor=10,
        reference="build_rasterizer py_semantic, 9,680 lanes",
    )
    return mask, frames, build


def city_row(make_city: CityMaker) -> Row:
    """Return the row that generates a city, including its files."""

    def prepare(place: Workplace) -> PreparedRow:
        num_scenes = place.amounts.num_made_scenes

        def work() -> int:
            make_city(place.scratch / "made", num_scenes)
            return num_scenes

        return PreparedRow(work)

    return Row(key="city", title="making a city", unit="scenes", prepare=prepare)


def _prepare_mask(place: Workplace) -> PreparedRow:
    from l5kit.dataset.select_agents.thresholds import MaskThresholds  # imported here, as datasets need torch
    from l5kit.dataset.select_agents.valid_agents import compute_agents_mask

    dataset, repeats, thresholds = place.dataset, place.amounts.num_mask_repeats, MaskThresholds(0.5)

    def work() -> int:
        return sum(len(compute_agents_mask(dataset, thresholds)[0]) for _ in range(repeats))

    return PreparedRow(work)


def _prepare_frames(place: Workplace) -> PreparedRow:
    positions = np.random.RandomState(0).randint(0, len(place.dataset.frames), place.amounts.num_frames).tolist()
    return PreparedRow(partial(_read_frames, place.dataset, positions))


def _read_frames(dataset: ChunkedDataset, positions: list[int]) -> int:
    """Read single frames with their agents and faces, and return their number."""
    for position in positions:
        frame = dataset.frames[position]
        dataset.agents[slice(*frame["agent_index_interval"])]
        dataset.tl_faces[slice(*frame["traffic_light_faces_index_interval"])]
    return len(positions)


def _prepare_build(place: Workplace) -> PreparedRow:
    cfg, manager = config_with_files(AGENT_SEMANTIC, place.files), LocalDataManager("")

    def work() -> int:
        build_rasterizer(cfg, manager)
        return 1

    return PreparedRow(work)
