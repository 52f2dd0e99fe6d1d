"""Score of scenes: combination of metrics, and whole drives on a synthetic road (see ``make_road_map``)."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shapely import affinity, box

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import METRICS, RoadUsers, SceneScores, detail_scenes, score_scenes
from l5kit.evaluation.driving.metric import MULTIPLIER, Metric
from support.driving import road_users_at, stacked, straight_drive

NAN = np.nan
PERFECT = {metric.name: 1.0 for metric in METRICS}
WEIGHTED = [metric.name for metric in METRICS if metric.role != MULTIPLIER]
NEEDS_MAP = {
    "drivable_area_compliance",
    "driving_direction_compliance",
    "speed_limit_compliance",
    "progress",
    "making_progress",
}


def scores_of(**values):
    return SceneScores(**{name: np.array([value]) for name, value in (PERFECT | values).items()})


@pytest.mark.parametrize(
    ("values", "score"),
    [
        pytest.param({}, 1.0, id="perfect"),
        pytest.param({"comfort": 0.0}, 14 / 16, id="uncomfortable"),
        pytest.param({"time_to_collision": 0.0}, 11 / 16, id="too close"),
        pytest.param({"progress": 0.5, "speed_limit_compliance": 0.25}, 10.5 / 16, id="slow, and too fast"),
        pytest.param({"no_at_fault_collisions": 0.0}, 0.0, id="collision"),
        pytest.param({"no_at_fault_collisions": 0.5, "driving_direction_compliance": 0.5}, 0.25, id="two halves"),
        pytest.param({"making_progress": 0.0}, 0.0, id="stands"),
        pytest.param({"drivable_area_compliance": 0.0}, 0.0, id="off the road"),
        pytest.param({"making_progress": NAN, "drivable_area_compliance": NAN}, 1.0, id="multipliers do not apply"),
        pytest.param({"comfort": NAN, "time_to_collision": 0.0}, 9 / 14, id="a metric does not apply"),
        pytest.param(dict.fromkeys(WEIGHTED, NAN), NAN, id="no metric applies"),
    ],
)
def test_how_metrics_are_put_together(values, score):
    assert_allclose(scores_of(**values).score, score)


def test_metrics_of_other_lengths_are_refused():
    with pytest.raises(InvalidArgumentError, match="shapes do not fit"):
        dataclasses.replace(scores_of(), comfort=np.ones(2))


EXPERT = straight_drive(60, start_m=(20, 0))
NOBODY = RoadUsers.none(1, 60)


def parked_car(num_frames, at):
    return road_users_at([[{"at": at}]] * num_frames)


@pytest.mark.parametrize(
    ("drive", "others", "expected", "score"),
    [
        pytest.param(EXPERT, NOBODY, {}, 1.0, id="the log itself"),
        pytest.param(
            EXPERT, parked_car(60, (75, 0)),
            {"no_at_fault_collisions": 0.0, "time_to_collision": 0.0}, 0.0, id="into a parked car",
        ),
        pytest.param(
            straight_drive(60, start_m=(20, 0), speed_mps=5.0), NOBODY,
            {"progress": 0.5}, 13.5 / 16, id="half as far",
        ),
        pytest.param(
            straight_drive(60, start_m=(20, 0), speed_mps=0.0), NOBODY,
            {"progress": 2 / 59, "making_progress": 0.0}, 0.0, id="stands",
        ),
        pytest.param(
            straight_drive(60, start_m=(20, -1.4)), NOBODY,
            {"drivable_area_compliance": 0.0}, 0.0, id="beside the road",
        ),
        pytest.param(
            straight_drive(60, start_m=(90, 4), yaw_rad=np.pi), NOBODY,
            {"driving_direction_compliance": 0.0, "progress": 0.0, "making_progress": 0.0},
            0.0, id="wrong way",
        ),
    ],
)  # fmt: skip
def test_drives(road_map, drive, others, expected, score):
    found = score_scenes(drive, others, road_map, expert=EXPERT)
    assert_allclose([getattr(found, name)[0] for name in PERFECT], list((PERFECT | expected).values()), atol=1e-3)
    assert_allclose(found.score, score, atol=1e-3)


def test_without_a_map():
    found = score_scenes(EXPERT, NOBODY, None, expert=EXPERT)
    assert {name for name in PERFECT if np.isnan(getattr(found, name)).all()} == NEEDS_MAP
    assert_array_equal(found.score, [1.0])


def test_a_batch_has_the_scores_of_its_scenes(road_map):
    drives = [EXPERT, straight_drive(30, start_m=(40, 2), yaw_rad=0.05, speed_mps=12.0), straight_drive(5)]
    experts = [EXPERT, straight_drive(50, start_m=(40, 0)), straight_drive(1)]
    rows = [
        [{"track": k, "at": (30 + 9 * k + 0.3 * frame, 0.4 * k), "v": (3.0, 0)} for k in range(5)]
        for frame in range(60)
    ]
    frames = [rows[frame] if frame < drive.is_there.shape[1] else [] for drive in drives for frame in range(60)]
    batch = score_scenes(stacked(*drives), road_users_at(frames), road_map, expert=stacked(*experts))
    for scene, (drive, expert) in enumerate(zip(drives, experts, strict=True)):
        others = road_users_at(rows[: drive.is_there.shape[1]])
        alone = score_scenes(drive, others, road_map, expert=expert)
        for name in (*PERFECT, "score"):
            assert_allclose(getattr(batch, name)[scene], getattr(alone, name)[0], rtol=1e-9, err_msg=name)


def test_details_have_the_scores_and_the_frames_that_lower_them(road_map):
    drive = straight_drive(60, start_m=(20, -1.4))
    others = parked_car(60, (75, 0))
    details = detail_scenes(drive, others, road_map, expert=EXPERT)
    scores = score_scenes(drive, others, road_map, expert=EXPERT)
    for name in (*PERFECT, "score"):
        assert_array_equal(getattr(details.scores, name), getattr(scores, name), err_msg=name)
    lowered = {name for name, frames in details.failures.items() if frames.any()}
    assert lowered == {"no_at_fault_collisions", "drivable_area_compliance", "time_to_collision"}
    off_m = details.distances_off_road_m
    assert_array_equal(details.failures["drivable_area_compliance"], off_m >= 0.3)
    assert details.failures["no_at_fault_collisions"].sum() == 1
    assert_array_equal(details.failures["time_to_collision"], details.times_to_collision_s <= 0.95)
    assert_allclose(details.progress_m.sum(axis=1), 59.0, atol=1e-6)


def test_details_without_a_map_know_no_places():
    details = detail_scenes(EXPERT, NOBODY, None, expert=EXPERT)
    for name in (
        "distances_off_road_m",
        "distances_along_lanes_m",
        "speed_limits_mps",
        "speed_excess_mps",
        "progress_m",
    ):
        assert np.isnan(getattr(details, name)).all()
    assert not any(frames.any() for frames in details.failures.values())


def test_a_metric_that_needs_a_map_has_no_value_without(road_map):
    facts = {"name": "limit_mps", "label": "Limit", "sentence": "the lowest limit", "unit": "m/s", "range": (0.0, None)}
    limit = Metric(**facts, needs_map=True, of_scenes=lambda scenes, _: np.nanmin(scenes.speed_limits_mps, axis=1))
    frames, scenes = limit.measure(detail_scenes(EXPERT, NOBODY, None, expert=EXPERT))
    assert frames.shape == EXPERT.is_there.shape
    assert np.isnan(frames).all()
    assert_array_equal(scenes, [NAN])
    assert_array_equal(limit.measure(detail_scenes(EXPERT, NOBODY, road_map, expert=EXPERT))[1], [10.0])


def test_a_scene_too_short_for_comfort_has_no_frame_that_lowers_it(road_map):
    shaken = dataclasses.replace(straight_drive(10, start_m=(20, 0)), accelerations_mps2=np.full((1, 10, 2), 9.0))
    details = detail_scenes(shaken, RoadUsers.none(1, 10), road_map, expert=shaken)
    assert np.isnan(details.scores.comfort).all()
    assert not details.is_comfortable.all()
    assert not details.failures["comfort"].any()


def test_no_bit_of_a_scene_depends_on_others_of_its_length(road_map):
    drives = [straight_drive(60, start_m=(20 + 0.1 * k, 0.1), yaw_rad=0.003 * k, speed_mps=9.1) for k in range(7)]
    batch = detail_scenes(stacked(*drives), RoadUsers.none(7, 60), road_map, expert=stacked(*drives))
    for scene, drive in enumerate(drives):
        alone = detail_scenes(drive, RoadUsers.none(1, 60), road_map, expert=drive)
        for name in ("progress_m", "expert_progress_m", "distances_off_road_m", "distances_along_lanes_m"):
            assert_array_equal(getattr(batch, name)[scene], getattr(alone, name)[0], err_msg=name)
        assert batch.scores.score[scene] == alone.scores.score[0]


def test_no_scenes(road_map):
    none = dataclasses.replace(
        EXPERT, **{name: values[:0] for name, values in vars(EXPERT).items() if isinstance(values, np.ndarray)}
    )
    assert score_scenes(none, RoadUsers.none(0, 60), road_map, expert=none).score.shape == (0,)


def test_an_expert_of_other_scenes_is_refused(road_map):
    with pytest.raises(InvalidArgumentError, match="expert must have 1 scenes like states, got 2"):
        score_scenes(EXPERT, NOBODY, road_map, expert=stacked(EXPERT, EXPERT))


def test_gaps_are_those_of_shapely_and_the_least_of_a_frame_is_found():
    rng = np.random.default_rng(4)
    frames = [
        [
            {"track": track, "at": rng.uniform(0, 30, 2), "yaw": rng.uniform(-3, 3), "size": rng.uniform(0.5, 8, 2)}
            for track in range(rng.integers(0, 5))
        ]
        for _ in range(60)
    ]
    users = road_users_at(frames)
    details = detail_scenes(EXPERT, users, None, expert=EXPERT)
    polygons = [
        affinity.translate(
            affinity.rotate(box(-length / 2, -width / 2, length / 2, width / 2), yaw, (0, 0), use_radians=True), x, y
        )
        for x, y, yaw, length, width in (*users.boxes, *EXPERT.boxes[0])
    ]
    egos = polygons[len(users) :]
    wanted = [polygon.distance(egos[frame]) for polygon, frame in zip(polygons, users.frames_of_rows, strict=False)]
    assert_allclose(details.gaps_m, wanted, atol=1e-9)
    least = details.least_of_rows(details.gaps_m)[0]
    assert_array_equal(np.isinf(least), [not frame for frame in frames])
    frame = int(np.argmax(np.diff(users.starts) > 1))
    assert_allclose(least[frame], min(wanted[users.starts[frame] : users.starts[frame + 1]]))


def test_labels_tell_pedestrians_from_cyclists():
    walker, rider = (PERCEPTION_LABEL_TO_INDEX[f"PERCEPTION_LABEL_{name}"] for name in ("PEDESTRIAN", "CYCLIST"))
    users = road_users_at([[{"at": (0, 0), "label": label} for label in (walker, rider, -1)]])
    assert users.are("PERCEPTION_LABEL_PEDESTRIAN").tolist() == [True, False, False]
    assert users.are("PERCEPTION_LABEL_PEDESTRIAN", "PERCEPTION_LABEL_CYCLIST").tolist() == [True, True, False]
