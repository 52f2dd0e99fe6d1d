"""Planners and traffic by name, in files of users, and as objects."""

import csv
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from l5kit.closedloop.planners import PLANNERS, TRAFFIC, open_planner, open_traffic, with_whole_path
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.fallback_planner import FallbackPlanner
from l5kit.simulation.drivers.intelligent import POPULATIONS
from l5kit.simulation.drivers.simple import ConstantVelocity, Replay, Standing
from l5kit.simulation.drivers.traffic_mix import TrafficMix
from l5kit.simulation.engine.actions import Controls, PlannedPoses, TrackedPlans
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat
from l5kit.simulation.vehicle_models import KinematicBicycle
from support.simulated_folders import write_planner


def test_all_names_give_planners_with_digests_of_their_own():
    planners = [open_planner(name) for name in PLANNERS]
    assert [planner.name for planner in planners] == list(PLANNERS)
    assert len({planner.digest for planner in planners}) == len(PLANNERS)
    assert [planner.digest for planner in planners] == [open_planner(name).digest for name in PLANNERS]


def test_all_names_give_traffic():
    assert [open_traffic(name).name for name in TRAFFIC] == list(TRAFFIC)
    assert open_traffic("replay").seat is None
    for name in set(TRAFFIC) - {"replay"}:
        assert open_traffic(name).seat.control.leaves_with_log
    assert {name for name in TRAFFIC if open_traffic(name).needs_map} == set(POPULATIONS)
    assert all(open_traffic(name).seat.control.tracks is not None for name in POPULATIONS)
    assert len({open_traffic(name).digest for name in TRAFFIC}) == len(TRAFFIC)


@pytest.mark.parametrize(
    ("requested", "weights", "seed"),
    [
        ("yielding=0.7,assertive=0.3", {"yielding": 0.7, "assertive": 0.3}, 0),
        (" idm = 2 , replay=1,seed=12", {"idm": 2.0, "replay": 1.0}, 12),
        ("idm=1", {"idm": 1.0}, 0),
    ],
)
def test_a_mix_is_named_by_weights(requested, weights, seed):
    traffic = open_traffic(requested)
    mix = traffic.seat.driver
    assert (traffic.name, dict(mix.weights), mix.seed, traffic.needs_map) == (requested, weights, seed, True)
    assert {name: each and each.driver for name, each in mix.members.items()} == {
        name: POPULATIONS.get(name) for name in weights
    }


def test_digests_of_mixes_tell_weights_seeds_and_members_apart_and_not_their_order(tmp_path):
    own = write_planner(tmp_path, {})
    names = ["idm=1", "idm=1,seed=1", "idm=1,replay=1", "idm=1,replay=2", "idm=1,cautious=1", f"idm=1,{own}=1"]
    assert len({open_traffic(name).digest for name in names}) == len(names)
    assert open_traffic("replay=1,idm=1").digest == open_traffic("idm=1,replay=1").digest
    mix = TrafficMix({"idm": open_traffic("idm").seat, "replay": None}, {"idm": 1.0, "replay": 1.0})
    assert open_traffic(mix).seat.driver is mix
    assert open_traffic(mix).digest == open_traffic(mix).digest


def test_whole_paths_of_mixes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = with_whole_path("own.py:Mine=0.5,yielding=1,seed=3")
    assert whole == f"{tmp_path}/own.py:Mine=0.5,yielding=1.0,seed=3"
    assert with_whole_path("yielding") == "yielding"


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("idm=0.5,yielding", "'yielding' has no weight or is repeated"),
        ("idm=0.5,idm=0.5", "'idm' has no weight or is repeated"),
        ("idm=0.5,seed=1.5", "seed must be a whole number"),
        ("idm=0.5,seed=-1", "seed must be a whole number"),
        ("idm=0.5,seed=x", "seed must be a whole number"),
        ("idm=0.5,seed=1,seed=2", "'seed' has no weight or is repeated"),
        ("seed=2", "'seed=2', a seed without drivers"),
        ("idm=inf", "is inf; it must be above 0 and finite"),
        ("idm=0", "the weight of 'idm' is 0.0"),
        ("yelding=0.5,idm=0.5", "did you mean 'yielding'"),
        ("simnet", "'simnet', a workflow for networks that drive agents, but none ships"),
        ("simnet=0.5,idm=0.5", "'simnet', a workflow for networks that drive agents, but none ships"),
    ],
)
def test_wrong_mixes(requested, message):
    with pytest.raises(InvalidArgumentError, match=message):
        open_traffic(requested)


@pytest.mark.parametrize(
    ("name", "moves", "model"),
    [
        ("constant-velocity", None, TrackedPlans),
        ("constant-velocity", "poses", PlannedPoses),
        ("standing", None, PlannedPoses),
        ("standing", "tracked", TrackedPlans),
        ("idm", None, PlannedPoses),
        ("idm", "tracked", TrackedPlans),
        ("replay", "tracked", TrackedPlans),
    ],
)
def test_how_plans_are_carried_out(name, moves, model):
    assert isinstance(open_planner(name, moves=moves).seat.model, model)


@pytest.mark.parametrize(
    ("name", "moves", "model"),
    [("idm", None, TrackedPlans), ("idm", "poses", PlannedPoses), ("replay", None, TrackedPlans)],
)
def test_a_planner_with_a_fallback_is_tracked_and_has_a_digest_of_its_own(name, moves, model):
    planner = open_planner(name, moves=moves, fallback="rules")
    assert (planner.name, planner.fallback) == (name, "rules")
    assert isinstance(planner.seat.driver, FallbackPlanner)
    assert isinstance(planner.seat.model, model)
    assert planner.digest == open_planner(name, moves=moves, fallback="rules").digest
    assert planner.digest != open_planner(name, moves=moves).digest


def test_controls_behind_a_fallback_become_plans():
    seat = open_planner(EgoSeat(ConstantVelocity(), Controls(KinematicBicycle())), fallback="rules").seat
    assert isinstance(seat.driver.controls, Controls)
    assert isinstance(seat.model, TrackedPlans)


@pytest.mark.parametrize(
    ("planner", "fallback", "message"),
    [
        ("idm", "rule", r"fallback \(--fallback\) is 'rule' \(did you mean 'rules'\?\)"),
        (
            "rules",
            "rules",
            r"is 'rules'; the only fallback is 'rules', and it needs another planner; planner is 'rules'",
        ),
    ],
)
def test_wrong_fallbacks(planner, fallback, message):
    with pytest.raises(InvalidArgumentError, match=message):
        open_planner(planner, fallback=fallback)


def test_nobody_drives_a_replayed_log():
    assert open_planner("replay").seat is None
    assert isinstance(open_planner("replay", moves="poses").seat.driver, Replay)


def test_parameters_change_the_digest():
    assert open_planner(ConstantVelocity(30)).digest != open_planner(ConstantVelocity(20)).digest
    assert open_traffic(AgentSeat(ConstantVelocity())).digest == open_traffic(AgentSeat(ConstantVelocity())).digest


class Patient:
    """A driver of a user that is no dataclass."""

    def __init__(self, waits):
        self.waits = waits

    def drive(self, state):
        return Standing().drive(state)


def test_what_an_object_holds_changes_the_digest():
    assert open_planner(Patient(3)).digest == open_planner(Patient(3)).digest
    assert open_planner(Patient(3)).digest != open_planner(Patient(4)).digest
    assert open_traffic(Patient(3)).digest != open_traffic(Patient(4)).digest
    unlike_any = Patient(lambda: 3)  # which cannot be pickled
    assert open_planner(unlike_any).digest != open_planner(unlike_any).digest


DRIVER = """
from dataclasses import dataclass
from l5kit.simulation import ConstantVelocity

@dataclass(frozen=True)
class Fields:
    def drive(self, state):
        return ConstantVelocity({steps}).drive(state)

class Plain:
    drive = Fields.drive
"""


@pytest.mark.parametrize("name", ["Fields", "Plain"])
@pytest.mark.parametrize("has_file", [True, False], ids=["in a file", "in a notebook"])
def test_the_code_of_an_object_changes_the_digest(tmp_path, monkeypatch, name, has_file):
    """Else a simulation of what the code was would be taken for one of what it is now, and not be repeated."""

    def digest_with(steps):
        module = ModuleType("driver_of_a_user")
        if has_file:
            module.__file__ = str(tmp_path / "driver_of_a_user.py")
            Path(module.__file__).write_text(DRIVER.format(steps=steps))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(DRIVER.format(steps=steps), vars(module))
        return open_planner(getattr(module, name)()).digest

    assert digest_with(30) == digest_with(30)
    assert digest_with(30) != digest_with(20)


@pytest.mark.parametrize("name", ["Faulty", "MADE", "make"])
def test_a_file_of_a_user_has_a_class_an_object_or_a_function(tmp_path, name):
    file = write_planner(tmp_path, {}).rpartition(":")[0]
    planner = open_planner(f"{file}:{name}")
    assert type(planner.seat.driver).__name__ == "Faulty"
    assert open_traffic(f"{file}:{name}").seat.driver is not planner.seat.driver


@pytest.mark.parametrize(
    ("asked", "message"),
    [("", "name a driver in the file: .*own.py:NAME"), (":Needs", "without arguments .*'speed'.* a function")],
)
def test_a_file_that_is_named_wrong(tmp_path, asked, message):
    file = tmp_path / "own.py"
    file.write_text(
        "class Needs:\n    def __init__(self, speed):\n        pass\n\n    def drive(self, state):\n        pass\n"
    )
    with pytest.raises(InvalidArgumentError, match=message):
        open_planner(f"{file}{asked}")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from math import sinus", "cannot be loaded: ImportError: .*sinus.* at .*own.py:1"),
        ("def make(:", "cannot be loaded: SyntaxError"),
        ("raise SystemExit(0)", "cannot be loaded: SystemExit"),
        ("def make():\n    return unknown", "cannot make a driver: NameError: .* at .*own.py:2"),
        ("def make():\n    raise SystemExit(0)", "cannot make a driver: SystemExit: .* at .*own.py:2"),
    ],
)
def test_a_file_whose_code_fails_is_named_with_the_line(tmp_path, code, message):
    file = tmp_path / "own.py"
    file.write_text(code + "\n")
    with pytest.raises(InvalidArgumentError, match=message):
        open_planner(f"{file}:make")


def test_other_code_in_a_file_is_another_planner(tmp_path):
    first = open_planner(write_planner(tmp_path, {}))
    assert open_planner(write_planner(tmp_path, {(0, 1): "nan"})).digest != first.digest


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param("constant-velocit", "did you mean 'constant-velocity'", id="nearly a name"),
        pytest.param("{file}:Missing", "has no Missing", id="not in the file"),
        pytest.param("{file}:NO_DRIVER", "a method drive", id="no driver"),
        pytest.param(3, "a method drive", id="no driver at all"),
    ],
)
def test_what_is_no_planner_is_refused(tmp_path, asked, message):
    file = write_planner(tmp_path, {}).rpartition(":")[0]
    for find in (open_planner, open_traffic):
        with pytest.raises(InvalidArgumentError, match=message):
            find(asked.format(file=file) if isinstance(asked, str) else asked)


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "planner_best.safetensors").touch()
    with pytest.raises(InvalidArgumentError, match=r"did you mean '.*planner_best.*not an existing file or folder"):
        open_planner(str(tmp_path / "planner_bst.safetensors"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_planner(str(tmp_path / "gone.py:Planner"))


def test_a_seat_says_itself_how_it_moves():
    with pytest.raises(InvalidArgumentError, match="EgoSeat"):
        open_planner(EgoSeat(ConstantVelocity()), moves="poses")


MODELS = """
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from l5kit.simulation import PlannedPoses


@dataclass(frozen=True)
class Drifting:
    \"\"\"On the plan, and a metre to the left.\"\"\"

    left_m: float = 1.0
    has_motion = False

    def move(self, states, actions, step_time_s):
        moved = PlannedPoses().move(states, actions, step_time_s)
        return replace(moved, positions_m=moved.positions_m + [0.0, self.left_m])


class Standing:
    def step(self, states, actions, step_time_s):
        return states


class Wrapping(PlannedPoses):
    \"\"\"On the plan, with headings that jump from half a turn to the left to half a turn to the right.\"\"\"

    def move(self, states, actions, step_time_s):
        moved = super().move(states, actions, step_time_s)
        return replace(moved, yaws_rad=moved.yaws_rad + 2 * np.pi * (self.jumps() - 1))

    count = 0

    def jumps(self):
        Wrapping.count += 1
        return Wrapping.count % 3


one = Drifting(2.0)
nothing = 3
"""


@pytest.mark.parametrize(("name", "kind"), [("Drifting", "Drifting"), ("one", "Drifting"), ("Standing", "Controls")])
def test_a_file_of_a_user_has_the_model_that_moves_the_av(tmp_path, name, kind):
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    planner = open_planner("standing", moves=f"{file}:{name}")
    assert type(planner.seat.model).__name__ == kind
    assert planner.digest == open_planner("standing", moves=f"{file}:{name}").digest
    assert planner.digest not in (open_planner("standing").digest, open_planner("idm", moves=f"{file}:{name}").digest)
    file.write_text(MODELS + "# changed")
    assert open_planner("standing", moves=f"{file}:{name}").digest != planner.digest


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", r"models\.py:nothing', which gives int; it must be a vehicle model with a method step"),
        ("Gone", r"moves: .*models\.py has no Gone \(did you mean 'one'\?\); give a model, or a class or function"),
    ],
)
def test_what_moves_nothing_is_refused(tmp_path, name, message):
    (tmp_path / "models.py").write_text(MODELS)
    with pytest.raises(InvalidArgumentError, match=message):
        open_planner("standing", moves=f"{tmp_path}/models.py:{name}")


def test_a_model_of_a_file_moves_the_av_in_a_simulation(city, tmp_path, monkeypatch):
    from l5kit.closedloop import ClosedLoopOptions, simulate

    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    options = ClosedLoopOptions(scenes=slice(0, 1), num_frames=4, moves="models.py:Drifting")
    result = simulate(city, "out", planner="standing", options=options)
    assert not result.failed
    with result.frames_table.open(encoding="utf-8", newline="") as file:
        y_m = [float(row["y_m"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(np.diff(y_m), 1.0, atol=1e-6)


def test_headings_of_a_model_may_be_off_by_whole_turns(city, tmp_path):
    from l5kit.closedloop import ClosedLoopOptions, simulate

    (tmp_path / "models.py").write_text(MODELS)
    scores = []
    for moves in ("poses", f"{tmp_path}/models.py:Wrapping"):
        options = ClosedLoopOptions(scenes=slice(0, 1), num_frames=20, moves=moves)
        result = simulate(city, tmp_path / str(len(scores)), planner="constant-velocity", options=options)
        scores.append(next(result.scenes())["comfort"])
    assert scores[0] == scores[1] == 1
