"""Sampler of vectors around agents, which have the AV among the other agents."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from l5kit._types import Column, NumericArray, Records, Sample
from l5kit.data.track_ids import EGO_TRACK_ID
from l5kit.data.windows import Targets, Windows
from l5kit.sampling.poses import relative_poses
from l5kit.sampling.sample_columns import ColumnMemory
from l5kit.sampling.sample_keys import ROWS_OF_AV
from l5kit.sampling.tracks import TrackStates, trace_av
from l5kit.sampling.vector_sampler import AV_TYPE, VectorSampler


@dataclass(frozen=True)
class AgentVectorSampler(VectorSampler):
    """Makes vector samples of agents that have the AV as the first of the other agents.

    The log has no agent row of the AV, so that the samples of :class:`VectorSampler` around an agent do not show it.
    Here it takes one row more than the vectorizer has for other agents. It is shown under the condition of all others:
    if it comes closer than ``max_agents_distance`` to where the target is now, in a frame of the past or the current
    one. Else its row is empty, as it is in samples of the AV itself.
    """

    def __call__(
        self,
        state_index: int,
        frames: Records,
        agents: Records,
        tl_faces: Records | None,
        selected_track_id: int | None = None,
    ) -> Sample:
        """Return one sample, with the AV among the other agents; arguments and errors as for the base class."""
        sample = super().__call__(state_index, frames, agents, tl_faces, selected_track_id)
        return sample | {"type": int(sample["type"])}

    def _columns(
        self, windows: Windows, track_ids: NumericArray | None, memory: ColumnMemory | None
    ) -> dict[str, Column]:
        columns = super()._columns(windows, track_ids, memory)
        arrays = {key: column for key, column in columns.items() if isinstance(column, np.ndarray)}
        return columns | self._with_av(windows, arrays, is_of_av=track_ids is None)

    def _vectorize_single(self, windows: Windows, targets: Targets, sample: Sample) -> Sample:
        surroundings = super()._vectorize_single(windows, targets, sample)
        arrays = {key: np.asarray(value)[None] for key, value in (sample | surroundings).items()}
        with_av = self._with_av(windows, arrays, is_of_av=targets.track_ids is None)
        return surroundings | {key: column[0] for key, column in with_av.items()}

    def _with_av(
        self, windows: Windows, columns: Mapping[str, NumericArray], *, is_of_av: bool
    ) -> dict[str, NumericArray]:
        """Return the columns of the other agents of B samples, with one row more in front: that of the AV."""
        agents = {key: columns[key] for key in ROWS_OF_AV if key in columns}
        rows = {key: np.zeros((len(column), *column.shape[2:]), column.dtype) for key, column in agents.items()}
        if not is_of_av:
            self._write_av(windows, columns, rows)
        return {key: np.concatenate([rows[key][:, None], column], axis=1) for key, column in agents.items()}

    def _write_av(
        self, windows: Windows, columns: Mapping[str, NumericArray], rows: Mapping[str, NumericArray]
    ) -> None:
        """Write where the AV was and will be, as seen by the targets, to rows (B, ...) of zeros."""
        states = TrackStates.empty(*windows.frames.shape)
        num_history = windows.num_history
        trace_av(windows.frames, windows.counts, states, num_history=num_history, extent_m=windows.ego_extent_m)

        # the condition of other agents, as kernels compute it; what stands where the AV is not there means nothing
        x_m, y_m = np.moveaxis(states.positions_m[:, :num_history] - columns["centroid"][:, None], -1, 0)
        with np.errstate(all="ignore"):
            is_close = np.sqrt(x_m * x_m + y_m * y_m) < self.vectorizer.max_agents_distance
        is_shown = (states.is_there[:, :num_history] & is_close).any(axis=1)
        states.is_there[~is_shown] = False
        states.is_there[:, self.vectorizer.history_num_frames_agents + 1 : num_history] = False

        poses = relative_poses(states, columns["agent_from_world"], columns["yaw"])
        for period, steps in (("history", slice(0, num_history)), ("future", slice(num_history, None))):
            num_steps = poses.availabilities[:, steps].shape[1]
            for name, values in (
                ("positions", poses.positions_m),
                ("yaws", poses.yaws_rad),
                ("extents", poses.extents_m),
                ("availability", poses.availabilities),
            ):
                rows[f"all_other_agents_{period}_{name}"][:, :num_steps] = values[:, steps]
        rows["all_other_agents_types"][is_shown] = AV_TYPE
        rows["all_other_agents_track_ids"][is_shown] = EGO_TRACK_ID
        past = np.concatenate([poses.positions_m, poses.yaws_rad], axis=-1)[:, :num_history]
        rows["other_agents_polyline"][:, :num_history] = past
        rows["other_agents_polyline_availability"][:, :num_history] = poses.availabilities[:, :num_history]
