"""Lane changes by MOBIL: for a gain that is large enough, and only where it is safe."""

import numpy as np
import pytest

from l5kit.data.read_only_views import behind_view
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.intelligent import IntelligentDriver, intelligent_traffic
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.simulation.lanes.lane_changing import LaneChangeParams
from support.crossing_worlds import batch_of, boxes_of, moving, two_lane_map

AV = moving((5.0, 0.0), 0.0)
"""It is stationary at the beginning of the right lane, behind all others."""
ROUNDED_M = 0.01
"""Maps have whole centimetres."""
PARKED = moving((120.0, 0.0), 0.0)
DRIVER = moving((60.0, 0.0), 9.0)


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    return two_lane_map(tmp_path_factory.mktemp("two lanes"))


def sides_of(road, agents, *, num_frames=100, **params):
    """How far the first agent is to the left in each frame."""
    driver = IntelligentDriver(lane_changes=LaneChangeParams(**params))
    batch = batch_of(road, AV, agents, num_frames=num_frames)
    return boxes_of(SceneSimulation(batch, agents=intelligent_traffic(driver), strict=True).run().records(0), 1)[:, 1]


def test_behind_a_parked_car_it_changes_to_the_free_lane_and_stays_there(road):
    left_m = sides_of(road, [DRIVER, PARKED])
    assert left_m[-1] == pytest.approx(4.0, abs=0.05)
    assert np.abs(np.diff(left_m)).max() < 0.25  # no jump: 4 m in 4 s are 1.5 m/s at most, and a little more
    assert (np.diff(left_m) > -1e-3).all()


def test_styles_are_kept_until_paths_come(road):
    kept = []

    class Spy(IntelligentDriver):
        def drive(self, state):
            actions = super().drive(state)
            seat = behind_view(state).memory["intelligent driver"]
            kept.append((seat.styles, len(seat.arrays.points_m)))
            return actions

    batch = batch_of(road, AV, [DRIVER, PARKED])
    driver = Spy(lane_changes=LaneChangeParams(), max_lateral_mps2=2.0)
    SceneSimulation(batch, agents=intelligent_traffic(driver), strict=True).run()
    assert [styles.bends_mps.shape for styles, _ in kept] == [(1, num_points) for _, num_points in kept]
    num_made = len({id(styles) for styles, _ in kept})
    assert num_made == len({num_points for _, num_points in kept}) > 1


def test_without_a_gain_it_keeps_its_lane(road):
    assert np.abs(sides_of(road, [DRIVER])).max() < ROUNDED_M


@pytest.mark.parametrize("lanes", [["right"], ["left"]], ids=["its own", "the other"])
def test_nobody_leaves_or_takes_a_lane_of_a_junction(tmp_path, lanes):
    left_m = sides_of(two_lane_map(tmp_path, in_junction=lanes), [DRIVER, PARKED])
    assert np.abs(left_m).max() < ROUNDED_M


def test_who_never_changes_stays_behind_the_parked_car(road):
    batch = batch_of(road, AV, [DRIVER, PARKED])
    boxes = boxes_of(SceneSimulation(batch, agents=intelligent_traffic(), strict=True).run().records(0), 1)
    assert np.abs(boxes[:, 1]).max() < ROUNDED_M
    assert boxes[-1, 0] < 116.0


@pytest.mark.parametrize(
    ("behind_m", "changes"),
    [
        pytest.param(9.0, False, id="s* = 16 m and a gap of 5 m: the follower would brake at 10 m/s2"),
        pytest.param(30.0, True, id="a gap of 26 m: it would brake at 0.4 m/s2"),
    ],
)
def test_nobody_may_be_made_to_brake_hard(road, behind_m, changes):
    """The follower is at its limit of 10 m/s, and is out of the way only when it has passed."""
    follower = moving((60.0 - behind_m, 4.0), 10.0)
    left_m = sides_of(road, [moving((60.0, 0.0), 10.0), PARKED, follower], num_frames=25)
    assert (left_m[-1] > 0.3) == changes


@pytest.mark.parametrize(("politeness", "changes"), [(0.0, True), (1.0, True), (20.0, False)])
def test_the_loss_of_a_follower_counts_as_politeness_says(road, politeness, changes):
    """The driver gains at most 2 m/s2, the follower loses about 0.4 m/s2."""
    follower = moving((30.0, 4.0), 10.0)
    agents = [moving((60.0, 0.0), 10.0), PARKED, follower]
    assert (sides_of(road, agents, num_frames=25, politeness=politeness)[-1] > 0.3) == changes


def test_a_gain_below_the_threshold_is_none(road):
    """Nobody can gain more than a + b = 3 m/s2."""
    assert np.abs(sides_of(road, [DRIVER, PARKED], least_gain_mps2=3.1)).max() < ROUNDED_M


def test_it_does_not_change_into_somebody_beside_it(road):
    beside = moving((61.0, 4.0), 10.0)
    left_m = sides_of(road, [moving((60.0, 0.0), 10.0), PARKED, beside], num_frames=20)
    assert np.abs(left_m).max() < ROUNDED_M


def test_two_do_not_change_into_the_same_gap_at_once(road):
    """Each decides in its own frames, and the second one sees the planned position of the first."""
    agents = [moving((60.0, 0.0), 9.0), moving((50.0, 0.0), 9.0), PARKED]
    driver = IntelligentDriver(lane_changes=LaneChangeParams())
    batch = batch_of(road, AV, agents, num_frames=120)
    records = SceneSimulation(batch, agents=intelligent_traffic(driver), strict=True).run().records(0)
    first, second = boxes_of(records, 1), boxes_of(records, 2)
    apart_m = np.hypot(*(first - second)[:, :2].T)
    assert apart_m.min() > 4.0


@pytest.mark.parametrize("values", [{"politeness": -0.1}, {"safe_braking_mps2": 0.0}, {"every_s": np.inf}])
def test_wrong_values(values):
    with pytest.raises(InvalidArgumentError, match=next(iter(values))):
        LaneChangeParams(**values)
