"""Planners and traffic by name: who drives the AVs, and who drives the others."""

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard

from l5kit.closedloop.checkpoints import NetworkContext, open_checkpoint, open_network
from l5kit.closedloop.options import MOVES
from l5kit.configs.own_code import digest_of_code, digest_of_object, is_own, read_own, with_whole_file
from l5kit.configs.texts import did_you_mean
from l5kit.configs.training import OF_AGENTS
from l5kit.data.stores.store import whole_path_of
from l5kit.errors import InvalidArgumentError
from l5kit.planning.weights_file import checkpoint_path, is_onnx, is_policy, shipped_policies, shipped_weights
from l5kit.simulation.drivers.simple import ConstantVelocity, FullThrottle, Replay, Standing
from l5kit.simulation.engine.actions import ActionModel, Controls, PlannedPoses, TrackedPlans
from l5kit.simulation.engine.agent_control import AgentControl
from l5kit.simulation.engine.scene_simulation import AgentSeat, EgoSeat
from l5kit.simulation.engine.traffic_state import Driver

if TYPE_CHECKING:
    from torch import nn

    from l5kit.environment.policy_driver import PolicyDriver
    from l5kit.simulation.drivers.traffic_mix import TrafficMix

RequestedPlanner: TypeAlias = "str | Driver | EgoSeat | nn.Module"
"""Who is asked to drive AVs; see :func:`open_planner`."""

RequestedTraffic: TypeAlias = "str | Driver | AgentSeat | TrafficMix | nn.Module"
"""Who is asked to drive others; see :func:`open_traffic`."""

_MODELS: dict[str, Callable[[], ActionModel]] = {"tracked": TrackedPlans, "poses": PlannedPoses}


@dataclass(frozen=True)
class Planner:
    """Who drives the AVs.

    Attributes:
        name: The requested name.
        seat: Driver and how its plans become poses; None to leave the frames of the log as they are.
        digest: SHA-256 of its file, or of its name and parameters, and of the fallback.
        fallback: Planner used when its plan fails its checks; None for no fallback.
    """

    name: str
    seat: EgoSeat | None
    digest: str
    fallback: str | None = None

    @property
    def is_rule_planner(self) -> bool:
        """Whether it is the rule planner as it is, with whose plans EPDMS compares others."""
        return self.name == "rules" and self.fallback is None


@dataclass(frozen=True)
class Traffic:
    """Who drives the other road users.

    Attributes:
        name: The requested name.
        seat: Driver and whom it drives; None to replay all.
        digest: SHA-256 of its file, or of its name and parameters; of a mix, of those of its members, weights and seed.
        needs_map: Whether anybody in it drives along lanes.
    """

    name: str
    seat: AgentSeat | None
    digest: str
    needs_map: bool = False


def _intelligent_driver() -> Driver:
    from l5kit.simulation.drivers.intelligent import IntelligentDriver

    return IntelligentDriver()


def _rule_planner() -> Driver:
    from l5kit.simulation.drivers.rule_planner import RulePlanner

    return RulePlanner()


PLANNERS: dict[str, Callable[[], Driver]] = {
    "idm": _intelligent_driver,
    "rules": _rule_planner,
    "replay": Replay,
    "standing": Standing,
    "constant-velocity": ConstantVelocity,
    "full-throttle": FullThrottle,
}
"""Planners that have a name, and what makes them."""

FALLBACKS: Final = ("rules",)
"""Planners that can be used when a plan of another one fails its checks."""

_USUAL_MOVES = {"standing": "poses", "idm": "poses"}
"""How plans of a planner are carried out where nobody says; TrackedPlans for others. IDM says how hard to brake; a
tracker brakes later and less, and rolls into leaders that stop."""


def _population(name: str) -> AgentSeat:
    from l5kit.simulation.drivers.intelligent import POPULATIONS, intelligent_traffic

    return intelligent_traffic(POPULATIONS[name])


_POPULATIONS: Final = ("idm", "yielding", "cautious", "assertive", "changing")
"""Names of :data:`~l5kit.simulation.drivers.intelligent.POPULATIONS`, here so that the module is imported lazily."""

LANE_DRIVERS: Final = ("rules", *_POPULATIONS)
"""Names of those that drive along the lanes of a map."""

TRAFFIC: dict[str, Callable[[], AgentSeat | None]] = {
    "replay": lambda: None,
    **{name: partial(_population, name) for name in _POPULATIONS},
    "constant-velocity": lambda: AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic()),
}
"""Traffic that has a name, and what makes it."""

_NETWORK_TRAFFIC: Final = (*OF_AGENTS, "motion_tokens")
"""Workflows whose networks drive agents."""


def open_planner(
    requested: RequestedPlanner,
    *,
    moves: str | None = None,
    context: NetworkContext | None = None,
    fallback: str | None = None,
) -> Planner:
    """Return a planner.

    Args:
        requested: One of :data:`PLANNERS`; a network or policy that ships with l5kit
            (:func:`~l5kit.planning.weights_file.shipped_weights`,
            :func:`~l5kit.planning.weights_file.shipped_policies`); a checkpoint, or the folder of a training; a policy
            of ``l5kit train-rl``, or its folder; ``FILE.py:NAME`` for a driver of a file of the user, whose code runs,
            or a class or function that makes one; a network of torch, with
            ``context.cfg``; a driver; or a driver with how its plans are carried out.
        moves: One of :data:`MOVES`; ``FILE.py:NAME`` for an action model or a vehicle model of a file of the user, or
            a class or function that makes one; None for what is usual for the planner.
        context: Where networks drive; None where there are none.
        fallback: One of :data:`FALLBACKS`, used when a plan fails its checks; None for no fallback. Plans are then
            tracked where ``moves`` does not say otherwise.

    Raises:
        InvalidArgumentError: There is no such planner or fallback, ``moves`` is given for a seat or a policy, which
            have their own, or a configuration for a policy.
        FileNotFoundError: There is no such file.
        L5KitError: A checkpoint cannot be used; see :func:`l5kit.closedloop.checkpoints.open_checkpoint`.
    """
    if fallback is None:
        return _open_alone(requested, moves=moves, context=context, is_tracked=False)
    if fallback not in FALLBACKS or requested == fallback:
        raise InvalidArgumentError(
            f"fallback (--fallback) is {fallback!r}{did_you_mean(fallback, set(FALLBACKS) - {fallback})}; the only "
            f"fallback is 'rules', and it needs another planner; planner is {requested!r}"
        )
    from l5kit.simulation.drivers.fallback_planner import FallbackPlanner
    from l5kit.simulation.drivers.rule_planner import RulePlanner

    planner = _open_alone(requested, moves=moves, context=context, is_tracked=True)
    alone = planner.seat or EgoSeat(Replay())
    # a policy that drives along routes also plans poses, which are judged in place of one step of its actions
    planning: Driver | None = getattr(alone.driver, "as_planner", None)
    if planning is not None:
        alone = EgoSeat(planning, TrackedPlans())
    # rules give plans, so plans are what the seat carries out; the fallback itself turns controls into such
    model, controls = (TrackedPlans(), alone.model) if isinstance(alone.model, Controls) else (alone.model, None)
    # rules roll plans out with the tracker that carries them out
    rules = RulePlanner(tracker=model.tracker) if isinstance(model, TrackedPlans) else RulePlanner()
    seat = EgoSeat(FallbackPlanner(alone.driver, rules, controls), model)
    return Planner(planner.name, seat, _digest_of(planner.digest, _described(rules)), fallback)


def _open_alone(
    requested: RequestedPlanner, *, moves: str | None, context: NetworkContext | None, is_tracked: bool
) -> Planner:
    """Return a planner without a fallback; ``is_tracked`` says that plans are tracked where ``moves`` is None."""
    if isinstance(requested, EgoSeat):
        if moves is not None:
            raise InvalidArgumentError(
                f"moves is {moves!r}, but the planner is an EgoSeat, whose model says how; drop it"
            )
        return Planner(_name_of(requested.driver), requested, _digest_of(_described(requested)))
    if requested == "replay" and moves is None and not is_tracked:
        return Planner("replay", None, _digest_of("replay"))
    if isinstance(requested, str) and requested not in PLANNERS and _is_of_policy(requested):
        if moves is not None:
            raise InvalidArgumentError(
                f"moves is {moves!r}, but planner {requested!r} is a policy, which gives controls of the vehicle model "
                "of its training; drop it"
            )
        policy = _load_policy(requested, context, subject=f"planner {requested!r} is a policy")
        return Planner(requested, policy.seat, policy.digest)
    driver, name, source = _open_driver(requested, PLANNERS, whom="ego", context=context)
    usual = MOVES[0] if is_tracked else _USUAL_MOVES.get(name, MOVES[0])
    if moves is None or not is_own(moves):
        seat = EgoSeat(driver, _MODELS[moves or usual]())
        return Planner(name, seat, _digest_of(source, _described(seat, has_code=_has_code(requested))))

    # a file of the user says how actions become poses: an action model, or a vehicle model for drivers of controls
    def has(candidate: object, method: str) -> bool:
        return callable(getattr(candidate, method, None))

    model: Any
    model, code = read_own(moves, "moves", called="model", is_one=lambda each: has(each, "move") or has(each, "step"))
    if has(model, "step") and not has(model, "move"):
        model = Controls(model)
    if not has(model, "move") or not isinstance(getattr(model, "has_motion", None), bool):
        raise InvalidArgumentError(
            f"moves is {moves!r}, which gives {type(model).__name__}; it must be a vehicle model with a method "
            "step(states, actions, step_time_s), or have has_motion and a method move(states, actions, step_time_s), "
            "as l5kit.simulation.TrackedPlans has"
        )
    described = _described(driver, has_code=_has_code(requested))
    return Planner(name, EgoSeat(driver, model), _digest_of(source, described, code))


def open_traffic(requested: RequestedTraffic, *, context: NetworkContext | None = None) -> Traffic:
    """Return who drives the other road users; vehicles that nobody drives are replayed, and so is everybody else.

    Args:
        requested: One of :data:`TRAFFIC`; a checkpoint; a policy of ``l5kit train-rl``, or one that ships;
            ``FILE.py:NAME``; a driver; or a seat; see :func:`open_planner`. Or a mix of these by weights,
            ``NAME=WEIGHT,NAME=WEIGHT``, with ``seed=NUMBER`` where it is not 0; or a
            :class:`~l5kit.simulation.drivers.traffic_mix.TrafficMix`.
        context: Where networks drive; None where there are none.

    Raises:
        InvalidArgumentError: There is no such traffic.
        FileNotFoundError: There is no such file.
    """
    if isinstance(requested, AgentSeat):
        return Traffic(_name_of(requested.driver), requested, _digest_of(_described(requested)))
    if isinstance(requested, str) and requested in TRAFFIC:
        seat = TRAFFIC[requested]()
        return Traffic(requested, seat, _digest_of(requested, _described(seat)), requested in LANE_DRIVERS)
    mix = _parts_of_mix(requested) if isinstance(requested, str) else None
    if mix is not None:
        from l5kit.simulation.drivers.traffic_mix import TrafficMix

        weights, seed = mix
        members = {name: open_traffic(name, context=context) for name in weights}
        opened = TrafficMix({name: each.seat for name, each in members.items()}, weights, seed)
        needs_map = any(each.needs_map for each in members.values())
        return replace(_traffic_of_mix(str(requested), opened, members), needs_map=needs_map)
    if isinstance(requested, str) and not is_own(requested) and _is_of_policy(requested):
        policy = _load_policy(requested, context, subject=f"agents is {requested!r}, a policy")
        return Traffic(requested, policy.agent_seat, policy.digest, needs_map=True)
    mixes = sys.modules.get("l5kit.simulation.drivers.traffic_mix")  # nobody has a mix who has not loaded its module
    if mixes is not None and isinstance(requested, mixes.TrafficMix):
        return _traffic_of_mix(_name_of(requested), requested, {})
    driver, name, source = _open_driver(requested, TRAFFIC, whom="agents", context=context)
    control = AgentControl.of_traffic()
    reach_m = getattr(driver, "reach_m", control.near_m)  # of networks that know agents near the AV only
    seat = AgentSeat(driver, control=replace(control, near_m=min(control.near_m, reach_m)))
    return Traffic(name, seat, _digest_of(source, _described(seat, has_code=_has_code(requested))))


def _parts_of_mix(requested: str) -> tuple[dict[str, float], int] | None:
    """Return the weights of a mix by name, and its seed; None for what is no mix.

    Raises:
        InvalidArgumentError: A part has no weight, a name comes twice, or the seed is no whole number.
    """
    parts = [
        (name.strip(), value.strip()) for name, _, value in (part.rpartition("=") for part in requested.split(","))
    ]
    if not any(name and _as_number(value) is not None for name, value in parts):
        return None
    if checkpoint_path(requested).exists() or is_own(requested):  # a folder may be called lr=0.1
        return None
    texts: dict[str, str] = {}
    for name, value in parts:
        if not name or name in texts or (name != "seed" and _as_number(value) is None):
            raise InvalidArgumentError(
                f"agents (--agents) is {requested!r}, in which {name or value!r} has no weight or comes twice; write "
                "NAME=WEIGHT,NAME=WEIGHT, and seed=NUMBER for another seed than 0"
            )
        texts[name] = value
    seed = texts.pop("seed", "0")
    if not seed.isdecimal():
        raise InvalidArgumentError(f"agents (--agents) is {requested!r}; its seed must be a whole number from 0 on")
    if not texts:
        raise InvalidArgumentError(
            f"agents (--agents) is {requested!r}, a seed without drivers; write NAME=WEIGHT,NAME=WEIGHT,seed=NUMBER"
        )
    return {name: float(weight) for name, weight in texts.items()}, int(seed)


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _traffic_of_mix(name: str, mix: "TrafficMix", opened: dict[str, Traffic]) -> Traffic:
    """Return a mix; ``opened`` has those of its members that have a digest."""
    texts = ["mix", repr(mix.seed)]
    for member in mix.names:
        digest = opened[member].digest if member in opened else _described(mix.members[member])
        texts.append(f"{member} {float(mix.weights[member])!r} {digest}")
    return Traffic(name, mix.seat, _digest_of(*texts))


def with_whole_path(requested: str) -> str:
    """Return a planner or traffic with the whole path of its file, for a process with another working directory."""
    mix = _parts_of_mix(requested)
    if mix is not None:
        weights, seed = mix
        parts = [f"{with_whole_path(name)}={weight!r}" for name, weight in weights.items()]
        return ",".join([*parts, f"seed={seed}"])
    if requested in PLANNERS or requested in TRAFFIC or requested in (*shipped_weights(), *shipped_policies()):
        return requested
    return with_whole_file(requested) if is_own(requested) else whole_path_of(requested)


def _open_driver(
    requested: "RequestedPlanner | RequestedTraffic",
    known: dict[str, Callable[[], Any]],
    *,
    whom: Literal["ego", "agents"],
    context: NetworkContext | None,
) -> tuple[Driver, str, str]:
    """Return a driver, its name, and what tells its code apart from that of others."""
    argument = "planner" if whom == "ego" else "agents"
    if _is_network(requested) and context is not None:
        driver, digest = open_network(requested, whom=whom, context=context)
        return driver, _name_of(requested), digest
    if not isinstance(requested, str):
        return _as_driver(requested, argument), _name_of(requested), _name_of(requested)
    if requested in known:
        return known[requested](), requested, requested
    if requested.endswith(".py"):
        raise InvalidArgumentError(f"{argument} is {requested!r}; say which driver of the file it is: {requested}:NAME")
    # an empty name would be the folder of work
    if requested and not is_own(requested) and context is not None and checkpoint_path(requested).exists():
        driver, digest = open_checkpoint(requested, whom=whom, context=context)
        return driver, requested, digest
    if not is_own(requested):
        names = (
            (*known, *shipped_weights(), *shipped_policies())
            if whom == "ego"  # networks that ship drive the AV
            else (*known, *shipped_policies())
        )
        if whom == "agents" and requested in _NETWORK_TRAFFIC:
            raise InvalidArgumentError(
                f"{argument} is {requested!r}, a network that drives agents, of which none ships with l5kit; train one "
                f"(l5kit train {requested}) and name its folder or file"
            )
        beside = Path(requested).parent
        weights = (str(beside / each.name) for each in beside.glob("*.safetensors"))
        raise InvalidArgumentError(
            f"{argument} is {requested!r}{did_you_mean(requested, (*names, *weights))}, which is none of "
            f"{', '.join(names)}, no FILE.py:NAME, and no file or folder that is there"
        )
    candidate, source = read_own(
        requested, argument, called="driver", is_one=lambda each: hasattr(each, "drive") or _is_network(each)
    )
    if _is_network(candidate) and context is not None:
        driver, digest = open_network(candidate, whom=whom, context=context)
        return driver, requested, f"{source} {digest}"
    return _as_driver(candidate, argument), requested, source


def _load_policy(requested: str, context: NetworkContext | None, *, subject: str) -> "PolicyDriver":
    """Return a policy, which takes no configuration; ``subject`` says what it is asked for as, for the error."""
    if context is not None and context.cfg is not None:
        raise InvalidArgumentError(f"{subject}, which has its configuration with it; drop the one that is given")
    from l5kit.environment.policy_driver import PolicyDriver  # only policies need stable-baselines3

    return PolicyDriver.load(requested)


def _is_of_policy(requested: str) -> bool:
    """Return whether a planner is a policy, as it was trained or exported."""
    if is_policy(requested):
        return True
    file = Path(requested)
    if not is_onnx(file) or not file.is_file():
        return False
    from l5kit.workflows.exported_network import POLICY, read_facts  # which brings torch

    return read_facts(file.read_bytes(), file).workflow == POLICY


def _is_network(requested: object) -> TypeGuard["nn.Module"]:
    """Return whether something is a network of torch that is no driver itself."""
    torch = sys.modules.get("torch")  # nobody has a network without it
    return torch is not None and isinstance(requested, torch.nn.Module) and not hasattr(requested, "drive")


def _has_code(requested: object) -> bool:
    """Return whether the digest of a driver's source tells all that it computes."""
    return isinstance(requested, str) or _is_network(requested)


def _as_driver(candidate: Any, argument: str) -> Driver:
    if not callable(getattr(candidate, "drive", None)):
        raise InvalidArgumentError(
            f"{argument} must be a network of torch or an object with a method drive(state), got "
            f"{type(candidate).__name__}; docs/architecture.md, A driver, has one"
        )
    driver: Driver = candidate
    return driver


def _name_of(driver: object) -> str:
    return f"{type(driver).__module__}.{type(driver).__qualname__}"


def _described(part: object, *, has_code: bool = False) -> str:
    """Return what a driver or model is made of, in words that are the same in each process.

    Args:
        part: The object.
        has_code: Whether the code that makes it is known, so that what an object holds does not matter.
    """
    if is_dataclass(part) and not isinstance(part, type):
        values = {name: _described(getattr(part, name), has_code=has_code) for name in part.__dataclass_fields__}
        code = "" if has_code else digest_of_code(part)
        return f"{type(part).__qualname__}({', '.join(f'{name}={value}' for name, value in values.items())}){code}"
    if part is None or isinstance(part, int | float | str | bool | tuple):
        return repr(part)
    named: str | None = getattr(part, "__qualname__", None)
    if has_code:
        return named or _name_of(part)
    # something of somebody's own, without known code: two are told apart by their code, and by what they hold
    state = digest_of_object(part) if named or getattr(part, "__dict__", True) else "without state"
    return f"{named or _name_of(part)} {state}{digest_of_code(part)}"


def _digest_of(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
