"""Asking of drivers: their actions carried out, and what is wrong with those of single scenes."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from l5kit._types import BoolArray, Int64Array
from l5kit.errors import InvalidArgumentError
from l5kit.simulation.engine.actions import ActionModel, Actions
from l5kit.simulation.engine.traffic_state import Driver, TrafficState
from l5kit.simulation.vehicle_models import VehicleStates

__all__ = ["Decision", "Refusal", "decide"]

_LONGEST_STEP_M = 500.0
"""Nothing that drives moves so far in a step."""


@dataclass(frozen=True)
class Refusal:
    """Why a scene cannot go on.

    Attributes:
        scene: Which of the R scenes of the state.
        actor: Which of the K actors; None for all of the scene.
        message: What is wrong.
        cause: The error of the driver, if it raised one.
    """

    scene: int
    actor: int | None
    message: str
    cause: Exception | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """What becomes of the actors whose scenes go on.

    Attributes:
        actors: Which of the K actors these are, ascending, (N,).
        moved: Where they are one step later, N of them.
        actions: What they were told to do; None if there is no actor.
    """

    actors: Int64Array
    moved: VehicleStates
    actions: Actions | None


def decide(driver: Driver, model: ActionModel, state: TrafficState) -> tuple[Decision, list[Refusal]]:
    """Ask a driver and carry out what it says, in each scene for which that is possible.

    Where the driver raises an error, or gives actions of a wrong kind or shape, it is asked for each scene alone.

    Args:
        driver: Who is asked.
        model: How its actions become poses.
        state: What it sees.

    Returns:
        What becomes of the actors, and for each scene that cannot go on the reason.
    """
    try:
        return _carry_out(_ask(driver, state), model, state)
    except Exception as error:  # whatever a driver of somebody else raises must not end the other scenes
        if len(state.scenes) == 1:
            return _nobody(state), [Refusal(0, None, f"{type(driver).__name__}: {_text_of(error)}", error)]
    parts, refusals = [], []
    for scene in range(len(state.scenes)):
        members = np.flatnonzero(state.actor_scenes == scene)
        decision, refused = decide(driver, model, state.only(scene))
        refusals += [
            Refusal(scene, None if each.actor is None else int(members[each.actor]), each.message, each.cause)
            for each in refused
        ]
        if decision.actions is not None:
            parts.append((members[decision.actors], decision))
    return _joined(parts, state), refusals


def _ask(driver: Driver, state: TrafficState) -> Actions:
    actions = driver.drive(state)
    if not isinstance(actions, Actions):
        raise InvalidArgumentError(f"drive() must return Actions, got {type(actions).__name__}")
    if len(actions) != len(state):
        raise InvalidArgumentError(
            f"drive() must return actions for all {len(state)} actors, got values of shape {actions.values.shape}"
        )
    return actions


def _carry_out(actions: Actions, model: ActionModel, state: TrafficState) -> tuple[Decision, list[Refusal]]:
    is_broken: BoolArray = np.any(~np.isfinite(actions.values.reshape(len(actions), -1)), axis=1)
    refusals = _refuse(is_broken, state, lambda actor: f"actions {_shortened(actions, actor)} are not finite")
    kept = _of_other_scenes(refusals, state)
    taken, states = actions, state.actor_states
    if refusals:
        taken, states = Actions(actions.values[kept], actions.times_s), states.taken(kept)
    moved = model.move(states, taken, state.step_time_s) if len(kept) else states
    ways_m = np.sqrt(((moved.positions_m - states.positions_m) ** 2).sum(axis=1))
    is_thrown: BoolArray = np.zeros(len(state), np.bool_)
    is_thrown[kept] = ~(ways_m <= _LONGEST_STEP_M)
    if not is_thrown.any():
        return Decision(kept, moved, taken), refusals
    refusals += _refuse(is_thrown, state, lambda _: f"a step of more than {_LONGEST_STEP_M:g} m is no driving")
    is_left = np.isin(kept, _of_other_scenes(refusals, state))
    return Decision(kept[is_left], moved.taken(is_left), Actions(taken.values[is_left], taken.times_s)), refusals


def _refuse(is_wrong: BoolArray, state: TrafficState, describe: Callable[[int], str]) -> list[Refusal]:
    """Return a refusal for each scene with a wrong actor: of the first one."""
    wrong = np.flatnonzero(is_wrong)
    scenes, firsts = np.unique(state.actor_scenes[wrong], return_index=True)
    return [
        Refusal(scene, actor, describe(actor))
        for scene, actor in zip(scenes.tolist(), wrong[firsts].tolist(), strict=True)
    ]


def _of_other_scenes(refusals: list[Refusal], state: TrafficState) -> Int64Array:
    """Return the actors of scenes that are not refused."""
    if not refusals:
        return np.arange(len(state))
    return np.flatnonzero(~np.isin(state.actor_scenes, [each.scene for each in refusals]))


def _joined(parts: list[tuple[Int64Array, Decision]], state: TrafficState) -> Decision:
    """Return the decisions of single scenes as one; their plans may differ in length, and are cut to the shortest."""
    if not parts:
        return _nobody(state)
    moved = VehicleStates(
        *(np.concatenate([getattr(part.moved, each.name) for _, part in parts]) for each in fields(VehicleStates))
    )
    actions = [part.actions for _, part in parts if part.actions is not None]
    shortest = min(each.values.shape[1] for each in actions)
    times_s = actions[0].times_s
    joined = Actions(
        np.concatenate([each.values[:, :shortest] for each in actions]), None if times_s is None else times_s[:shortest]
    )
    return Decision(np.concatenate([actors for actors, _ in parts]), moved, joined)


def _nobody(state: TrafficState) -> Decision:
    none = np.zeros(0, np.int64)
    return Decision(none, state.actor_states.taken(none), None)


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _shortened(actions: Actions, actor: int) -> str:
    values = actions.values[actor].reshape(-1)
    first = int(np.argmax(~np.isfinite(values)))
    return f"of shape {actions.values.shape[1:]}, with {values[first]} at place {first},"
