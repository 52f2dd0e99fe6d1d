"""The base of the datasets: from an index to a frame of a log, and from there to a sample or a batch."""

import copy
import functools
import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import DTypeLike

from l5kit._overriding import overrides, overrides_package
from l5kit._types import Column, Int64Array, JsonObject, NumericArray, RecordArray, Sample
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.display import html_card
from l5kit.data.interval_run import IntervalRun
from l5kit.data.log_facts import LogFacts
from l5kit.data.log_index import LogIndex, check_scenes
from l5kit.data.record_sequence import RecordSequence, rows_of
from l5kit.data.records import FRAME_INTERVAL, TL_FACE_DTYPE
from l5kit.data.track_ids import EGO_TRACK_ID, as_sample_track_id
from l5kit.data.window_cutting import WindowSteps
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.allocators import Allocator, Memory, default_allocator
from l5kit.dataset.kept_index import kept_end_rows
from l5kit.dataset.sample_batch import SampleBatch, reuse_images
from l5kit.dataset.sample_places import (
    BatchSampler,
    LogArrays,
    SamplePlaces,
    cut_samples,
    describe_origin,
    ego_extent_of,
    encoded_hosts,
    frames_of_scene,
)
from l5kit.dataset.torch_parts import Dataset, get_worker_info
from l5kit.errors import (
    CorruptedDataError,
    IndexOutOfRangeError,
    InvalidArgumentError,
    NegativeIndexError,
    SampleError,
    UnsupportedValueError,
)
from l5kit.kinematic.perturbation import Perturbation
from l5kit.lanes.route_map import RouteMap
from l5kit.lanes.routes import SceneRoutes
from l5kit.sampling.agent_sampler import AgentSampler
from l5kit.sampling.sample_columns import ColumnMemory, SampleColumns, memory_of, require_keys, stored
from l5kit.sampling.window_sampler import WindowSampler

_SAMPLE_METHODS = (
    "__getitem__",
    "get_frame",
    "_make_item",
    "_in_dataset_layout",
    "_locate_item",
    "_place_of",
    "_locate_frame",
    "_track_of_row",
    "_scene",
)
"""Methods that decide what a sample is; a batch is made at once only where they are those of this package."""

_TOLD_PARAMETERS = {
    "raster_params": ("map_type", "raster_size", "pixel_size", "ego_center"),
    "model_params": ("history_num_frames", "future_num_frames", "step_time"),
    "data_generation_params": ("other_agents_num", "max_agents_distance"),
}
"""Parameters that stand in the card of a dataset."""


class BaseEgoDataset(Dataset[Sample]):
    """Base of the datasets: finds scene and frame of an index and adds to a sample where it comes from.

    A subclass gives ``_get_sample_function()``, which is called once, and returns a callable that takes
    ``(state_index, frames, agents, tl_faces, selected_track_id)`` and returns a sample.

    Args:
        cfg: The configuration.
        zarr_dataset: An opened dataset.

    Scenes and frames are checked once, here. Of a damaged log a ``RuntimeWarning`` tells; samples that need damaged
    records are errors, the others are as they would be without the damage.

    Raises:
        ConfigError: A key of the configuration is missing or of the wrong type.
        CorruptedDataError: The scenes of the log cannot be read.
        InvalidArgumentError: ``zarr_dataset`` is no dataset, or was not opened.

    Attributes:
        cfg: The configuration.
        dataset: The log.
        cumulative_sizes: End frame of each scene, (S,).
        sample_function: Makes a sample; later changes of ``cfg`` do not reach it.
    """

    perturbation: Perturbation | None = None

    def __init__(self, cfg: JsonObject, zarr_dataset: ChunkedDataset) -> None:
        _require_opened(zarr_dataset)
        read_disable_traffic_light_faces(cfg)  # it is read for every sample; what is wrong with it is told now
        self.cfg = cfg
        self.dataset = zarr_dataset
        self.cumulative_sizes: Int64Array = _end_frames(self._check_log())
        self.sample_function = self._get_sample_function()
        self._warn_of_other_steps()
        self._worker_seed: int | None = None
        self._new_memory: Allocator | None = None

    def _warn_of_other_steps(self) -> None:
        """Tell if the log says that its frames lie farther apart, or nearer, than the configuration says."""
        facts = getattr(self.dataset, "own_facts", None)
        params = getattr(self.sample_function, "params", None)
        if facts is not None and params is not None and not math.isclose(facts.step_time_s, params.step_time_s):
            path = self.dataset.path or "a log in memory"
            _warn(
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
        return self._make_item(index, *self._locate_item(index))

    def __getitems__(self, indices: Sequence[int], *, out: SampleBatch | None = None) -> list[Sample]:
        """Return several samples at once, which is faster than one by one; torch's ``DataLoader`` calls this.

        The samples are those that ``self[index]`` returns, as views of arrays that hold the whole batch. A subclass
        with a ``__getitem__``, ``get_frame`` or sample function of its own makes them one by one.

        Args:
            indices: As for ``self[index]``.
            out: A batch of this dataset that is not needed any more: its pictures are drawn over, if they are arrays.

        Raises:
            IndexError: There is no such sample.
            InvalidArgumentError: ``out`` holds no pictures, or those of fewer samples or of another size or type.
            SampleError: A sample cannot be made; the cause is chained.
        """
        indices = list(indices)
        positions = np.array([self.position_of(index) for index in indices], dtype=np.int64)
        sampler = self._batch_sampler()
        if sampler is None or len(positions) == 0:
            return [self[index] for index in indices]
        try:
            return self._make_batch(sampler, self.locate(positions), self._allocator_of(out))
        except Exception as error:
            samples = [self[index] for index in indices]  # which says what is wrong with which sample
            if out is not None:
                raise
            warnings.warn(
                f"{self!r} made {len(samples)} samples one by one, since all at once failed "
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
            out: Memory for the columns: arrays by key, of the shapes and types of the result and at least as many
                rows, none of which overlaps another. Keys that are not there get new memory.
            missing: What becomes of samples whose agent does not pass the label filter: ``error``, or ``mask`` for
                a False in ``is_made`` and zeros in all columns but scene, host, frame, time and track.

        Returns:
            Arrays (B, ...) with the values of ``self[index]``, and which samples were made.

        Raises:
            IndexError: There is no such sample.
            UnsupportedValueError: This dataset makes its samples one by one, as a subclass, rasterizer or vectorizer
                has methods of its own.
            InvalidArgumentError: An array of ``out`` does not fit, cannot be written, overlaps another one or has a
                key that these samples do not have.
            CorruptedDataError: A sample needs damaged records.
            TrackNotFoundError: An agent does not pass the label filter.
        """
        sampler = self._batch_sampler()
        if sampler is None:
            raise UnsupportedValueError(
                f"{self!r} makes its samples one by one, since it, its rasterizer or its vectorizer has methods of its "
                "own; take them from self[index]"
            )
        positions = np.array([self.position_of(index) for index in indices], dtype=np.int64)
        columns = self._make_columns(sampler, self.locate(positions), memory_of(out), missing)
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
            TrackNotFoundError: The agent is not in the frame or does not pass the label filter.
        """
        self._seed_worker()
        scenes = self._scene(scene_index)
        if self._damage is not None:
            row = int(scene_index) % len(self.dataset.scenes)
            self._require_readable(self._damage, np.array([row]), np.array([state_index]))
        frames = rows_of(self.dataset.frames, slice(*scenes[FRAME_INTERVAL][0].tolist()), strict=True)
        tl_faces = self.dataset.tl_faces
        if read_disable_traffic_light_faces(self.cfg):
            tl_faces = np.empty(0, dtype=TL_FACE_DTYPE)
        sample = self.sample_function(state_index, frames, self.dataset.agents, tl_faces, track_id)
        return self._in_dataset_layout(sample) | {
            "scene_index": scene_index,
            "host_id": encoded_hosts(scenes)[0],
            "timestamp": np.int64(frames["timestamp"][state_index]),
            "track_id": np.int64(EGO_TRACK_ID) if track_id is None else as_sample_track_id(track_id),
        }

    def _in_dataset_layout(self, sample: Sample) -> Sample:
        """Return a sample as this dataset hands it out."""
        return sample

    def get_scene_dataset(self, scene_index: int) -> Self:
        """Return a dataset of the same class over a copy of one scene in memory.

        Configuration, rasterizer and perturbation are shared.

        Raises:
            ValueError: There is no such scene.
        """
        return self._over_scene(self.dataset.get_scene_dataset(scene_index), scene_index)

    def view_scene(self, scene_index: int) -> Self:
        """Return what :meth:`get_scene_dataset` does, for looking only: without a copy of agents and faces if possible.

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
        return np.arange(*self._frames_of_scene(scene_index), dtype=np.int64)

    def get_frame_indices(self, frame_idx: int) -> Int64Array:
        """Return the indices of this dataset that belong to a frame.

        Raises:
            InvalidArgumentError: There is no such frame.
        """
        return np.array([checked_index("frame_idx", frame_idx, len(self.dataset.frames))], dtype=np.int64)

    def scene_starts(self) -> Int64Array | None:
        """Return the first index of each scene, and behind the last one, (S + 1,); None if the log is damaged."""
        if self._damage is not None:
            return None
        return np.append(0, self.cumulative_sizes)

    @property
    def hands_on_perturbation(self) -> bool:
        """Whether all that draws random numbers for the perturbation takes it from where :meth:`with_draws` sets it."""
        return isinstance(self.sample_function, WindowSampler)

    def with_draws(self, perturbation: Perturbation | None, *, new_memory: Allocator | None = None) -> Self:
        """Return a dataset that shares everything with this one but what it draws random numbers and pictures with.

        In a worker of a ``DataLoader`` it is left to the caller to reseed the perturbation.

        Args:
            perturbation: Takes the place of this dataset's.
            new_memory: Gives the memory of pictures; None for what suits the process.
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
        """Return a dataset that shares everything with this one, but draws no pictures."""
        other = copy.copy(self)
        if isinstance(self.sample_function, AgentSampler):
            other.sample_function = replace(self.sample_function, rasterizer=None)
        return other

    def __str__(self) -> str:
        return str(self.dataset)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} samples on {self.dataset.path or 'a log in memory'!r}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks; no sample is made for it."""
        return html_card(type(self).__name__, self._card_facts, subject=self)

    def _card_facts(self) -> dict[str, object]:
        return {
            "samples": len(self),
            "log": self.dataset.path or "in memory",
            "scenes": len(self.dataset.scenes),
            "frames": len(self.dataset.frames),
            "agents": len(self.dataset.agents),
            "perturbation": "none" if self.perturbation is None else type(self.perturbation).__name__,
            **{f"{section}.{key}": value for section, key, value in _told_parameters(self.cfg)},
        }

    def _batch_sampler(self) -> BatchSampler | None:
        """Return what makes batches of the samples that ``self[index]`` makes, if something does."""
        sampler = self.sample_function
        if not isinstance(sampler, WindowSampler) and not isinstance(sampler, BatchSampler):  # the first is fast
            return None
        if not sampler.makes_batches or overrides_package(self, *_SAMPLE_METHODS, package="l5kit.dataset"):
            return None
        return sampler

    def locate(self, positions: Int64Array) -> SamplePlaces:
        """Return where the samples at positions (B,) of this dataset lie in the log.

        Args:
            positions: Indices counted from the start.

        Raises:
            CorruptedDataError: A sample belongs to no scene or frame, as the log is damaged.
        """
        return self._places_of_frames(positions)

    def _places_of_frames(self, frames: Int64Array, agent_rows: Int64Array | None = None) -> SamplePlaces:
        """Return the places of frames (B,) of the log."""
        damage = self._damage
        if damage is None:
            return SamplePlaces.of_frames(frames, self.cumulative_sizes, agent_rows)
        scenes = damage.find_scenes(frames)
        return SamplePlaces(scenes, frames - damage.scenes.bounds[scenes, 0], agent_rows)

    def _make_batch(self, sampler: BatchSampler, places: SamplePlaces, allocate: Allocator) -> SampleBatch:
        pictures: list[Memory] = []

        def memory_of_pictures(key: str, shape: tuple[int, ...], dtype: DTypeLike) -> NumericArray | None:
            if key != "image":
                return None
            if not pictures:  # it is asked for where they are drawn, and where all columns are put together
                pictures.append(allocate(shape, dtype))
            return pictures[0].array

        columns = self._make_columns(sampler, places, memory_of_pictures, "error")
        tensor = pictures[0].tensor if pictures else None
        return SampleBatch(dict(columns.arrays), None if tensor is None else {"image": tensor})

    def _make_columns(
        self,
        sampler: BatchSampler,
        places: SamplePlaces,
        memory: ColumnMemory | None,
        missing: Literal["error", "mask"],
    ) -> SampleColumns:
        self._seed_worker()
        self.require_readable(places)
        log = LogArrays.of(self.dataset, has_tl_faces=not read_disable_traffic_light_faces(self.cfg))
        log = replace(log, routes=self.scene_routes())
        return self._columns_of_log(log, sampler, places, memory, missing)

    def columns_of_log(
        self,
        log: LogArrays,
        places: SamplePlaces,
        *,
        missing: Literal["error", "mask"] = "error",
        memory: ColumnMemory | None = None,
    ) -> SampleColumns:
        """Return samples of another log, such as one that a simulation changes, as this dataset makes those of its own.

        Args:
            log: The arrays; traffic light faces of a configuration without them have to be left out.
            places: Where the samples lie in it.
            missing: As for :meth:`make_columns`.
            memory: Gives the memory of columns; None for new memory.

        Raises:
            UnsupportedValueError: This dataset makes its samples one by one; see :meth:`makes_columns`.
            CorruptedDataError: An interval reaches beyond its array.
            TrackNotFoundError: An agent does not pass the label filter.
        """
        sampler = self._batch_sampler()
        if sampler is None:
            raise UnsupportedValueError(f"{self!r} makes its samples one by one; take them from self[index]")
        return self._columns_of_log(log, sampler, places, memory, missing)

    @property
    def route_map(self) -> RouteMap | None:
        """The lanes of routes; None where samples tell of no route."""
        return getattr(self.sample_function, "route_map", None)  # a function of one's own need not know of routes

    @property
    def route_step_time_s(self) -> float:
        """Time between two frames, from which follows how far routes lead on behind the end of a scene.

        It is that of the configuration: single samples know no other, and batches and closed loop agree with them.
        """
        params = getattr(self.sample_function, "params", None)
        step_time_s: float = (LogFacts() if params is None else params).step_time_s
        return step_time_s

    def scene_routes(self) -> SceneRoutes | None:
        """Return the routes of the scenes of the log; None where samples tell of no route."""
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
        """Whether :meth:`make_columns` can be used: not where a subclass or its parts have methods of their own."""
        return self._batch_sampler() is not None

    def _columns_of_log(
        self,
        log: LogArrays,
        sampler: BatchSampler,
        places: SamplePlaces,
        memory: ColumnMemory | None,
        missing: Literal["error", "mask"],
    ) -> SampleColumns:
        cut = cut_samples(log, places, sampler.steps)
        origin = describe_origin(places, cut)
        made = sampler.make_columns(cut.windows, cut.track_ids, out=self._memory_of_sampler(memory), missing=missing)
        columns = self._as_columns(places, {**made.arrays, **origin})
        if memory is not None:
            added = {key: values for key, values in columns.items() if made.arrays.get(key) is not values}
            columns |= stored(added, memory)
        return SampleColumns(columns, made.is_made)

    def _memory_of_sampler(self, memory: ColumnMemory | None) -> ColumnMemory | None:
        """Return what gives memory for the columns that the sampler writes as this dataset hands them out."""
        return memory

    def _as_columns(self, places: SamplePlaces, columns: dict[str, Column]) -> dict[str, Column]:
        """Return the columns of samples as this dataset hands them out, as it does with single ones."""
        return {"frame_index": places.state_indices} | columns

    def _allocator_of(self, out: SampleBatch | None) -> Allocator:
        """Return what gives the memory of pictures: that of ``out``, if there is one."""
        if out is not None:
            return reuse_images(out)
        return default_allocator() if self._new_memory is None else self._new_memory

    def _over_scene(self, scene: ChunkedDataset, scene_index: int) -> Self:  # noqa: ARG002 subclasses need it
        """Return a copy of this object that reads one of its scenes."""
        return self._over(scene)

    def _over(self, dataset: ChunkedDataset) -> Self:
        """Return a copy of this object that reads another log."""
        other = copy.copy(self)
        other.dataset = dataset
        other.cumulative_sizes = _end_frames(other._check_log())
        return other

    def _scene(self, scene_index: int) -> RecordArray:
        """Return a scene as an array (1,)."""
        num_scenes = len(self.dataset.scenes)
        if not -num_scenes <= scene_index < num_scenes:
            raise IndexOutOfRangeError(
                f"scene_index {scene_index} is out of range for a dataset of {num_scenes} scenes"
            )
        row = int(scene_index) % num_scenes
        return rows_of(self.dataset.scenes, slice(row, row + 1), strict=True)

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
    def _damage(self) -> LogIndex | None:
        """The index of the log if the ends of its scenes do not tell where frames are, or frames are damaged."""
        if self._indexed is not self.dataset:
            self._check_log()  # the log has been replaced
            if isinstance(self.sample_function, WindowSampler):
                self.sample_function = replace(self.sample_function, ego_extent_m=ego_extent_of(self.dataset))
        return self._index

    def _check_log(self) -> IntervalRun:
        """Check the intervals of the log, tell if they are wrong, and return those of its scenes."""
        if kept_end_rows(self.dataset) is not None:  # it has been found as it should be
            self._indexed, self._index = self.dataset, None
            return check_scenes(self.dataset)
        whole = index = LogIndex.of(self.dataset)
        self._indexed, self._index = self.dataset, None if index.is_plain else index
        if read_disable_traffic_light_faces(self.cfg):
            index = index.without_faces()
        path = self.dataset.path or "a log in memory"
        if not index.is_sound:
            _warn(
                f"{path!r} is damaged, samples that need what is wrong are errors: {index.summary()}; l5kit validate "
                "lists all that is wrong"
            )
        if index.num_lost_faces:
            _warn(
                f"{path!r} has no traffic light faces, although its frames name {index.num_lost_faces} of them: "
                "it is read as one without traffic lights; l5kit validate lists what is wrong"
            )
        return whole.scenes

    def require_readable(self, places: SamplePlaces) -> None:
        """Refuse samples (B,) that need scenes or frames that cannot be trusted.

        Raises:
            CorruptedDataError: There is such a sample.
        """
        damage = self._damage
        if damage is not None:
            self._require_readable(damage, places.scene_indices, places.state_indices)

    def _require_readable(self, damage: LogIndex, scenes: Int64Array, state_indices: Int64Array) -> None:
        """Refuse samples (B,) that need scenes or frames that cannot be trusted."""
        damage.require_scenes(scenes)
        starts, stops = damage.scenes.bounds[scenes].T
        steps = getattr(self.sample_function, "steps", None)
        if isinstance(steps, WindowSteps):
            current = starts + state_indices
            starts = np.maximum(starts, current - steps.history_num_frames * steps.history_step_size)
            stops = np.minimum(stops, current + steps.future_num_frames * steps.future_step_size + 1)
        if read_disable_traffic_light_faces(self.cfg):
            damage = damage.without_faces()
        damage.require_frames(starts, np.maximum(starts, stops))

    def _frames_of_scene(self, scene_index: int) -> tuple[int, int]:
        """Return first frame and end frame of a scene, not negative."""
        damage = self._damage
        if damage is None:
            start = int(self.cumulative_sizes[scene_index - 1]) if scene_index > 0 else 0
            return start, int(self.cumulative_sizes[scene_index])
        damage.require_scenes(np.array([scene_index]))
        start, stop = damage.scenes.bounds[scene_index].tolist()
        return start, stop

    def _locate_frame(self, frame_index: int) -> tuple[int, int]:
        """Return the scene that holds a frame, and the frame counted in the scene."""
        damage = self._damage
        if damage is not None:
            scene_index = int(damage.find_scenes(np.array([frame_index]))[0])
            return scene_index, frame_index - int(damage.scenes.bounds[scene_index, 0])
        scene_index = int(self.cumulative_sizes.searchsorted(frame_index, side="right"))
        return scene_index, frame_index if scene_index == 0 else frame_index - self.cumulative_sizes[scene_index - 1]

    def _locate_item(self, index: int) -> tuple[int, int, int | None]:
        """Return scene, frame counted in it, and agent row (None for the AV) of a sample.

        Raises:
            SampleError: It belongs to no scene or frame.
        """
        position = self.position_of(index)
        try:
            return self._place_of(position)
        except CorruptedDataError as error:
            raise SampleError(
                f"{type(self).__name__} on {self.dataset.path or 'a log in memory'!r} cannot make sample {index}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _place_of(self, position: int) -> tuple[int, int, int | None]:
        """Return scene, frame counted in it, and agent row (None for the AV) of the sample at a position."""
        return *self._locate_frame(position), None

    def _make_item(self, index: int, scene_index: int, state_index: int, agent_row: int | None = None) -> Sample:
        """Return ``get_frame(...)``; whatever fails, it is no ``IndexError``, which would end iteration silently."""
        whom = "the AV" if agent_row is None else f"the track of agent row {agent_row}"
        try:
            track_id = None
            if agent_row is not None:
                track_id = self._track_of_row(agent_row)
                whom = f"track {track_id}"
            return self.get_frame(scene_index, state_index, track_id=track_id)
        except Exception as error:
            raise SampleError(
                f"{type(self).__name__} on {self.dataset.path or 'a log in memory'!r} cannot make sample {index} "
                f"(scene {scene_index}, frame {state_index} of it, {whom}): {type(error).__name__}: {error}"
            ) from error

    def _track_of_row(self, agent_row: int) -> int:
        return int(rows_of(self.dataset.agents, slice(agent_row, agent_row + 1), strict=True)["track_id"][0])

    def _seed_worker(self) -> None:
        """In a DataLoader worker, give the perturbation random numbers of this worker and epoch."""
        perturbation = self.perturbation
        if perturbation is None:
            return
        worker = get_worker_info()
        if worker is not None and worker.seed != self._worker_seed:
            if hasattr(perturbation, "reseed"):  # a user's own may have only perturb()
                perturbation.reseed(worker.seed)
            self._worker_seed = worker.seed

    def __copy__(self) -> Self:
        """Return an object that shares all attributes, without the way through ``__getstate__``."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __getstate__(self) -> dict[str, object]:
        """Leave out what another process can read from the dataset's files."""
        state = self.__dict__.copy()
        del state["_indexed"]
        state.pop("_known_routes", None)
        if isinstance(self.dataset.scenes, RecordSequence):
            del state["cumulative_sizes"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._indexed = self.dataset
        if "cumulative_sizes" not in state:
            self.cumulative_sizes = _end_frames(check_scenes(self.dataset))


def _end_frames(scenes: IntervalRun) -> Int64Array:
    """Return a copy of the end frame of each scene, (S,); -1 where it cannot be read."""
    return scenes.bounds[:, 1].copy()


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=5)


def _told_parameters(cfg: JsonObject) -> list[tuple[str, str, object]]:
    """Return section, key and value of the parameters that people ask for first."""
    return [
        (section, key, cfg[section][key])
        for section, keys in _TOLD_PARAMETERS.items()
        for key in keys
        if key in cfg.get(section, {})
    ]


def _require_opened(dataset: ChunkedDataset) -> None:
    """Refuse what is no log, and a log that has a path but was not opened."""
    advice = "pass ChunkedDataset(path).open()"
    if not all(hasattr(dataset, name) for name in ("scenes", "frames", "agents", "tl_faces")):
        raise InvalidArgumentError(f"zarr_dataset must be a ChunkedDataset, got {dataset!r}; {advice}")
    for name in ("scenes", "frames", "agents", "tl_faces"):
        dtype = getattr(getattr(dataset, name), "dtype", np.dtype(np.void))
        if not all(dtype[field].base.isnative for field in dtype.names or ()):
            raise InvalidArgumentError(
                f"zarr_dataset has {name} in the byte order of another machine: {dtype}; convert them with "
                "array.astype(array.dtype.newbyteorder('='))"
            )
    is_open = not getattr(dataset, "path", "") or hasattr(dataset, "root")
    if not is_open and len(dataset.scenes) == len(dataset.frames) == 0:
        raise InvalidArgumentError(f"zarr_dataset {dataset.path!r} is not open; {advice}")


def require_method(argument: str, value: object, method: str) -> None:
    """Refuse an object that is not None and lacks a method."""
    if value is not None and not callable(getattr(value, method, None)):
        raise InvalidArgumentError(f"{argument} must have a method {method}(), or be None; got {value!r}")


def checked_index(argument: str, index: int, length: int) -> int:
    """Return an index counted from the start."""
    if not -length <= index < length:
        raise InvalidArgumentError(f"{argument} {index} is out of range; there are {length}")
    return int(index) % length
