"""Fixture S: a small made scene whose known answers the tests of several packages share."""

from pathlib import Path
from typing import Any

from l5kit._types import RecordArray
from l5kit.data import ChunkedDataset
from support.logs import STEP_NS, log_of, make_agent, make_faces, make_frames, scenes_of

NUM_FRAMES = 30
_START_NS = 1_000_000_000


def make_fixture_s_arrays() -> tuple[RecordArray, RecordArray, RecordArray, RecordArray]:
    """Return scenes, frames, agents and traffic light faces: 1 scene, 30 frames, 98 agent rows, 60 faces."""
    steps = range(NUM_FRAMES)
    records = make_frames(
        [_make_agents(k) for k in steps],
        [make_faces(F1=1, F2=0)] * NUM_FRAMES,
        positions_m=[(-195 + 0.5 * k, 0.02 * k, 287.8) for k in steps],
        yaws_rad=[0.01 * k for k in steps],
        timestamps_ns=[_START_NS + k * STEP_NS for k in steps],
    )
    end_ns = _START_NS + (NUM_FRAMES - 1) * STEP_NS
    return scenes_of([NUM_FRAMES], hosts="host-x", start_ns=_START_NS, end_ns=end_ns), *records


def make_fixture_s() -> ChunkedDataset:
    """Return fixture S as a dataset in memory."""
    return log_of(*make_fixture_s_arrays())


def save_fixture_s(folder: Path) -> str:
    """Write fixture S as a dataset folder and return its path."""
    path = folder / "fixture_s.zarr"
    make_fixture_s().save(path)
    return str(path)


def _make_agents(k: int) -> list[Any]:
    rows = [make_agent(1, (-185 + 0.4 * k, 0.3), yaw=0.02, extent=(4.5, 1.9, 1.5))]
    if 5 <= k < 25:
        rows.append(make_agent(2, (-186, -8 + 0.3 * (k - 5)), yaw=1.5, extent=(4.2, 1.8, 1.5), labels={"CAR": 0.6}))
    rows.append(make_agent(7, (-180, 5), yaw=-0.7, extent=(1, 1, 1.7), labels={"PEDESTRIAN": 0.4}))
    if k >= 12:
        rows.append(make_agent(300, (-200 + 0.2 * k, -3), yaw=3.1, extent=(5, 2, 1.6), labels={7: 0.9}))
    return rows
