"""The agents mask: what it says of a row, its report, how it is stored."""

import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit._types import RecordArray
from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers
from l5kit.data.records import AGENT_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import select_agents
from l5kit.dataset.select_agents import (
    TH_DISTANCE_AV,
    TH_EXTENT_RATIO,
    TH_YAW_DEGREE,
    get_valid_agents,
    in_angular_distance,
    in_av_distance,
    in_consecutive_frame,
    in_extent_ratio,
    update_mask,
)
from l5kit.dataset.select_agents.selection import mask_table
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.fixture_s import make_fixture_s, save_fixture_s
from support.logs import make_log
from support.samples import THRESHOLDS

NUM_FRAMES = 20


def mask_of(log: ChunkedDataset, probability: float = 0.5, **thresholds: float) -> tuple[Any, Counter[str]]:
    mask, report, rows = get_valid_agents((0, len(log.frames)), log, probability, **(THRESHOLDS | thresholds))
    assert rows == (0, len(log.agents))
    assert (mask.dtype, mask.shape) == (np.uint32, (len(log.agents), 2))
    return mask, report


def counting(length: int) -> list[list[int]]:
    return [[k, length - 1 - k] for k in range(length)]


def slow_mask(frames: RecordArray, agents: RecordArray, probability: float) -> tuple[Any, Counter[str]]:
    """Return mask and report of one scene, row by row as the rules are written down."""
    mask, report = np.zeros((len(agents), 2), np.uint32), Counter(total_agent_frames=len(agents))
    segments: dict[int, list[tuple[int, int]]] = {}

    def reject(reason: str) -> None:
        report[reason] += 1
        report["total_reject"] += 1

    def close(segment: list[tuple[int, int]]) -> None:
        update_mask(mask, [row for _, row in segment])

    for frame_index, frame in enumerate(frames):
        for row in range(*frame["agent_index_interval"]):
            agent = agents[row]
            segment = segments.setdefault(int(agent["track_id"]), [])
            if not np.sum(agent["label_probabilities"][3:16]) > np.float32(probability):
                reject("reject_th_agent_filter_probability_threshold")
                close(segments.pop(int(agent["track_id"])))
                continue
            if not in_av_distance(frame["ego_translation"], agent["centroid"], TH_DISTANCE_AV):
                reject("reject_th_AV_distance")
                close(segments.pop(int(agent["track_id"])))
                continue
            if segment:
                past_frame, past_row = segment[-1]
                past = agents[past_row]
                reason = ""
                if not in_consecutive_frame(frame_index, past_frame):
                    reason = "reject_th_hole"
                elif not in_angular_distance(agent["yaw"], past["yaw"], TH_YAW_DEGREE):
                    reason = "reject_th_yaw"
                elif not in_extent_ratio(agent["extent"], past["extent"], TH_EXTENT_RATIO):
                    reason = "reject_th_extent"
                if reason:
                    reject(reason)
                    close(segment)
                    segment.clear()
            segment.append((frame_index, row))
    for segment in segments.values():
        close(segment)
    return mask, report


def test_known_answer_of_fixture_s() -> None:
    log = make_fixture_s()
    mask, report = mask_of(log)
    ids = log.agents["track_id"]
    for track_id, length in ((1, 30), (2, 20), (300, 18)):
        assert mask[ids == track_id].tolist() == counting(length)
    assert not mask[ids == 7].any()
    assert report["reject_th_agent_filter_probability_threshold"] == report["total_reject"] == 30
    assert report["total_agent_frames"] == 98


def frames_of_one_track(**changed: Any) -> list[list[dict[str, Any]]]:
    """Return frames with one track, whose fields at frame 10 are other ones."""
    return [[{"track_id": 1} | (changed if k == 10 else {})] for k in range(NUM_FRAMES)]


@pytest.mark.parametrize("length", [1, 256, 257, 65_537])
def test_scenes_of_any_length_are_counted_in_full(length: int, tmp_path: Path) -> None:
    """Parts and answers of workers hold counts in as few bytes as they need."""
    log = make_log([[[{"track_id": 1}]] * 3, [[{"track_id": 1}]] * length])
    with open_job(tmp_path / "job", {}) as job:
        mask, _ = compute_agents_mask(log, MaskThresholds(0.5), workers=KeptWorkers(1, job))
    assert mask.dtype == np.uint32
    assert mask.tolist() == counting(3) + counting(length)


def test_a_missing_annotation_ends_one_segment_and_starts_another() -> None:
    frames = frames_of_one_track()
    frames[10] = []
    mask, report = mask_of(make_log([frames]))
    assert mask.tolist() == counting(10) + counting(9)
    assert (report["reject_th_hole"], report["total_reject"]) == (1, 1)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"extent": (8.0, 4.0, 3.0)}, "reject_th_extent"),
        ({"yaw": np.radians(50)}, "reject_th_yaw"),
        ({"yaw": np.radians(-30.001)}, "reject_th_yaw"),
    ],
    ids=["extent x2", "50 degrees", "-30.001 degrees"],
)
def test_a_jump_at_one_frame_isolates_its_row(changed: Any, reason: str) -> None:
    mask, report = mask_of(make_log([frames_of_one_track(**changed)]))
    assert mask.tolist() == [*counting(10), [0, 0], *counting(9)]
    assert (report[reason], report["total_reject"]) == (2, 2)


@pytest.mark.parametrize(
    "changed", [{"yaw": np.radians(29)}, {"extent": (4.0, 2.19, 9.0)}], ids=["29 degrees", "area x1.095"]
)
def test_a_change_below_the_threshold_does_not(changed: Any) -> None:
    assert mask_of(make_log([frames_of_one_track(**changed)]))[0].tolist() == counting(NUM_FRAMES)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"probability": 0.5}, "reject_th_agent_filter_probability_threshold"),
        ({"label": 2}, "reject_th_agent_filter_probability_threshold"),
        ({"centroid": (30.0, 40.0)}, "reject_th_AV_distance"),
    ],
    ids=["threshold itself", "class that is not kept", "50 m"],
)
def test_a_rejected_row_leaves_no_hole_behind(changed: Any, reason: str) -> None:
    mask, report = mask_of(make_log([frames_of_one_track(**changed)]))
    assert mask.tolist() == [*counting(10), [0, 0], *counting(9)]
    assert (report[reason], report["total_reject"]) == (1, 1)


@pytest.mark.parametrize(
    "changed",
    [{"probability": np.nextafter(np.float32(0.5), np.float32(1))}, {"centroid": (30.0, np.nextafter(40.0, 0))}],
    ids=["above the threshold", "below 50 m"],
)
def test_a_row_one_step_inside_its_bound_is_taken(changed: Any) -> None:
    assert mask_of(make_log([frames_of_one_track(**changed)]))[0].tolist() == counting(NUM_FRAMES)


def test_the_bounds_of_the_conditions_are_strict() -> None:
    tenth = np.float32(0.01)
    small, least = (np.array([1, side, 1], np.float32) for side in (tenth, np.nextafter(tenth, np.float32(1))))
    wide, wider = np.array([4, 2, 1], np.float32), np.array([4, 2.5, 1], np.float32)
    for distance_m, angle_deg, ratio, is_inside in (
        (5.0, 0.0, 1.25, False),
        (np.nextafter(5.0, 6), np.nextafter(0.0, 1), np.nextafter(1.25, 2), True),
    ):
        assert in_av_distance((0, 0), (3, 4), distance_m) == is_inside
        assert in_angular_distance(0.3, 0.3, angle_deg) == is_inside
        assert in_extent_ratio(wide, wider, ratio) == in_extent_ratio(wider, wide, ratio) == is_inside
    assert float(tenth) < 0.01 < float(least[1])
    assert not in_extent_ratio(small, small, 2.0)
    assert in_extent_ratio(least, least, 2.0)


def test_the_heading_may_cross_pi() -> None:
    mask, _ = mask_of(make_log([[[{"track_id": 1, "yaw": np.radians(yaw)}] for yaw in (170, -170, 165)]]))
    assert mask.tolist() == counting(3)


def test_the_first_reason_counts() -> None:
    frames = frames_of_one_track(yaw=2.0, extent=(9.0, 9.0, 9.0))
    frames[9] = []
    report = mask_of(make_log([frames]))[1]
    assert (report["reject_th_hole"], report["reject_th_yaw"], report["reject_th_extent"]) == (1, 1, 0)


def test_a_second_row_of_a_track_in_one_frame_starts_anew() -> None:
    mask, report = mask_of(make_log([[[{"track_id": 1}] * 2, [{"track_id": 1}]]]))
    assert mask.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert report["reject_th_hole"] == 1


def test_tracks_of_different_scenes_are_different() -> None:
    log = make_log([frames_of_one_track(), frames_of_one_track()])
    mask, _, rows = get_valid_agents((NUM_FRAMES, 2 * NUM_FRAMES), log, 0.5, **THRESHOLDS)
    assert mask.tolist() == counting(NUM_FRAMES)
    assert rows == (NUM_FRAMES, 2 * NUM_FRAMES)


def test_scenes_without_frames_or_agents_have_empty_masks() -> None:
    log = make_log([[], [[], []], [[{"track_id": 1}]]])
    assert [get_valid_agents(range_, log, 0.5, **THRESHOLDS)[0].shape for range_ in ((0, 0), (0, 2))] == [(0, 2)] * 2


ROW = st.fixed_dictionaries(
    {
        "track_id": st.sampled_from([1, 2, 3, 2**31, 2**63 - 1, 2**63, 2**64 - 1]),
        "centroid": st.tuples(st.sampled_from([0.0, 30.0, 49.999]), st.sampled_from([0.0, 39.99, 40.0])),
        "yaw": st.sampled_from([0.0, 0.5, 0.5235988, 0.53, -3.1, 3.1]),
        "extent": st.tuples(st.sampled_from([0.05, 4.0, 4.3]), st.sampled_from([0.1, 2.0, 2.1, 2.2]), st.just(1.0)),
        "probability": st.sampled_from([0.4, 0.5, 0.500001, 1.0]),
    }
)


@settings(max_examples=150)
@given(frames=st.lists(st.lists(ROW, max_size=5), max_size=12))
def test_the_mask_equals_a_slow_one_on_random_tracks(frames: Any) -> None:
    log = make_log([frames])
    mask, report = mask_of(log)
    expected_mask, expected_report = slow_mask(log.frames, log.agents, 0.5)
    np.testing.assert_array_equal(mask, expected_mask)
    assert +report == +expected_report


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_mask_equals_a_slow_one_on_long_random_tracks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames: list[list[dict[str, Any]]] = []
    for _ in range(25):
        present = rng.permutation(8)[: rng.integers(4, 9)]
        frames.append(
            [
                {
                    "track_id": int(track) * 1_000_003,
                    "yaw": float(rng.normal(0, 0.25)),
                    "centroid": tuple(rng.normal(0, 20, 2)),
                    "extent": tuple(rng.normal(4, 0.08, 3)),
                    "probability": float(rng.random() ** 0.2),
                }
                for track in present
            ]
        )
    log = make_log([frames])
    np.testing.assert_array_equal(mask_of(log)[0], slow_mask(log.frames, log.agents, 0.5)[0])


def test_label_sums_are_those_of_numpy_to_the_bit() -> None:
    """Around the threshold one float32 step decides, so the order of the additions does."""
    rng = np.random.default_rng(5)
    agents = np.zeros(4000, AGENT_DTYPE)
    agents["label_probabilities"] = rng.dirichlet(np.ones(17), len(agents))
    agents["track_id"] = np.arange(len(agents))
    frames = make_log([[[{"track_id": 1}]]]).frames
    frames["agent_index_interval"] = (0, len(agents))
    log = ChunkedDataset.in_memory(frames=frames, agents=agents)
    sums = agents["label_probabilities"][:, 3:16].sum(axis=1)
    for threshold in [np.nextafter(sums[0], np.float32(0)), *sums[:20], np.nextafter(sums[0], np.float32(1))]:
        rejected = mask_of(log, float(threshold))[1]["reject_th_agent_filter_probability_threshold"]
        assert rejected == np.count_nonzero(~(sums > threshold))


def test_old_record_types_are_read() -> None:
    """Sets made before April 2020 hold float32 positions and int32 track ids."""
    log = make_fixture_s()
    narrower = {"centroid": np.float32, "track_id": np.int32}
    fields = [(name, narrower.get(name, kind), *shape) for name, kind, *shape in AGENT_DTYPE]
    old = np.dtype(fields)
    agents = np.zeros(len(log.agents), old)
    for name in old.names or ():
        agents[name] = log.agents[name]
    old_log = ChunkedDataset.in_memory(scenes=log.scenes, frames=log.frames, agents=agents)
    np.testing.assert_array_equal(mask_of(old_log)[0], mask_of(log)[0])


@pytest.mark.parametrize("interval", [(-3, 1), (1, 0), (0, 10**9), (5, 6)], ids=str)
def test_damaged_intervals_are_an_error_and_no_crash(interval: tuple[int, int]) -> None:
    log = make_log([frames_of_one_track()])
    log.frames["agent_index_interval"][3] = interval
    with pytest.raises(CorruptedDataError, match=r"agent_index_interval .* of frame [34] must start where"):
        mask_of(log)


@pytest.mark.parametrize("num_rows", [0, 5])
def test_agents_that_are_cut_short_are_an_error(num_rows: int) -> None:
    log = make_log([frames_of_one_track()])
    log.agents = log.agents[:num_rows]
    with pytest.raises(CorruptedDataError, match=f"end at row {num_rows} at the latest"):
        get_valid_agents((0, NUM_FRAMES), log, 0.5, **THRESHOLDS)


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        (in_consecutive_frame, (4, 3), True),
        (in_consecutive_frame, (4, 2), False),
        (in_consecutive_frame, (3, 4), False),
        (in_av_distance, ((0, 0, 99), (3, 4), 5.0), False),
        (in_av_distance, ((0, 0, 99), (3, 4), 5.001), True),
        (in_angular_distance, (np.float32(0), np.radians(30) + 1e-6, 30), False),
        (in_angular_distance, (np.radians(179), np.radians(-179), 2.1), True),
        (in_extent_ratio, (np.float32([1, 1, 1]), np.float32([1.1, 1, 5]), 1.1), False),
        (in_extent_ratio, (np.float32([1, 1, 1]), np.float32([1.0999, 1, 5]), 1.1), True),
        (in_extent_ratio, (np.float32([0.09, 0.1, 1]), np.float32([0.09, 0.1, 1]), 1.1), False),
        (in_extent_ratio, ((0.0, 0.0), (0.0, 0.0), 1.1), False),
    ],
)
def test_conditions(condition: Any, arguments: Any, expected: bool) -> None:
    assert condition(*arguments) is expected


def test_update_mask_counts_up_and_down() -> None:
    mask = np.zeros((6, 2), np.uint32)
    update_mask(mask, [1, 2, 5])
    assert mask.tolist() == [[0, 0], [0, 2], [1, 1], [0, 0], [0, 0], [2, 0]]


def test_usual_thresholds() -> None:
    assert (TH_YAW_DEGREE, TH_EXTENT_RATIO, TH_DISTANCE_AV) == (30, 1.1, 50)


def test_the_table_counts_rows_with_enough_past_and_future() -> None:
    assert mask_table(np.array(counting(52) + [[0, 0]], np.uint32)).tolist() == [
        [53, 42, 22, 2],
        [42, 32, 12, 0],
        [22, 12, 0, 0],
        [2, 0, 0, 0],
    ]


REPORT = """\
th_agent_filter_probability_threshold: 0.5
th_yaw_degree: 30
th_extent_ratio: 1.1
th_distance_av: 50
reject_th_AV_distance: 0
reject_th_agent_filter_probability_threshold: 30
reject_th_extent: 0
reject_th_hole: 0
reject_th_yaw: 0
total_agent_frames: 98
total_reject: 30
rows by least number of past frames (down) and of future frames (across):
past           0          10          30          50
   0          98          38           0           0
  10          38          10           0           0
  30           0           0           0           0
  50           0           0           0           0
"""


def test_select_agents_stores_the_mask_and_prints_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_fixture_s(tmp_path)
    select_agents(ChunkedDataset(path).open(), 0.5, *THRESHOLDS.values())
    printed = capsys.readouterr().out
    folder = Path(path) / "agents_mask" / "0.5"
    assert printed == (f"computing the agents mask of {path} ...\n{REPORT}agents mask stored in {folder}\n")
    stored = zarr.open_group(str(Path(path)), mode="r", zarr_format=2)["agents_mask/0.5"]
    np.testing.assert_array_equal(stored[:], mask_of(make_fixture_s())[0])


def test_the_stored_mask_has_the_layout_of_1_5(tmp_path: Path) -> None:
    path = Path(save_fixture_s(tmp_path))
    select_agents(ChunkedDataset(str(path)).open(), 0.5, *THRESHOLDS.values())
    assert json.loads((path / "agents_mask" / ".zgroup").read_text()) == {"zarr_format": 2}
    array = json.loads((path / "agents_mask" / "0.5" / ".zarray").read_text())
    assert array.pop("dimension_separator", ".") == "."
    assert array == {
        "zarr_format": 2,
        "shape": [98, 2],
        "chunks": [10000, 2],
        "dtype": "<u4",
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    }
    names = {file.name for file in (path / "agents_mask" / "0.5").iterdir()}
    assert names == {".zarray", ".zattrs", "0.0"}
    assert json.loads((path / "agents_mask" / "0.5" / ".zattrs").read_text()) == {
        "th_agent_filter_probability_threshold": 0.5,
        "th_yaw_degree": 30,
        "th_extent_ratio": 1.1,
        "th_distance_av": 50,
    }
    assert sorted(file.name for file in path.iterdir() if "part" in file.name) == []


@pytest.mark.parametrize(("probability", "name"), [(0, "0"), (0.0, "0.0"), (1, "1"), (0.25, "0.25")], ids=str)
def test_the_name_of_a_stored_mask_is_the_threshold_as_it_is_written(
    probability: float, name: str, tmp_path: Path
) -> None:
    path = save_fixture_s(tmp_path)
    select_agents(ChunkedDataset(path).open(), probability, *THRESHOLDS.values())
    assert (Path(path) / "agents_mask" / name / ".zarray").is_file()


def test_a_mask_that_is_there_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_fixture_s(tmp_path)
    (Path(path) / "agents_mask" / "0.5").mkdir(parents=True)
    with pytest.raises(FileExistsError, match=r"agents_mask/0\.5 exists"):
        select_agents(ChunkedDataset(path).open(), 0.5, *THRESHOLDS.values())
    assert capsys.readouterr().out == ""


def test_another_process_that_was_faster_wins(tmp_path: Path) -> None:
    path = save_fixture_s(tmp_path)
    folder = Path(path) / "agents_mask" / "0.5"

    def be_faster(done: int, total: int) -> None:
        folder.mkdir(parents=True)
        (folder / "its file").touch()

    with pytest.raises(FileExistsError, match=r"agents_mask/0\.5 exists"):
        select_agents(ChunkedDataset(path).open(), 0.5, *THRESHOLDS.values(), progress=be_faster)
    assert [file.name for file in folder.iterdir()] == ["its file"]
    assert not list(Path(path).glob(".agents_mask*"))


def test_an_interrupted_computation_leaves_nothing_in_the_dataset(tmp_path: Path) -> None:
    path = save_fixture_s(tmp_path)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    before = sorted(Path(path).rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        select_agents(ChunkedDataset(path).open(), 0.5, *THRESHOLDS.values(), progress=interrupt)
    assert sorted(Path(path).rglob("*")) == before


def test_a_log_in_memory_has_no_place_for_a_mask() -> None:
    with pytest.raises(InvalidArgumentError, match="stored inside a dataset folder, and '' is not a folder"):
        select_agents(make_fixture_s(), 0.5, *THRESHOLDS.values())


def test_thresholds_must_be_numbers() -> None:
    with pytest.raises(InvalidArgumentError, match="threshold yaw_degree must be a number, got 'wide'"):
        get_valid_agents((0, 1), make_fixture_s(), 0.5, "wide", 1.1, 50)  # type: ignore[arg-type]


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "l5kit.dataset.select_agents", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.process
def test_the_module_runs_as_a_command_without_warnings(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(save_fixture_s(tmp_path / name))
    done = run_module("--input_folders", *paths, "--th_agent_prob", "0.5", "--th_distance_av", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("th_distance_av: 20.0\n") == 2
    for path in paths:
        stored = zarr.open_group(path, mode="r", zarr_format=2)["agents_mask/0.5"]
        np.testing.assert_array_equal(stored[:], mask_of(make_fixture_s(), th_distance_av=20)[0])
    again = run_module("--input_folders", paths[0], "--th_agent_prob", "0.5")
    assert again.returncode == 1
    assert again.stderr.startswith("error: ")
    assert "Traceback" not in again.stderr


def test_the_report_of_the_real_scene(shared_data: Path, tmp_path: Path) -> None:
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask, report = mask_of(log)
    assert report == {
        "reject_th_agent_filter_probability_threshold": 14_666,
        "reject_th_AV_distance": 2_341,
        "reject_th_extent": 853,
        "reject_th_yaw": 62,
        "reject_th_hole": 0,
        "total_reject": 17_922,
        "total_agent_frames": 20_802,
    }
    assert mask_table(mask).tolist() == [
        [20802, 1179, 617, 410],
        [1179, 810, 510, 329],
        [617, 510, 329, 244],
        [410, 329, 244, 174],
    ]


def test_the_mask_of_the_real_scene_equals_the_slow_one(shared_data: Path) -> None:
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    mask, report = mask_of(log, 0.3)
    expected_mask, expected_report = slow_mask(log.frames[:], log.agents[:], 0.3)
    np.testing.assert_array_equal(mask, expected_mask)
    assert +report == +expected_report
