"""Planners and traffic by name, in files of users, and as objects."""

import csv

import numpy as np
import pytest

from l5kit.closedloop.planners import PLANNERS, TRAFFIC, open_planner, open_traffic
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.drivers.fallback_planner import FallbackPlanner
from l5kit.simulation.drivers.simple import ConstantVelocity, Replay, Standing
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
    for name in ("constant-velocity", "idm"):
        assert open_traffic(name).seat.control.leaves_with_log
    assert open_traffic("idm").seat.control.tracks is not None


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
        ("rules", "rules", r"is 'rules'; allowed are rules, behind another planner, got planner 'rules'"),
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


@pytest.mark.parametrize("name", ["Faulty", "MADE", "make"])
def test_a_file_of_a_user_has_a_class_an_object_or_a_function(tmp_path, name):
    file = write_planner(tmp_path, {}).rpartition(":")[0]
    planner = open_planner(f"{file}:{name}")
    assert type(planner.seat.driver).__name__ == "Faulty"
    assert open_traffic(f"{file}:{name}").seat.driver is not planner.seat.driver


@pytest.mark.parametrize(
    ("asked", "message"),
    [("", "say which driver of the file it is: .*own.py:NAME"), (":Needs", "without arguments .*'speed'.* a function")],
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
        ("def make():\n    return unknown", "makes no driver: NameError: .* at .*own.py:2"),
        ("def make():\n    raise SystemExit(0)", "makes no driver: SystemExit: .* at .*own.py:2"),
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
    with pytest.raises(InvalidArgumentError, match=r"did you mean '.*planner_best.*no file or folder that is there"):
        open_planner(str(tmp_path / "planner_bst.safetensors"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_planner(str(tmp_path / "gone.py:Planner"))


def test_a_seat_says_itself_how_it_moves():
    with pytest.raises(InvalidArgumentError, match="EgoSeat"):
        open_planner(EgoSeat(ConstantVelocity()), moves="poses")


MODELS = """
from __future__ import annotations

from dataclasses import dataclass, replace

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
        ("Gone", r"moves: .*models\.py has no Gone; name a model, or what makes one"),
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
