"""Samplers: samples of windows with rasters or vectors, one by one or in batches."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import BoolArray, Column, NumericArray, Records, Sample
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.index.track_ids import EGO_TRACK_ID
from l5kit.data.index.windows import CurrentFrames, Targets, Windows, WindowSteps, cut_windows
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.log_facts import EGO_EXTENT_M
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.errors import UnsupportedValueError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import SceneRoutes
from l5kit.rasterization.painter import recycled_memory
from l5kit.rasterization.rasterizer import Rasterizer, WindowRasterizer, channels_first, channels_last
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling.sample_columns import (
    ColumnMemory,
    SampleColumns,
    memory_of,
    require_keys,
    sample_of,
    scattered,
    stored,
)
from l5kit.sampling.sample_keys import ROWS_OF_AV
from l5kit.sampling.tracks import (
    StepTimes,
    TrackStates,
    Trajectories,
    as_track_ids,
    find_av,
    find_targets,
    hold_track_ids,
    perturb_windows,
    relative_poses,
    trace_av,
    trace_targets,
    track_missing,
    trajectories,
)
from l5kit.vectorization.vectorizer import Vectorizer


class WindowSampler(ABC):
    """Base of samplers, which make samples of windows from any source; frozen dataclasses with its three attributes.

    Attributes:
        params: Definition of the window of a sample.
        perturbation: Moves the AV's frames; None for the logged poses.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches hold theirs.
    """

    # for type checkers only: dataclasses.replace accepts all derived classes
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    params: SamplingParams | VectorSamplingParams
    perturbation: Perturbation | None
    ego_extent_m: tuple[float, float, float]

    @cached_property
    def steps(self) -> WindowSteps:
        """Frames of a sample."""
        return WindowSteps.from_params(self.params)

    @cached_property
    def times(self) -> StepTimes:
        """Times between the frames of a sample."""
        return StepTimes.from_params(self.params)

    @property
    @abstractmethod
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None for samples without a route."""

    @property
    @abstractmethod
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used; otherwise only single samples can be made."""

    def make_columns(
        self,
        windows: Windows,
        track_ids: ArrayLike | None = None,
        *,
        out: Mapping[str, NumericArray] | ColumnMemory | None = None,
        missing: Literal["error", "mask"] = "error",
    ) -> SampleColumns:
        """Return the samples of B windows.

        Args:
            windows: Cut with :attr:`steps`, or with as many frames; the perturbation modifies them.
            track_ids: The targets, (B,), whole numbers, ideally in the dtype of the agents' field; None for the AV.
            out: Memory for the columns: arrays by key, with the shapes and dtypes of the result and at least as many
                rows, which must not overlap. Missing keys get new memory.
            missing: Treatment of windows whose target is not in the current frame, or fails the label filter: ``error``
                to raise, or ``mask`` to set zeros in all columns made here and False in ``is_made``.

        Returns:
            One array (B, ...) for each key of a sample; rasters have the channels first.

        Raises:
            TrackNotFoundError: A target is missing, and ``missing`` is ``error``.
            InvalidArgumentError: An array of ``out`` does not fit, cannot be written, overlaps another one or has an
                unknown key; or ``track_ids`` does not hold one whole number for each window.
        """
        memory = memory_of(out)
        columns, is_made = self.make_arrays(windows, track_ids, memory, missing=missing)
        require_keys(out, columns)
        return SampleColumns(stored(columns, memory), is_made)

    def make_arrays(
        self,
        windows: Windows,
        track_ids: ArrayLike | None,
        memory: ColumnMemory | None,
        *,
        missing: Literal["error", "mask"],
    ) -> tuple[dict[str, Column], BoolArray]:
        """Return the columns of the samples of B windows, and a mask of those that could be made, (B,).

        Like :meth:`make_columns`, with only large columns in ``memory``.
        """
        if missing not in ("error", "mask"):
            raise UnsupportedValueError(f"missing is {missing!r}; use 'error' or 'mask'")

        # convert track ids to the dtype of records; ids that do not fit are missing tracks
        ids, can_be_held = (None, None) if track_ids is None else hold_track_ids(windows, track_ids)
        if missing == "mask" and ids is not None:
            is_present = find_targets(windows, ids, self.params.filter_agents_threshold).is_present
            if can_be_held is not None:
                is_present = is_present & can_be_held
            # make the possible samples, with zeros for the others
            if not is_present.all():
                made = self._columns(windows.taken(is_present), ids[is_present], None)
                return scattered(made, is_present), is_present
        elif track_ids is not None and can_be_held is not None and not can_be_held.all():
            missing_id = np.asarray(track_ids, dtype=object)[np.flatnonzero(~can_be_held)[0]]
            raise track_missing(int(missing_id), -1, 0.0)
        return self._columns(windows, ids, memory), np.ones(len(windows), np.bool_)

    @abstractmethod
    def _columns(
        self, windows: Windows, track_ids: NumericArray | None, memory: ColumnMemory | None
    ) -> dict[str, Column]:
        """Return all columns of a batch, with large ones already in ``memory``."""

    def __call__(
        self,
        state_index: int,
        frames: Records,
        agents: Records,
        tl_faces: Records | None,
        selected_track_id: int | None = None,
        *,
        channels_first: bool = False,
    ) -> Sample:
        """Return the sample of one frame of a scene.

        Arguments, result and errors are those of :func:`l5kit.sampling.generate_agent_sample`, or of
        :func:`~l5kit.sampling.agent_sampling_vectorized.generate_agent_sample_vectorized`; with ``channels_first`` a
        raster is (C, H, W).
        """
        # the window of the frame, and one track as an array (1,), or None for the AV
        faces = np.empty(0, dtype=TL_FACE_DTYPE) if tl_faces is None else tl_faces
        current = CurrentFrames.of_scene(frames, state_index)
        windows = cut_windows(current, agents, faces, self.steps, ego_extent_m=self.ego_extent_m)
        track_ids = None if selected_track_id is None else as_track_ids(windows.agents.dtype, selected_track_id)
        if selected_track_id is not None and track_ids is None:
            raise track_missing(selected_track_id, -1, self.params.filter_agents_threshold)
        route_map = self.route_map
        if route_map is not None and track_ids is None:
            step_time_s = self.params.step_time_s
            routes = SceneRoutes(lambda _: np.asarray(frames), 1, route_map=route_map, step_time_s=step_time_s)
            windows = routes.of_log(windows, np.zeros(1, np.int64), np.array([state_index]))
        if self.makes_batches:
            sample = sample_of(self._columns(windows, track_ids, None), 0)
        else:
            sample = self._make_single(windows, self.perturb_and_find(windows, track_ids))
        return self._finished(sample, state_index, is_of_av=track_ids is None, channels_first=channels_first)

    @abstractmethod
    def _make_single(self, windows: Windows, targets: Targets) -> Sample:
        """Return the sample of one window, with a rasterizer or vectorizer that only supports single windows."""

    @abstractmethod
    def _finished(self, sample: Sample, state_index: int, *, is_of_av: bool, channels_first: bool) -> Sample:
        """Return a single sample in the types of L5Kit 1.5, with the raster in the given order."""

    def perturb_and_find(self, windows: Windows, track_ids: NumericArray | None) -> Targets:
        """Perturb the AV in windows, and return the targets: tracks (B,), or the AV if ``track_ids`` is None.

        Raises:
            TrackNotFoundError: A track is not in its current frame or fails the label filter.
        """
        perturb_windows(windows, self.perturbation)
        if track_ids is None:
            return find_av(windows)
        threshold = self.params.filter_agents_threshold
        targets = find_targets(windows, track_ids, threshold)
        if targets.rows is not None and np.count_nonzero(targets.rows < 0):
            first = int(np.flatnonzero(targets.rows < 0)[0])
            raise track_missing(int(track_ids[first]), int(targets.rows[first]), threshold)
        return targets


@dataclass(frozen=True)
class AgentSampler(WindowSampler):
    """Sampler of raster samples with fixed parameters.

    Attributes:
        params: Definition of the window of a sample.
        render_context: Geometry of the raster.
        rasterizer: Draws the raster, in batches if it is a
            :class:`l5kit.rasterization.rasterizer.WindowRasterizer`; None for samples without one.
        perturbation: Moves the AV's frames; None for the logged poses.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches hold theirs.
    """

    params: SamplingParams
    render_context: RenderContext
    rasterizer: Rasterizer | WindowRasterizer | None
    perturbation: Perturbation | None
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M

    def _make_single(self, windows: Windows, targets: Targets) -> Sample:
        # a rasterizer of single windows gets records, as in L5Kit 1.5; a custom one may not derive from our base class
        rasterizer: Any = self.rasterizer
        history = windows.history(0)
        window = (
            history,
            windows.agents.frames_of(0, len(history)),
            windows.tl_faces.frames_of(0, len(history)),
            None if targets.rows is None else windows.agents.take(targets.rows)[0],
        )
        if hasattr(rasterizer, "rasterize_planar"):
            picture = channels_last(rasterizer.rasterize_planar(*window))
        else:
            picture = rasterizer.rasterize(*window)
        return {"image": channels_first(picture)} | sample_of(self._state_columns(windows, targets), 0)

    def _finished(self, sample: Sample, state_index: int, *, is_of_av: bool, channels_first: bool) -> Sample:  # noqa: ARG002
        if not channels_first and "image" in sample:
            sample["image"] = channels_last(sample["image"])
        return {"frame_index": state_index} | sample

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None for rasters without a route."""
        return getattr(self.rasterizer, "route_map", None)  # only rasterizers that draw routes have this attribute

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: not with a rasterizer that only draws single windows."""
        drawing = self._window_rasterizer
        return self.rasterizer is None or (drawing is not None and drawing.draws_windows)

    @cached_property
    def _window_rasterizer(self) -> WindowRasterizer | None:
        return self.rasterizer if isinstance(self.rasterizer, WindowRasterizer) else None

    def _columns(
        self, windows: Windows, track_ids: NumericArray | None, memory: ColumnMemory | None
    ) -> dict[str, Column]:
        targets = self.perturb_and_find(windows, track_ids)
        if self.rasterizer is None:
            return self._state_columns(windows, targets)
        rasterizer = self._window_rasterizer
        if rasterizer is None:
            raise UnsupportedValueError(f"{self.rasterizer!r} cannot draw batches; make the samples one by one")

        # the rasterizer allocates rasters (B, C, H, W) on a device
        images = None
        if rasterizer.image_device == "cpu":
            shape, dtype = rasterizer.images_shape(len(windows)), rasterizer.image_dtype
            if memory is None or "image" not in memory.keys:
                images = recycled_memory.empty(shape, dtype)
            else:
                images = memory.give("image", shape, dtype)
        pictures = rasterizer.rasterize_windows(windows, targets, images)
        return {"image": pictures} | self._state_columns(windows, targets)

    def _state_columns(self, windows: Windows, targets: Targets) -> dict[str, Column]:
        """Return current, past and future poses of the targets, in the order of the keys of a sample."""
        states = trace_targets(windows, targets)
        tracked = trajectories(states, targets, self.times, num_history=windows.num_history)
        return self.state_columns(tracked, self.pose_columns(windows, targets))

    def state_columns(self, tracked: Trajectories, of_pose: Mapping[str, Any]) -> dict[str, Any]:
        """Return current, past and future poses of targets, by key: arrays, or tensors if ``tracked`` has tensors."""
        past, future = tracked.past, tracked.future
        columns = {
            "target_positions": future.positions_m,
            "target_yaws": future.yaws_rad,
            "target_velocities": tracked.future_velocities_mps,
            "target_availabilities": future.availabilities,
            "history_positions": past.positions_m,
            "history_yaws": past.yaws_rad,
            "history_velocities": tracked.past_velocities_mps,
            "history_availabilities": past.availabilities,
            "history_extents": past.extents_m,
            "future_extents": future.extents_m,
            **of_pose,
        }
        if tracked.past_velocities_mps.shape[1] > 0:
            columns["curr_speed"] = tracked.speeds_mps
        return columns

    def pose_columns(self, windows: Windows, targets: Targets) -> dict[str, Column]:  # noqa: ARG002
        """Return the columns of the current poses of the targets (B,), which need no other frames."""
        world_from_agent, agent_from_world = targets.world_from_agent, targets.agent_from_world
        raster_from_world = self.render_context.raster_from_local @ agent_from_world
        return {
            "world_to_image": raster_from_world,
            "raster_from_world": raster_from_world,
            "raster_from_agent": raster_from_world @ world_from_agent,
            "agent_from_world": agent_from_world,
            "world_from_agent": world_from_agent,
            "centroid": targets.centroids_m,
            "yaw": targets.yaws_rad.astype(np.float64, copy=False),
            "extent": targets.extents_m,
        }


AV_TYPE = PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]
"""Label of the AV in ``type`` of a sample."""

_STATE_KEYS: Final = (
    "extent",
    "type",
    "agent_from_world",
    "world_from_agent",
    "target_positions",
    "target_yaws",
    "target_extents",
    "target_availabilities",
    "history_positions",
    "history_yaws",
    "history_extents",
    "history_availabilities",
    "centroid",
    "yaw",
    "speed",
)


@dataclass(frozen=True)
class VectorSampler(WindowSampler):
    """Sampler of vector samples with fixed parameters.

    Attributes:
        params: Definition of the window of a sample.
        vectorizer: Vectorizes the surroundings of the target; a :class:`Vectorizer`, or any object with its
            ``vectorize``.
        perturbation: Moves the AV's frames; None for the logged poses.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches hold theirs.
    """

    params: VectorSamplingParams
    vectorizer: Any
    perturbation: Perturbation | None
    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M

    def _make_single(self, windows: Windows, targets: Targets) -> Sample:
        tracked = self._trajectories(windows, targets)
        sample = sample_of(self.state_columns(tracked, self.pose_columns(windows, targets)), 0)
        return sample | self._vectorize_single(windows, targets, sample)

    def _finished(self, sample: Sample, state_index: int, *, is_of_av: bool, channels_first: bool) -> Sample:  # noqa: ARG002
        if is_of_av:
            sample["type"] = int(sample["type"])
        return sample

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None for samples without a route."""
        return getattr(self.vectorizer, "route_map", None)  # a custom vectorizer may not support routes

    @property
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used: not with a vectorizer that only supports single windows."""
        return isinstance(self.vectorizer, Vectorizer) and self.vectorizer.vectorizes_windows

    def _columns(
        self,
        windows: Windows,
        track_ids: NumericArray | None,
        memory: ColumnMemory | None,  # noqa: ARG002
    ) -> dict[str, Column]:
        targets = self.perturb_and_find(windows, track_ids)
        tracked = self._trajectories(windows, targets)
        surroundings: dict[str, Column] = self.vectorizer.vectorize_windows(windows, targets, tracked.past)
        return self.state_columns(tracked, self.pose_columns(windows, targets)) | surroundings

    def _trajectories(self, windows: Windows, targets: Targets) -> Trajectories:
        """Return the kept past and the future of the targets."""
        states = trace_targets(windows, targets)
        tracked = trajectories(states, targets, self.times, num_history=windows.num_history)
        self.forget_older(tracked)
        return tracked

    def forget_older(self, tracked: Trajectories) -> None:
        """Write zeros to past steps of targets beyond ``history_num_frames_ego``."""
        for array in tracked.past.as_arrays():
            array[:, self.params.history_num_frames_ego + 1 :] = 0

    def state_columns(self, tracked: Trajectories, of_pose: Mapping[str, Any]) -> dict[str, Any]:
        """Return identity, past and future of targets: arrays, or tensors if ``tracked`` has tensors."""
        past, future = tracked.past, tracked.future
        is_of_future = tracked.future_velocities_mps.shape[1] > 0 and not self.params.speed_from_history
        # L5Kit 1.5 takes the speed from the next step; a key of the configuration selects the last step instead
        columns = {
            **of_pose,
            "target_positions": future.positions_m,
            "target_yaws": future.yaws_rad,
            "target_extents": future.extents_m,
            "target_availabilities": future.flags,
            "history_positions": past.positions_m,
            "history_yaws": past.yaws_rad,
            "history_extents": past.extents_m,
            "history_availabilities": past.flags,
            "speed": tracked.next_speeds_mps if is_of_future else tracked.speeds_mps,
        }
        return {key: columns[key] for key in _STATE_KEYS}

    def pose_columns(self, windows: Windows, targets: Targets) -> dict[str, NumericArray]:
        """Return the columns of identity and current pose of the targets (B,), which need no other frames."""
        # the class of an agent is the most likely one in its current row
        types = np.full(len(targets), AV_TYPE, np.int64)
        if targets.rows is not None:
            types = windows.agents.take(targets.rows)["label_probabilities"].argmax(axis=1).astype(np.int64)
        return {
            "extent": targets.extents_m,
            "type": types,
            "agent_from_world": targets.agent_from_world,
            "world_from_agent": targets.world_from_agent,
            "centroid": targets.centroids_m,
            "yaw": targets.yaws_rad.astype(np.float64, copy=False),
        }

    def _vectorize_single(self, windows: Windows, targets: Targets, sample: Sample) -> Sample:
        """Return the output of a vectorizer of any kind for one window."""
        history, future = windows.history(0), windows.future(0)
        of_future = windows.agents.frames(windows.num_history, windows.num_history + len(future))
        surroundings: Sample = self.vectorizer.vectorize(
            None if targets.track_ids is None else int(targets.track_ids[0]),
            sample["centroid"],
            sample["yaw"],
            sample["agent_from_world"],
            history,
            windows.agents.frames_of(0, len(history)),
            windows.tl_faces.frames_of(0, len(history)),
            sample["history_positions"],
            sample["history_yaws"],
            sample["history_availabilities"],
            future,
            of_future.frames_of(0, len(future)),
        )
        return surroundings


@dataclass(frozen=True)
class AgentVectorSampler(VectorSampler):
    """Sampler of vector samples of agents, with the AV as the first of the other agents.

    The log has no agent row of the AV, so samples of :class:`VectorSampler` around an agent do not show it. Here it
    takes an additional row. Like other agents, it is shown if it is closer than ``max_agents_distance`` to the current
    position of the target in the current or a past frame. Otherwise its row is empty, as in samples of the AV itself.
    """

    def _finished(self, sample: Sample, state_index: int, *, is_of_av: bool, channels_first: bool) -> Sample:  # noqa: ARG002
        return super()._finished(sample, state_index, is_of_av=True, channels_first=channels_first)

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
        """Return the columns of the other agents of B samples, with the AV as an additional first row."""
        agents = {key: columns[key] for key in ROWS_OF_AV if key in columns}
        rows = {key: np.zeros((len(column), *column.shape[2:]), column.dtype) for key, column in agents.items()}
        if not is_of_av:
            # past and future of the AV; samples of the AV have zeros in its row
            states = TrackStates.empty(*windows.frames.shape)
            num_history = windows.num_history
            trace_av(windows.frames, windows.counts, num_history, windows.ego_extent_m, states.as_arrays())

            # the condition of other agents, as kernels compute it; states of absent AVs are meaningless
            x_m, y_m = np.moveaxis(states.positions_m[:, :num_history] - columns["centroid"][:, None], -1, 0)
            with np.errstate(all="ignore"):
                is_close = np.sqrt(x_m * x_m + y_m * y_m) < self.vectorizer.max_agents_distance
            is_shown = (states.is_there[:, :num_history] & is_close).any(axis=1)
            states.is_there[~is_shown] = False
            states.is_there[:, self.vectorizer.history_num_frames_agents + 1 : num_history] = False

            # past and future in the frames of the targets, in the form of columns of other agents
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
        return {key: np.concatenate([rows[key][:, None], column], axis=1) for key, column in agents.items()}
