"""Planners and traffic by name: drivers of the AVs and of the other agents."""

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
"""A planner as given by the user; see :func:`open_planner`."""

RequestedTraffic: TypeAlias = "str | Driver | AgentSeat | TrafficMix | nn.Module"
"""Traffic as given by the user; see :func:`open_traffic`."""

_MODELS: dict[str, Callable[[], ActionModel]] = {"tracked": TrackedPlans, "poses": PlannedPoses}


@dataclass(frozen=True)
class Planner:
    """The driver of the AVs, ready for a simulation.

    Attributes:
        name: The requested name.
        seat: Driver and how its plans become poses; None to leave the frames of the log as they are.
        digest: SHA-256 of its file, or of its name and parameters, and of the fallback.
        fallback: Planner used when a plan fails its checks; None for no fallback.
    """

    name: str
    seat: EgoSeat | None
    digest: str
    fallback: str | None = None

    @property
    def is_rule_planner(self) -> bool:
        """Whether it is the unmodified rule planner, the reference of EPDMS."""
        return self.name == "rules" and self.fallback is None


@dataclass(frozen=True)
class Traffic:
    """The driver of the other road users, ready for a simulation.

    Attributes:
        name: The requested name.
        seat: Driver and the agents it drives; None to replay all.
        digest: SHA-256 of its file, or of its name and parameters; for a mix, of its members, weights and seed.
        needs_map: Whether any of its drivers follows lanes.
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
"""Constructors of planners by name."""

FALLBACKS: Final = ("rules",)
"""Planners usable as a fallback when a plan of another planner fails its checks."""

_USUAL_MOVES = {"standing": "poses", "idm": "poses"}
"""Default of ``moves`` by planner; others are tracked. IDM plans how hard to brake; a tracker would brake later and
less and roll into leaders that stop."""


def _population(name: str) -> AgentSeat:
    from l5kit.simulation.drivers.intelligent import POPULATIONS, intelligent_traffic

    return intelligent_traffic(POPULATIONS[name])


_POPULATIONS: Final = ("idm", "yielding", "cautious", "assertive", "changing")
"""Names of :data:`~l5kit.simulation.drivers.intelligent.POPULATIONS`, listed here to import the module lazily."""

LANE_DRIVERS: Final = ("rules", *_POPULATIONS)
"""Names of drivers that follow the lanes of a map."""

TRAFFIC: dict[str, Callable[[], AgentSeat | None]] = {
    "replay": lambda: None,
    **{name: partial(_population, name) for name in _POPULATIONS},
    "constant-velocity": lambda: AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic()),
}
"""Constructors of traffic by name."""

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
            :func:`~l5kit.planning.weights_file.shipped_policies`); a checkpoint, or a training folder; a policy of
            ``l5kit train-rl``, or its folder; ``FILE.py:NAME`` for a driver in a user's file, whose code runs, or a
            class or function that creates one; a torch network, with ``context.cfg``; a driver; or an
            :class:`~l5kit.simulation.engine.scene_simulation.EgoSeat`.
        moves: One of :data:`MOVES`; ``FILE.py:NAME`` for an action model or a vehicle model in a user's file, or a
            class or function that creates one; None for the planner's default.
        context: Log, map and device of networks; None if networks are not supported.
        fallback: One of :data:`FALLBACKS`, used when a plan fails its checks; None for no fallback. With a fallback,
            plans are tracked by default.

    Raises:
        InvalidArgumentError: The planner or fallback is unknown, ``moves`` is given for a seat or a policy, which have
            their own, or a configuration is given for a policy.
        FileNotFoundError: The file does not exist.
        L5KitError: The checkpoint cannot be used; see :func:`l5kit.closedloop.checkpoints.open_checkpoint`.
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
    # a policy that drives along routes also plans poses; check these rather than a single step of its actions
    planning: Driver | None = getattr(alone.driver, "as_planner", None)
    if planning is not None:
        alone = EgoSeat(planning, TrackedPlans())
    # The fallback plans poses, so the seat carries out plans; FallbackPlanner turns controls of the planner into plans.
    model, controls = (TrackedPlans(), alone.model) if isinstance(alone.model, Controls) else (alone.model, None)
    # the rules roll out plans with the tracker that carries them out
    rules = RulePlanner(tracker=model.tracker) if isinstance(model, TrackedPlans) else RulePlanner()
    seat = EgoSeat(FallbackPlanner(alone.driver, rules, controls), model)
    return Planner(planner.name, seat, _digest_of(planner.digest, _described(rules)), fallback)


def _open_alone(
    requested: RequestedPlanner, *, moves: str | None, context: NetworkContext | None, is_tracked: bool
) -> Planner:
    """Return a planner without a fallback; ``is_tracked`` makes tracking the default of ``moves``."""
    if isinstance(requested, EgoSeat):
        if moves is not None:
            raise InvalidArgumentError(
                f"moves is {moves!r}, but the planner is an EgoSeat, which has its own model; drop moves"
            )
        return Planner(_name_of(requested.driver), requested, _digest_of(_described(requested)))
    if requested == "replay" and moves is None and not is_tracked:
        return Planner("replay", None, _digest_of("replay"))
    if isinstance(requested, str) and requested not in PLANNERS and _is_of_policy(requested):
        if moves is not None:
            raise InvalidArgumentError(
                f"moves is {moves!r}, but planner {requested!r} is a policy, whose actions control the vehicle model "
                "of its training; drop moves"
            )
        policy = _load_policy(requested, context, subject=f"planner {requested!r} is a policy")
        return Planner(requested, policy.seat, policy.digest)
    driver, name, source = _open_driver(requested, PLANNERS, whom="ego", context=context)
    usual = MOVES[0] if is_tracked else _USUAL_MOVES.get(name, MOVES[0])
    if moves is None or not is_own(moves):
        seat = EgoSeat(driver, _MODELS[moves or usual]())
        return Planner(name, seat, _digest_of(source, _described(seat, has_code=_has_code(requested))))

    # a model in a user's file: an action model, or a vehicle model for drivers that give controls
    def has(candidate: object, method: str) -> bool:
        return callable(getattr(candidate, method, None))

    model: Any
    model, code = read_own(moves, "moves", called="model", is_one=lambda each: has(each, "move") or has(each, "step"))
    if has(model, "step") and not has(model, "move"):
        model = Controls(model)
    if not has(model, "move") or not isinstance(getattr(model, "has_motion", None), bool):
        raise InvalidArgumentError(
            f"moves is {moves!r}, which gives {type(model).__name__}; it must be a vehicle model with a method "
            "step(states, actions, step_time_s), or an action model like l5kit.simulation.TrackedPlans, with "
            "has_motion and a method move(states, actions, step_time_s)"
        )
    described = _described(driver, has_code=_has_code(requested))
    return Planner(name, EgoSeat(driver, model), _digest_of(source, described, code))


def open_traffic(requested: RequestedTraffic, *, context: NetworkContext | None = None) -> Traffic:
    """Return the driver of the other road users; vehicles without a driver, and all other agents, are replayed.

    Args:
        requested: One of :data:`TRAFFIC`; a checkpoint; a policy of ``l5kit train-rl``, or one that ships with l5kit;
            ``FILE.py:NAME``; a driver; or a seat; see :func:`open_planner`. Or a weighted mix of these,
            ``NAME=WEIGHT,NAME=WEIGHT``, with an optional ``seed=NUMBER`` (default 0), or a
            :class:`~l5kit.simulation.drivers.traffic_mix.TrafficMix`.
        context: Log, map and device of networks; None if networks are not supported.

    Raises:
        InvalidArgumentError: The traffic is unknown.
        FileNotFoundError: The file does not exist.
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
    mixes = sys.modules.get("l5kit.simulation.drivers.traffic_mix")  # not loaded: not a mix
    if mixes is not None and isinstance(requested, mixes.TrafficMix):
        return _traffic_of_mix(_name_of(requested), requested, {})
    driver, name, source = _open_driver(requested, TRAFFIC, whom="agents", context=context)
    control = AgentControl.of_traffic()
    reach_m = getattr(driver, "reach_m", control.near_m)  # networks may see agents near the AV only
    seat = AgentSeat(driver, control=replace(control, near_m=min(control.near_m, reach_m)))
    return Traffic(name, seat, _digest_of(source, _described(seat, has_code=_has_code(requested))))


def _parts_of_mix(requested: str) -> tuple[dict[str, float], int] | None:
    """Return the weights of a mix by name, and its seed; None if the text is not a mix.

    Raises:
        InvalidArgumentError: A part has no weight, a name is repeated, or the seed is not a whole number.
    """
    parts = [
        (name.strip(), value.strip()) for name, _, value in (part.rpartition("=") for part in requested.split(","))
    ]
    if not any(name and _as_number(value) is not None for name, value in parts):
        return None
    if checkpoint_path(requested).exists() or is_own(requested):  # a folder may be named lr=0.1
        return None
    texts: dict[str, str] = {}
    for name, value in parts:
        if not name or name in texts or (name != "seed" and _as_number(value) is None):
            raise InvalidArgumentError(
                f"agents (--agents) is {requested!r}, in which {name or value!r} has no weight or is repeated; write "
                "NAME=WEIGHT,NAME=WEIGHT, optionally followed by ,seed=NUMBER"
            )
        texts[name] = value
    seed = texts.pop("seed", "0")
    if not seed.isdecimal():
        raise InvalidArgumentError(f"agents (--agents) is {requested!r}; its seed must be a whole number of at least 0")
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
    """Return a mix as traffic; ``opened`` holds its members given by name, which have digests."""
    texts = ["mix", repr(mix.seed)]
    for member in mix.names:
        digest = opened[member].digest if member in opened else _described(mix.members[member])
        texts.append(f"{member} {float(mix.weights[member])!r} {digest}")
    return Traffic(name, mix.seat, _digest_of(*texts))


def with_whole_path(requested: str) -> str:
    """Return a planner or traffic with absolute paths, for a process with another working directory."""
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
    """Return a driver, its name, and a digest or name that identifies its code."""
    argument = "planner" if whom == "ego" else "agents"
    if _is_network(requested) and context is not None:
        driver, digest = open_network(requested, whom=whom, context=context)
        return driver, _name_of(requested), digest
    if not isinstance(requested, str):
        return _as_driver(requested, argument), _name_of(requested), _name_of(requested)
    if requested in known:
        return known[requested](), requested, requested
    if requested.endswith(".py"):
        raise InvalidArgumentError(f"{argument} is {requested!r}; name a driver in the file: {requested}:NAME")
    # an empty name would be the working directory
    if requested and not is_own(requested) and context is not None and checkpoint_path(requested).exists():
        driver, digest = open_checkpoint(requested, whom=whom, context=context)
        return driver, requested, digest
    if not is_own(requested):
        names = (
            (*known, *shipped_weights(), *shipped_policies())
            if whom == "ego"  # shipped networks drive the AV only
            else (*known, *shipped_policies())
        )
        if whom == "agents" and requested in _NETWORK_TRAFFIC:
            raise InvalidArgumentError(
                f"{argument} is {requested!r}, a workflow for networks that drive agents, but none ships with l5kit; "
                f"train one (l5kit train {requested}) and pass its folder or file"
            )
        beside = Path(requested).parent
        weights = (str(beside / each.name) for each in beside.glob("*.safetensors"))
        raise InvalidArgumentError(
            f"{argument} is {requested!r}{did_you_mean(requested, (*names, *weights))}, which is not one of "
            f"{', '.join(names)}, not FILE.py:NAME, and not an existing file or folder"
        )
    candidate, source = read_own(
        requested, argument, called="driver", is_one=lambda each: hasattr(each, "drive") or _is_network(each)
    )
    if _is_network(candidate) and context is not None:
        driver, digest = open_network(candidate, whom=whom, context=context)
        return driver, requested, f"{source} {digest}"
    return _as_driver(candidate, argument), requested, source


def _load_policy(requested: str, context: NetworkContext | None, *, subject: str) -> "PolicyDriver":
    """Return a policy, which takes no configuration; ``subject`` opens the error message."""
    if context is not None and context.cfg is not None:
        raise InvalidArgumentError(f"{subject}, which includes its configuration; drop the given configuration")
    from l5kit.environment.policy_driver import PolicyDriver  # only policies need stable-baselines3

    return PolicyDriver.load(requested)


def _is_of_policy(requested: str) -> bool:
    """Return whether a name is that of a policy, trained or exported."""
    if is_policy(requested):
        return True
    file = Path(requested)
    if not is_onnx(file) or not file.is_file():
        return False
    from l5kit.workflows.exported_network import POLICY, read_facts  # imports torch

    return read_facts(file.read_bytes(), file).workflow == POLICY


def _is_network(requested: object) -> TypeGuard["nn.Module"]:
    """Return whether an object is a torch network that is not itself a driver."""
    torch = sys.modules.get("torch")  # not loaded: not a network
    return torch is not None and isinstance(requested, torch.nn.Module) and not hasattr(requested, "drive")


def _has_code(requested: object) -> bool:
    """Return whether the digest of a driver's source covers everything it computes."""
    return isinstance(requested, str) or _is_network(requested)


def _as_driver(candidate: Any, argument: str) -> Driver:
    if not callable(getattr(candidate, "drive", None)):
        raise InvalidArgumentError(
            f"{argument} must be a torch network or an object with a method drive(state), got "
            f"{type(candidate).__name__}; see docs/architecture.md, A driver"
        )
    driver: Driver = candidate
    return driver


def _name_of(driver: object) -> str:
    return f"{type(driver).__module__}.{type(driver).__qualname__}"


def _described(part: object, *, has_code: bool = False) -> str:
    """Return a description of a driver or model that is the same in each process.

    Args:
        part: The object.
        has_code: Whether its source is known and part of the digest, so that its attributes do not matter.
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
    # a user object whose source is unknown: identified by its code and its attributes
    state = digest_of_object(part) if named or getattr(part, "__dict__", True) else "without state"
    return f"{named or _name_of(part)} {state}{digest_of_code(part)}"


def _digest_of(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
