"""Leaders on paths: gaps and speeds by hand, and vehicles that are no leaders."""

import math

import numpy as np
import pytest

from l5kit.lanes.lane_paths import index_along
from l5kit.simulation.lanes.leaders import OBJECT_FIELDS, find_leader, write_object

STRAIGHT = np.column_stack([2.0 * np.arange(100), np.zeros(100)])
TURNS = np.arange(40) * 2.0 / 20
CIRCLE = np.column_stack([20 * np.sin(TURNS), 20 - 20 * np.cos(TURNS)])


def objects_at(*boxes, velocities=None):
    rows = np.zeros((len(boxes), OBJECT_FIELDS))
    for row, box in enumerate(boxes):
        velocity = (0.0, 0.0) if velocities is None else velocities[row]
        write_object(rows, row, np.array(box, float), np.array(velocity, float))
    return rows


def leader(objects, *, points_m=STRAIGHT, arc_m=20.0, offset_m=0.0, reach_m=60.0, own_row=-1):
    return find_leader(points_m, (arc_m, arc_m, offset_m, 0.0), (2.0, 1.0), reach_m, objects, own_row)


@pytest.mark.parametrize(
    ("box", "gap_m"),
    [
        pytest.param((40.0, 0.0, 0.0, 4.0, 2.0), 16.0, id="straight ahead"),
        pytest.param((40.0, 1.9, 0.0, 4.0, 2.0), 16.0, id="just in the way"),
        pytest.param((40.0, 2.1, 0.0, 4.0, 2.0), math.inf, id="just beside"),
        pytest.param((40.0, -3.5, math.pi, 4.0, 2.0), math.inf, id="oncoming in the lane beside"),
        pytest.param((10.0, 0.0, 0.0, 4.0, 2.0), math.inf, id="behind"),
        pytest.param((17.0, 0.0, 0.0, 4.0, 2.0), math.inf, id="touches from behind"),
        pytest.param((23.0, 0.0, 0.0, 4.0, 2.0), -1.0, id="overlaps ahead"),
        pytest.param((84.0, 0.0, 0.0, 4.0, 2.0), math.inf, id="beyond the reach"),
        pytest.param((40.0, 0.0, math.pi / 2, 20.0, 2.0), 17.0, id="longer than the path is wide"),
        # the corner at (40 - sqrt 2, 2 - 1) is 1 m off the path (half diagonal of a square of 2 m is sqrt 2)
        pytest.param((40.0, 0.0, math.pi / 4, 2.0, 2.0), 18 - math.sqrt(2), id="oblique, a corner ahead"),
        # its lowest corner is at y = 2 - sqrt 2, so that the edge meets y = 1 at 40 - (sqrt 2 - 1)
        pytest.param((40.0, 2.0, math.pi / 4, 2.0, 2.0), 18 - (math.sqrt(2) - 1), id="oblique, cut by the side"),
        pytest.param((40.0, 0.0, 0.3, 0.4, 0.3), 18 - (0.2 * math.cos(0.3) + 0.15 * math.sin(0.3)), id="small"),
    ],
)
def test_gaps_on_a_straight_path(box, gap_m):
    assert leader(objects_at(box))[0] == pytest.approx(gap_m, abs=1e-9)


def test_the_nearest_one_leads_and_its_speed_is_that_along_the_path():
    boxes = [(70.0, 0.0, 0.0, 4.0, 2.0), (50.0, 0.5, 0.5, 4.0, 2.0), (60.0, 0.0, 0.0, 4.0, 2.0)]
    gap_m, speed = leader(objects_at(*boxes, velocities=[(9, 0), (5, 3), (7, 0)]))
    assert speed == 5.0
    assert gap_m == pytest.approx(28 - (2 * math.cos(0.5) + math.sin(0.5)))


def test_a_vehicle_does_not_lead_itself():
    boxes = objects_at((21.0, 0.0, 0.0, 4.0, 2.0))
    assert leader(boxes, own_row=0) == (math.inf, 0.0)
    assert leader(boxes)[0] == -2.0  # nothing is looked for behind its centre


def test_a_vehicle_beside_its_path_looks_where_it_drives():
    boxes = objects_at((23.0, 2.5, 0.0, 1.0, 1.0))
    assert leader(boxes) == (math.inf, 0.0)
    assert leader(boxes, offset_m=2.0)[0] == pytest.approx(0.5)


def test_a_leader_round_a_bend():
    """A stationary car a quarter of a circle of 20 m ahead; a parked one across the chord is in no path."""
    ahead = (20.0, 20.0, math.pi / 2, 4.0, 2.0)
    across = (8.0, 12.0, math.pi / 4, 4.0, 2.0)
    gap_m, speed = leader(objects_at(across, ahead, velocities=[(0, 0), (0, 6)]), points_m=CIRCLE, arc_m=0.0)
    # its rear is 2 m before the middle: a quarter of the circle is 31.4 m long, of which 2 + 2 m are bodies
    assert gap_m == pytest.approx(10 * math.pi - 4.0, abs=0.15)
    assert speed == pytest.approx(6.0, abs=0.1)


def test_order_of_objects_and_distant_ones_do_not_matter():
    rng = np.random.default_rng(4)
    for _ in range(200):
        boxes = np.column_stack(
            [rng.uniform(-10, 90, (12, 2)) * [1, 0.3], rng.uniform(-4, 4, 12), rng.uniform(0.3, 12, (12, 2))]
        )
        path = CIRCLE if rng.random() < 0.5 else STRAIGHT
        arc_m = rng.uniform(0, 30)
        found = leader(objects_at(*boxes), points_m=path, arc_m=arc_m)
        alone = [leader(objects_at(box), points_m=path, arc_m=arc_m) for box in boxes]
        assert found[0] == min(gap_m for gap_m, _ in alone)
        assert leader(objects_at(*boxes[::-1]), points_m=path, arc_m=arc_m) == found


@pytest.mark.parametrize("box", [(40.0, 0.0, 0.0, 1e20, 2.0), (1e25, 0.0, 0.0, 4.0, 2.0)])
@pytest.mark.parametrize("reach_m", [1e19, 1e300, math.inf])
def test_absurd_lengths_stay_on_the_path(box, reach_m):
    # a search that leaves the path reads memory that is not its own
    gap_m, _ = leader(objects_at(box), reach_m=reach_m)
    assert gap_m <= 0 or gap_m == math.inf


@pytest.mark.parametrize(
    ("arc_m", "point"),
    [(-3.0, 0), (0.0, 0), (3.9, 1), (4.0, 2), (1e30, 9), (math.inf, 9), (-math.inf, 0), (math.nan, 0)],
)
def test_the_point_before_a_length(arc_m, point):
    assert index_along(arc_m, 9) == point
