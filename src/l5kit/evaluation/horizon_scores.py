"""Mean errors of trajectories up to several horizons, and those of kinematic baselines that a model should beat.

Constant velocity keeps the velocity between the last two known positions. CTRV keeps speed and turn rate, CTRA
acceleration and turn rate; both are fitted to the whole history of a sample by least squares.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.metrics import displacements
from l5kit.evaluation.result_files import MISS_THRESHOLD_M
from l5kit.kinematic.baselines import BASELINES, Baseline, baseline_displacements, current_velocities


@dataclass(frozen=True)
class HorizonScore:
    """Mean errors of trajectories up to one horizon; with several modes, the best one counts.

    Attributes:
        horizon_s: The horizon, seconds ahead.
        ade_m: Mean over the known steps up to the horizon, then over the trajectories with any; NaN without any.
        fde_m: Mean error at the horizon over the trajectories whose truth is known there; NaN without any.
        miss_rate: Share of these trajectories whose error at the horizon is above 2 m or NaN; NaN without any.
        num_trajectories: Number of trajectories in ``ade_m``.
        num_final: Number of trajectories in ``fde_m`` and ``miss_rate``.
    """

    horizon_s: float
    ade_m: float
    fde_m: float
    miss_rate: float
    num_trajectories: int
    num_final: int


class HorizonScores:
    """Accumulates the errors of trajectories, batch by batch.

    Sums are float64 on the CPU, so that the result does not depend on the batches.

    Args:
        horizons_s: Horizons in seconds, multiples of the step.
        step_time_s: Seconds between two steps.

    Raises:
        InvalidArgumentError: A horizon is not a positive multiple of the step, or there is none.
    """

    def __init__(self, horizons_s: Sequence[float], *, step_time_s: float) -> None:
        self._horizons_s = tuple(float(horizon_s) for horizon_s in horizons_s)
        self._num_steps = [round(horizon_s / step_time_s) for horizon_s in self._horizons_s]
        for horizon_s, num_steps in zip(self._horizons_s, self._num_steps, strict=True):
            if num_steps < 1 or abs(num_steps * step_time_s - horizon_s) > 1e-6:
                raise InvalidArgumentError(
                    f"horizons_s holds {horizon_s}; it must be a positive multiple of {step_time_s} s"
                )
        if not self._num_steps:
            raise InvalidArgumentError("horizons_s is empty; pass at least one time in seconds")
        self._sums = torch.zeros(len(self._num_steps), 5, dtype=torch.float64)

    def add(self, ground_truth: torch.Tensor, pred: torch.Tensor, avails: torch.Tensor) -> None:
        """Add a batch of trajectories.

        Args:
            ground_truth: True positions in metres, (B, T, 2).
            pred: Predicted positions, (B, T, 2), or (B, M, T, 2) for several modes.
            avails: 1 where the truth is known, else 0, (B, T).

        Raises:
            InvalidArgumentError: The shapes do not fit, or T is below a horizon.
        """
        modes = pred[:, None] if pred.dim() == 3 else pred
        if (
            modes.dim() != 4
            or (modes.shape[0], *modes.shape[2:]) != tuple(ground_truth.shape)
            or avails.shape != ground_truth.shape[:2]
        ):
            raise InvalidArgumentError(
                f"ground_truth has shape {tuple(ground_truth.shape)}, pred (with modes) {tuple(modes.shape)}, avails "
                f"{tuple(avails.shape)}; they must be (B, T, 2), (B, M, T, 2) and (B, T)"
            )
        if ground_truth.shape[1] < max(self._num_steps):
            raise InvalidArgumentError(
                f"ground_truth has {ground_truth.shape[1]} steps, but the longest of horizons_s needs "
                f"{max(self._num_steps)}"
            )
        is_known = (avails > 0).cpu()
        errors_m = displacements(ground_truth.detach(), modes.detach(), avails).double().cpu()

        # errors of the nearest mode: the mean up to each horizon with a known step, and the error at the horizon if
        # known; counts of 0, whose sums are 0, are clamped to 1 in the denominator
        for row, num_steps in enumerate(self._num_steps):
            known = is_known[:, :num_steps]
            counts = known.sum(dim=1)
            averages_m = (errors_m[:, :, :num_steps].sum(dim=-1) / counts.clamp(min=1)[:, None]).amin(dim=1)
            finals_m = errors_m[:, :, num_steps - 1].amin(dim=1)  # 0 if unknown
            sums = (
                averages_m.sum(),
                (counts > 0).sum(),
                finals_m.sum(),
                known[:, -1].sum(),
                (known[:, -1] & ~(finals_m <= MISS_THRESHOLD_M)).sum(),  # NaN is a miss
            )
            self._sums[row] += torch.stack([value.double() for value in sums])

    def scores(self) -> tuple[HorizonScore, ...]:
        """Return the mean errors of all added trajectories, one score for each horizon."""
        rows = zip(self._horizons_s, self._sums.tolist(), strict=True)
        return tuple(
            HorizonScore(
                horizon_s=horizon_s,
                ade_m=_ratio(ade_sum, num_trajectories),
                fde_m=_ratio(fde_sum, num_final),
                miss_rate=_ratio(num_missed, num_final),
                num_trajectories=int(num_trajectories),
                num_final=int(num_final),
            )
            for horizon_s, (ade_sum, num_trajectories, fde_sum, num_final, num_missed) in rows
        )


def _ratio(total: float, count: float) -> float:
    return total / count if count else float("nan")


def baseline_positions(
    batch: Mapping[str, torch.Tensor],
    baseline: Baseline,
    *,
    num_steps: int,
    step_time_s: float,
    past_step_time_s: float | None = None,
) -> torch.Tensor:
    """Return the positions of agents predicted by a baseline, for samples with rasters or vectors, (B, num_steps, 2).

    Args:
        batch: Samples with ``history_positions`` (B, H + 1, 2), the current one first, ``history_availabilities``
            (B, H + 1), H >= 1, and ``history_yaws`` (B, H + 1, 1), which constant velocity does not need.
        baseline: ``constant_velocity``, ``ctrv`` or ``ctra``.
        num_steps: Number of steps ahead; the first is one step from now.
        step_time_s: Seconds between two future steps.
        past_step_time_s: Seconds between two past steps; None for the same.

    Returns:
        Metres, in the frame of ``history_positions``, which is that of ``target_positions``.

    Raises:
        InvalidArgumentError: A key is missing, the samples have no history, or the baseline is unknown.
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
        horizons_s: Horizons in seconds, multiples of the step.
        step_time_s: Seconds between two steps.
        baselines: The baselines.

    Raises:
        InvalidArgumentError: A key is missing, the samples have no history, a baseline is unknown, or a horizon is not
            a multiple of the step or beyond the targets.
    """
    scores = {baseline: HorizonScores(horizons_s, step_time_s=step_time_s) for baseline in baselines}
    for batch in batches:
        truth, is_known = _take(batch, "target_positions"), _take(batch, "target_availabilities")
        for baseline, gathered in scores.items():
            predicted = baseline_positions(batch, baseline, num_steps=truth.shape[1], step_time_s=step_time_s)
            gathered.add(truth, predicted, is_known)
    return {baseline: gathered.scores() for baseline, gathered in scores.items()}


def past_of(batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the past positions of a batch (B, H + 1, 2), H >= 1, and their mask of known ones, bool (B, H + 1).

    Raises:
        InvalidArgumentError: A key is missing, or H is 0.
    """
    positions, is_known = _take(batch, "history_positions"), _take(batch, "history_availabilities") > 0
    if positions.shape[1] < 2:
        raise InvalidArgumentError(
            f"history_positions has shape {tuple(positions.shape)}, without earlier positions; create the samples with "
            "history_num_frames of at least 1"
        )
    return positions, is_known


def _take(batch: Mapping[str, torch.Tensor], key: str) -> torch.Tensor:
    if key not in batch:
        raise InvalidArgumentError(f"batch has no {key!r}; pass samples of a dataset, got the keys {sorted(batch)}")
    return batch[key]


def constant_velocities(batch: Mapping[str, torch.Tensor], *, step_time_s: float) -> torch.Tensor:
    """Return the current velocities of agents, for samples with rasters or vectors, (B, 2) in m/s.

    A velocity is the displacement from the nearest known earlier position to the current one, over the time between.
    It is 0 without a known earlier position.

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
    """Return the future positions of the agents of a batch if they keep their velocities, (B, num_steps, 2).

    Args:
        batch: Samples, as for :func:`constant_velocities`.
        num_steps: Number of steps ahead; the first is one step from now.
        step_time_s: Seconds between two steps.

    Returns:
        Metres, in the frame of ``history_positions``, which is that of ``target_positions``.

    Raises:
        InvalidArgumentError: A key is missing, or the samples have no history.
    """
    return baseline_positions(batch, "constant_velocity", num_steps=num_steps, step_time_s=step_time_s)
