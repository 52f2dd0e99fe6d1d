"""Kept plans: what drivers planned in each step of the scenes of a batch, brought to the same times."""

from dataclasses import dataclass

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int64Array
from l5kit.simulation.engine.actions import Actions

__all__ = ["KeptPlans"]

_SAME_S = 1e-9


@dataclass(frozen=True, eq=False)
class _Step:
    """Plans (K, T, 3) that some scenes had in some frames, (K,) each, and their times (T,)."""

    scenes: Int64Array
    frames: Int64Array
    times_s: Float64Array
    poses: Float32Array


class KeptPlans:
    """The plans of S scenes of up to F frames, whose lengths and times may differ.

    Args:
        shape: S and F.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._steps: list[_Step] = []

    def keep(self, scenes: Int64Array, frames: Int64Array, actions: Actions, step_time_s: float) -> None:
        """Keep the plans of scenes (K,) in frames (K,); controls are none."""
        if actions.is_plan and len(actions):
            times_s = actions.times_of(step_time_s).copy()
            self._steps.append(_Step(scenes, frames, times_s, actions.values.astype(np.float32)))

    def joined(self) -> tuple[Float32Array | None, Float64Array | None]:
        """Return all plans, (S, F, T, 3), and the times of all of them, (T,); None where there are none.

        Plans of other times are interpolated, and are NaN before their first and behind their last time.
        """
        if not self._steps:
            return None, None
        times_s = _all_times([step.times_s for step in self._steps])
        plans = np.full((*self._shape, len(times_s), 3), np.nan, np.float32)
        for step in self._steps:
            size = len(step.times_s)
            if np.allclose(step.times_s, times_s[:size], rtol=0, atol=_SAME_S):
                plans[step.scenes, step.frames, :size] = step.poses
            else:
                plans[step.scenes, step.frames] = _poses_at(times_s, step)
        return plans, times_s


def _all_times(parts: list[Float64Array]) -> Float64Array:
    """Return the times of several plans, each of them once, rising."""
    longest = max(parts, key=len)
    kinds = {part.tobytes(): part for part in parts}.values()
    if all(np.allclose(part, longest[: len(part)], rtol=0, atol=_SAME_S) for part in kinds):
        return longest
    times_s = np.sort(np.concatenate(list(kinds)))
    each_once: Float64Array = times_s[np.concatenate([[True], np.diff(times_s) > _SAME_S])]
    return each_once


def _poses_at(times_s: Float64Array, step: _Step) -> Float64Array:
    """Return plans at other times, (K, T, 3), headings the short way round."""
    poses = step.poses.astype(np.float64)
    poses[..., 2] = np.unwrap(poses[..., 2], axis=1)
    after = np.clip(np.searchsorted(step.times_s, times_s), 1, max(len(step.times_s) - 1, 1))
    before, after = after - 1, np.minimum(after, len(step.times_s) - 1)
    spans_s = step.times_s[after] - step.times_s[before]
    parts = np.divide(times_s - step.times_s[before], spans_s, out=np.zeros(len(times_s)), where=spans_s > 0)
    found: Float64Array = poses[:, before] + parts[:, None] * (poses[:, after] - poses[:, before])
    is_outside = (times_s < step.times_s[0] - _SAME_S) | (times_s > step.times_s[-1] + _SAME_S)
    found[:, is_outside] = np.nan
    return found
