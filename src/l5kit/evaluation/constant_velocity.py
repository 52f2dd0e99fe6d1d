"""The constant-velocity baseline: everything goes on as fast, and in the same direction, as it does now."""

from collections.abc import Iterable, Mapping, Sequence

import torch

from l5kit.evaluation.horizon_scores import HorizonScore
from l5kit.evaluation.kinematic_baselines import baseline_positions, past_of, score_baselines
from l5kit.kinematic.baselines import current_velocities


def constant_velocities(batch: Mapping[str, torch.Tensor], *, step_time_s: float) -> torch.Tensor:
    """Return the current velocities of the agents of a batch of samples, raster or vector, (B, 2) in m/s.

    A velocity is the way from the nearest earlier position that is known to the current one, over the time between. It
    is 0 where no earlier position is known.

    Args:
        batch: Samples with ``history_positions`` (B, H + 1, 2), the current one first, and ``history_availabilities``
            (B, H + 1), H >= 1.
        step_time_s: Seconds between two steps.

    Raises:
        InvalidArgumentError: A key is missing, or H is 0.
    """
    positions, is_known = past_of(batch)
    return current_velocities(positions, is_known, step_time_s)


def constant_velocity_positions(
    batch: Mapping[str, torch.Tensor], *, num_steps: int, step_time_s: float
) -> torch.Tensor:
    """Return where the agents of a batch get to if they keep their velocities, (B, num_steps, 2).

    Args:
        batch: Samples, as for :func:`constant_velocities`.
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps.

    Returns:
        Metres, in the frame of ``history_positions``, which is that of ``target_positions``.

    Raises:
        InvalidArgumentError: A key is missing, or the samples have no history.
    """
    return baseline_positions(batch, "constant_velocity", num_steps=num_steps, step_time_s=step_time_s)


def score_constant_velocity(
    batches: Iterable[Mapping[str, torch.Tensor]], *, horizons_s: Sequence[float], step_time_s: float
) -> tuple[HorizonScore, ...]:
    """Return the mean errors of the baseline over batches of samples, such as a ``DataLoader`` gives.

    Args:
        batches: Samples, as for :func:`constant_velocities`, with ``target_positions`` and ``target_availabilities``.
        horizons_s: Times ahead in seconds, multiples of the step.
        step_time_s: Seconds between two steps.

    Raises:
        InvalidArgumentError: A key is missing, the samples have no history, or a horizon is not a multiple of the step
            or beyond the targets.
    """
    scores = score_baselines(batches, horizons_s=horizons_s, step_time_s=step_time_s, baselines=("constant_velocity",))
    return scores["constant_velocity"]
