"""Device driving reward: what steps of many environments are worth, computed on a device."""

import itertools

import numpy as np
import torch

from l5kit._types import Int64Array
from l5kit.device.backend import DeviceArray
from l5kit.environment.device.device_compact_view import DeviceCompactView
from l5kit.environment.device.device_env_kernels import judge_steps
from l5kit.environment.device.device_simulation import DeviceSimulation
from l5kit.environment.rewards.driving_reward import FAILURES, DrivingReward
from l5kit.environment.rewards.step_faults import room_for_lanes
from l5kit.environment.traffic.scene_bank import SceneBank
from l5kit.evaluation.driving.comfort import COMFORT_BOUNDS

__all__ = ["DeviceDrivingReward"]


class DeviceDrivingReward:
    """What steps of the AVs of a device simulation are worth, by the rules and numbers of a driving reward.

    Steps are followed from look to look of the view, so judge once after each.

    Args:
        reward: Has weights, and says what ends episodes; it stays as it is.
        simulation: The AVs.
        view: What they see, of the same simulation; routes and road users are taken from there.
        step_time_s: Seconds of a step.

    Attributes:
        totals: What the last step was worth, float64 (N,) on the device, in memory that is used again, like all here.
        terms: Its parts, in the order of ``reward.terms``, float64 (N, T).
        sums: Totals and terms of the episodes so far, float64 (N, 1 + T).
        failures: What went wrong in it, in the order of ``FAILURES``, bool (N, 4).
        is_terminated: Whether it has ended the task, bool (N,).
        is_truncated: Whether it has reached the last frame of an episode without that, bool (N,).
        states: ``GOES_ON``, ``IS_OVER`` or ``IS_BAD``, int8 (N,).
    """

    def __init__(
        self, reward: DrivingReward, simulation: DeviceSimulation, view: DeviceCompactView, *, step_time_s: float
    ) -> None:
        self._simulation, self._view = simulation, view
        backend, bank, size = simulation.backend, simulation.bank, len(simulation)
        bounds = np.array(list(COMFORT_BOUNDS.values()), np.float64)
        rules = reward.rules(step_time_s)
        bounds, factors, ends = backend.upload([bounds, rules.factors, rules.ends])
        arrays = simulation.traffic.arrays
        of = arrays.paths
        # a GPU takes 4 kB of arguments at most
        paths = (0, 0, 0, of.piece_starts, of.piece_arcs_m, 0, of.line_lanes, of.piece_limits_mps)
        lights = (arrays.lights.starts, arrays.lights.ranks)
        self._bank = (arrays.scenes, paths, lights, arrays.ego.arcs_m, arrays.ego.poses)
        self._rules = (reward.numbers(step_time_s), bounds, rules._replace(factors=factors, ends=ends))
        self._remembered = self._make_memory(_most_tracks(bank))
        self._room = (
            backend.zeros((size, 2), np.int64),
            backend.zeros((size, 5), np.float64),
            backend.zeros(room_for_lanes(None if bank.road is None else bank.road.driving, size), np.int64),
            backend.zeros((size, 2), np.float64),
        )
        num_terms = len(reward.terms)
        self._out = (
            backend.zeros(size, np.float64),
            backend.zeros((size, num_terms), np.float64),
            backend.zeros((size, 1 + num_terms), np.float64),
            backend.zeros((size, len(FAILURES)), np.bool_),
            backend.zeros(size, np.bool_),
            backend.zeros(size, np.bool_),
            backend.zeros(size, np.int8),
        )
        self.totals, self.terms, self.sums, self.failures, *ends_of, self.states = map(backend.tensor, self._out)
        self.is_terminated: torch.Tensor
        self.is_truncated: torch.Tensor
        self.is_terminated, self.is_truncated = ends_of
        backend.wait()  # for what other streams may read

    def judge(self, last_frames: DeviceArray, is_bad: DeviceArray) -> None:
        """Judge the step that all slots have just done, all of which have started.

        Args:
            last_frames: The last frame of each episode, counted in its scene, int64 (N,) on the device.
            is_bad: Whose action was not finite, bool (N,) on the device.
        """
        simulation, view, rows = self._simulation, self._view, self._view.rows
        simulation.backend.run(
            judge_steps,
            len(simulation),
            simulation.traffic.places,
            self._bank,
            simulation.arrays,
            ((rows.sizes, rows.starts, rows.found), view.places),
            simulation.map_checks,
            self._remembered,
            self._room,
            self._rules,
            (last_frames, is_bad),
            self._out,
        )

    def _make_memory(self, most_tracks: int) -> tuple[DeviceArray | tuple[DeviceArray, ...], ...]:
        """Return starts that have been seen, who has collided, and how things stood before the step, and after it."""
        backend, size = self._simulation.backend, len(self._simulation)
        collided = (backend.zeros((size, most_tracks), np.int64), backend.zeros(size, np.int64))
        before = (
            backend.zeros((size, 3), np.float64),
            backend.zeros((size, 3), np.float64),
            backend.zeros(size, np.float64),
            backend.zeros(size, np.int64),
            backend.zeros(size, np.float64),
        )
        now = (backend.zeros((size, 3), np.float64), backend.zeros(size, np.float64))
        return backend.zeros(size, np.int64), collided, before, now


def _most_tracks(bank: SceneBank) -> int:
    """Return how many tracks the scene has that has most of them, at least 1; each collides once at most."""
    bounds: Int64Array = bank.rows.starts[bank.frame_starts]
    tracks = bank.rows.tracks
    counts = [len(np.unique(tracks[first:end])) for first, end in itertools.pairwise(bounds.tolist())]
    return max(1, *counts)
