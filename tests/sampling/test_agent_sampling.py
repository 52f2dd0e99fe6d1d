"""Samples of the AV and of agents, in the present form and in the one documented for 1.0."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.records import FRAME_DTYPE
from l5kit.errors import TrackNotFoundError
from l5kit.geometry import transform_points
from l5kit.geometry.transform import GIMBAL_LOCK_COSINE
from l5kit.kinematic import AckermanPerturbation, Perturbation
from l5kit.random import GaussianRandomGenerator, ReplayRandomGenerator
from l5kit.rasterization import BoxRasterizer, StubRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling import generate_agent_sample
from support.fixture_s import make_fixture_s, make_fixture_s_arrays
from support.logs import make_log, rows_as_bytes, without_face_intervals
from support.samples import assert_samples_equal

CONTEXT = RenderContext(np.array([224, 112]), np.array([0.25, 0.25]), np.array([0.25, 0.5]), True)
KEYS = [
    "frame_index",
    "image",
    "target_positions",
    "target_yaws",
    "target_velocities",
    "target_availabilities",
    "history_positions",
    "history_yaws",
    "history_velocities",
    "history_availabilities",
    "history_extents",
    "future_extents",
    "world_to_image",
    "raster_from_world",
    "raster_from_agent",
    "agent_from_world",
    "world_from_agent",
    "centroid",
    "yaw",
    "extent",
    "curr_speed",
]


def make_sample(
    index: int, track_id: int | None = None, *, arrays: Any = None, history: int = 3, future: int = 5, **options: Any
) -> dict[str, Any]:
    frames, agents, tl_faces = make_fixture_s_arrays()[1:] if arrays is None else arrays
    rasterizer = options.pop("rasterizer", None)
    step_time = options.pop("step_time", 0.1)
    return generate_agent_sample(
        index, frames, agents, tl_faces, track_id, CONTEXT, history, future, step_time, 0.5, rasterizer, **options
    )


def check_approximately(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_known_answer_of_the_av_at_frame_10() -> None:
    sample = make_sample(10, rasterizer=StubRasterizer(CONTEXT))
    assert set(sample) == set(KEYS)
    assert sample["frame_index"] == 10
    check_approximately(sample["centroid"], (-190.0, 0.2))
    check_approximately(sample["yaw"], 0.1)
    check_approximately(
        sample["target_positions"],
        [(0.4994988, -0.0300166), (0.9989975, -0.0600333), (1.4984963, -0.0900499)]
        + [(1.9979950, -0.1200665), (2.4974937, -0.1500831)],
    )
    check_approximately(sample["target_yaws"][:, 0], [0.00999999, 0.01999998, 0.02999997, 0.03999996, 0.04999995])
    check_approximately(sample["target_velocities"], [(4.9949875, -0.3001662)] * 5, 1e-5)
    check_approximately(
        sample["history_positions"],
        [(0, 0), (-0.4994988, 0.0300166), (-0.9989975, 0.0600333), (-1.4984963, 0.0900499)],
    )
    check_approximately(sample["history_yaws"][:, 0], [0, -0.00999999, -0.01999998, -0.02999997])
    check_approximately(sample["curr_speed"], 5.0039983)
    np.testing.assert_array_equal(sample["history_extents"], np.array([(4.87, 1.85)] * 4, np.float32))
    check_approximately(
        sample["raster_from_world"],
        [[3.9800166611, 0.3993336666, 812.1232988779], [0.3993336666, -3.9800166611, 132.6693999838], [0, 0, 1]],
        1e-9,
    )
    check_approximately(sample["raster_from_agent"], [[4, 0, 56], [0, -4, 56], [0, 0, 1]], 1e-12)


def test_e1_known_answer_next_to_the_start_of_the_scene() -> None:
    sample = make_sample(1)
    assert sample["history_availabilities"].tolist() == [1, 1, 0, 0]
    check_approximately(sample["history_velocities"], [(5.00175, 0.1499908), (-5.00175, -0.1499908), (0, 0)], 1e-5)


def test_e1_known_answer_next_to_the_end_of_the_scene() -> None:
    sample = make_sample(28)
    assert sample["target_availabilities"].tolist() == [1, 0, 0, 0, 0]
    velocities_mps = [(4.8605485, -1.1895671), (-4.8605485, 1.1895671), (0, 0), (0, 0), (0, 0)]
    check_approximately(sample["target_velocities"], velocities_mps, 1e-5)


def test_known_answer_of_track_1_at_frame_10() -> None:
    sample = make_sample(10, 1)
    check_approximately(
        sample["target_positions"],
        [(0.3999200, -0.0079995), (0.7998400, -0.0159989), (1.1997600, -0.0239984)]
        + [(1.5996801, -0.0319979), (1.9996001, -0.0399973)],
    )
    assert sample["yaw"] == 0.019999999552965164
    assert not sample["target_yaws"].any()


def test_types_and_shapes_of_a_sample() -> None:
    shapes = {
        "target_positions": (5, 2),
        "target_yaws": (5, 1),
        "target_velocities": (5, 2),
        "target_availabilities": (5,),
        "history_positions": (4, 2),
        "history_yaws": (4, 1),
        "history_velocities": (3, 2),
        "history_availabilities": (4,),
        "history_extents": (4, 2),
        "future_extents": (5, 2),
    }
    matrices = ("world_to_image", "raster_from_world", "raster_from_agent", "agent_from_world", "world_from_agent")
    for track_id, extent_dtype in ((None, np.float64), (1, np.float32)):
        sample = make_sample(10, track_id)
        assert {key: sample[key].shape for key in shapes} == shapes
        assert {sample[key].dtype for key in shapes} == {np.dtype(np.float32)}
        assert {(sample[key].shape, sample[key].dtype) for key in matrices} == {((3, 3), np.dtype(np.float64))}
        assert (type(sample["frame_index"]), type(sample["yaw"]), type(sample["curr_speed"])) == (
            int,
            float,
            np.float32,
        )
        assert (sample["centroid"].shape, sample["centroid"].dtype) == ((2,), np.float64)
        assert (sample["extent"].shape, sample["extent"].dtype) == ((3,), extent_dtype)
    check_approximately(make_sample(10)["extent"], (4.87, 1.85, 1.8), 0)


def test_d16_d17_names_that_1_5_has() -> None:
    sample = make_sample(10)
    assert sample["world_to_image"] is sample["raster_from_world"]
    assert "curr_speed" not in make_sample(10, history=0)
    assert make_sample(10, history=0)["history_velocities"].shape == (0, 2)


def test_e2_the_speed_in_the_first_frame_of_a_scene_is_0() -> None:
    assert make_sample(0)["curr_speed"] == 0


@pytest.mark.parametrize("history", range(5))
@pytest.mark.parametrize("index", [0, 1, 10, 29])
def test_missing_history_is_padded(index: int, history: int) -> None:
    sample = make_sample(index, history=history)
    available = min(index, history) + 1
    assert sample["history_availabilities"].tolist() == [1] * available + [0] * (history + 1 - available)


def test_no_future_gives_empty_targets() -> None:
    sample = make_sample(10, future=0)
    assert (sample["target_positions"].shape, sample["target_velocities"].shape) == ((0, 2), (0, 2))


def test_six_frames_and_ten_targets_leave_five_available() -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    sample = make_sample(0, arrays=(frames[:6], agents, tl_faces), future=10)
    assert sample["target_availabilities"].tolist() == [1] * 5 + [0] * 5


def test_targets_transformed_back_are_the_next_centroids() -> None:
    _, frames, _, _ = make_fixture_s_arrays()
    sample = make_sample(10)
    world_m = transform_points(sample["target_positions"], np.linalg.inv(sample["agent_from_world"]))
    check_approximately(world_m, frames["ego_translation"][11:16, :2], 1e-4)
    check_approximately(sample["world_from_agent"] @ sample["agent_from_world"], np.eye(3), 1e-9)


@pytest.mark.parametrize("index", [-1, 30])
def test_d11_a_frame_beyond_the_scene_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"state_index {index} is out of range for a scene of 30 frames"):
        make_sample(index, history=100)


def test_no_frames_are_an_index_error() -> None:
    _, _, agents, tl_faces = make_fixture_s_arrays()
    with pytest.raises(IndexError, match="scene of 0 frames"):
        make_sample(0, arrays=(np.empty(0, FRAME_DTYPE), agents, tl_faces))


@pytest.mark.parametrize("track_id", [2, 99, -5, 2**64], ids=["later", "unknown", "negative", "too large"])
def test_d12_a_track_that_is_not_in_the_frame_is_an_index_and_value_error(track_id: int) -> None:
    with pytest.raises(TrackNotFoundError, match=f"track {track_id} is not among the agents") as raised:
        make_sample(3, track_id)
    assert isinstance(raised.value, IndexError)
    assert isinstance(raised.value, ValueError)


def test_a_track_at_the_label_threshold_is_not_found() -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    for probability, is_found in ((np.float32(0.5), False), (np.nextafter(np.float32(0.5), np.float32(1)), True)):
        agents["label_probabilities"][agents["track_id"] == 7, 14] = probability
        if is_found:
            sample = make_sample(0, 7, arrays=(frames, agents, tl_faces))
            assert sample["centroid"].tolist() == [-180, 5]
        else:
            with pytest.raises(TrackNotFoundError, match="track 7 does not pass the label filter"):
                make_sample(0, 7, arrays=(frames, agents, tl_faces))


@pytest.mark.parametrize(
    ("cosine", "yaw_rad"), [(GIMBAL_LOCK_COSINE, 0.0), (np.nextafter(GIMBAL_LOCK_COSINE, 1), np.pi / 2)]
)
def test_the_least_cosine_of_the_heading_of_the_av(cosine: float, yaw_rad: float) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    frames["ego_rotation"][0] = [[0, 0, 1], [cosine, 1, 0], [-1, 0, 0]]
    assert make_sample(0, arrays=(frames, agents, tl_faces))["yaw"] == pytest.approx(yaw_rad)


def test_a_track_below_the_label_threshold_is_not_found() -> None:
    with pytest.raises(TrackNotFoundError, match=r"track 7 does not pass the label filter.*threshold = 0\.5"):
        make_sample(10, 7)


def test_of_several_rows_of_a_track_the_first_that_passes_the_label_filter_is_taken() -> None:
    log = make_log(
        [[[{"track_id": 4, "probability": 0.2, "yaw": 1.0}, {"track_id": 4, "yaw": 2.0}, {"track_id": 4, "yaw": 3.0}]]]
    )
    assert make_sample(0, 4, arrays=(log.frames, log.agents, log.tl_faces))["yaw"] == 2.0


def test_track_ids_near_the_end_of_uint64_are_found() -> None:
    ids = [2**63 - 1, 2**63, 2**64 - 1]
    log = make_log([[[{"track_id": track_id, "yaw": k / 4} for k, track_id in enumerate(ids)]] * 2])
    for k, track_id in enumerate(ids):
        sample = make_sample(0, track_id, arrays=(log.frames, log.agents, log.tl_faces))
        assert (sample["yaw"], sample["target_availabilities"][0]) == (k / 4, 1)


@pytest.mark.parametrize("step_time", [0, -0.1])
def test_a_step_time_that_is_not_positive_is_refused(step_time: float) -> None:
    with pytest.raises(AssertionError, match="step_time must be a positive number of seconds"):
        make_sample(10, step_time=step_time)


def test_without_a_rasterizer_there_is_no_image() -> None:
    assert set(KEYS) - set(make_sample(10)) == {"image"}


def test_the_rasterizer_draws_the_history_of_the_selected_agent() -> None:
    rasterizer = BoxRasterizer(CONTEXT, 0.5, 3)
    image = make_sample(10, 1, rasterizer=rasterizer)["image"]
    assert (image.shape, image.dtype) == ((112, 224, 8), np.float32)
    frames, agents, _ = make_fixture_s_arrays()[1:]
    history = frames[7:11][::-1]
    rows = [agents[slice(*frame["agent_index_interval"])] for frame in history]
    np.testing.assert_array_equal(image, rasterizer.rasterize(history, rows, [], rows[0][0]))


@settings(max_examples=40)
@given(
    index=st.integers(0, 29),
    track_id=st.sampled_from([None, 1, 2, 300]),
    steps=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    counts=st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_strided_samples_equal_unstrided_ones_at_shared_frames(
    index: int, track_id: int | None, steps: tuple[int, int], counts: tuple[int, int]
) -> None:
    arrays = make_fixture_s_arrays()[1:]
    (history_step, future_step), (history, future) = steps, counts
    rows = arrays[1][slice(*arrays[0][index]["agent_index_interval"])]
    if track_id is not None and track_id not in rows["track_id"]:
        return
    strided = make_sample(
        index,
        track_id,
        history=history,
        future=future,
        arrays=arrays,
        history_step_size=history_step,
        future_step_size=future_step,
    )
    dense = make_sample(index, track_id, history=history * history_step, future=future * future_step, arrays=arrays)
    for name in ("positions", "yaws", "availabilities"):
        check_approximately(strided[f"history_{name}"], dense[f"history_{name}"][::history_step])
        check_approximately(strided[f"target_{name}"], dense[f"target_{name}"][future_step - 1 :: future_step])
    np.testing.assert_array_equal(strided["history_extents"], dense["history_extents"][::history_step])
    np.testing.assert_array_equal(strided["future_extents"], dense["future_extents"][future_step - 1 :: future_step])
    np.testing.assert_array_equal(strided["raster_from_world"], dense["raster_from_world"])


def test_velocities_of_strided_samples_are_those_of_the_longer_step() -> None:
    sample = make_sample(10, history_step_size=2, future_step_size=3)
    check_approximately(sample["target_velocities"], [(4.9949875, -0.3001662)] * 5, 1e-5)
    check_approximately(sample["curr_speed"], 5.0039983)


class RowRecorder(StubRasterizer):
    """Records the rows that it is asked to draw."""

    def rasterize(self, history_frames: Any, history_agents: Any, history_tl_faces: Any, agent: Any = None) -> Any:
        self.agents = [rows.copy() for rows in history_agents]
        self.tl_faces = [rows.copy() for rows in history_tl_faces]
        return np.zeros((112, 224, 3), np.float32)


@pytest.mark.parametrize(("history_step", "future_step"), [(1, 1), (4, 1), (1, 3), (5, 2)])
def test_strided_frames_bring_only_their_own_agents(history_step: int, future_step: int) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    recorder = RowRecorder(CONTEXT)
    make_sample(14, rasterizer=recorder, history_step_size=history_step, future_step_size=future_step)
    drawn = [k for k in (14 - history_step * i for i in range(4)) if k >= 0]
    for rows, field, array in (
        (recorder.agents, "agent_index_interval", agents),
        (recorder.tl_faces, "traffic_light_faces_index_interval", tl_faces),
    ):
        assert [rows_as_bytes(part) for part in rows] == [rows_as_bytes(array[slice(*frames[k][field])]) for k in drawn]


CALL_OF_1_0 = {
    "raster_size": (224, 112),
    "pixel_size": np.array([0.25, 0.25]),
    "ego_center": np.array([0.25, 0.5]),
    "history_num_frames": 3,
    "history_step_size": 2,
    "future_num_frames": 5,
    "future_step_size": 1,
    "filter_agents_threshold": 0.5,
}


@pytest.mark.parametrize("has_faces", [True, False], ids=["faces", "no-faces"])
@pytest.mark.parametrize("style", ["positional", "keyword", "mixed"])
@pytest.mark.parametrize("track_id", [None, 1, np.uint64(300)])
def test_the_call_documented_for_1_0_equals_the_present_one(style: str, track_id: Any, has_faces: bool) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    recorder = RowRecorder(RenderContext(np.array([224, 112]), np.array([0.25, 0.25]), np.array([0.25, 0.5]), False))
    present = generate_agent_sample(
        15, frames, agents, tl_faces[:0], track_id, recorder.render_context, 3, 5, 0.1, 0.5, recorder, None, 2, 1
    )
    if not has_faces:
        frames = without_face_intervals(frames)
    first = {"state_index": 15, "frames": frames, "all_agents": agents, "selected_track_id": track_id}
    if style == "positional":
        sample = generate_agent_sample(*first.values(), *CALL_OF_1_0.values(), recorder)
    elif style == "keyword":
        sample = generate_agent_sample(**first, **CALL_OF_1_0, rasterizer=recorder)
    else:
        sample = generate_agent_sample(*first.values(), **CALL_OF_1_0, rasterizer=recorder)
    assert_samples_equal(sample, present)
    assert [len(faces) for faces in recorder.tl_faces] == [0] * 4


def test_the_call_documented_for_1_0_needs_no_rasterizer_and_takes_a_perturbation() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    moved = AckermanPerturbation(ReplayRandomGenerator([[1.0, 0.0, 0.1]]), 1)
    plain = generate_agent_sample(15, frames, agents, None, **CALL_OF_1_0)
    sample = generate_agent_sample(15, frames, agents, None, **CALL_OF_1_0, perturbation=moved)
    assert "image" not in plain
    check_approximately(np.linalg.norm(sample["centroid"] - plain["centroid"]), 1.0)
    check_approximately(plain["raster_from_agent"], [[4, 0, 56], [0, 4, 56], [0, 0, 1]], 1e-12)


def test_an_incomplete_call_of_1_0_names_the_missing_argument() -> None:
    _, frames, agents, _ = make_fixture_s_arrays()
    with pytest.raises(TypeError, match="raster_size"):
        generate_agent_sample(15, frames, agents, None)


class Shift(Perturbation):
    """Moves the AV by 10 m in all frames and counts its calls."""

    def __init__(self) -> None:
        self.num_calls = 0

    def perturb(self, history_frames: Any, future_frames: Any) -> Any:
        self.num_calls += 1
        history_frames["ego_translation"][:, 0] += 10
        future_frames["ego_translation"][:, 0] += 10
        return history_frames, future_frames


@pytest.mark.parametrize(("index", "future", "num_calls"), [(24, 5, 1), (25, 5, 0), (29, 5, 0), (10, 0, 0)], ids=str)
def test_f6_f8_only_a_complete_future_is_perturbed(index: int, future: int, num_calls: int) -> None:
    shift = Shift()
    sample = make_sample(index, future=future, perturbation=shift)
    assert shift.num_calls == num_calls
    check_approximately(sample["centroid"][0], -195 + 0.5 * index + 10 * num_calls)


def test_f3_the_frames_of_the_av_move_also_when_an_agent_is_selected() -> None:
    shift = Shift()
    image = make_sample(10, 1, perturbation=shift, rasterizer=BoxRasterizer(CONTEXT, 0.5, 3))["image"]
    assert shift.num_calls == 1
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    frames["ego_translation"][:, 0] += 10
    moved = make_sample(10, 1, arrays=(frames, agents, tl_faces), rasterizer=BoxRasterizer(CONTEXT, 0.5, 3))
    np.testing.assert_array_equal(image, moved["image"])
    assert_samples_equal(make_sample(10, 1, perturbation=shift), make_sample(10, 1))


def test_f2_a_perturbation_changes_no_array_of_the_log() -> None:
    arrays = make_fixture_s_arrays()[1:]
    before = [rows_as_bytes(array) for array in arrays]
    make_sample(10, arrays=arrays, perturbation=Shift())
    make_sample(10, arrays=arrays, perturbation=AckermanPerturbation(ReplayRandomGenerator([[4, 1, 0.33]]), 1))
    assert [rows_as_bytes(array) for array in arrays] == before


@pytest.mark.filterwarnings("ignore:perturb_prob is 0")
@pytest.mark.parametrize(("probability", "changes"), [(1, True), (0, False)])
def test_positions_and_yaws_of_the_targets_change_with_probability_1(probability: float, changes: bool) -> None:
    perturbation = AckermanPerturbation(ReplayRandomGenerator([[4, 1, 0.33]]), probability)
    plain, sample = make_sample(10), make_sample(10, perturbation=perturbation)
    for key in ("target_positions", "target_yaws", "centroid"):
        assert bool(np.abs(sample[key] - plain[key]).max() > 1e-3) == changes


def test_a_seeded_perturbation_gives_the_same_samples_again() -> None:
    def centroids(seed: int) -> list[list[float]]:
        perturbation = AckermanPerturbation(GaussianRandomGenerator(np.zeros(3), np.ones(3)), 0.5)
        perturbation.reseed(seed)
        return [make_sample(index, perturbation=perturbation)["centroid"].tolist() for index in range(8)]

    assert centroids(3) == centroids(3)
    assert centroids(3) != centroids(4)


@given(index=st.integers(0, 29))
@settings(max_examples=10)
def test_samples_do_not_depend_on_the_raster(index: int) -> None:
    _, frames, agents, tl_faces = make_fixture_s_arrays()
    other = RenderContext(np.array([50, 70]), np.array([2.0, 2.0]), np.array([0.5, 0.1]), False)
    sample = generate_agent_sample(index, frames, agents, tl_faces, None, other, 3, 5, 0.1, 0.5, None)
    for key in ("target_positions", "target_yaws", "history_positions"):
        np.testing.assert_array_equal(sample[key], make_sample(index)[key])


def test_frames_without_agents_give_samples_of_the_av() -> None:
    log = make_log([[[], [{"track_id": 1}], []]])
    for index in range(3):
        sample = make_sample(index, arrays=(log.frames, log.agents, log.tl_faces))
        assert sample["history_availabilities"][0] == 1
    empty = make_log([[[], []]])
    assert len(empty.agents) == 0
    make_sample(0, arrays=(empty.frames, empty.agents, empty.tl_faces), rasterizer=BoxRasterizer(CONTEXT, 0.5, 3))


def test_the_extent_of_a_sample_is_no_view_of_the_log() -> None:
    frames, agents, tl_faces = make_fixture_s_arrays()[1:]
    sample = make_sample(10, 1, arrays=(frames, agents, tl_faces))
    sample["extent"][:] = 0
    sample["centroid"][:] = 0
    assert rows_as_bytes(agents) == rows_as_bytes(make_fixture_s().agents)
