"""The call of ``generate_agent_sample`` as documented for L5Kit 1.0, turned into today's."""

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from l5kit.data.records import TL_FACE_DTYPE
from l5kit.rasterization.render_context import RenderContext

P = ParamSpec("P")
R = TypeVar("R")

_STEP_TIME_S = 0.1
_KEYWORDS_OF_1_0 = frozenset({"all_agents", "raster_size", "pixel_size", "ego_center"})


def accept_call_of_1_0(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function with today's arguments of ``generate_agent_sample`` also take those documented for 1.0."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if _is_call_of_1_0(args, kwargs):
            return function(**_arguments_of_today(_bind_call_of_1_0(*args, **kwargs)))  # type: ignore[call-arg]
        return function(*args, **kwargs)

    return wrapper


def _is_call_of_1_0(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """The fourth argument tells: a track id or None in 1.0, today the faces, which are None before a track id only."""
    if not _KEYWORDS_OF_1_0.isdisjoint(kwargs):
        return True
    return len(args) > 3 and _is_track_id(args[3]) and not (len(args) > 4 and _is_track_id(args[4]))


def _is_track_id(value: object) -> bool:
    return value is None or isinstance(value, numbers.Integral)


def _call_of_1_0(
    state_index: int,
    frames: object,
    all_agents: object,
    selected_track_id: int | None,
    raster_size: object,
    pixel_size: object,
    ego_center: object,
    history_num_frames: int,
    history_step_size: int,
    future_num_frames: int,
    future_step_size: int,
    filter_agents_threshold: float,
    rasterizer: object = None,
    perturbation: object = None,
) -> None:
    """The arguments as they were documented for 1.0; only the signature is used."""


def _bind_call_of_1_0(*args: object, **kwargs: object) -> dict[str, object]:
    bound = inspect.signature(_call_of_1_0).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _arguments_of_today(old: Mapping[str, object]) -> dict[str, Any]:
    """Rename the arguments; no faces are drawn, and the origin is at the top, as 1.0 had it."""
    new = dict(old)
    new["agents"] = new.pop("all_agents")
    new["tl_faces"] = np.empty(0, dtype=TL_FACE_DTYPE)
    new["render_context"] = RenderContext(
        np.asarray(new.pop("raster_size")), np.asarray(new.pop("pixel_size")), np.asarray(new.pop("ego_center")), False
    )
    new["step_time"] = _STEP_TIME_S
    return new
