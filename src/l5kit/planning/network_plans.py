"""Plans of networks, read from their outputs and checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from l5kit._types import Float64Array, Int64Array
from l5kit.errors import InvalidArgumentError

Headings = Literal["network", "path"]
"""Source of headings: the network, or the path through the positions, for networks without headings."""

_CHORD_M = 1.0
"""Minimum chord that defines a direction; shorter paths do not turn."""


@dataclass(frozen=True, eq=False)
class NetworkPlans:
    """Plans for B samples of T steps, in the frames of their targets.

    Attributes:
        positions_m: x and y, (B, T, 2) float64.
        yaws_rad: Headings, (B, T) float64.
    """

    positions_m: Float64Array
    yaws_rad: Float64Array

    def in_world(self, world_from_agent: Float64Array, yaws_rad: Float64Array) -> Float64Array:
        """Return world poses x, y and yaw, (B, T, 3), for the poses of the targets.

        Args:
            world_from_agent: (B, 3, 3).
            yaws_rad: World headings of the targets, (B,).
        """
        poses = np.empty((*self.yaws_rad.shape, 3))
        matrices = world_from_agent[:, None]
        for axis in range(2):
            along = (
                matrices[..., axis, 0] * self.positions_m[..., 0] + matrices[..., axis, 1] * self.positions_m[..., 1]
            )
            poses[..., axis] = along + matrices[..., axis, 2]
        poses[..., 2] = yaws_rad[:, None] + self.yaws_rad
        return poses


def read_plans(outputs: object, num_samples: int, *, headings: Headings = "network") -> NetworkPlans:
    """Return the plans among the outputs of a network.

    They are ``positions`` (B, T, 2) and ``yaws`` (B, T, 1); otherwise the likeliest of ``positions_all`` (B, M, T, 2)
    and ``yaws_all`` (B, M, T, 1) by ``mode_logits`` (B, M); otherwise the first row, that of the AV, of
    ``agent_positions`` (B, A, T, 2) and ``agent_yaws`` (B, A, T, 1), the outputs of SafePathNet.

    Args:
        outputs: Tensors by name.
        num_samples: B.
        headings: ``path`` for headings along the positions, in place of the yaws.

    Raises:
        InvalidArgumentError: A key is missing, or its value has the wrong shape; the message names it.
    """
    if not isinstance(outputs, Mapping):
        raise InvalidArgumentError(
            f"the network gave {type(outputs).__name__}; it must give a dict with 'positions' (B, T, 2) and 'yaws' "
            "(B, T, 1)"
        )
    if "positions" in outputs:
        names, rows = ("positions", "yaws"), None
    elif "positions_all" in outputs:
        logits = _tensor_of(outputs, "mode_logits")
        if logits.ndim != 2 or len(logits) != num_samples or logits.shape[1] == 0:
            raise InvalidArgumentError(
                f"the network gave 'mode_logits' of shape {tuple(logits.shape)}; for {num_samples} samples it must be "
                f"({num_samples}, M)"
            )
        likeliest = np.asarray(logits.argmax(dim=-1).cpu().numpy(), np.int64)
        names, rows = ("positions_all", "yaws_all"), likeliest
    elif "agent_positions" in outputs:
        names, rows = ("agent_positions", "agent_yaws"), np.zeros(num_samples, np.int64)
    else:
        raise InvalidArgumentError(
            f"the network gave no 'positions', but {sorted(map(str, outputs))}; a driver needs 'positions' (B, T, 2) "
            "and 'yaws' (B, T, 1) of a network in eval mode"
        )
    positions_m = _values_of(outputs, names[0], num_samples, width=2, rows=rows)
    if headings == "path":
        return NetworkPlans(positions_m, headings_of_paths(positions_m))
    yaws_rad = _values_of(outputs, names[1], num_samples, width=1, rows=rows)
    if yaws_rad.shape[1] != positions_m.shape[1]:
        raise InvalidArgumentError(
            f"the network gave {names[1]!r} of {yaws_rad.shape[1]} steps for {names[0]!r} of {positions_m.shape[1]}"
        )
    return NetworkPlans(positions_m, yaws_rad[..., 0])


def headings_of_paths(positions_m: Float64Array) -> Float64Array:
    """Return headings along paths that begin at the origin with heading 0.

    The heading of a step is the direction from the previous position to the first later one that is at least 1 m away.
    If there is none, as at the end and for stationary agents, the heading is kept.

    Args:
        positions_m: x and y, (B, T, 2).

    Returns:
        Radians, (B, T).
    """
    num_paths, num_steps = positions_m.shape[:2]
    points_m = np.concatenate([np.zeros((num_paths, 1, 2)), positions_m], axis=1)
    headings_rad, current = np.zeros((num_paths, num_steps)), np.zeros(num_paths)
    for step in range(num_steps):
        # use chords of a metre, as the direction of shorter ones is dominated by noise of stationary vehicles
        offsets_m = points_m[:, step + 1 :] - points_m[:, step : step + 1]
        is_away = (offsets_m**2).sum(axis=-1) >= _CHORD_M**2
        chord_m = offsets_m[np.arange(num_paths), is_away.argmax(axis=1)]
        turned = np.arctan2(chord_m[:, 1], chord_m[:, 0])
        current = np.where(is_away.any(axis=1), turned, current)
        headings_rad[:, step] = current
    return headings_rad


def _values_of(
    outputs: Mapping[str, object], key: str, num_samples: int, *, width: int, rows: Int64Array | None
) -> Float64Array:
    """Return an output as (B, T, width), with the chosen row of each sample if it has rows."""
    tensor = _tensor_of(outputs, key)
    shape = tuple(tensor.shape)
    num_axes = 3 if rows is None else 4
    if len(shape) != num_axes or shape[0] != num_samples or shape[-1] != width or 0 in shape[1:]:
        wanted = ", ".join([str(num_samples), *("M" for _ in range(num_axes - 3)), "T", str(width)])
        raise InvalidArgumentError(
            f"the network gave {key!r} of shape {shape}; for {num_samples} samples it must be ({wanted})"
        )
    if rows is not None:
        tensor = tensor[torch.arange(num_samples), torch.from_numpy(rows)]
    return np.asarray(tensor.cpu().double().numpy(), np.float64)


def _tensor_of(outputs: Mapping[str, object], key: str) -> torch.Tensor:
    value = outputs.get(key)
    if not isinstance(value, torch.Tensor):
        problem = f"as {type(value).__name__}" if key in outputs else f"not, but {sorted(map(str, outputs))}"
        raise InvalidArgumentError(f"the network gave {key!r} {problem}; a driver needs it as a tensor")
    return value.detach()
