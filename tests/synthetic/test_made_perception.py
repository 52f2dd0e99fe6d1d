"""What the AV perceives: range, hidden views, tracks that begin and end."""

import numpy as np
import pytest

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.synthetic.perception import Objects, track_numbers
from support.cities import MadeScene
from support.tolerances import FLOAT32

CAR, UNKNOWN = (PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("CAR", "UNKNOWN"))
NUM_FRAMES = 30


def _objects(places: list[tuple[float, float]], *, hides: bool = False) -> Objects:
    count = len(places)
    box = np.zeros((NUM_FRAMES, count, 5))
    box[..., :2] = np.reshape(places, (count, 2))
    box[..., 3:] = 1.0
    return Objects(
        exists=np.ones((NUM_FRAMES, count), bool),
        box=box,
        speed_mps=np.zeros((NUM_FRAMES, count)),
        height_m=np.ones(count),
        label=np.full(count, CAR),
        range_m=np.full(count, 50.0),
        hides=np.full(count, hides),
        dropout_rate=np.zeros(count),
    )


def _tracks(objects: Objects, av: np.ndarray | None = None) -> np.ndarray:
    return track_numbers(objects, np.zeros((NUM_FRAMES, 2)) if av is None else av, np.random.default_rng(0))


def test_range_decides_what_is_seen() -> None:
    assert _tracks(_objects([(49.0, 0.0), (51.0, 0.0)])).tolist() == [[1, 0]] * NUM_FRAMES


def test_a_car_hides_what_is_behind_it() -> None:
    tracks = _tracks(_objects([(10.0, 0.0), (30.0, 0.1), (30.0, 8.0), (-30.0, 0.0)], hides=True))
    assert (tracks[0] > 0).tolist() == [True, False, True, True]


def test_a_track_ends_behind_the_range_and_begins_anew_with_another_number() -> None:
    av = np.zeros((NUM_FRAMES, 2))
    av[10:20, 0] = -20.0
    track = _tracks(_objects([(40.0, 0.0)]), av)[:, 0]
    assert track.tolist() == [1] * 14 + [0] * 7 + [2] * 9


def test_a_track_bridges_a_short_gap() -> None:
    av = np.zeros((NUM_FRAMES, 2))
    av[10:14, 0] = -20.0
    assert _tracks(_objects([(40.0, 0.0)]), av)[:, 0].tolist() == [1] * NUM_FRAMES


def test_a_track_ends_at_once_when_the_object_is_gone() -> None:
    objects = _objects([(40.0, 0.0)])
    objects.exists[12:] = False
    assert _tracks(objects)[:, 0].tolist() == [1] * 12 + [0] * 18


def test_one_sighting_makes_no_track() -> None:
    objects = _objects([(40.0, 0.0)])
    objects.exists[:] = False
    objects.exists[12] = True
    assert not _tracks(objects).any()


def test_losses_split_tracks() -> None:
    objects = _objects([(20.0, 0.0)])
    objects.dropout_rate[:] = 0.2
    numbers = [track_numbers(objects, np.zeros((NUM_FRAMES, 2)), np.random.default_rng(s)).max() for s in range(20)]
    assert max(numbers) >= 2


def test_no_objects() -> None:
    assert _tracks(_objects([])).shape == (NUM_FRAMES, 0)


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
        assert np.hypot(*(rows["centroid"][1:] - rows["centroid"][:-1])[same].T).max() < 2.0
        frames = np.searchsorted(scene.arrays.frames["agent_index_interval"][:, 1], order, side="right")
        assert (np.diff(frames)[same] == 1).all(), "a track has no holes"


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
    assert 65.0 < per_frame < 95.0
    probabilities = rows["label_probabilities"]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=FLOAT32)
    share = np.bincount(probabilities.argmax(axis=1), minlength=17) / len(rows)
    assert 0.5 < share[UNKNOWN] < 0.8
    assert 0.15 < share[CAR] < 0.4
    assert share[[12, 14]].min() > 0.01
    assert share[[1, 3, 12, 14]].sum() == pytest.approx(1.0)
    assert 0.98 < (probabilities.max(axis=1) == 1.0).mean() < 1.0


def test_velocity_agrees_with_the_centroids(made_scenes: list[MadeScene]) -> None:
    rows = made_scenes[0].arrays.agents
    order = np.argsort(rows["track_id"], kind="stable")
    rows, same = rows[order], np.diff(rows["track_id"][order].astype(np.int64)) == 0
    moved = (rows["centroid"][1:] - rows["centroid"][:-1])[same] / 0.1
    assert np.abs(moved - rows["velocity"][:-1][same]).max() < 1.5
    assert 0.6 < (rows["velocity"] == 0).all(axis=1).mean() < 0.95


def test_everything_lies_in_detection_range(made_scenes: list[MadeScene]) -> None:
    for scene in made_scenes[::4]:
        for frame in range(0, 248, 20):
            away = scene.agents_of(frame)["centroid"] - scene.arrays.frames["ego_translation"][frame, :2]
            assert np.hypot(*away.T).max() < 90.0
