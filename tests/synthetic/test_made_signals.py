"""Signal plans of made towns."""

from itertools import pairwise

import numpy as np
import pytest

from l5kit.synthetic.scene import Town
from l5kit.synthetic.signals import GREEN, RED, YELLOW, YELLOW_S, plan_signals, red_time_left, signal_state

TIMING = np.array([30.0, 5.0, 15.0, 0.0])


@pytest.mark.parametrize(
    ("time_s", "state"),
    [
        (0.0, RED),
        (5.0, GREEN),
        (14.9, GREEN),
        (15.0, YELLOW),
        (14.9 + YELLOW_S, YELLOW),
        (15.0 + YELLOW_S, RED),
        (35.0, GREEN),
        (-25.0, GREEN),
    ],
)
def test_state_over_the_cycle(time_s: float, state: int) -> None:
    assert signal_state(TIMING, time_s) == state


def test_offset_shifts_the_cycle() -> None:
    assert signal_state(TIMING + [0, 0, 0, 5.0], 0.0) == GREEN


@pytest.mark.parametrize(("time_s", "left_s"), [(0.0, 5.0), (5.0, 0.0), (16.0, 0.0), (20.0, 15.0)])
def test_red_time_left(time_s: float, left_s: float) -> None:
    assert red_time_left(TIMING, time_s) == pytest.approx(left_s)


def test_crossing_approaches_never_go_together(town: Town) -> None:
    heads = town.network.heads
    assert len(heads) > 10
    for time_s in np.arange(0.0, 120.0, 0.5):
        states = np.array([signal_state(timing, time_s) for timing in heads.timing_s])
        for node in np.unique(heads.node):
            going = (heads.node == node) & (states != RED)
            assert len(set(heads.arm[going] % 2)) <= 1
            assert len(set(heads.is_left[going])) <= 1, "left turns with a phase of their own go alone"


def test_every_head_turns_green_yellow_and_red(town: Town) -> None:
    times = np.arange(0.0, 90.0, 0.25)
    for timing in town.network.heads.timing_s:
        states = np.array([signal_state(timing, t) for t in times])
        assert set(states) == {RED, YELLOW, GREEN}
        follows = {(a, b) for a, b in pairwise(states) if a != b}
        assert follows == {(RED, GREEN), (GREEN, YELLOW), (YELLOW, RED)}


def test_every_approach_of_a_signalised_intersection_has_a_head(town: Town) -> None:
    nodes = [node for node, control in enumerate(town.plan.controls) if control == "signal"]
    assert nodes
    heads = plan_signals(town.plan, np.random.default_rng(0))
    for node in nodes:
        found = sorted(head.arm for head in heads if head.node == node and not head.is_left)
        assert found == sorted(town.plan.arms_of(node))
