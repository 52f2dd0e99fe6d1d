"""Kinematic baselines that every model has to beat, and their errors: constant velocity, CTRV and CTRA.

Constant velocity goes on as fast, and in the same direction, as between the last two known positions. CTRV keeps turn
rate and speed, CTRA turn rate and acceleration; both are fitted to the whole history of a sample by least squares.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch

from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.horizon_scores import HorizonScore, HorizonScores
from l5kit.kinematic.baselines import BASELINES, Baseline, baseline_displacements, current_velocities


def baseline_positions(
    batch: Mapping[str, torch.Tensor],
    baseline: Baseline,
    *,
    num_steps: int,
    step_time_s: float,
    past_step_time_s: float | None = None,
) -> torch.Tensor:
    """Return where the agents of a batch of samples, raster or vector, get to by a baseline, (B, num_steps, 2).

    Args:
        batch: Samples with ``history_positions`` (B, H + 1, 2), the current one first, ``history_availabilities``
            (B, H + 1), H >= 1, and ``history_yaws`` (B, H + 1, 1), which constant velocity does without.
        baseline: ``constant_velocity``, ``ctrv`` or ``ctra``.
        num_steps: Steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps ahead.
        past_step_time_s: Seconds between two past ones; None for the same.

    Returns:
        Metres, in the frame of ``history_positions``, which is that of ``target_positions``.

    Raises:
        InvalidArgumentError: A key is missing, the samples have no history, or there is no such baseline.
    """
    if baseline not in BASELINES:
        raise InvalidArgumentError(
            f"baseline is {baseline!r}{did_you_mean(baseline, BASELINES)}; "
            f"allowed are {', '.join(map(repr, BASELINES))}"
        )
    positions, is_known = past_of(batch)
    yaws = positions[..., 0] if baseline == "constant_velocity" else _take(batch, "history_yaws")[..., 0]
    displacements_m = baseline_displacements(
        baseline,
        positions,
        yaws,
        is_known,
        num_steps=num_steps,
        step_time_s=step_time_s,
        past_step_time_s=step_time_s if past_step_time_s is None else past_step_time_s,
    )
    return positions[:, :1] + displacements_m


def score_baselines(
    batches: Iterable[Mapping[str, torch.Tensor]],
    *,
    horizons_s: Sequence[float],
    step_time_s: float,
    baselines: Sequence[Baseline] = BASELINES,
) -> dict[Baseline, tuple[HorizonScore, ...]]:
    """Return the mean errors of baselines over batches of samples, such as a ``DataLoader`` gives.

    Args:
        batches: Samples, as for :func:`baseline_positions`, with ``target_positions`` and ``target_availabilities``.
        horizons_s: Times ahead in seconds, multiples of the step.
        step_time_s: Seconds between two steps.
        baselines: Which of them.

    Raises:
        InvalidArgumentError: A key is missing, the samples have no history, there is no such baseline, or a horizon is
            not a multiple of the step or beyond the targets.
    """
    scores = {baseline: HorizonScores(horizons_s, step_time_s=step_time_s) for baseline in baselines}
    for batch in batches:
        truth, is_known = _take(batch, "target_positions"), _take(batch, "target_availabilities")
        for baseline, gathered in scores.items():
            predicted = baseline_positions(batch, baseline, num_steps=truth.shape[1], step_time_s=step_time_s)
            gathered.add(truth, predicted, is_known)
    return {baseline: gathered.scores() for baseline, gathered in scores.items()}


def past_of(batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return past positions of a batch (B, H + 1, 2), H >= 1, and where they are known, bool (B, H + 1).

    Raises:
        InvalidArgumentError: A key is missing, or H is 0.
    """
    positions, is_known = _take(batch, "history_positions"), _take(batch, "history_availabilities") > 0
    if positions.shape[1] < 2:
        raise InvalidArgumentError(
            f"history_positions has shape {tuple(positions.shape)}, without any earlier position; make the samples "
            "with history_num_frames of at least 1"
        )
    return positions, is_known


def _take(batch: Mapping[str, torch.Tensor], key: str) -> torch.Tensor:
    if key not in batch:
        raise InvalidArgumentError(f"batch has no {key!r}; pass samples of a dataset, it has {sorted(batch)}")
    return batch[key]


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
