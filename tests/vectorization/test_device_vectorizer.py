"""Surroundings of targets from device kernels: the same bits as those of the vectorizer on the processor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from l5kit.data.index.windows import (
    CurrentFrames,
    RelativePoses,
    Targets,
    WindowRows,
    Windows,
    WindowSteps,
    cut_windows,
)
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.api import MapAPI
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.device.processor import ProcessorBackend
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.sampling.tracks import StepTimes, find_av, trace_targets, trajectories
from l5kit.vectorization.vector_map import send_map
from l5kit.vectorization.vectorizer import Vectorizer
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.device_windows import DeviceBatch, to_device
from support.logs import make_log
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF, save_street_map
from support.vectors import make_vector_cfg

BACKEND = ProcessorBackend()
TIMES = StepTimes(0.1, 0.1)


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> MapAPI:
    return MapAPI(save_street_map(tmp_path_factory.mktemp("street")), WORLD_TO_ECEF)


def busy_log(seed: int, *, lengths: tuple[int, ...] = (9, 1, 6), most_agents: int = 24) -> ChunkedDataset:
    """Return scenes with lights, and tracks that come and go, occur twice in a frame, and are at equal distances.

    One frame has no agents; some labels fail the filter; faces are on, off and unknown to the map.
    """
    rng = np.random.default_rng(seed)
    ids = rng.choice(400, size=most_agents, replace=False) * rng.choice([1, 1, 1 << 40], size=most_agents)

    def agents_of(frame: int) -> list[dict[str, Any]]:
        return [
            {
                "track_id": int(track_id),
                "centroid": tuple(rng.integers(-6, 7, size=2) * 1.5),
                "yaw": float(rng.uniform(-3, 3)),
                "extent": tuple(rng.uniform(1, 6, size=3)),
                "probability": float(rng.choice([0.3, 0.5, 0.75, 1.0])),
                "label": int(rng.integers(3, 15)),
            }
            for track_id in rng.choice(ids, size=0 if frame == 2 else rng.integers(1, most_agents + 1))
        ]

    num_frames = sum(lengths)
    positions_m = rng.uniform(-9, 9, size=(num_frames, 2))
    log = make_log(
        [[agents_of(frame) for frame in range(length)] for length in lengths],
        positions_m=positions_m,
        yaws_rad=rng.uniform(-3, 3, size=num_frames),
    )
    counts = rng.integers(0, 5, size=num_frames)
    ends = np.cumsum(counts)
    faces = np.zeros(ends[-1], log.tl_faces.dtype)
    faces["face_id"] = rng.choice(["red", "green", "yellow", "uturn", "unknown", "nowhere"], size=len(faces))
    faces["traffic_light_face_status"] = np.eye(3)[rng.integers(0, 3, size=len(faces))]
    log.frames["traffic_light_faces_index_interval"] = np.stack([ends - counts, ends], axis=1)
    return ChunkedDataset.in_memory(scenes=np.asarray(log.scenes), frames=log.frames, agents=log.agents, tl_faces=faces)


def all_windows(log: ChunkedDataset, cfg: dict[str, Any], **strides: int) -> Windows:
    """Return a window around each frame of a log."""
    model, bounds = cfg["model_params"], np.asarray(log.scenes)["frame_index_interval"]
    scenes = np.repeat(np.arange(len(bounds)), bounds[:, 1] - bounds[:, 0])
    current = CurrentFrames(np.asarray(log.frames), np.arange(len(log.frames)), *bounds[scenes].T.copy())
    num_history = max(model["history_num_frames_ego"], model["history_num_frames_agents"])
    return cut_windows(
        current, log.agents, log.tl_faces, WindowSteps(num_history, model["future_num_frames"], **strides)
    )


def with_agent_targets(windows: Windows) -> tuple[Windows, Targets]:
    """Return the windows with agents in their current frames, and the last of these as targets."""
    kept = windows.taken(windows.agents.counts[:, 0] > 0)
    rows = kept.agents.stops[:, 0] - 1
    agents = kept.agents.take(rows)
    return kept, Targets(agents["track_id"], rows, agents["centroid"], agents["yaw"], agents["extent"])


def assert_device_gives_the_same(vectorizer: Vectorizer, windows: Windows, targets: Targets) -> dict[str, Any]:
    past = trajectories(trace_targets(windows, targets), targets, TIMES, num_history=windows.num_history).past
    expected = vectorizer.vectorize_windows(windows, targets, past)
    batch = to_device(BACKEND, windows, targets, vectorizer.vector_map.lights)
    found = vectorize(vectorizer, batch, past)
    assert list(found) == list(expected)
    for key, column in expected.items():
        assert (found[key].dtype, found[key].shape) == (column.dtype, column.shape), key
        assert found[key].tobytes() == column.tobytes(), key
    return found


def vectorize(
    vectorizer: Vectorizer, batch: DeviceBatch, past: RelativePoses, *, most_rows: int | None = None
) -> dict[str, Any]:
    """Return what the kernels of a device make, as arrays."""
    sent, most_rows = send_map(vectorizer.vector_map, BACKEND), batch.most_rows if most_rows is None else most_rows
    past = past.mapped(torch.from_numpy)
    found = vectorizer.vectorize_on_device(sent, batch.log, batch.windows, batch.targets, past, most_rows=most_rows)
    return {key: column.numpy() for key, column in found.items()}


@pytest.mark.parametrize("is_by_distance", [False, True], ids=["as a set", "by distance"])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="as configured"),
        pytest.param({"other_agents_num": 0, "max_num_lanes": 0, "max_num_crosswalks": 0}, id="none of anything"),
        pytest.param({"other_agents_num": 1, "max_num_lanes": 1, "max_num_crosswalks": 1}, id="one of each"),
        pytest.param({"other_agents_num": 40, "max_num_lanes": 20}, id="more than there are"),
        pytest.param({"history_num_frames_agents": 0, "history_num_frames_ego": 3}, id="agents without a past"),
        pytest.param({"history_num_frames_ego": 0, "history_num_frames_agents": 0}, id="no past"),
        pytest.param({"future_num_frames": 0}, id="no future"),
        pytest.param({"max_agents_distance": 6.0, "filter_agents_threshold": 0.3}, id="near agents"),
        pytest.param({"max_agents_distance": 0.0}, id="no agent is near enough"),
        pytest.param({"max_retrieval_distance_m": 14, "max_points_per_crosswalk": 3}, id="a small reach"),
        pytest.param({"max_points_per_lane": 2, "max_points_per_crosswalk": 0}, id="few points"),
    ],
)
def test_samples_are_those_of_the_processor(keys: dict[str, Any], is_by_distance: bool, street: MapAPI) -> None:
    common = {"order_agents_by_distance": is_by_distance, "max_num_lanes": 5, "other_agents_num": 12}
    cfg = make_vector_cfg(**common | keys)
    windows, vectorizer = all_windows(busy_log(5), cfg), Vectorizer(cfg, street)
    assert_device_gives_the_same(vectorizer, windows, find_av(windows))
    assert_device_gives_the_same(vectorizer, *with_agent_targets(windows))


@pytest.mark.parametrize("seed", range(8))
def test_samples_of_random_logs_are_those_of_the_processor(seed: int, street: MapAPI) -> None:
    cfg = make_vector_cfg(order_agents_by_distance=seed % 2 == 0, other_agents_num=5 + 9 * seed, max_num_lanes=9)
    windows = all_windows(busy_log(seed, most_agents=20 + 12 * seed), cfg)
    found = assert_device_gives_the_same(Vectorizer(cfg, street), *with_agent_targets(windows))
    assert found["all_other_agents_history_availability"].any()
    assert len(np.unique(found["lanes_mid"][..., 2])) > 2


def test_frames_that_lie_apart_and_arrays_for_each_window(street: MapAPI) -> None:
    cfg = make_vector_cfg()
    windows = all_windows(busy_log(3), cfg, history_step_size=2, future_step_size=2)
    apart = replace(windows, agents=apart_rows(windows.agents), tl_faces=apart_rows(windows.tl_faces))
    assert len(apart.agents.arrays) == len(windows)
    assert_device_gives_the_same(Vectorizer(cfg, street), apart, find_av(apart))


def apart_rows(rows: WindowRows) -> WindowRows:
    """Return the same rows with a separate array for each window."""
    return WindowRows(list(rows.arrays) * len(rows), rows.starts, rows.stops)


def test_windows_without_faces_have_no_light_on(street: MapAPI) -> None:
    cfg = make_vector_cfg(max_num_lanes=9, max_retrieval_distance_m=100)
    windows = all_windows(busy_log(1), cfg)
    dark = replace(windows, tl_faces=windows.tl_faces.frames(0, 0))
    found = assert_device_gives_the_same(Vectorizer(cfg, street), dark, find_av(dark))
    assert set(np.unique(found["lanes_mid"][..., 2])) == {0, 4}


def test_far_from_the_map_and_without_agents(street: MapAPI) -> None:
    cfg = make_vector_cfg()
    windows = all_windows(make_log([[[], [], []]], positions_m=(1e6, -1e6)), cfg)
    found = assert_device_gives_the_same(Vectorizer(cfg, street), windows, find_av(windows))
    assert not any(column.any() for key, column in found.items() if not key.startswith("agent_"))


def test_no_windows_are_no_samples(street: MapAPI) -> None:
    cfg = make_vector_cfg()
    windows = all_windows(busy_log(0), cfg).taken(np.zeros(16, np.bool_))
    assert_device_gives_the_same(Vectorizer(cfg, street), windows, find_av(windows))


def test_the_map_of_fixture_s(tmp_path: Path) -> None:
    (tmp_path / "map.pb").write_bytes(FIXTURE_S_MAP)
    cfg = make_vector_cfg()
    windows = all_windows(busy_log(2), cfg)
    windows.frames["ego_translation"][..., 0] -= 190
    vectorizer = Vectorizer(cfg, MapAPI(str(tmp_path / "map.pb"), WORLD_TO_ECEF))
    assert_device_gives_the_same(vectorizer, windows, find_av(windows))


def test_a_map_of_many_cells(tmp_path: Path) -> None:
    cfg = make_vector_cfg(max_num_lanes=30, max_retrieval_distance_m=20)
    windows = all_windows(busy_log(8), cfg)
    windows.frames["ego_translation"][..., 1] += np.arange(0, 320, 20)[:, None] - 40
    vectorizer = Vectorizer(cfg, MapAPI(save_street_map(tmp_path, num_lanes=60), WORLD_TO_ECEF))
    assert vectorizer.vector_map.grid.num_cells[1] > 5
    found = assert_device_gives_the_same(vectorizer, windows, find_av(windows))
    assert len(set(found["lanes_mid_availabilities"].any(axis=2).sum(axis=1).tolist())) > 3


def test_a_recorded_scene(shared_data: Path) -> None:
    cfg = make_vector_cfg(
        history_num_frames_ego=10,
        history_num_frames_agents=10,
        future_num_frames=12,
        other_agents_num=30,
        max_num_lanes=30,
        max_num_crosswalks=20,
        max_points_per_crosswalk=20,
        semantic_map_key="semantic_synth.pb",
    )
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    vectorizer = build_vectorizer(cfg, LocalDataManager(str(shared_data)))
    windows = all_windows(log, cfg)
    windows = windows.taken(np.arange(0, len(windows), 5))
    found = assert_device_gives_the_same(vectorizer, windows, find_av(windows))
    assert found["lanes_availabilities"].any()
    assert_device_gives_the_same(vectorizer, *with_agent_targets(windows))


@pytest.mark.parametrize("most_bytes", [1, 20_000])
def test_large_batches_are_made_in_parts(most_bytes: int, street: MapAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l5kit.vectorization.vectorizer._MOST_BYTES", most_bytes)
    cfg = make_vector_cfg(max_num_lanes=5, other_agents_num=12)
    windows = all_windows(busy_log(7), cfg)
    assert_device_gives_the_same(Vectorizer(cfg, street), *with_agent_targets(windows))


def test_agents_beyond_the_most_rows_are_overlooked(street: MapAPI) -> None:
    rows = [{"track_id": track_id, "centroid": (2.0, 0.0)} for track_id in (7, 5, 9)]
    cfg = make_vector_cfg(order_agents_by_distance=True)
    windows = all_windows(make_log([[rows, rows[:1]]]), cfg)
    targets = find_av(windows)
    past = trajectories(trace_targets(windows, targets), targets, TIMES, num_history=windows.num_history).past
    batch = to_device(BACKEND, windows, targets, street.arrays.lights)
    found = vectorize(Vectorizer(cfg, street), batch, past, most_rows=2)
    assert found["all_other_agents_track_ids"].tolist() == [[7, 5, 0, 0], [7, 0, 0, 0]]


def test_attributes_are_read_at_every_call(street: MapAPI) -> None:
    cfg = make_vector_cfg()
    windows, vectorizer = all_windows(busy_log(4), cfg), Vectorizer(cfg, street)
    targets = find_av(windows)
    past = trajectories(trace_targets(windows, targets), targets, TIMES, num_history=windows.num_history).past
    batch = to_device(BACKEND, windows, targets, vectorizer.vector_map.lights)
    vectorizer.other_agents_num = 7
    found = vectorize(vectorizer, batch, past)
    assert found["all_other_agents_track_ids"].shape == (len(windows), 7)
    vectorizer.other_agents_num = -1
    with pytest.raises(InvalidArgumentError, match="other_agents_num must be 0 or more, got -1"):
        vectorize(vectorizer, batch, past)


def test_windows_that_do_not_fit_are_refused(street: MapAPI) -> None:
    cfg = make_vector_cfg()
    windows = all_windows(busy_log(4), cfg)
    targets = find_av(windows)
    past = trajectories(trace_targets(windows, targets), targets, TIMES, num_history=windows.num_history).past
    batch = to_device(BACKEND, windows, targets, street.arrays.lights)
    with pytest.raises(IndexOutOfRangeError, match="4 history and 5 future frames do not fit into samples of 4 and 2"):
        vectorize(Vectorizer(make_vector_cfg(future_num_frames=2), street), batch, past)
    with pytest.raises(InvalidArgumentError, match="got 16, 16 and 15"):
        vectorize(Vectorizer(cfg, street), batch, past.mapped(lambda array: array[1:]))


def test_only_the_own_vectorizer_is_supported(street: MapAPI) -> None:
    class Other(Vectorizer):
        """One that may do anything."""

    own, changed = (Vectorizer(make_vector_cfg(), street) for _ in range(2))
    changed.vectorize_windows = own.vectorize_windows  # type: ignore[method-assign]
    assert own.runs_on_devices
    windows = all_windows(busy_log(4), make_vector_cfg())
    targets = find_av(windows)
    past = trajectories(trace_targets(windows, targets), targets, TIMES, num_history=windows.num_history).past
    batch = to_device(BACKEND, windows, targets, street.arrays.lights)
    for vectorizer in (Other(make_vector_cfg(), street), changed):
        assert not vectorizer.runs_on_devices
        with pytest.raises(InvalidArgumentError, match="overrides methods or has routes, which devices do not support"):
            vectorize(vectorizer, batch, past)
