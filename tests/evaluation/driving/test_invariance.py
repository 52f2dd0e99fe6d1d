"""Driving scores are invariant to world position, track ids, row order, batch, and far agents.

Collisions, distances and times agree with shapely or with small steps.
"""

import dataclasses
import itertools

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shapely import MultiPolygon, Point, Polygon, affinity, box, union_all

from l5kit.data.map.bounds_grid import BoundsGrid
from l5kit.evaluation.driving import EgoStates, RoadUsers, detail_scenes, ego_states_of_poses
from l5kit.evaluation.driving.time_to_collision import meeting_time
from l5kit.geometry.box_overlap import box_gap, boxes_overlap, overlap_time
from l5kit.lanes.driving_map import REACH_M
from support.driving import BODY, make_road_map, stacked

NUM_SCENES, NUM_FRAMES, NUM_TRACKS = 24, 60, 6
FIELDS = ("times_to_collision_s", "distances_off_road_m", "distances_along_lanes_m", "speed_excess_mps", "progress_m")


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return make_road_map(tmp_path_factory.mktemp("road"))


def wandering_drive(rng):
    """One scene of an AV that wanders along the road, now and then off it or against it."""
    turn = rng.choice([0.0, 0.0, 0.0, np.pi])
    yaws = turn + np.cumsum(rng.normal(0, 0.002, NUM_FRAMES)) + rng.normal(0, 0.03)
    speeds = np.abs(rng.uniform(0, 14) + np.cumsum(rng.normal(0, rng.choice([0.02, 0.3]), NUM_FRAMES)))
    start = (rng.uniform(10, 80), rng.uniform(-1.5, 5))
    ways = 0.1 * speeds[:, None] * np.stack([np.cos(yaws), np.sin(yaws)], axis=-1)
    times_s = 0.1 * np.arange(NUM_FRAMES)[None]
    return ego_states_of_poses((start + np.cumsum(ways, axis=0))[None], yaws[None], timestamps_s=times_s, body=BODY)


def wandering_users(rng, states):
    """Road users around the AV of each scene, some of which it collides with."""
    rows = []
    for scene in range(states.num_scenes):
        at = states.positions_m[scene, rng.integers(0, NUM_FRAMES, NUM_TRACKS)] + rng.normal(
            0, rng.choice([4, 30]), (NUM_TRACKS, 2)
        )
        velocities = rng.normal(0, 3, (NUM_TRACKS, 2)) * rng.choice([0, 1], (NUM_TRACKS, 1))
        groups, sizes = rng.integers(0, 3, NUM_TRACKS), rng.uniform(0.5, 5, (NUM_TRACKS, 2))
        yaws = np.where(velocities.any(axis=1), np.arctan2(*velocities.T[::-1]), rng.uniform(-3, 3, NUM_TRACKS))
        for frame in range(NUM_FRAMES):
            for track in np.flatnonzero(rng.random(NUM_TRACKS) < 0.95):
                moved = at[track] + 0.1 * frame * velocities[track]
                rows.append(
                    (scene, frame, track, groups[track], *moved, yaws[track], *sizes[track], *velocities[track])
                )
    return users_of(np.array(rows), states.num_scenes)


def users_of(rows, num_scenes):
    """Road users of rows: scene, frame, track, group, x, y, yaw, length, width, velocity; in the order of frames."""
    rows = rows[np.lexsort([rows[:, 1], rows[:, 0]])]
    places = (rows[:, 0] * NUM_FRAMES + rows[:, 1]).astype(int)
    counts = np.bincount(places, minlength=num_scenes * NUM_FRAMES)
    return RoadUsers(
        starts=np.concatenate([[0], np.cumsum(counts)]),
        tracks=rows[:, 2].astype(np.int64),
        groups=rows[:, 3].astype(np.int64),
        labels=np.full(len(rows), -1),
        boxes=rows[:, 4:9].copy(),
        velocities_mps=rows[:, 9:11].copy(),
    )


def rows_of(users):
    """The rows that :func:`users_of` takes."""
    places = users.frames_of_rows
    columns = (places // NUM_FRAMES, places % NUM_FRAMES, users.tracks, users.groups)
    return np.column_stack([*columns, users.boxes, users.velocities_mps])


@pytest.fixture(scope="module")
def world(road):
    rng = np.random.default_rng(11)
    states, expert = (stacked(*(wandering_drive(rng) for _ in range(NUM_SCENES))) for _ in range(2))
    return states, wandering_users(rng, states), expert, road


@pytest.fixture(scope="module")
def details(world):
    found = judge(*world)
    scores = found.scores
    for name in ("no_at_fault_collisions", "drivable_area_compliance", "time_to_collision", "comfort"):
        assert 0.1 < np.nanmean(getattr(scores, name)) < 0.9, f"{name} tells nothing here"
    return found


def judge(states, users, expert, road):
    return detail_scenes(states, users, road, expert=expert)


def assert_same(found, details, scenes=slice(None)):
    for field in dataclasses.fields(found.scores):
        wanted = getattr(details.scores, field.name)[scenes]
        assert_allclose(getattr(found.scores, field.name), wanted, atol=1e-6, err_msg=field.name)
    for name in FIELDS:
        assert_allclose(getattr(found, name), getattr(details, name)[scenes], atol=1e-6, err_msg=name)
    assert_array_equal(found.counts_at_fault, details.counts_at_fault[scenes])
    assert_array_equal(found.is_comfortable, details.is_comfortable[scenes])


@pytest.mark.parametrize("turn_rad", [0.0, 0.3, np.pi / 2, 2.1, np.pi, -1.0])
def test_the_world_may_lie_anywhere(world, details, turn_rad):
    states, users, expert, road = world
    matrix = np.array([[np.cos(turn_rad), -np.sin(turn_rad)], [np.sin(turn_rad), np.cos(turn_rad)]])

    def moved(points_m):
        return points_m @ matrix.T + (10_000.0, -7_000.0)

    def moved_states(drive):
        return ego_states_of_poses(
            moved(drive.positions_m), drive.yaws_rad + turn_rad, timestamps_s=drive.timestamps_s, body=drive.body
        )

    boxes = np.column_stack([moved(users.boxes[:, :2]), users.boxes[:, 2] + turn_rad, users.boxes[:, 3:]])
    areas_m = moved(road.area_points_m)
    parts = [areas_m[start:stop] for start, stop in itertools.pairwise(road.area_starts)]
    bounds_m = np.array([[part.min(axis=0), part.max(axis=0)] for part in parts])
    elsewhere = dataclasses.replace(
        road,
        centre_lines_m=moved(road.centre_lines_m),
        area_points_m=areas_m,
        grid=BoundsGrid.build(bounds_m, REACH_M),
    )
    turned = dataclasses.replace(users, boxes=boxes, velocities_mps=users.velocities_mps @ matrix.T)
    assert_same(judge(moved_states(states), turned, moved_states(expert), elsewhere), details)


def test_tracks_may_have_other_numbers(world, details):
    states, users, expert, road = world
    numbers = np.random.default_rng(1).permutation(3 * NUM_TRACKS)[:NUM_TRACKS]
    renumbered = dataclasses.replace(users, tracks=numbers[users.tracks])
    assert_same(judge(states, renumbered, expert, road), details)


def test_rows_of_a_frame_may_come_in_any_order(world, details):
    states, users, expert, road = world
    rows = rows_of(users)
    shuffled = users_of(rows[np.random.default_rng(2).permutation(len(rows))], NUM_SCENES)
    assert not np.array_equal(shuffled.tracks, users.tracks)
    assert_same(judge(states, shuffled, expert, road), details)


@pytest.mark.parametrize("scenes", [[3], [5, 4, 17, 0], list(range(NUM_SCENES))[::-1]])
def test_scenes_may_be_judged_in_other_batches(world, details, scenes):
    states, users, expert, road = world
    rows = rows_of(users)
    parts = []
    for place, scene in enumerate(scenes):
        part = rows[rows[:, 0] == scene].copy()
        part[:, 0] = place
        parts.append(part)
    picked = users_of(np.concatenate(parts), len(scenes))
    found = judge(chosen(states, scenes), picked, chosen(expert, scenes), road)
    assert_same(found, details, scenes)


def test_who_is_far_does_not_matter(world, details):
    states, users, expert, road = world
    rows = rows_of(users)
    far = rows.copy()
    far[:, 2] += NUM_TRACKS
    far[:, 4:6] += (600.0, -800.0)
    assert_same(judge(states, users_of(np.concatenate([rows, far]), NUM_SCENES), expert, road), details)


def chosen(states: EgoStates, scenes: list[int]) -> EgoStates:
    names = ("timestamps_s", "is_there", "positions_m", "yaws_rad", "speeds_mps", "accelerations_mps2")
    return EgoStates(**{name: getattr(states, name)[scenes] for name in names}, body=states.body)


def random_boxes(rng, size, reach_m):
    places = rng.uniform(-reach_m, reach_m, (size, 2))
    return np.column_stack([places, rng.uniform(-4, 4, size), rng.uniform(0.3, 8, size), rng.uniform(0.3, 3, size)])


def polygon_of(at):
    x, y, yaw, length, width = at
    flat = box(-length / 2, -width / 2, length / 2, width / 2)
    return affinity.translate(affinity.rotate(flat, yaw, (0, 0), use_radians=True), x, y)


def test_overlaps_and_gaps_of_boxes_are_those_of_shapely():
    rng = np.random.default_rng(5)
    first, second = random_boxes(rng, 10_000, 4.0), random_boxes(rng, 10_000, 4.0)
    num_overlapping = 0
    for a, b in zip(first, second, strict=True):
        shape, other = polygon_of(a), polygon_of(b)
        overlap_m2 = shape.intersection(other).area
        if not 0 < overlap_m2 < 1e-9:  # a rounding error from touching
            assert boxes_overlap(a, b) == (overlap_m2 > 0)
        assert box_gap(a, b) == pytest.approx(shape.distance(other), abs=1e-9)
        num_overlapping += overlap_m2 > 0
    assert 2_000 < num_overlapping < 8_000


def test_distances_from_the_road_are_those_of_shapely(road):
    rng = np.random.default_rng(6)
    points_m = np.column_stack([rng.uniform(-5, 225, 10_000), rng.uniform(-12, 105, 10_000)])
    starts = road.area_starts
    areas = [Polygon(road.area_points_m[start:stop]) for start, stop in itertools.pairwise(starts)]
    surface = union_all([MultiPolygon([area]) for area in areas])
    wanted = np.array([surface.distance(Point(point)) for point in points_m])
    found = road.distances_to_surface_m(points_m)
    is_near = wanted < REACH_M
    assert_allclose(found[is_near], wanted[is_near], atol=1e-9)
    assert np.isinf(found[~is_near]).all()
    assert np.count_nonzero(is_near & (wanted > 0)) > 100


def test_times_to_collision_are_those_of_small_steps():
    rng = np.random.default_rng(7)
    num_met = 0
    for _ in range(1_000):
        a, b = random_boxes(rng, 2, 12.0)
        speeds = rng.uniform(0, 10, 2)
        velocities = [
            speed * np.array([np.cos(at[2]), np.sin(at[2])]) for speed, at in zip(speeds, (a, b), strict=True)
        ]
        steps_s = 0.001 * np.arange(3_001)
        meets = overlaps_of_steps(a, velocities[0], b, velocities[1], steps_s)
        first = steps_s[meets.argmax()] if meets.any() else np.inf
        exact = overlap_time(a, velocities[0], b, velocities[1])
        if exact < 3.0 and meets.any():
            assert first - 0.001 - 1e-9 <= exact <= first + 1e-9
        elif meets.any():
            pytest.fail(f"{a} and {b} meet after {first} s, not {exact}")
        looks = meets[100:3_000:100]
        wanted = 0.1 * (looks.argmax() + 1) if looks.any() else np.inf
        assert meeting_time(a, speeds[0], b, speeds[1], (0.1, 29)) == pytest.approx(wanted)
        num_met += meets.any()
    assert 100 < num_met < 900


@numba.njit
def overlaps_of_steps(a, velocity_a, b, velocity_b, steps_s):
    """Whether two boxes that go straight on overlap at each of some times."""
    overlaps = np.empty(len(steps_s), np.bool_)
    a_then, b_then = a.copy(), b.copy()
    for step, time_s in enumerate(steps_s):
        a_then[:2] = a[:2] + time_s * velocity_a
        b_then[:2] = b[:2] + time_s * velocity_b
        overlaps[step] = boxes_overlap(a_then, b_then)
    return overlaps
