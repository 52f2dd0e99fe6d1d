"""Plans of the shipped policy, by the page and by l5kit, row by row: observations, actions and poses.

Cities with few and with many road users, and keys that leave the road, approach others, and stop.
"""

from dataclasses import replace

import numpy as np
import pytest

from l5kit.closedloop.page_policies import page_policy
from l5kit.environment.observations.compact_layout import CompactLayout
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.errors import UnsupportedValueError
from l5kit.synthetic import make_city
from support.key_lists import key_lists

pytestmark = [pytest.mark.process]

FLOAT32 = {"rtol": 2.5e-7, "atol": 1e-9}
"""Two steps of float32: both round what they compute in float64 alike."""

ACTIONS = 1e-5
PLANS = 1e-4
"""Metres and radians: 1e-5 of an action, 2.2 m/s2, held for 1.5 s, is less than this after 4 s."""

CITIES = {"few": (5, 260.0, 0.1), "many": (8, 300.0, 2.0), "usual": (21, 420.0, 1.0)}
"""Seed, size in metres and traffic density."""


@pytest.fixture(scope="module", params=CITIES)
def drives(request, tmp_path_factory, batches_of, replay, drive_by_keys):
    """All drives of the scenes of a city, by both."""
    seed, size_m, density = CITIES[request.param]
    folder = tmp_path_factory.mktemp("policy") / request.param
    make_city(folder, seed=seed, num_scenes=2, num_frames=100, town_size=size_m, traffic_density=density)
    pairs = []
    for batch in batches_of(folder):
        lists = key_lists(int(batch.stops[0]) - 1)
        pairs += zip(replay(batch, lists), [drive_by_keys(batch, keys) for keys in lists], strict=True)
    return request.param, pairs


def rows_of(pairs, of_page, of_python):
    """Rows of all moments of all drives, of the page and of Python."""
    theirs = np.concatenate([np.array(page[of_page]) for page, _ in pairs])
    ours = np.concatenate([np.array(getattr(drive, of_python)) for _, drive in pairs])
    return theirs, ours


def test_the_moments_have_few_and_many_road_users_and_lights(drives, policy):
    name, pairs = drives
    seen = policy.options.layout.split(rows_of(pairs, "seen", "seen")[1])
    counts = seen["agents"][..., -1].sum(axis=1)
    assert len(counts) > 300
    if name == "few":
        assert counts.min() <= 3
    if name == "many":
        assert counts.max() == policy.options.layout.num_agents
    if name == "usual":
        assert seen["ego"][:, 10].min() < 1, "no red or yellow light"


def test_what_the_page_sees_is_what_the_policy_sees(drives, policy):
    theirs, ours = rows_of(drives[1], "seen", "seen")
    assert theirs.shape == ours.shape == (len(ours), policy.options.layout.size)
    np.testing.assert_allclose(theirs, ours, **FLOAT32)


def test_what_the_page_does_is_what_the_policy_does(drives):
    theirs, ours = rows_of(drives[1], "actions", "actions")
    assert np.ptp(ours) > 0.5, "it always does the same"
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=ACTIONS)


def test_the_ghost_is_the_plan_of_the_policy(drives):
    theirs, ours = rows_of(drives[1], "policyPlans", "policy_plans")
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=PLANS)


def test_a_policy_that_the_page_does_not_know_is_refused(policy):
    layout = CompactLayout(num_lane_points=0)
    options = replace(policy.options, layout=layout)
    other = PolicyDriver.of_function(lambda seen: np.zeros((len(seen), 1), np.float32), options)
    with pytest.raises(UnsupportedValueError, match=r"policy 'mine' has the layout .* a _FunctionNetwork"):
        page_policy(other, name="mine")


@pytest.mark.parametrize("num_heads", [1, 3])
def test_the_page_attends_as_the_policy_does(policy, batches, replay, num_heads):
    encoder = policy.network.encoder
    agents, num_own = encoder.sets["agents"], encoder.own[0].shape[1]
    rng = np.random.default_rng(5)
    width, num_features = len(agents.second[1]), len(encoder.own[1])
    query = tuple(
        rng.normal(size=shape).astype(np.float32) for shape in ((num_heads * width, num_own), num_heads * width)
    )
    mix = rng.normal(size=(num_features, num_heads * width)).astype(np.float32) / 50
    attending = replace(encoder, sets={"agents": replace(agents, query=query, mix=mix)})
    other = replace(policy, network=replace(policy.network, encoder=attending))
    lists = key_lists(int(batches[0].stops[0]) - 1)[:2]
    drives = replay(batches[0], lists, planned_by=other)
    seen = np.concatenate([np.array(drive["seen"], np.float32) for drive in drives])
    actions = np.concatenate([np.array(drive["actions"]) for drive in drives])
    assert policy.options.layout.split(seen)["agents"][..., -1].sum(axis=1).max() >= 2
    assert np.ptp(actions) > 0.1
    np.testing.assert_allclose(actions, other.network.act(seen), rtol=0, atol=ACTIONS)
