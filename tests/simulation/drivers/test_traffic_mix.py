"""Traffic mixes: assignment of agents, the same in any batch, and members that drive as they do alone."""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.intelligent import POPULATIONS, intelligent_traffic
from l5kit.simulation.drivers.simple import ConstantVelocity, Standing
from l5kit.simulation.drivers.traffic_mix import TrafficMix
from l5kit.simulation.engine.actions import Actions, Controls
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat, SceneSimulation, SimulationError
from l5kit.simulation.vehicle_models import InvertibleBicycle

SEATS = {name: intelligent_traffic(driver) for name, driver in POPULATIONS.items()}
STRAIGHT = AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic())


def mix_of(seed=0, **weights):
    known = SEATS | {"replay": None, "straight": STRAIGHT}
    return TrafficMix({name: known[name] for name in weights}, weights, seed)


def run(scenes, road, seat, indices=None):
    batch = SceneBatch.of_scenes(scenes, scene_indices=indices, road=road)
    return SceneSimulation(batch, agents=seat, strict=True).run()


@pytest.mark.parametrize(
    "mix",
    [
        pytest.param(mix_of(yielding=0.7, assertive=0.3), id="two styles"),
        pytest.param(mix_of(3, changing=0.5, cautious=0.2, replay=0.2, straight=0.1), id="all kinds"),
    ],
)
def test_a_scene_does_not_depend_on_its_batch(scenes, city_road, mix):
    together = run(scenes, city_road, mix.seat)
    assert together.was_driven.sum() > 10
    for number, scene in enumerate(scenes):
        alone = run([scene], city_road, mix.seat, [number])
        assert alone.records(0).agents.tobytes() == together.records(number).agents.tobytes()


@pytest.mark.parametrize("name", ["idm", "yielding", "changing", "straight"])
def test_a_mix_of_one_is_that_one_to_the_bit(scenes, city_road, name):
    seat = (SEATS | {"straight": STRAIGHT})[name]
    alone, mixed = (run(scenes[:2], city_road, each) for each in (seat, mix_of(**{name: 2.0}).seat))
    for number in range(2):
        assert alone.records(number).agents.tobytes() == mixed.records(number).agents.tobytes()


def test_weights_are_shares(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    several = [replace(batch, scene_indices=1000 * step + batch.scene_indices) for step in range(40)]
    assigned = np.concatenate([mix_of(yielding=3.0, assertive=1.0).assign(each) for each in several])
    shares = np.bincount(assigned) / len(assigned)
    assert len(assigned) > 2000
    np.testing.assert_allclose(shares, [0.25, 0.75], atol=0.04)  # in the order of the alphabet


def test_whom_an_agent_gets_depends_on_seed_scene_and_track_alone(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    mix = mix_of(yielding=0.5, assertive=0.5)
    of_all, tracks = mix.assign(batch), batch.tracks.starts
    for scene in range(len(scenes)):
        alone = SceneBatch.of_scenes([scenes[scene]], scene_indices=[scene], road=city_road)
        np.testing.assert_array_equal(mix.assign(alone), of_all[tracks[scene] : tracks[scene + 1]])
    np.testing.assert_array_equal(mix_of(assertive=5, yielding=5).assign(batch), of_all)
    assert (mix_of(1, yielding=0.5, assertive=0.5).assign(batch) != of_all).any()
    elsewhere = replace(batch, scene_indices=batch.scene_indices + 7)
    assert (mix.assign(elsewhere) != of_all).any()


def test_who_is_replayed_is_where_the_log_has_it(scenes, city_road):
    mix = mix_of(idm=0.5, replay=0.5)
    driven = run(scenes[:1], city_road, mix.seat)
    batch = driven.batch
    is_replayed = mix.assign(batch) == mix.names.index("replay")
    assert is_replayed.any()
    assert not driven.was_driven[is_replayed].any()
    assert driven.was_driven[~is_replayed].any()


def test_members_keep_their_vehicle_models(scenes, city_road):
    """A bicycle without controls that goes straight on, among intelligent drivers."""

    class Coasting:
        def drive(self, state):
            return Actions(np.zeros((len(state), 2)))

    control = AgentControl.of_traffic(tracks=POPULATIONS["idm"].tracks)
    seat = AgentSeat(Coasting(), Controls(InvertibleBicycle()), control)
    members = {"coasting": seat, "idm": SEATS["idm"]}
    mixed = run(scenes[:1], city_road, TrafficMix(members, {"coasting": 1.0, "idm": 1.0}).seat)
    alone = run(scenes[:1], city_road, TrafficMix({"coasting": seat}, {"coasting": 1.0}).seat)
    plain = run(scenes[:1], city_road, seat)
    assert alone.records(0).agents.tobytes() == plain.records(0).agents.tobytes()
    assert mixed.records(0).agents.tobytes() != plain.records(0).agents.tobytes()


def test_a_driver_that_fails_takes_only_its_scene_along(scenes, city_road):
    class Failing:
        def drive(self, state):
            if (state.scenes == 1).any():
                raise ValueError("no")
            return Standing().drive(state)

    members = {"failing": AgentSeat(Failing(), control=AgentControl.of_traffic()), "yielding": SEATS["yielding"]}
    mix = TrafficMix(members, {"failing": 0.5, "yielding": 0.5})
    batch = SceneBatch.of_scenes(scenes, road=city_road)
    driven = SceneSimulation(batch, agents=mix.seat).run()
    assert list(driven.faults) == [1]
    for number in (0, 2):
        alone = run([scenes[number]], city_road, mix.seat, [number])
        assert alone.records(0).agents.tobytes() == driven.records(number).agents.tobytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, {}), "members are"),
        (({"replay": None}, {"idm": 1.0}), "members are"),
        (({"replay": None}, {"replay": 0.0}), "weight of 'replay' is 0.0"),
        (({"replay": None}, {"replay": 1.0}, -1), "seed is -1"),
    ],
)
def test_wrong_mixes(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        TrafficMix(*arguments)


def test_avs_have_one_driver(scenes, city_road):
    batch = SceneBatch.of_scenes(scenes[:1], road=city_road)
    with pytest.raises(SimulationError, match="name one driver for the AVs"):
        SceneSimulation(batch, ego=EgoSeat(mix_of(idm=1.0)), strict=True).run()
    for name, said in (("yielding", "gives_way"), ("changing", "lane_changes")):
        with pytest.raises(SimulationError, match=said):
            SceneSimulation(batch, ego=EgoSeat(POPULATIONS[name]), strict=True).run()
