"""Edits in text form, as used by the command line: ``parked_vehicle,ahead_m=30,kind=car``."""

import re
from dataclasses import fields, is_dataclass
from typing import Final

import msgspec

from l5kit.configs.own_code import is_own, read_own
from l5kit.configs.texts import did_you_mean, parse_yaml
from l5kit.editing.goal import AnotherGoal
from l5kit.editing.leaders import BrakingLeader, CutIn, SlowLeader
from l5kit.editing.lights import RedLight
from l5kit.editing.obstacles import Cones, ParkedVehicle, PedestrianStepsOut
from l5kit.editing.population import DenserTraffic, FewerAgents
from l5kit.editing.scene_edit import SceneEdit
from l5kit.errors import InvalidArgumentError

EDITS: Final[dict[str, type[SceneEdit]]] = {
    "parked_vehicle": ParkedVehicle,
    "cones": Cones,
    "pedestrian_steps_out": PedestrianStepsOut,
    "slow_leader": SlowLeader,
    "braking_leader": BrakingLeader,
    "cut_in": CutIn,
    "denser_traffic": DenserTraffic,
    "fewer_agents": FewerAgents,
    "another_goal": AnotherGoal,
    "red_light": RedLight,
}
"""Edits by their names on the command line."""

_COMMA: Final = re.compile(r",(?![^\[]*\])")


def parse_edit(text: str) -> SceneEdit:
    """Return the edit described by a text: its name, and parameters that differ from the defaults.

    Args:
        text: Such as ``cones``, ``slow_leader,speed_mps=2`` or ``another_goal,goal_m=[120, 40]``; or ``FILE.py:NAME``
            of your own edit, or of a class or function that makes one without arguments.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: There is no such edit or parameter, or its value is not allowed.
    """
    name, *settings = (part.strip() for part in _COMMA.split(text))
    if is_own(name):
        usual, _ = read_own(name, "--edit", called="edit", is_one=lambda part: isinstance(part, SceneEdit))
        if not isinstance(usual, SceneEdit):
            raise InvalidArgumentError(
                f"--edit is {name!r}, which makes {type(usual).__name__}; an edit is derived from "
                "l5kit.editing.SceneEdit"
            )
    else:
        kind = EDITS.get(name.replace("-", "_"))
        if kind is None:
            raise InvalidArgumentError(
                f"there is no edit {name!r}{did_you_mean(name, EDITS)}; edits are {', '.join(EDITS)}, or FILE.py:NAME"
            )
        usual = kind()

    # Given parameters replace the defaults, and are checked like those of the class.
    known: list[str] = [each.name for each in fields(usual)] if is_dataclass(usual) else []
    params: dict[str, object] = {}
    for setting in settings:
        param, equals, value = setting.partition("=")
        if not equals or param not in known or param in params:
            raise InvalidArgumentError(
                f"{name}: {setting!r} is not a parameter, or is repeated{did_you_mean(param, known)}; parameters are "
                f"{', '.join(known) or 'none'}, each as NAME=VALUE"
            )
        params[param] = parse_yaml(value, called=f"{name},{param}")
    if not params:
        return usual
    try:
        return msgspec.convert({each: getattr(usual, each) for each in known} | params, type(usual))
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"{name}: {error}; see l5kit edit --help") from error
