"""Log of a synthetic scene: everything near the AV, and the output of a detector."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit._types import BoolArray, Int64Array
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_records import SceneRecords
from l5kit.synthetic.perception import DetectableObjects, detect
from l5kit.synthetic.perception_noise import perceive
from l5kit.synthetic.scene import Objects, build_town, record_scene, simulate_scene, track_ids_near
from support.cities import MadeScene
from support.tolerances import FLOAT32

CAR, UNKNOWN = (PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "UNKNOWN"))
NUM_FRAMES = 30
NEVER_OUT_OF_RANGE_M = 44.0
"""A road user this near is in range, whatever its class."""


def _near(places: list[tuple[float, float]], av: np.ndarray | None = None) -> Int64Array:
    count = len(places)
    box = np.zeros((NUM_FRAMES, count, 5))
    box[..., :2] = np.reshape(places, (count, 2))
    objects = Objects(
        exists=np.ones((NUM_FRAMES, count), bool),
        box=box,
        speed_mps=np.zeros((NUM_FRAMES, count)),
        height_m=np.ones(count),
        label=np.full(count, CAR),
        range_m=np.full(count, 50.0),
    )
    return track_ids_near(objects, np.zeros((NUM_FRAMES, 2)) if av is None else av)


def _detected(
    places: list[tuple[float, float]],
    *,
    hides: bool = False,
    exists: BoolArray | None = None,
    dropout_rate: float = 0.0,
) -> list[BoolArray]:
    count = len(places)
    objects = DetectableObjects(
        exists=np.ones((NUM_FRAMES, count), bool) if exists is None else exists,
        xy_m=np.broadcast_to(np.reshape(places, (count, 2)), (NUM_FRAMES, count, 2)).astype(float),
        hides=np.full(count, hides),
        dropout_rate=np.full(count, dropout_rate),
    )
    return [detect(objects, np.zeros((NUM_FRAMES, 2)), np.random.default_rng(seed)) for seed in range(20)]


def test_range_decides_what_a_log_holds() -> None:
    assert _near([(51.0, 0.0), (49.0, 0.0)]).tolist() == [[0, 1]] * NUM_FRAMES


def test_who_comes_back_into_range_keeps_the_track_id() -> None:
    av = np.zeros((NUM_FRAMES, 2))
    av[10:20, 0] = -20.0
    assert _near([(40.0, 0.0)], av)[:, 0].tolist() == [1] * 10 + [0] * 10 + [1] * 10


def test_no_objects() -> None:
    assert _near([]).shape == (NUM_FRAMES, 0)
    assert _detected([])[0].shape == (NUM_FRAMES, 0)


def test_a_car_hides_what_is_behind_it_from_a_detector() -> None:
    tracks = _detected([(10.0, 0.0), (30.0, 0.1), (30.0, 8.0), (-30.0, 0.0)], hides=True)[0]
    assert tracks[0].tolist() == [True, False, True, True]


def test_a_detector_needs_two_frames_and_ends_a_track_at_once_when_the_object_is_gone() -> None:
    exists = np.ones((NUM_FRAMES, 2), bool)
    exists[:, 0] = np.arange(NUM_FRAMES) == 12
    exists[:, 1] = (np.arange(NUM_FRAMES) >= 5) & (np.arange(NUM_FRAMES) < 12)
    once, while_there = _detected([(20.0, 0.0), (-20.0, 0.0)], exists=exists)[0].T
    assert not once.any()
    assert np.nonzero(while_there)[0].tolist() == list(range(6, 12))


def test_dropouts_interrupt_tracks_of_a_detector() -> None:
    runs = [
        int(np.diff(seen[:, 0].astype(int), prepend=0).clip(0).sum())
        for seen in _detected([(20.0, 0.0)], dropout_rate=0.2)
    ]
    assert max(runs) >= 2


@given(seed=st.integers(0, 2**32 - 1), density=st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=6, deadline=None)
def test_everything_near_the_av_is_in_the_log_in_every_frame_with_one_id(seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    town = build_town(300.0, seed=seed)
    simulation = simulate_scene(town, num_frames=150, traffic_density=density, rng=rng)
    scene = record_scene(town, simulation, start_ns=0, rng=rng)
    frames = np.repeat(np.arange(150), np.diff(scene.frames["agent_index_interval"], axis=1)[:, 0])
    away_m = np.hypot(*(scene.agents["centroid"] - scene.frames["ego_translation"][frames, :2]).T)

    # a track begins, ends and has gaps only far from the AV, except at the ends of the scene
    for track_id in np.unique(scene.agents["track_id"]):
        rows = np.nonzero(scene.agents["track_id"] == track_id)[0]
        is_there = np.zeros(152, bool)
        is_there[frames[rows] + 1] = True
        is_there[[0, -1]] = is_there[[1, -2]]
        changes = np.diff(is_there.astype(int))
        on_edge = np.isin(frames[rows], np.concatenate([np.nonzero(changes == 1)[0], np.nonzero(changes == -1)[0] - 1]))
        assert away_m[rows[on_edge]].min(initial=np.inf) > NEVER_OUT_OF_RANGE_M - 1.5, track_id

    # a stationary object has one id
    still = (scene.agents["velocity"] == 0).all(axis=1)
    parked = still & (scene.agents["label_probabilities"].argmax(axis=1) == CAR)
    for name, rows in (("parked", parked), ("clutter", scene.agents["label_probabilities"].argmax(axis=1) == UNKNOWN)):
        ids_at = np.unique(np.column_stack([scene.agents["centroid"][rows], scene.agents["track_id"][rows]]), axis=0)
        assert len(np.unique(ids_at[:, :2], axis=0)) == len(ids_at), name

    # vehicles and pedestrians of the simulation, counted around the AV in each frame
    log = simulation.log
    others = log.vehicles[:, 1:]
    for frame in range(0, 150, 10):
        av = log.vehicles.box[frame, 0, :2]
        places = np.concatenate(
            [
                others.box[frame, others.uid[frame] >= 0],
                log.walkers.box[frame, log.walkers.active[frame] == 1],
                simulation.parked,
            ]
        )[:, :2]
        here = scene.agents["centroid"][frames == frame]
        for place in places[np.hypot(*(places - av).T) < NEVER_OUT_OF_RANGE_M]:
            assert np.abs(here - place).max(axis=1).min() < 1e-6


def test_track_ids_number_the_tracks_in_order(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        ids = scene.arrays.agents["track_id"]
        first_seen = np.sort(np.unique(ids, return_index=True)[1])
        assert np.unique(ids).tolist() == list(range(1, len(first_seen) + 1))
        for frame in range(248):
            assert (np.diff(scene.agents_of(frame)["track_id"].astype(np.int64)) > 0).all()


def test_a_track_is_one_object(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes[::5]:
        rows = scene.arrays.agents
        order = np.argsort(rows["track_id"], kind="stable")
        rows, same = rows[order], np.diff(rows["track_id"][order].astype(np.int64)) == 0
        assert (rows["extent"][1:][same] == rows["extent"][:-1][same]).all()
        assert (rows["label_probabilities"][1:][same] == rows["label_probabilities"][:-1][same]).all()
        frames = np.searchsorted(scene.arrays.frames["agent_index_interval"][:, 1], order, side="right")
        goes_on = same & (np.diff(frames) == 1)
        assert np.hypot(*(rows["centroid"][1:] - rows["centroid"][:-1])[goes_on].T).max() < 2.0


def test_tracks_begin_and_end_inside_scenes(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes:
        at_start, at_end = (set(scene.agents_of(frame)["track_id"].tolist()) for frame in (0, 247))
        count = len(np.unique(scene.arrays.agents["track_id"]))
        assert count > len(at_start) + 5
        assert len(at_start - at_end) > 5


def test_counts_and_labels_look_like_the_real_recordings(made_scenes: list[MadeScene]) -> None:
    usual = made_scenes[:12] + made_scenes[18:]
    rows = np.concatenate([scene.arrays.agents for scene in usual])
    per_frame = len(rows) / (248 * len(usual))
    assert 75.0 < per_frame < 105.0
    probabilities = rows["label_probabilities"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=FLOAT32)
    share = np.bincount(probabilities.argmax(axis=1), minlength=17) / len(rows)
    assert 0.5 < share[UNKNOWN] < 0.8
    assert 0.15 < share[CAR] < 0.4
    assert share[[12, 14]].min() > 0.01
    assert share[[1, 3, 12, 14]].sum() == pytest.approx(1.0)
    assert (probabilities.max(axis=1) == 1.0).all()


def test_velocity_agrees_with_the_centroids(made_scenes: list[MadeScene]) -> None:
    rows = made_scenes[0].arrays.agents
    order = np.argsort(rows["track_id"], kind="stable")
    frames = np.searchsorted(made_scenes[0].arrays.frames["agent_index_interval"][:, 1], order, side="right")
    rows, same = rows[order], (np.diff(rows["track_id"][order].astype(np.int64)) == 0) & (np.diff(frames) == 1)
    moved = (rows["centroid"][1:] - rows["centroid"][:-1])[same] / 0.1
    assert np.abs(moved - rows["velocity"][:-1][same]).max() < 1.5
    assert 0.6 < (rows["velocity"] == 0).all(axis=1).mean() < 0.95


def test_everything_lies_in_detection_range(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes[::4]:
        for frame in range(0, 248, 20):
            away = scene.agents_of(frame)["centroid"] - scene.arrays.frames["ego_translation"][frame, :2]
            assert np.hypot(*away.T).max() < 90.0


def test_a_tracker_misses_what_is_hidden_and_gives_what_it_sees_again_another_id(made_scenes: list[MadeScene]) -> None:
    true = made_scenes[1].arrays
    seen = perceive(true, np.random.default_rng(0))
    assert len(seen.agents) < 0.95 * len(true.agents)
    assert len(np.unique(seen.agents["track_id"])) > 1.5 * len(np.unique(true.agents["track_id"]))
    for track_id in np.unique(seen.agents["track_id"]):
        frames = np.nonzero(_frames_with(seen, track_id))[0]
        assert (np.diff(frames) == 1).all(), "a track of a tracker has no holes"


def _frames_with(scene: SceneRecords, track_id: int) -> BoolArray:
    rows = np.nonzero(scene.agents["track_id"] == track_id)[0]
    is_there = np.zeros(len(scene.frames), bool)
    is_there[np.searchsorted(scene.frames["agent_index_interval"][:, 1], rows, side="right")] = True
    return is_there
