"""Samplers of windows: what those of pictures and of vectors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Column, NumericArray, Records
from l5kit.configs.parameters import SamplingParams, VectorSamplingParams
from l5kit.data.records import TL_FACE_DTYPE
from l5kit.data.window_cutting import CurrentFrames, WindowSteps, cut_windows
from l5kit.data.windows import Targets, Windows
from l5kit.errors import UnsupportedValueError
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import SceneRoutes
from l5kit.sampling.poses import StepTimes
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns, memory_of, require_keys, scattered, stored
from l5kit.sampling.targets import find_av, ids_of_one_track, perturb_windows, require_found, require_held
from l5kit.sampling.tracks import find_targets, hold_track_ids


class WindowSampler(ABC):
    """Makes samples of windows, from wherever they come; the base of frozen dataclasses with its three attributes.

    Attributes:
        params: How a sample is cut out of a scene.
        perturbation: Moves the AV's frames; None for the log as it is.
        ego_extent_m: Length, width and height of the AV in single samples; windows of batches have theirs.
    """

    params: SamplingParams | VectorSamplingParams
    perturbation: Perturbation | None
    ego_extent_m: tuple[float, float, float]

    @cached_property
    def steps(self) -> WindowSteps:
        """Which frames belong to a sample."""
        return WindowSteps.from_params(self.params)

    @cached_property
    def times(self) -> StepTimes:
        """Times between the frames of a sample."""
        return StepTimes.from_params(self.params)

    @property
    @abstractmethod
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None where samples tell of no route."""

    @property
    @abstractmethod
    def makes_batches(self) -> bool:
        """Whether :meth:`make_columns` can be used; else only single samples can be made."""

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
            windows: Cut with :attr:`steps`, or of as many frames; the perturbation changes them.
            track_ids: The targets, (B,), whole numbers, best in the type of the agents' field; None for the AV.
            out: Memory for the columns: arrays by key, of the shapes and types of the result and at least as many
                rows, none of which overlaps another. Keys that are not there get new memory.
            missing: What becomes of windows whose target is not in the current frame, or does not pass the label
                filter: ``error``, or ``mask`` for zeros in all columns made here and a False in ``is_made``.

        Returns:
            One array (B, ...) for each key of a sample; pictures have the channels first.

        Raises:
            TrackNotFoundError: A target is missing, and ``missing`` is ``error``.
            InvalidArgumentError: An array of ``out`` does not fit, cannot be written, overlaps another one or has a
                key that these samples do not have; or ``track_ids`` are not one whole number for each window.
        """
        if missing not in ("error", "mask"):
            raise UnsupportedValueError(f"missing is {missing!r}; use 'error' or 'mask'")
        memory = memory_of(out)
        ids, can_be_held = (None, None) if track_ids is None else hold_track_ids(windows, track_ids)
        if missing == "mask" and ids is not None:
            is_found = find_targets(windows, ids, self.params.filter_agents_threshold).is_found
            if can_be_held is not None:
                is_found = is_found & can_be_held
            if not is_found.all():
                columns = scattered(self._columns(windows.taken(is_found), ids[is_found], None), is_found)
                require_keys(out, columns)
                return SampleColumns(stored(columns, memory), is_found)
        elif track_ids is not None and can_be_held is not None:
            require_held(track_ids, can_be_held)
        columns_of_all = self._columns(windows, ids, memory)
        require_keys(out, columns_of_all)
        return SampleColumns.of_all(stored(columns_of_all, memory), len(windows))

    @abstractmethod
    def _columns(
        self, windows: Windows, track_ids: NumericArray | None, memory: ColumnMemory | None
    ) -> dict[str, Column]:
        """Return all columns of a batch; what is large is written to ``memory`` already."""

    def _cut_single(
        self,
        state_index: int,
        frames: Records,
        agents: Records,
        *,
        tl_faces: Records | None,
        track_id: int | None,
    ) -> tuple[Windows, NumericArray | None]:
        """Return the window of one frame of a scene, and one track as an array (1,) or None for the AV."""
        faces = np.empty(0, dtype=TL_FACE_DTYPE) if tl_faces is None else tl_faces
        current = CurrentFrames.of_scene(frames, state_index)
        windows = cut_windows(current, agents, faces, self.steps, ego_extent_m=self.ego_extent_m)
        track_ids = ids_of_one_track(windows, track_id, self.params.filter_agents_threshold)
        route_map = self.route_map
        if route_map is not None and track_ids is None:
            step_time_s = self.params.step_time_s
            routes = SceneRoutes(lambda _: np.asarray(frames), 1, route_map=route_map, step_time_s=step_time_s)
            windows = routes.of_log(windows, np.zeros(1, np.int64), np.array([state_index]))
        return windows, track_ids

    def perturb_and_find(self, windows: Windows, track_ids: NumericArray | None) -> Targets:
        """Move the AV in windows, and return whom they are about: tracks (B,), or the AV for None.

        Raises:
            TrackNotFoundError: A track is not in its current frame or does not pass the label filter.
        """
        perturb_windows(windows, self.perturbation)
        if track_ids is None:
            return find_av(windows)
        return require_found(
            find_targets(windows, track_ids, self.params.filter_agents_threshold), self.params.filter_agents_threshold
        )
