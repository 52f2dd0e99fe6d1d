"""The page's step and judge in JavaScript against those of l5kit, row by row, on recorded lists of keys.

It is the one second implementation of a rule that l5kit has: states agree to 1e-9, terms of the score to 1e-6.
"""

import numpy as np
import pytest

from support.key_lists import key_lists

pytestmark = [pytest.mark.process]

STATES = 1e-9
TERMS = 1e-6
OF_FRAMES = {
    "timeToCollision_s": "times_to_collision_s",
    "offRoad_m": "distances_off_road_m",
    "alongLanes_m": "distances_along_lanes_m",
    "limit_mps": "speed_limits_mps",
    "excess_mps": "speed_excess_mps",
    "progress_m": "progress_m",
}


def numbers(values):
    """An array of what JSON holds as text where it is no finite number."""
    return np.array([float(str(value).replace("Infinity", "inf")) for value in values])


@pytest.fixture(scope="module")
def drives(batches, replay, drive_by_keys):
    """All drives of all scenes, by both."""
    pairs = []
    for batch in batches:
        lists = key_lists(int(batch.stops[0]) - 1)
        pairs += zip(replay(batch, lists), [drive_by_keys(batch, keys) for keys in lists], strict=True)
    return pairs


def test_the_lists_of_keys_meet_all_that_is_judged(drives):
    details = [ours.scored.details for _, ours in drives]
    assert any(each.counts_at_fault.sum() for each in details), "no collision"
    assert any(np.isinf(each.distances_off_road_m).any() for each in details), "nobody leaves the road"
    assert any(np.isfinite(each.times_to_collision_s).any() for each in details), "nobody comes close"
    assert any((each.speed_excess_mps > 0).any() for each in details), "nobody is too fast"
    assert any((each.distances_along_lanes_m < -2).any() for each in details), "nobody drives the wrong way"
    assert {bool(each.scores.comfort[0]) for each in details} == {True, False}
    assert any((ours.driven.motion.speeds_mps[0] == 0).any() for _, ours in drives), "nobody stops"
    assert all(ours.driven.was_driven.any() for _, ours in drives), "the traffic drives nobody"


def test_the_av_is_where_the_simulation_has_it(drives):
    for page, ours in drives:
        egos, motion, poses = np.array(page["egos"]), ours.driven.motion, ours.driven.arrays(0)
        np.testing.assert_allclose(egos[:, :2], poses.ego_positions_m[:, :2], rtol=0, atol=STATES)
        yaws = np.arctan2(np.sin(egos[:, 2]), np.cos(egos[:, 2]))
        np.testing.assert_allclose(yaws, poses.ego_yaws_rad, rtol=0, atol=STATES)
        np.testing.assert_allclose(np.abs(egos[:, 3]), motion.speeds_mps[0], rtol=0, atol=STATES)
        np.testing.assert_allclose(egos[:, [4, 6]], motion.accelerations_mps2[0], rtol=0, atol=STATES)
        np.testing.assert_allclose(egos[:, 5], motion.steering_rad[0], rtol=0, atol=STATES)


def test_the_others_are_where_the_simulation_has_them(drives):
    for page, ours in drives:
        rows, ids = ours.driven.arrays(0).agents, ours.driven.batch.tracks.track_ids
        starts = rows.starts.astype(int)
        assert [len(frame) for frame in page["agents"]] == np.diff(starts).tolist()
        agents = np.array([row for frame in page["agents"] for row in frame])
        assert ids[agents[:, 0].astype(int)].tolist() == rows.track_ids.tolist()
        np.testing.assert_allclose(agents[:, 1:3], rows.centroids_m, rtol=0, atol=STATES)
        np.testing.assert_allclose(agents[:, 3], rows.yaws_rad, rtol=0, atol=STATES)
        np.testing.assert_allclose(agents[:, 4:], rows.velocities_mps, rtol=0, atol=STATES)


def test_the_ghost_is_the_plan_of_idm(drives):
    for page, ours in drives:
        np.testing.assert_allclose(np.array(page["plans"]), np.array(ours.plans), rtol=0, atol=TERMS)


@pytest.mark.parametrize("name", OF_FRAMES)
def test_the_values_of_frames_are_those_of_the_judge(drives, name):
    for page, ours in drives:
        values = getattr(ours.scored.details, OF_FRAMES[name])[0]
        np.testing.assert_allclose(numbers(term[name] for term in page["terms"]), values, rtol=0, atol=TERMS)


def test_collisions_and_comfort_of_frames_are_those_of_the_judge(drives):
    for page, ours in drives:
        details = ours.scored.details
        assert [term["atFault"] for term in page["terms"]] == details.counts_at_fault[0].tolist()
        collided = np.zeros(len(page["terms"]), int)
        np.add.at(collided, details.road_users.frames_of_rows[details.collisions.kinds > 0], 1)
        assert [len(term["collided"]) for term in page["terms"]] == collided.tolist()
        assert page["comfortable"] == details.is_comfortable[0].tolist()


def test_metrics_and_score_are_those_of_the_judge(drives):
    for page, ours in drives:
        scores = ours.scored.details.scores
        ours_by_name = [getattr(scores, name)[0] for name in page["metrics"]]
        np.testing.assert_allclose(numbers(page["metrics"].values()), ours_by_name, rtol=0, atol=TERMS)
        np.testing.assert_allclose(numbers([page["score"]]), scores.score, rtol=0, atol=TERMS)
