"""Calls of drivers: execute their actions, and isolate errors of single scenes."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from traceback import walk_tb

import numpy as np

from l5kit._types import BoolArray, Int64Array
from l5kit.data.read_only_views import shown_to
from l5kit.errors import InvalidArgumentError, error_text, is_termination
from l5kit.simulation.engine.actions import ActionModel, Actions
from l5kit.simulation.engine.scene_batch import SceneBatch
from l5kit.simulation.engine.traffic_state import Driver, DriverMemory, TrafficState
from l5kit.simulation.vehicle_models import VehicleStates

_LONGEST_STEP_M = 500.0
"""Largest plausible motion of a vehicle in a step."""


@dataclass(frozen=True)
class Refusal:
    """Reason why a scene cannot continue.

    Attributes:
        scene: Index of the scene among the R scenes of the state.
        actor: Index of the actor, of K; None for the whole scene.
        message: Description of the error.
        cause: The exception of the driver, if it raised one.
    """

    scene: int
    actor: int | None
    message: str
    cause: Exception | SystemExit | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """New states of the actors whose scenes continue.

    Attributes:
        actors: Indices of these actors, of K, ascending, (N,).
        moved: Their states one step later, N of them.
        given: Actions of the driver: pairs of indices of actors, of K, and their actions.
    """

    actors: Int64Array
    moved: VehicleStates
    given: tuple[tuple[Int64Array, Actions], ...] = ()


@dataclass(frozen=True, eq=False)
class OwnMemory:
    """Memory of a driver for a single scene, after it failed for several at once.

    Attributes:
        batch: The scene alone; None for the batch for which the memory was made.
        memory: Memory of the driver.
    """

    batch: SceneBatch | None
    memory: DriverMemory

    def view(self, state: TrafficState) -> TrafficState:
        """Return the state of the scene with this memory."""
        return replace(state, memory=self.memory) if self.batch is None else state.alone(self.batch, self.memory)


def decide(
    driver: Driver, model: ActionModel, state: TrafficState, apart: dict[int, OwnMemory]
) -> tuple[Decision, list[Refusal]]:
    """Call a driver and execute its actions, in each scene for which that is possible.

    If the driver raises an error, or returns actions of a wrong kind or shape, it is called for each scene alone, as if
    there were no others; a driver with memory is called so from then on.

    Args:
        driver: The driver.
        model: Turns its actions into poses.
        state: The traffic state.
        apart: Kept from step to step, empty at first: separate memories by scene of the batch.

    Returns:
        New states of the actors, and the reason for each scene that cannot continue.
    """
    if not apart:
        before = _copied(state.memory) if len(state.scenes) > 1 else {}
        try:
            return _carry_out(ask(driver, state), model, state)
        except (Exception, SystemExit) as error:  # an error of user code must not end other scenes
            if is_termination(error):
                raise
            if len(state.scenes) == 1:
                return _nobody(state), [_refusal_of(error, driver, 0)]
        apart.update({scene: OwnMemory(None, _copied(before)) for scene in state.scenes.tolist()})
        decision, refusals = _decide_apart(driver, model, state, apart)
        if not before and not decision.given:  # creating the memory of the batch failed, maybe due to one scene
            apart.update({scene: OwnMemory(state.batch.only(scene), {}) for scene in state.scenes.tolist()})
            decision, refusals = _decide_apart(driver, model, state, apart)
    else:
        decision, refusals = _decide_apart(driver, model, state, apart)
    if not any(own.memory for own in apart.values()):
        apart.clear()
        state.memory.clear()
    return decision, refusals


def _decide_apart(
    driver: Driver, model: ActionModel, state: TrafficState, apart: dict[int, OwnMemory]
) -> tuple[Decision, list[Refusal]]:
    """Call a driver for one scene after the other."""
    decisions, refusals = [], []
    for index, scene in enumerate(state.scenes.tolist()):
        members = np.flatnonzero(state.actor_scenes == index)
        if len(members) == 0:
            continue
        try:
            view = apart[scene].view(state.only(index))
            decision, refused = _carry_out(ask(driver, view), model, view)
        except (Exception, SystemExit) as error:  # as in decide
            if is_termination(error):
                raise
            refusals.append(_refusal_of(error, driver, index))
            continue
        for each in refused:
            actor = None if each.actor is None else int(members[each.actor])
            refusals.append(replace(each, scene=index, actor=actor))
        given = tuple((members[actors], actions) for actors, actions in decision.given)
        decisions.append(Decision(members[decision.actors], decision.moved, given))
    if not decisions:
        return _nobody(state), refusals
    moved = VehicleStates(
        *(np.concatenate([getattr(each.moved, column.name) for each in decisions]) for column in fields(VehicleStates))
    )
    actors = np.concatenate([each.actors for each in decisions])
    return Decision(actors, moved, tuple(part for each in decisions for part in each.given)), refusals


def _refusal_of(error: Exception | SystemExit, driver: Driver, scene: int) -> Refusal:
    """Return the message of a driver's error, with the last line in its own file, unless the driver is one of l5kit."""
    called = [(frame.f_code, frame.f_globals.get("__name__", ""), line) for frame, line in walk_tb(error.__traceback__)]
    ask_calls = [number for number, (code, _, _) in enumerate(called) if code is ask.__code__]
    driver_calls = called[ask_calls[-1] + 1 :] if ask_calls else []  # the last call, as drivers may call others
    location = ""
    if driver_calls and not driver_calls[0][1].startswith("l5kit."):
        own = driver_calls[0][0].co_filename
        line = next(line for code, _, line in reversed(driver_calls) if code.co_filename == own)
        location = f" (line {line} of {own})"
    return Refusal(scene, None, f"{type(driver).__name__}: {error_text(error)}{location}", error)


def _copied(memory: DriverMemory) -> DriverMemory:
    """Return a copy of a memory; parts of a memory that cannot be copied are shared."""
    try:
        return deepcopy(memory)
    except Exception:  # user objects may refuse copying with any error
        return dict(memory)


def ask(driver: Driver, state: TrafficState) -> Actions:
    """Return the actions of a driver; drivers of users get a read-only view of the state.

    Raises:
        InvalidArgumentError: The driver does not return actions, or not one for each actor.
    """
    actions = driver.drive(shown_to(driver, "drive", state))
    if not isinstance(actions, Actions):
        raise InvalidArgumentError(f"drive() must return Actions, got {type(actions).__name__}")
    if len(actions) != len(state):
        raise InvalidArgumentError(
            f"drive() must return actions for all {len(state)} actors, got values of shape {actions.values.shape}"
        )
    return actions


def _carry_out(actions: Actions, model: ActionModel, state: TrafficState) -> tuple[Decision, list[Refusal]]:
    # nothing is copied if no actor is refused
    kept, taken, states, refusals = np.arange(len(state)), actions, state.actor_states, list[Refusal]()
    if not np.isfinite(actions.values).all():
        is_broken: BoolArray = np.any(~np.isfinite(actions.values.reshape(len(actions), -1)), axis=1)
        refusals = _refuse(is_broken, state, lambda actor: f"actions {_shortened(actions, actor)} are not finite")
        kept = _of_other_scenes(refusals, state)
        taken, states = actions.taken(kept), states.taken(kept)
    moved = model.move(shown_to(model, "move", states), taken, state.step_time_s) if len(kept) else states

    # an actor is refused for its first error; a position that is not finite counts as too far
    steps_m = moved.positions_m - states.positions_m
    is_near = np.sqrt((steps_m * steps_m).sum(axis=1)) <= _LONGEST_STEP_M
    is_finite = np.isfinite(moved.motions)
    if not (is_near.all() and is_finite.all()):
        is_thrown: BoolArray = np.zeros(len(state), np.bool_)
        is_thrown[kept] = ~is_near
        too_far = f"the vehicle moved more than {_LONGEST_STEP_M:g} m in one step"
        refusals += _refuse(is_thrown, state, lambda _: too_far)
        is_lost: BoolArray = np.zeros(len(state), np.bool_)
        is_lost[kept] = ~is_finite.all(axis=0) & ~is_thrown[kept]
        refusals += _refuse(is_lost, state, lambda _: f"the state after a step of {type(model).__name__} is not finite")
        is_left = np.isin(kept, _of_other_scenes(refusals, state))
        kept, moved = kept[is_left], moved.taken(is_left)
        taken = taken.taken(is_left)
    return Decision(kept, moved, ((kept, taken),)), refusals


def _refuse(is_wrong: BoolArray, state: TrafficState, describe: Callable[[int], str]) -> list[Refusal]:
    """Return a refusal for each scene with wrong actors, for the first of these."""
    wrong = np.flatnonzero(is_wrong)
    scenes, firsts = np.unique(state.actor_scenes[wrong], return_index=True)
    return [
        Refusal(scene, actor, describe(actor))
        for scene, actor in zip(scenes.tolist(), wrong[firsts].tolist(), strict=True)
    ]


def _of_other_scenes(refusals: list[Refusal], state: TrafficState) -> Int64Array:
    """Return the actors of scenes without refusal."""
    return np.flatnonzero(~np.isin(state.actor_scenes, [each.scene for each in refusals]))


def _nobody(state: TrafficState) -> Decision:
    none = np.zeros(0, np.int64)
    return Decision(none, state.actor_states.taken(none))


def _shortened(actions: Actions, actor: int) -> str:
    values = actions.values[actor].reshape(-1)
    first = int(np.argmax(~np.isfinite(values)))
    return f"of shape {actions.values.shape[1:]}, with {values[first]} at index {first},"
