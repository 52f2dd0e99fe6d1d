"""Dataset of a simulation: controlled agents, written records, and samples of the current scenes."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from l5kit._types import RecordArray
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.errors import InvalidArgumentError
from l5kit.geometry import yaw_as_rotation33
from l5kit.kinematic import AckermanPerturbation
from l5kit.random import ReplayRandomGenerator
from l5kit.rasterization.stub_rasterizer import StubRasterizer
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_agents, make_log, make_scene, without_face_intervals
from support.maps import make_map
from support.samples import assert_samples_equal, make_stub
from support.vectors import make_vector_cfg

MakeDataset = Callable[..., EgoDataset]
FAR = SimulationConfig(distance_th_far=100, distance_th_close=10)


def simulated(dataset: Any, scenes: list[int] | None = None, config: SimulationConfig = FAR) -> SimulationDataset:
    return SimulationDataset.from_dataset_indices(dataset, [0] if scenes is None else scenes, config)


def agent(track_id: int, centroid: tuple[float, float] = (1, 1), yaw: float = 0.0) -> RecordArray:
    return make_agents({"track_id": track_id, "centroid": centroid, "yaw": yaw})


def controlled(sim: SimulationDataset, frame: int) -> set[tuple[int, int]]:
    keys = set(sim.rasterise_agents_frame_batch(frame))
    assert sim._agents_tracked == keys
    return keys


def test_the_agents_that_are_controlled(second_comes_close: EgoDataset) -> None:
    sim = simulated(second_comes_close)
    assert [controlled(sim, frame) for frame in range(4)] == [{(0, 1)}, {(0, 1), (0, 2)}, set(), set()]


def test_new_agents_are_hidden_on_demand(second_comes_close: EgoDataset) -> None:
    config = SimulationConfig(disable_new_agents=True, distance_th_far=100, distance_th_close=10)
    sim = simulated(second_comes_close, config=config)
    assert [controlled(sim, frame) for frame in range(3)] == [{(0, 1)}, {(0, 1)}, set()]
    for batch in (sim.scene_dataset_batch, sim.recorded_scene_dataset_batch):
        agents = batch[0].dataset.agents
        assert not agents["extent"][agents["track_id"] == 2].any()


def test_agents_that_are_put_in_are_controlled(second_comes_close: EgoDataset) -> None:
    sim = simulated(second_comes_close)
    for frame in (1, 2, 3):
        sim.set_agents(frame, {(0, 9): agent(9, (frame, 2), 0.1 * frame)})
        sample = sim.rasterise_agents_frame_batch(frame)[0, 9]
        assert sample["centroid"].tolist() == [frame, 2]
        assert sample["yaw"] == pytest.approx(0.1 * frame)
        assert (sample["scene_index"], sample["track_id"]) == (0, 9)


def test_cars_that_are_put_in_without_a_size_are_controlled(second_comes_close: EgoDataset) -> None:
    sim = simulated(second_comes_close)
    car = agent(9)
    car["extent"] = 0
    sim.set_agents(1, {(0, 9): car})
    assert (0, 9) in controlled(sim, 1)


@pytest.mark.parametrize(
    ("distance_m", "is_tracked", "is_kept"),
    [(9.9, False, True), (10, False, False), (10, True, True), (99.9, True, True), (100, True, False)],
)
def test_thresholds_are_strict(distance_m: float, is_tracked: bool, is_kept: bool, make_dataset: MakeDataset) -> None:
    first = {"track_id": 1, "centroid": (1 if is_tracked else 500, 0)}
    scene = make_scene([[first], [{"track_id": 1, "centroid": (distance_m, 0)}]], positions_m=(0.0, 0.0))
    sim = simulated(make_dataset(scene))
    assert len(controlled(sim, 0)) == is_tracked
    assert len(controlled(sim, 1)) == is_kept


def test_tracks_of_the_same_name_are_told_apart_by_their_scenes(make_dataset: MakeDataset) -> None:
    track = 2**62 + 1  # no float64
    near, far = ({"track_id": track, "centroid": (x, 0)} for x in (5, 50))
    other = {"track_id": track + 1, "centroid": (50, 0)}
    log = make_log([[[far]] * 2, [[near, other], [far, other]]], positions_m=(0.0, 0.0))
    sim = simulated(make_dataset(log), [1, 0])
    assert [controlled(sim, frame) for frame in range(2)] == [{(1, track)}, {(1, track)}]


def test_the_close_distance_may_be_the_larger_one(make_dataset: MakeDataset) -> None:
    scene = make_scene([[{"track_id": 1, "centroid": (8, 0)}]] * 3, positions_m=(0.0, 0.0))
    sim = simulated(make_dataset(scene), config=SimulationConfig(distance_th_far=5, distance_th_close=10))
    assert [len(controlled(sim, frame)) for frame in range(3)] == [1, 0, 1]


def test_nobody_is_nearer_than_a_distance_below_0(make_dataset: MakeDataset) -> None:
    scene = make_scene([[{"track_id": 1, "centroid": (0, 0)}]] * 2, positions_m=(0.0, 0.0))
    config = SimulationConfig(distance_th_far=-1, distance_th_close=-1)
    assert controlled(simulated(make_dataset(scene), config=config), 0) == set()


@pytest.mark.parametrize("labels", [{"CAR": 0.5}, {"PEDESTRIAN": 1.0}, {"CYCLIST": 0.9, "CAR": 0.1}])
def test_only_cars_above_the_threshold_are_controlled(labels: dict[str, float], make_dataset: MakeDataset) -> None:
    scene = make_scene([[{"track_id": 1, "labels": labels}, {"track_id": 2, "labels": {"CAR": 0.51}}]])
    assert controlled(simulated(make_dataset(scene)), 0) == {(0, 2)}


def test_scenes_and_tracks_are_told_apart(several: EgoDataset) -> None:
    sim = simulated(several, [1, 0, 2], SimulationConfig())
    assert list(sim.rasterise_agents_frame_batch(0)) == [(1, 1), (1, 2), (0, 1), (0, 2)]


def test_the_passed_datasets_are_cut(near_and_far: EgoDataset) -> None:
    scene = near_and_far.get_scene_dataset(0)
    sim = SimulationDataset({7: scene}, SimulationConfig(start_frame_index=3, num_simulation_steps=5))
    assert len(sim) == sim.get_min_len() == len(scene) == len(scene.dataset.frames) == 5
    assert scene.cumulative_sizes.tolist() == [5]
    assert sim.scene_dataset_batch[7] is scene
    assert len(near_and_far.dataset.frames) == 12


def test_there_is_no_past_before_the_first_frame(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far, config=SimulationConfig(start_frame_index=3, num_simulation_steps=5))
    (first,), (last,) = sim.rasterise_frame_batch(0), sim.rasterise_frame_batch(-1)
    assert first["history_availabilities"].tolist() == [1, 0, 0]
    assert first["curr_speed"] == pytest.approx(0, abs=1e-6)
    assert first["target_availabilities"].tolist() == [1, 1, 1]
    assert last["target_availabilities"].tolist() == [0, 0, 0]
    assert last["history_availabilities"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(("start", "steps", "length"), [(1, 10, 10), (10, 2, 2), (8, None, 1), (0, None, 9)])
def test_frames_of_the_shortest_scene(start: int, steps: int | None, length: int, several: EgoDataset) -> None:
    scenes = [0] if start + (steps or 0) > 9 else [0, 1]
    config = SimulationConfig(start_frame_index=start, num_simulation_steps=steps)
    assert len(simulated(several, scenes, config)) == length


@pytest.mark.parametrize(("start", "steps"), [(0, 10), (9, None), (20, None), (20, 5), (-1, 3), (0, 0)])
def test_frames_that_are_not_there_are_an_error(start: int, steps: int | None, several: EgoDataset) -> None:
    config = SimulationConfig(start_frame_index=start, num_simulation_steps=steps)
    with pytest.raises(ValueError, match="start"):
        simulated(several, [0, 1], config)


@pytest.mark.parametrize("scenes", [[0, 1, 0], [3], [-1], []], ids=str)
def test_scenes_that_are_not_there_are_an_error(scenes: list[int], several: EgoDataset) -> None:
    with pytest.raises(ValueError, match="scene"):  # row M7: also those below 0
        simulated(several, scenes)


def test_a_frame_past_the_end_is_an_index_error(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    for rasterise in (sim.rasterise_frame_batch, sim.rasterise_agents_frame_batch):
        with pytest.raises(IndexError, match="state_index"):
            rasterise(12)


def test_the_pose_of_the_av(several: EgoDataset) -> None:
    sim = simulated(several, [1, 0])
    positions_m = np.array([[[0, 0], [1, 2]], [[0, 0], [3, 4]]])
    sim.set_ego(2, 1, positions_m, np.array([[0, 0.25], [0, -3.0]]))
    for scene, position_m, yaw_rad in ((1, [1, 2, 3], 0.25), (0, [3, 4, 3], -3.0)):
        frame = sim.scene_dataset_batch[scene].dataset.frames[2]
        assert frame["ego_translation"].tolist() == position_m
        np.testing.assert_allclose(frame["ego_rotation"], yaw_as_rotation33(yaw_rad), atol=1e-15)
        recorded = sim.recorded_scene_dataset_batch[scene].dataset.frames[2]
        assert recorded["ego_translation"].tolist() != position_m
    assert [sample["yaw"] for sample in sim.rasterise_frame_batch(2)] == pytest.approx([0.25, -3.0])


@pytest.mark.parametrize(
    ("frame", "num_positions", "num_yaws"), [(0, 2, 1), (0, 1, 1), (0, 3, 3), (9, 2, 2), (-1, 2, 2)]
)
def test_poses_that_do_not_fit_are_an_error(frame: int, num_positions: int, num_yaws: int, several: EgoDataset) -> None:
    sim = simulated(several, [0, 1])
    with pytest.raises(ValueError, match=r"must have|must cover|state_index"):
        sim.set_ego(frame, 0, np.zeros((num_positions, 1, 2)), np.zeros((num_yaws, 1)))


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize(
    ("frame", "key", "agents"),
    [(0, (5, 1), agent(1)), (0, (0, 1), np.concatenate([agent(1)] * 2)), (50, (0, 1), agent(1))],
    ids=["scene", "two records", "frame"],
)
def test_agents_that_cannot_be_put_anywhere_are_an_error(
    is_taken: bool, frame: int, key: tuple[int, int], agents: RecordArray, near_and_far: EgoDataset
) -> None:
    sim = simulated(near_and_far)
    if is_taken:
        _ = sim.scene_dataset_batch[0].dataset.agents
    with pytest.raises(ValueError, match=r"\d"):
        sim.set_agents(frame, {key: agents})


def test_the_key_of_an_agent_names_its_scene_only(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    sim.set_agents(0, {(0, 77): agent(1, (2, 2)), (0, 78): agent(5)})
    assert controlled(sim, 0) == {(0, 1), (0, 5)}


def changed_by_user(sim: SimulationDataset, *, is_taken: bool) -> SimulationDataset:
    """Move things in a simulation whose arrays may have been handed out before."""
    if is_taken:
        for each in sim.scene_dataset_batch.values():
            _ = each.dataset.agents, each.dataset.frames
    num_scenes = len(sim.scene_dataset_batch)
    for frame in (1, 2):
        agents = {
            (scene, track): agent(track, (track, frame), 0.2) for scene in sim.scene_dataset_batch for track in (1, 8)
        }
        sim.set_agents(frame, agents)
        sim.set_ego(frame, 0, np.full((num_scenes, 1, 2), 0.7 * frame), np.full((num_scenes, 1), 0.1))
    return sim


def assert_same_samples(sim: SimulationDataset, other: SimulationDataset) -> None:
    for frame in range(len(sim)):
        agents, others = (each.rasterise_agents_frame_batch(frame) for each in (sim, other))
        assert list(agents) == list(others)
        pairs = zip(
            [*sim.rasterise_frame_batch(frame), *agents.values()],
            [*other.rasterise_frame_batch(frame), *others.values()],
            strict=True,
        )
        for sample, expected in pairs:
            assert_samples_equal(sample, expected)


class OwnRasterizer(StubRasterizer):
    """A rasterizer of a user, which may do anything: samples are made one by one."""

    def rasterize(self, *arguments: Any, **options: Any) -> Any:
        return super().rasterize(*arguments, **options)


@pytest.mark.parametrize("is_taken", [False, True])
def test_samples_of_a_batch_are_those_made_one_by_one(is_taken: bool, several: EgoDataset) -> None:
    stub = make_stub(several.cfg)
    own = OwnRasterizer(stub.render_context)
    single = EgoDataset(several.cfg, several.dataset, own)
    assert not single.makes_columns
    assert several.makes_columns
    sims = [changed_by_user(simulated(each, [2, 0, 1]), is_taken=is_taken) for each in (several, single)]
    assert_same_samples(*sims)


def test_samples_are_those_of_the_dataset_of_the_scene(several: EgoDataset) -> None:
    sim = changed_by_user(simulated(several, [1, 0]), is_taken=False)
    for frame in range(len(sim)):
        for scene, sample in zip((1, 0), sim.rasterise_frame_batch(frame), strict=True):
            expected = sim.scene_dataset_batch[scene][frame] | {"scene_index": scene}
            assert_samples_equal(sample, expected)


def test_arrays_that_were_taken_change_nothing(several: EgoDataset) -> None:
    sims = [changed_by_user(simulated(several, [0, 1, 2]), is_taken=taken) for taken in (False, True)]
    assert_same_samples(*sims)
    for scene in range(3):
        logs = [sim.scene_dataset_batch[scene].dataset for sim in sims]
        for name in ("frames", "agents", "tl_faces"):
            np.testing.assert_array_equal(*(getattr(log, name) for log in logs), err_msg=name)


def test_what_a_user_writes_into_arrays_is_honoured(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    log = sim.scene_dataset_batch[0].dataset
    log.frames["ego_translation"][4, :2] = -3, 1
    log.agents["centroid"][8] = -2, 1
    assert sim.rasterise_frame_batch(4)[0]["centroid"].tolist() == [-3, 1]
    samples = sim.rasterise_agents_frame_batch(4)
    assert samples[0, 1]["centroid"].tolist() == [-2, 1]
    log.agents["label_probabilities"][8] = 0
    assert sim.rasterise_agents_frame_batch(4) == {}


def test_arrays_that_a_user_replaces_are_honoured(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    log = sim.scene_dataset_batch[0].dataset
    frames = log.frames.copy()
    frames["agent_index_interval"] = [[0, 1]] + [[1, 1]] * 11
    log.agents, log.frames = agent(33), frames
    assert controlled(sim, 0) == {(0, 33)}
    assert controlled(sim, 1) == set()
    sim.set_agents(1, {(0, 34): agent(34)})
    assert log.agents["track_id"].tolist() == [33, 34]
    assert controlled(sim, 1) == {(0, 34)}


@pytest.mark.parametrize("first", ["set_ego", "set_agents", "rasterise"])
def test_a_log_that_a_user_puts_in_place_is_honoured(first: str, near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    other = make_scene([[{"track_id": 40, "centroid": (1, 1)}]] * 12, positions_m=(0.0, 2.0))
    sim.scene_dataset_batch[0].dataset = other
    if first == "set_ego":
        sim.set_ego(1, 0, np.zeros((1, 1, 2)), np.zeros((1, 1)))
    elif first == "set_agents":
        sim.set_agents(1, {(0, 41): agent(41)})
    assert sim.rasterise_frame_batch(0)[0]["centroid"].tolist() == [0, 2]
    assert sim.rasterise_frame_batch(1)[0]["centroid"].tolist() == [0, 0 if first == "set_ego" else 2]
    assert controlled(sim, 1) == ({(0, 40), (0, 41)} if first == "set_agents" else {(0, 40)})


def test_a_scene_in_simulation_is_a_log(near_and_far: EgoDataset, tmp_path: Any) -> None:
    sim = changed_by_user(simulated(near_and_far), is_taken=False)
    log = sim.scene_dataset_batch[0].dataset
    log.save(tmp_path / "simulated.zarr")
    saved = ChunkedDataset(str(tmp_path / "simulated.zarr")).open()
    for each in (saved, log.get_scene_dataset(0), copy.deepcopy(log)):
        for name in ("frames", "agents", "tl_faces"):
            np.testing.assert_array_equal(np.asarray(getattr(each, name)), getattr(log, name), err_msg=name)


def test_other_numbers_of_frames_are_an_error(near_and_far: EgoDataset) -> None:
    sim = simulated(near_and_far)
    log = sim.scene_dataset_batch[0].dataset
    log.frames = log.frames[:5]
    with pytest.raises(ValueError, match="must stay 12"):
        sim.rasterise_frame_batch(0)


def test_what_was_recorded_stays(several: EgoDataset) -> None:
    before = [copy.copy(several.get_scene_dataset(scene).dataset) for scene in range(3)]
    sim = changed_by_user(simulated(several, [0, 1, 2]), is_taken=True)
    for scene, length in enumerate((12, 9, 10)):
        recorded = sim.recorded_scene_dataset_batch[scene].dataset
        assert len(recorded.frames) == 9 <= length
        np.testing.assert_array_equal(recorded.frames["ego_translation"], before[scene].frames["ego_translation"][:9])
        np.testing.assert_array_equal(recorded.agents, before[scene].agents[: len(recorded.agents)])
    assert sim.recorded_scene_dataset_batch[0].rasterizer is several.rasterizer, "row M5: only arrays are copied"


def test_old_logs_have_no_traffic_lights(near_and_far: EgoDataset, make_dataset: MakeDataset) -> None:
    """Sets of three arrays, as they were before there were traffic lights."""
    log = near_and_far.dataset
    old = ChunkedDataset.in_memory(scenes=log.scenes, frames=without_face_intervals(log.frames), agents=log.agents)
    sims = [changed_by_user(simulated(make_dataset(each)), is_taken=True) for each in (old, log)]
    assert_same_samples(*sims)
    assert len(sims[0].scene_dataset_batch[0].dataset.tl_faces) == 0


def test_a_perturbation_is_left_out(near_and_far: EgoDataset) -> None:
    """Row M12: in 1.5 the AV went on from perturbed poses."""
    perturbation = AckermanPerturbation(ReplayRandomGenerator(np.array([[2.0, 0.5]])), perturb_prob=1.0)
    perturbed = EgoDataset(near_and_far.cfg, near_and_far.dataset, near_and_far.rasterizer, perturbation)
    with pytest.warns(RuntimeWarning, match="perturbation") as caught:
        sim = simulated(perturbed)
    assert [warning.filename for warning in caught] == [__file__]
    assert perturbed.perturbation is perturbation
    assert_same_samples(sim, simulated(near_and_far))
    with pytest.warns(RuntimeWarning, match="perturbation") as caught:
        sim = SimulationDataset({0: perturbed.get_scene_dataset(0)}, FAR)
    assert [warning.filename for warning in caught] == [__file__]
    assert_same_samples(sim, simulated(near_and_far))


def test_vector_samples_show_what_was_changed(tmp_path: Any, several: EgoDataset) -> None:
    cfg = make_vector_cfg()
    vectorized = EgoDatasetVectorized(cfg, several.dataset, Vectorizer(cfg, make_map(tmp_path / "map.pb")))
    sim = changed_by_user(simulated(vectorized, [2, 0, 1]), is_taken=False)
    for frame in range(len(sim)):
        for scene, sample in zip((2, 0, 1), sim.rasterise_frame_batch(frame), strict=True):
            expected = sim.scene_dataset_batch[scene][frame] | {"scene_index": scene}
            assert_samples_equal(sample, expected)
        for (scene, track), sample in sim.rasterise_agents_frame_batch(frame).items():
            expected = sim.scene_dataset_batch[scene].get_frame(0, frame, track) | {"scene_index": scene}
            assert_samples_equal(sample, expected)


def test_no_warnings_without_reason(several: EgoDataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed_by_user(simulated(several, [0, 1, 2]), is_taken=True).rasterise_frame_batch(3)


@pytest.mark.parametrize(
    ("classes", "tracks"), [("cars", {1}), ("vehicles", {1, 2}), ("all", {1, 2, 3}), ("bikes", None)]
)
def test_the_classes_that_are_controlled(classes: str, tracks: set[int] | None, make_dataset: MakeDataset) -> None:
    kinds = [(1, "CAR"), (2, "BUS"), (3, "PEDESTRIAN"), (4, "UNKNOWN")]
    rows = [{"track_id": track, "centroid": (track, 1), "labels": {kind: 1.0}} for track, kind in kinds]
    if tracks is None:
        with pytest.raises(InvalidArgumentError, match="controlled_classes is 'bikes'; it must be one of cars"):
            SimulationConfig(controlled_classes=classes)
        return
    sim = simulated(make_dataset(make_scene([rows] * 2)), config=SimulationConfig(controlled_classes=classes))
    assert controlled(sim, 0) == {(0, track) for track in tracks}


def test_scenes_of_one_simulation_have_one_threshold(several: EgoDataset) -> None:
    scenes = {scene: several.get_scene_dataset(scene) for scene in (0, 1)}
    scenes[1].cfg = copy.deepcopy(several.cfg)
    scenes[1].cfg["raster_params"]["filter_agents_threshold"] = 0.9
    with pytest.raises(InvalidArgumentError, match=r"filter_agents_threshold of scene_dataset_batch is \[0.5, 0.9\]"):
        SimulationDataset(scenes, FAR)


def test_a_row_without_a_class_is_not_controlled(make_dataset: MakeDataset) -> None:
    labels = [{"CAR": 1.0}, {"CAR": 0.4, "UNKNOWN": 0.6}, {"CAR": 1.0}]
    scene = make_scene([[{"track_id": 1, "centroid": (1, 1), "labels": each}] for each in labels])
    sim = simulated(make_dataset(scene), config=SimulationConfig(controlled_classes="vehicles"))
    assert [len(controlled(sim, frame)) for frame in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("is_taken", [False, True])
def test_labels_and_velocities_are_kept_on_demand(is_taken: bool, make_dataset: MakeDataset) -> None:
    labels = {"BUS": 0.9, "CAR": 0.1}
    scene = make_scene([[{"track_id": 1, "centroid": (2 + f, 1), "labels": labels}] for f in range(3)])
    config = SimulationConfig(controlled_classes="vehicles", keep_labels_and_velocities=True)
    sim = simulated(make_dataset(scene), config=config)
    if is_taken:
        assert len(sim.scene_dataset_batch[0].dataset.agents) == 3
    sim.set_agents(1, {(0, 1): agent(1, (2.5, 0.8)), (0, 7): agent(7, (9, 9))})
    kept, new = sim.scene_dataset_batch[0].dataset.agents[1:3]
    np.testing.assert_allclose(kept["velocity"], [5.0, -2.0], atol=1e-5)
    assert kept["label_probabilities"].tolist() == scene.agents["label_probabilities"][0].tolist()
    assert new["track_id"] == 7
    assert not new["velocity"].any()
