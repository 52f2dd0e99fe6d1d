"""Base class of the datasets: lookup of the frame of an index, and its sample or batch."""

import copy
import functools
import math
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import DTypeLike

from l5kit._overriding import overrides, overrides_package
from l5kit._types import BoolArray, Column, Int64Array, JsonObject, NumericArray, Sample
from l5kit._warning import warn_caller
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.display import html_card
from l5kit.data.index.track_ids import EGO_TRACK_ID, as_sample_track_id
from l5kit.data.index.windows import WindowSteps
from l5kit.data.log_facts import EGO_EXTENT_M, LogFacts
from l5kit.data.record_sequence import RecordSequence, rows_of
from l5kit.data.records import FRAME_INTERVAL, TL_FACE_DTYPE
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.sample_batch import Allocator, Memory, SampleBatch, default_allocator, reuse_images
from l5kit.dataset.sample_indices import (
    CheckedLog,
    LogArrays,
    SampleIndices,
    cut_samples,
    describe_origin,
    ego_extent_of,
    encoded_hosts,
    end_frames_of,
    frames_of_scene,
)
from l5kit.dataset.torch_parts import Dataset, get_worker_info
from l5kit.errors import (
    IndexOutOfRangeError,
    InvalidArgumentError,
    NegativeIndexError,
    SampleError,
    UnsupportedValueError,
)
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import SceneRoutes
from l5kit.rasterization.rasterizer import channels_first
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns, memory_of, require_keys, stored
from l5kit.sampling.samplers import AgentSampler, VectorSampler, WindowSampler

_CARD_PARAMETERS = {
    "raster_params": ("map_type", "raster_size", "pixel_size", "ego_center"),
    "model_params": ("history_num_frames", "future_num_frames", "step_time"),
    "data_generation_params": ("other_agents_num", "max_agents_distance"),
}
"""Parameters shown on the card of a dataset."""

_OWN_SAMPLES = ("__getitem__", "get_frame")
"""Methods that a user's subclass may override to make its own samples, which are then made one by one."""


class BaseEgoDataset(Dataset[Sample]):
    """Base class of the datasets: locates the frame of an index and adds scene, host, time and track to each sample.

    A subclass implements ``_get_sample_function()``, which is called once and returns a callable that takes
    ``(state_index, frames, agents, tl_faces, selected_track_id)`` and returns a sample. A subclass that changes samples
    overrides ``__getitem__`` or :meth:`get_frame`; its batches are then made of single samples.

    Args:
        cfg: The configuration.
        zarr_dataset: An opened dataset.

    Scenes and frames are checked once, here. A damaged log gives a ``RuntimeWarning``; samples that need damaged
    records raise errors, the others are unaffected.

    Raises:
        ConfigError: A key of the configuration is missing or of the wrong type.
        CorruptedDataError: The scenes of the log cannot be read.
        InvalidArgumentError: ``zarr_dataset`` is not a dataset, or was not opened.

    Attributes:
        cfg: The configuration.
        dataset: The log.
        cumulative_sizes: End frame of each scene, (S,).
        sample_function: Makes a sample; later changes of ``cfg`` do not affect it.
    """

    perturbation: Perturbation | None = None

    _makes_own_samples = False
    """Whether a user's subclass overrides the making of samples."""

    _channels_first = False
    """Whether rasters of single samples have the channels first, whatever their order in the sample function."""

    _resized_columns: Collection[str] = ()
    """Keys that :meth:`_finish_columns` replaces by columns of another shape."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        modules = [getattr(getattr(cls, name), "__module__", "") for name in _OWN_SAMPLES]
        cls._makes_own_samples = not all(module.startswith("l5kit.dataset.") for module in modules)

    def __init__(self, cfg: JsonObject, zarr_dataset: ChunkedDataset) -> None:
        # refuse objects that are not logs, and logs whose path was not opened
        advice = "pass ChunkedDataset(path).open()"
        if not all(hasattr(zarr_dataset, name) for name in ("scenes", "frames", "agents", "tl_faces")):
            raise InvalidArgumentError(f"zarr_dataset must be a ChunkedDataset, got {zarr_dataset!r}; {advice}")
        for name in ("scenes", "frames", "agents", "tl_faces"):
            dtype = getattr(getattr(zarr_dataset, name), "dtype", np.dtype(np.void))
            if not all(dtype[field].base.isnative for field in dtype.names or ()):
                raise InvalidArgumentError(
                    f"zarr_dataset has {name} in the byte order of another machine: {dtype}; convert them with "
                    "array.astype(array.dtype.newbyteorder('='))"
                )
        is_open = not getattr(zarr_dataset, "path", "") or hasattr(zarr_dataset, "root")
        if not is_open and len(zarr_dataset.scenes) == len(zarr_dataset.frames) == 0:
            raise InvalidArgumentError(f"zarr_dataset {zarr_dataset.path!r} is not open; {advice}")
        read_disable_traffic_light_faces(cfg)  # every sample reads it, so a wrong value is an error here
        self.cfg = cfg
        self.dataset = zarr_dataset
        self._checked_log, self.cumulative_sizes = CheckedLog.check(zarr_dataset, has_tl_faces=self._has_tl_faces)
        self.sample_function = self._get_sample_function()
        self._worker_seed: int | None = None
        self._new_memory: Allocator | None = None

        # a frame interval that differs from the configuration would make all speeds wrong
        facts = getattr(zarr_dataset, "own_facts", None)
        params = getattr(self.sample_function, "params", None)
        if facts is not None and params is not None and not math.isclose(facts.step_time_s, params.step_time_s):
            path = zarr_dataset.path or "a log in memory"
            warn_caller(
                f"model_params.step_time is {params.step_time_s}, but {path!r} says that {facts.step_time_s} s lie "
                "between its frames: speeds are wrong by their ratio; set step_time to that"
            )

    def _get_sample_function(self) -> Callable[..., Sample]:
        raise UnsupportedValueError(
            f"{type(self).__name__} makes no samples by itself; use EgoDataset or AgentDataset, "
            "or define _get_sample_function() in a subclass"
        )

    def __len__(self) -> int:
        return len(self.dataset.frames)

    def __getitem__(self, index: int) -> Sample:
        """Return the sample of the AV in a frame.

        Args:
            index: The frame; negative counts from the end.

        Raises:
            IndexError: There is no such frame.
            SampleError: The sample cannot be made; the cause is chained.
        """
        position = self.position_of(index)
        located, track_id = None, None
        try:
            located = self.locate(np.array([position]))
            scene_index, state_index = int(located.scene_indices[0]), located.state_indices[0]
            state_index = state_index if scene_index else int(state_index)  # the types of L5Kit 1.5
            if located.agent_rows is not None:
                row = int(located.agent_rows[0])
                track_id = int(rows_of(self.dataset.agents, slice(row, row + 1), strict=True)["track_id"][0])
            return self.get_frame(scene_index, state_index, track_id=track_id)
        except Exception as error:  # never an IndexError, which would silently end an iteration
            description = f"sample {index}"
            if located is not None:
                target = "the AV"
                if located.agent_rows is not None:
                    of_row = f"the track of agent row {located.agent_rows[0]}"
                    target = of_row if track_id is None else f"track {track_id}"
                description += f" (scene {located.scene_indices[0]}, frame {located.state_indices[0]} of it, {target})"
            raise SampleError(
                f"{type(self).__name__} on {self.dataset.path or 'a log in memory'!r} cannot make {description}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def __getitems__(self, indices: Sequence[int], *, out: SampleBatch | None = None) -> list[Sample]:
        """Return several samples at once, which is faster than one by one; torch's ``DataLoader`` calls this.

        The samples equal ``self[index]``, as views of arrays that hold the whole batch. A subclass with its own
        ``__getitem__``, ``get_frame`` or sample function makes them one by one.

        Args:
            indices: As for ``self[index]``.
            out: A batch of this dataset that is no longer needed; its rasters are overwritten if they are arrays.

        Raises:
            IndexError: There is no such sample.
            InvalidArgumentError: ``out`` has no rasters, too few of them, or rasters of another size or dtype.
            SampleError: A sample cannot be made; the cause is chained.
        """
        indices = list(indices)
        positions = np.array([self.position_of(index) for index in indices], dtype=np.int64)
        sampler = self._batch_sampler
        if sampler is None or len(positions) == 0:
            return [self[index] for index in indices]
        try:
            return self._make_batch(sampler, self.locate(positions), out)
        except Exception as error:
            samples = [self[index] for index in indices]  # one by one, to report the sample that fails and why
            if out is not None:
                raise
            warnings.warn(
                f"{self!r} made {len(samples)} samples one by one, since making them as a batch failed "
                f"({type(error).__name__}: {error})",
                RuntimeWarning,
                stacklevel=2,
            )
            return samples

    def make_columns(
        self,
        indices: Sequence[int],
        *,
        out: Mapping[str, NumericArray] | None = None,
        missing: Literal["error", "mask"] = "error",
    ) -> SampleColumns:
        """Return several samples as one array for each key, without a dictionary for each sample.

        Args:
            indices: As for ``self[index]``.
            out: Memory for the columns: arrays by key, with the shapes and dtypes of the result and at least as many
                rows, which must not overlap. Missing keys get new memory.
            missing: Treatment of samples whose agent fails the label filter: ``error`` to raise, or ``mask`` to set
                False in ``is_made`` and zeros in all columns except scene, host, frame, time and track.

        Returns:
            Arrays (B, ...) with the values of ``self[index]``, and a mask of the samples that were made.

        Raises:
            IndexError: There is no such sample.
            UnsupportedValueError: This dataset makes its samples one by one, because a subclass, rasterizer or
                vectorizer overrides methods.
            InvalidArgumentError: An array of ``out`` does not fit, cannot be written, overlaps another one or has an
                unknown key.
            CorruptedDataError: A sample needs damaged records.
            TrackNotFoundError: An agent fails the label filter.
        """
        positions = np.array([self.position_of(index) for index in indices], dtype=np.int64)
        located, memory = self.locate(positions), memory_of(out)
        columns = SampleColumns(*self._make_arrays(self._require_batch_sampler(), located, memory, missing))
        require_keys(out, columns)
        return columns

    def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> Sample:
        """Return the sample of the AV or of an agent in a frame.

        Args:
            scene_index: The scene; negative counts from the end.
            state_index: The frame, counted in the scene.
            track_id: The agent; None for the AV.

        Returns:
            The sample, with ``scene_index``, ``host_id`` (70,) uint8, ``timestamp`` (ns) and ``track_id`` (-1: the AV).

        Raises:
            IndexError: There is no such scene or frame.
            CorruptedDataError: Scene or frames are damaged.
            TrackNotFoundError: The agent is not in the frame or fails the label filter.
        """
        self._seed_worker()
        num_scenes = len(self.dataset.scenes)
        if not -num_scenes <= scene_index < num_scenes:
            raise IndexOutOfRangeError(
                f"scene_index {scene_index} is out of range for a dataset of {num_scenes} scenes"
            )
        row = int(scene_index) % num_scenes
        if self._log.damage is not None:
            self.require_readable(SampleIndices(np.array([row]), np.array([state_index])))

        # the sample function takes frames of one scene, and agents and faces of the whole log
        scenes = rows_of(self.dataset.scenes, slice(row, row + 1), strict=True)
        frames = rows_of(self.dataset.frames, slice(*scenes[FRAME_INTERVAL][0].tolist()), strict=True)
        tl_faces = self.dataset.tl_faces if self._has_tl_faces else np.empty(0, dtype=TL_FACE_DTYPE)
        make, arguments = self.sample_function, (state_index, frames, self.dataset.agents, tl_faces, track_id)
        if isinstance(make, WindowSampler):
            sample = make(*arguments, channels_first=self._channels_first)
        else:
            sample = make(*arguments)
            if self._channels_first and "image" in sample:
                sample["image"] = channels_first(sample["image"])
        return sample | {
            "scene_index": scene_index,
            "host_id": encoded_hosts(scenes)[0],
            "timestamp": np.int64(frames["timestamp"][state_index]),
            "track_id": np.int64(EGO_TRACK_ID) if track_id is None else as_sample_track_id(track_id),
        }

    def get_scene_dataset(self, scene_index: int) -> Self:
        """Return a dataset of the same class over a copy of one scene in memory.

        Configuration, rasterizer and perturbation are shared.

        Raises:
            ValueError: There is no such scene.
        """
        return self._over_scene(self.dataset.get_scene_dataset(scene_index), scene_index)

    def view_scene(self, scene_index: int) -> Self:
        """Return a read-only version of :meth:`get_scene_dataset`, which avoids copying agents and faces if possible.

        Raises:
            ValueError: There is no such scene.
        """
        own = overrides_package(self, "get_scene_dataset", package="l5kit.dataset")
        if own or overrides(self.dataset, "get_scene_dataset", base=ChunkedDataset):
            return self.get_scene_dataset(scene_index)
        return self._over_scene(self.dataset.view_scene(scene_index), scene_index)

    def get_scene_indices(self, scene_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a scene.

        Raises:
            InvalidArgumentError: There is no such scene.
        """
        scene_index = checked_index("scene_idx", scene_idx, len(self.cumulative_sizes))
        return np.arange(*self._log.frames_of(scene_index, self.cumulative_sizes), dtype=np.int64)

    def get_frame_indices(self, frame_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a frame.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        return np.array([checked_index("frame_idx", frame_idx, len(self.dataset.frames))], dtype=np.int64)

    def scene_starts(self) -> Int64Array | None:
        """Return the first index of each scene and the end of the last one, (S + 1,); None if the log is damaged."""
        return np.append(0, self.cumulative_sizes) if self._log.damage is None else None

    @property
    def hands_on_perturbation(self) -> bool:
        """Whether all random numbers of the perturbation come from the source that :meth:`with_draws` sets."""
        return isinstance(self.sample_function, WindowSampler)

    def with_draws(self, perturbation: Perturbation | None, *, new_memory: Allocator | None = None) -> Self:
        """Return a dataset that shares everything with this one except its perturbation and the memory of rasters.

        In a worker of a ``DataLoader``, the caller must reseed the perturbation.

        Args:
            perturbation: Replaces the perturbation of this dataset.
            new_memory: Allocates the memory of rasters; None for the default of the process.
        """
        other = copy.copy(self)
        other._new_memory = new_memory
        other._worker_seed = getattr(get_worker_info(), "seed", None)
        if perturbation is not self.perturbation:
            other.perturbation = perturbation
            if isinstance(self.sample_function, WindowSampler):
                other.sample_function = replace(self.sample_function, perturbation=perturbation)
        return other

    def without_pictures(self) -> Self:
        """Return a dataset that shares everything with this one, but draws no rasters."""
        other = copy.copy(self)
        if isinstance(self.sample_function, AgentSampler):
            other.sample_function = replace(self.sample_function, rasterizer=None)
        return other

    def __str__(self) -> str:
        return str(self.dataset)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} samples on {self.dataset.path or 'a log in memory'!r}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks, without making a sample."""

        def facts() -> dict[str, object]:
            return {
                "samples": len(self),
                "log": self.dataset.path or "in memory",
                "scenes": len(self.dataset.scenes),
                "frames": len(self.dataset.frames),
                "agents": len(self.dataset.agents),
                "perturbation": "none" if self.perturbation is None else type(self.perturbation).__name__,
                **{
                    f"{section}.{key}": self.cfg[section][key]
                    for section, keys in _CARD_PARAMETERS.items()
                    for key in keys
                    if key in self.cfg.get(section, {})
                },
            }

        return html_card(type(self).__name__, facts, subject=self)

    @property
    def _batch_sampler(self) -> WindowSampler | None:
        """Sampler of batches equal to ``self[index]``; None if samples are made one by one."""
        sampler = self.sample_function
        if not isinstance(sampler, WindowSampler) or not sampler.makes_batches:
            return None
        is_changed = self._makes_own_samples or not self.__dict__.keys().isdisjoint(_OWN_SAMPLES)
        return None if is_changed else sampler

    def locate(self, positions: Int64Array) -> SampleIndices:
        """Return where the samples at indices (B,) of this dataset are in the log.

        Args:
            positions: Indices counted from the start.

        Raises:
            CorruptedDataError: A sample belongs to no scene or frame, as the log is damaged.
        """
        return self._log.locate(positions, self.cumulative_sizes)

    def _require_batch_sampler(self) -> WindowSampler:
        """Return the sampler of batches.

        Raises:
            UnsupportedValueError: The samples are made one by one.
        """
        sampler = self._batch_sampler
        if sampler is None:
            raise UnsupportedValueError(
                f"{self!r} makes its samples one by one, since it, its rasterizer or its vectorizer overrides "
                "methods; take them from self[index], or give it one for batches (docs/own_rasterizer.md)"
            )
        return sampler

    def _make_batch(self, sampler: WindowSampler, indices: SampleIndices, out: SampleBatch | None) -> SampleBatch:
        """Return samples as one batch, with rasters in the memory of ``out`` if given."""
        # Vector samples are small, so their arrays are not reused. Memory of rasters is reused, shared between
        # processes, pinned for a device, or allocated by the sampler.
        allocate: Allocator | None = None
        if not isinstance(sampler, VectorSampler):
            allocate = reuse_images(out) if out is not None else self._new_memory or default_allocator()
        elif out is not None and not isinstance(out, SampleBatch):
            raise InvalidArgumentError(f"out must be a batch that __getitems__ returned, got {type(out).__name__}")
        if allocate is None:
            return SampleBatch(self._make_arrays(sampler, indices, None, "error")[0])
        pictures: list[Memory] = []

        def memory_of_pictures(_: str, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray:
            if not pictures:  # memory is requested where rasters are drawn and where all columns are joined
                pictures.append(allocate(shape, dtype))
            return pictures[0].array

        columns, _ = self._make_arrays(sampler, indices, ColumnMemory(("image",), memory_of_pictures), "error")
        tensor = pictures[0].tensor if pictures else None
        return SampleBatch(columns, None if tensor is None else {"image": tensor})

    def _make_arrays(
        self,
        sampler: WindowSampler,
        indices: SampleIndices,
        memory: ColumnMemory | None,
        missing: Literal["error", "mask"],
    ) -> tuple[dict[str, Column], BoolArray]:
        """Return samples of the log of this dataset as columns, and a mask of those that could be made, (B,)."""
        self._seed_worker()
        self.require_readable(indices)
        log = self.dataset
        tl_faces = log.tl_faces if self._has_tl_faces else np.empty(0, TL_FACE_DTYPE)
        extent_m = getattr(self.sample_function, "ego_extent_m", EGO_EXTENT_M)
        arrays = LogArrays(log.scenes, log.frames, log.agents, tl_faces, extent_m, self.scene_routes())
        return self._arrays_of_log(sampler, arrays, indices, memory, missing)

    def columns_of_log(
        self,
        log: LogArrays,
        indices: SampleIndices,
        *,
        missing: Literal["error", "mask"] = "error",
        memory: ColumnMemory | None = None,
    ) -> SampleColumns:
        """Return samples of another log, such as a simulated one, in the form of this dataset.

        Args:
            log: The arrays; without traffic light faces if the configuration has none.
            indices: Positions of the samples in the log.
            missing: As for :meth:`make_columns`.
            memory: Allocates the memory of columns; None for new memory.

        Raises:
            UnsupportedValueError: This dataset makes its samples one by one; see :attr:`makes_columns`.
            CorruptedDataError: An interval exceeds its array.
            TrackNotFoundError: An agent fails the label filter.
        """
        return SampleColumns(*self._arrays_of_log(self._require_batch_sampler(), log, indices, memory, missing))

    def _arrays_of_log(
        self,
        sampler: WindowSampler,
        log: LogArrays,
        indices: SampleIndices,
        memory: ColumnMemory | None,
        missing: Literal["error", "mask"],
    ) -> tuple[dict[str, Column], BoolArray]:
        """Return the columns of :meth:`columns_of_log` by key, and a mask of the samples that were made, (B,)."""
        cut = cut_samples(log, indices, sampler.steps)
        origin = describe_origin(indices, cut)  # before a perturbation moves the frames that it reads

        # resized columns get their memory at the end, with those that the dataset adds
        out = memory
        if memory is not None and self._resized_columns:
            out = ColumnMemory([key for key in memory.keys if key not in self._resized_columns], memory.give)
        made, is_made = sampler.make_arrays(cut.windows, cut.track_ids, out, missing=missing)
        columns = self._finish_columns(indices, {**made, **origin})
        return columns if memory is None else stored(columns, memory), is_made

    def _finish_columns(self, indices: SampleIndices, columns: dict[str, Column]) -> dict[str, Column]:
        """Return the columns of samples in their final form, like that of single samples."""
        if isinstance(self.sample_function, VectorSampler):
            return columns
        return {"frame_index": indices.state_indices} | columns

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None for samples without a route."""
        return getattr(self.sample_function, "route_map", None)  # a user's sample function may not support routes

    @property
    def route_step_time_s(self) -> float:
        """Time between two frames, which determines how far routes extend beyond the end of a scene.

        It is the step time of the configuration, which single samples use; batches and closed loop do the same.
        """
        params = getattr(self.sample_function, "params", None)
        step_time_s: float = (LogFacts() if params is None else params).step_time_s
        return step_time_s

    def scene_routes(self) -> SceneRoutes | None:
        """Return the routes of the scenes of the log; None for samples without a route."""
        route_map = self.route_map
        if route_map is None:
            return None
        known: tuple[ChunkedDataset, RouteMap, SceneRoutes] | None = vars(self).get("_known_routes")
        if known is None or known[0] is not self.dataset or known[1] is not route_map:
            log, num_scenes = self.dataset, len(self.dataset.scenes)
            frames_of = functools.partial(frames_of_scene, log.scenes, log.frames)
            routes = SceneRoutes(frames_of, num_scenes, route_map=route_map, step_time_s=self.route_step_time_s)
            known = self._known_routes = (log, route_map, routes)
        return known[-1]

    @property
    def makes_columns(self) -> bool:
        """Whether :meth:`make_columns` can be used: not if a subclass or its parts override methods."""
        return self._batch_sampler is not None

    def _over_scene(self, scene: ChunkedDataset, scene_index: int) -> Self:  # noqa: ARG002 subclasses need it
        """Return a copy of this object that reads one of its scenes as a separate log."""
        other = copy.copy(self)
        other.dataset = scene
        other._checked_log, other.cumulative_sizes = CheckedLog.check(scene, has_tl_faces=self._has_tl_faces)
        return other

    def position_of(self, index: int) -> int:
        """Return an index counted from the start.

        Raises:
            IndexError: There is no such sample.
        """
        index, length = operator.index(index), len(self)
        if index >= length:
            raise IndexOutOfRangeError(f"index {index} is out of range for a dataset of {length} samples")
        if index < -length:
            raise NegativeIndexError(f"index {index} reaches before the start of a dataset of {length} samples")
        return index if index >= 0 else length + index

    @property
    def _has_tl_faces(self) -> bool:
        """Whether samples have traffic light faces; read for each sample, as the configuration may be changed."""
        is_disabled = self.cfg.get("raster_params", {}).get("disable_traffic_light_faces")
        return not (is_disabled if isinstance(is_disabled, bool) else read_disable_traffic_light_faces(self.cfg))

    @property
    def _log(self) -> CheckedLog:
        """The checked log, checked again if it was replaced."""
        if self._checked_log.dataset is not self.dataset:
            self._checked_log, _ = CheckedLog.check(self.dataset, has_tl_faces=self._has_tl_faces)
            if isinstance(self.sample_function, WindowSampler):
                self.sample_function = replace(self.sample_function, ego_extent_m=ego_extent_of(self.dataset))
        return self._checked_log

    def require_readable(self, indices: SampleIndices) -> None:
        """Refuse samples (B,) that need damaged scenes or frames.

        Raises:
            CorruptedDataError: There is such a sample.
        """
        # nothing to check for an undamaged log
        log = self._log
        if log.damage is not None:
            steps = getattr(self.sample_function, "steps", None)
            log.require_readable(
                indices.scene_indices,
                indices.state_indices,
                steps if isinstance(steps, WindowSteps) else None,
                has_tl_faces=self._has_tl_faces,
            )

    def _seed_worker(self) -> None:
        """In a DataLoader worker, seed the perturbation for this worker and epoch."""
        perturbation = self.perturbation
        if perturbation is None:
            return
        worker = get_worker_info()
        if worker is not None and worker.seed != self._worker_seed:
            if hasattr(perturbation, "reseed"):  # a user's perturbation may only have perturb()
                perturbation.reseed(worker.seed)
            self._worker_seed = worker.seed

    def __copy__(self) -> Self:
        """Return a shallow copy, without calling ``__getstate__``."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, object]:
        """Return the state without parts that another process can read from the files of the dataset."""
        state = self.__dict__.copy()
        state.pop("_known_routes", None)
        if isinstance(self.dataset.scenes, RecordSequence):
            del state["cumulative_sizes"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if "cumulative_sizes" not in state:
            self.cumulative_sizes = end_frames_of(self.dataset)


def require_method(argument: str, value: object, method: str) -> None:
    """Refuse an object that is not None and lacks a method."""
    if value is not None and not callable(getattr(value, method, None)):
        raise InvalidArgumentError(f"{argument} must have a method {method}(), or be None; got {value!r}")


def checked_index(argument: str, index: int, length: int) -> int:
    """Return an index counted from the start."""
    if not -length <= index < length:
        raise InvalidArgumentError(f"{argument} {index} is out of range; there are {length}")
    return int(index) % length
