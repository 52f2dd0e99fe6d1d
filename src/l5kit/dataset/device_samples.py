"""Samples on a device: batches made there, or made on the host and sent ahead of use."""

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch.utils.data import Subset

from l5kit._overriding import overrides_package
from l5kit._types import Int64Array
from l5kit.configs.parameters import read_disable_traffic_light_faces
from l5kit.data.device_log import (
    DEVICE_AGENT_DTYPE,
    DeviceLog,
    MovedAvs,
    cut_on_device,
    most_agents_of,
    send_windows,
    upload_log,
)
from l5kit.data.index.windows import WindowSteps
from l5kit.data.map.lane_lights import LaneLights
from l5kit.data.record_sequence import rows_of, signature_of
from l5kit.data.records import AGENT_DTYPE, FRAME_DTYPE, FRAME_INTERVAL
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.batch_loader import BatchLoader, BatchPlan, BatchSource, ThreadLoader, with_tensors
from l5kit.dataset.ego_vectorized import EgoAgentDatasetVectorized, with_av_as_agent
from l5kit.dataset.joined import JoinedDataset
from l5kit.dataset.reseeding import BatchMaker, BatchOrder
from l5kit.dataset.sample_batch import collate
from l5kit.dataset.sample_indices import LogArrays, cut_samples, describe_origin
from l5kit.device.backend import Backend
from l5kit.errors import UnsupportedValueError
from l5kit.rasterization.backend_rasterizer import draws_on_device
from l5kit.sampling.backend_sampler import BackendSampler, lights_of
from l5kit.sampling.sample_keys import ALIASES
from l5kit.sampling.samplers import AgentSampler, VectorSampler
from l5kit.vectorization.vectorizer import Vectorizer

_PART_OF_MEMORY: Final = 0.6
"""Share of the free memory of a device that a log may take; the rest is for batches and a model."""

_PART_OF_BATCH: Final = 0.25
"""Share of the free memory that samples made together may take."""

_MOST_BYTES: Final = 1 << 33
"""Upper bound of that memory: kernels count points in 32 bits."""

_SMALL_BYTES: Final = 1 << 28
"""Memory that is used without asking the device for its free memory: 256 MB."""

_ONLY_NOW: Final = WindowSteps(0, 0)

_HELD: Final[WeakValueDictionary[str, DeviceLog]] = WeakValueDictionary()
"""Logs on a device by their identity, kept while in use."""


def makes_on_device(dataset: object) -> bool:
    """Return whether a device can make the samples of a dataset.

    It can for ``EgoDataset`` and ``AgentDataset`` with a rasterizer that devices support, or none, and for
    ``EgoDatasetVectorized`` and ``EgoAgentDatasetVectorized`` with the vectorizer of this package. All other samples
    are made on the host, including those of in-memory logs whose dtypes differ from the dataset format, and those of
    rasterizers with channels for fewer frames than samples have, which the host draws for short histories and refuses
    otherwise.
    """
    if not isinstance(dataset, BaseEgoDataset) or not dataset.makes_columns:
        return False
    # kernels keep the values of a log in the dtypes of the dataset format
    log = dataset.dataset
    for kept, usual in (log.agents.dtype, np.dtype(AGENT_DTYPE)), (log.frames.dtype, np.dtype(FRAME_DTYPE)):
        if any(kept[name] != usual[name] for name in set(usual.names or ()).intersection(kept.names or ())):
            return False
    if overrides_package(dataset, "__getitems__", "locate", package="l5kit.dataset"):
        return False

    # subclasses of samplers and user objects also stay on the host
    sampler: object = dataset.sample_function
    if type(sampler) is VectorSampler:
        return isinstance(sampler.vectorizer, Vectorizer) and sampler.vectorizer.runs_on_devices
    if type(sampler) is not AgentSampler:
        return False
    rasterizer: Any = sampler.rasterizer
    if rasterizer is None:
        return True
    boxes = getattr(rasterizer, "box_rast", rasterizer)
    num_history = getattr(boxes, "history_num_frames", sampler.steps.history_num_frames)
    return draws_on_device(rasterizer) and num_history >= sampler.steps.history_num_frames


class DeviceSamples:
    """Maker of the samples of a dataset on a device, equal to those made on the host.

    The log is kept on the device if it fits there next to batches and a model, and all its intervals are sound;
    otherwise the records of each batch are sent. All datasets of a stored log share its copy on the device. The host
    handles the few values per sample: scene, frame, target and pose.

    Args:
        dataset: A dataset for which :func:`makes_on_device` is true. If its log is replaced later, records are sent.
        backend: The device.
        is_resident: Whether to keep the log on the device; None to do so if it fits.
        num_threads: Number of threads that make samples at the same time and share the memory of the device.

    Attributes:
        is_resident: Whether the log is kept on the device.

    Raises:
        UnsupportedValueError: A device cannot make these samples.
    """

    def __init__(
        self, dataset: BaseEgoDataset, backend: Backend, *, is_resident: bool | None = None, num_threads: int = 1
    ) -> None:
        if not makes_on_device(dataset):
            raise UnsupportedValueError(
                f"{dataset!r} makes samples that a device cannot make; use loader(..., device=...), which makes them "
                "on the host"
            )
        self.dataset, self._backend, self._opened = dataset, backend, dataset.dataset
        self._part_of_memory = _PART_OF_BATCH / max(num_threads, 1)
        self._sampler = _sampler_of(dataset)
        self._has_tl_faces = not read_disable_traffic_light_faces(dataset.cfg)
        self._lights = lights_of(self._sampler) if self._has_tl_faces else None
        self._maker = BackendSampler(self._sampler, backend)

        # the log on the device, uploaded unless it is there already; None if it does not fit or is not sound
        log = dataset.dataset
        key = None if is_resident is False else _key_of(backend, log, self._lights)
        self._log = None if key is None else _HELD.get(key)
        if self._log is None and is_resident is not False:
            needed = len(log.agents) * DEVICE_AGENT_DTYPE.itemsize + len(log.frames) * 64 + len(log.tl_faces) * 4
            if is_resident or needed < _PART_OF_MEMORY * backend.free_bytes():
                frames = rows_of(log.frames, slice(0, len(log.frames)), strict=True)
                tl_faces: Any = log.tl_faces if self._lights is not None else []
                self._log = upload_log(backend, frames, log.agents, tl_faces, self._lights)
            if self._log is not None and key is not None:
                _HELD[key] = self._log
        self.is_resident = self._log is not None
        backend.wait()  # log and map are read by other streams

    def make(self, indices: Sequence[int], dataset: BaseEgoDataset | None = None) -> dict[str, Any]:
        """Return several samples as one tensor for each key, on the device.

        Args:
            indices: As for ``dataset[index]``.
            dataset: A dataset that shares the log of the constructor, with its own perturbation.

        Raises:
            IndexError: There is no such sample.
            SampleError: A sample cannot be made; the cause is chained.
            OutOfMemoryError: An error of torch: the device has too little memory left.
        """
        dataset = self.dataset if dataset is None else dataset
        try:
            # fast path for non-negative indices, as samplers give them
            given = np.array(indices)
            is_plain = given.dtype.kind == "i" and given.ndim == 1
            if is_plain and given.min(initial=0) >= 0 and given.max(initial=-1) < len(dataset):
                positions = given.astype(np.int64, copy=False)
            else:
                positions = np.array([dataset.position_of(index) for index in indices], np.int64)

            # limit the samples made together by the available memory
            needed = self._bytes_per_sample
            if needed * len(positions) <= _SMALL_BYTES:
                return self._make(dataset, positions)
            num_at_once = max(min(int(self._part_of_memory * self._backend.free_bytes()), _MOST_BYTES) // needed, 1)
            parts = [positions[first : first + num_at_once] for first in range(0, len(positions), num_at_once)]
            made = [self._make(dataset, part) for part in parts]
            return made[0] if len(made) == 1 else joined(made)
        except torch.cuda.OutOfMemoryError:  # not caused by a particular sample
            raise
        except Exception:
            for index in indices:
                dataset[index]  # one by one, to report the sample that fails and why
            raise

    @cached_property
    def _bytes_per_sample(self) -> int:
        """Upper bound of the memory of a sample while it is made, including records that are sent for it."""
        if self._log is not None:
            return self._maker.scratch_bytes(self._log.most_agents)
        steps, log = self._sampler.steps, self._opened
        most_agents = most_agents_of(log.frames, len(log.agents))
        num_frames = steps.history_num_frames + 1 + steps.future_num_frames
        return self._maker.scratch_bytes(most_agents) + DEVICE_AGENT_DTYPE.itemsize * most_agents * num_frames

    def _make(self, dataset: BaseEgoDataset, positions: Int64Array) -> dict[str, Any]:
        located = dataset.locate(positions)
        dataset.require_readable(located)
        resident = self._log if dataset.dataset is self._opened else None
        log = LogArrays.of(dataset.dataset, has_tl_faces=self._has_tl_faces and resident is None)
        sampler = _sampler_of(dataset)
        is_moved = sampler.perturbation is not None

        # targets stay on the host; the frames around them are only needed here to move or send them
        is_cut_here = resident is None or is_moved
        scenes, windows, track_ids = cut = cut_samples(log, located, self._sampler.steps if is_cut_here else _ONLY_NOW)
        added = describe_origin(located, cut)
        targets = sampler.perturb_and_find(windows, track_ids)
        if isinstance(self._sampler, AgentSampler):
            added["frame_index"] = located.state_indices
        if isinstance(dataset, EgoAgentDatasetVectorized):
            added["all_valid_agents_track_ids"] = dataset.valid_track_ids(located)

        # windows are cut from a log on the device, or sent
        if resident is None:
            of_log, there = send_windows(self._backend, windows, self._lights)
        else:
            bounds = scenes[FRAME_INTERVAL]
            moved = MovedAvs.of_frames(windows.frames) if is_moved else None
            at = np.stack([bounds[:, 0] + located.state_indices, bounds[:, 0], bounds[:, 1]])
            there = cut_on_device(resident, at, self._sampler.steps, moved, ego_extent_m=windows.ego_extent_m)
            of_log = resident
        columns = self._maker.columns(of_log, there, (windows, targets), added)
        if isinstance(dataset, EgoAgentDatasetVectorized):
            columns |= with_av_as_agent(columns, torch)

        # Use the column order of the host. The second of two names of one column is a copy.
        if "frame_index" in columns:
            columns = {"frame_index": columns.pop("frame_index"), **columns}
        for alias in ALIASES.keys() & columns.keys():
            columns[alias] = columns[ALIASES[alias]].clone()
        return columns


def joined(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the concatenation of batches with the same keys."""
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


def _key_of(backend: Backend, log: ChunkedDataset, lights: LaneLights | None) -> str | None:
    """Return the identity of a log on a device; None for an in-memory log, which may change unnoticed."""
    fingerprint = log.fingerprint() if isinstance(log, ChunkedDataset) else None
    if fingerprint is None or lights is None:
        return fingerprint and f"{backend.device} {fingerprint}"
    faces = signature_of(log.tl_faces)
    if faces is None and len(log.tl_faces):
        return None
    numbered = repr((faces, lights.face_ids.shape, lights.face_ids.tobytes()))
    return f"{backend.device} {fingerprint} {hashlib.sha256(numbered.encode()).hexdigest()}"


def _sampler_of(dataset: BaseEgoDataset) -> AgentSampler | VectorSampler:
    """Return the sampler of a dataset, which is of one of the two classes that devices support."""
    sampler: Any = dataset.sample_function
    own: AgentSampler | VectorSampler = sampler
    return own


Batch = dict[str, torch.Tensor]

_Maker = Callable[[Any, Sequence[int]], Batch]
"""Function that makes samples of a dataset with the same parts as the one it was built for."""


def can_load_on_device(source: BatchSource) -> bool:
    """Return whether a device can make the batches of a source; see :class:`BackendLoader`."""
    return source.collate_fn is collate and _can_make(source.dataset)


class BackendLoader(ThreadLoader):
    """Batches made on a backend, from a log kept there or from the records sent for each batch.

    They equal those made on the host, in the same order, with the same random numbers. Datasets may be those for which
    :func:`~l5kit.dataset.device_samples.makes_on_device` is true, or a torch ``Subset`` or a ``JoinedDataset`` of them.

    Args:
        plan: Plan of the batches.
        source: Dataset of the batches.
        backend: The backend.
        num_threads: Threads that request batches, each in its own stream; 0 to make each batch on request.

    Raises:
        InvalidArgumentError: Several threads would draw from one perturbation.
    """

    _instead_of_threads = "threads=1"

    def __init__(self, plan: BatchPlan, source: BatchSource, *, backend: Backend, num_threads: int) -> None:
        super().__init__(plan, source, num_threads=num_threads)
        self._backend = backend
        self._make_samples = _maker_of(source.dataset, backend, num_threads)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without data on the device, which the receiver uploads again."""
        return {name: value for name, value in vars(self).items() if name != "_make_samples"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._make_samples = _maker_of(self._source.dataset, self._backend, self.num_threads)

    def _new_maker(self) -> BatchMaker:
        return BatchMaker(self._source.dataset, self._source.collate_fn)

    def _make(self, maker: BatchMaker, order: BatchOrder) -> Batch:
        maker.reseed(order)
        return self._make_samples(maker.dataset, list(order.indices))

    def make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Yield the batches of orders; see :class:`BatchLoader`."""
        if self.num_threads == 0:
            return super().make_batches(orders)

        def make_ahead(maker: BatchMaker, order: BatchOrder) -> Callable[[], Batch]:
            return self._backend.make_ahead(lambda: self._make(maker, order))

        return self._hand_over(self._run_ahead(make_ahead, orders))

    def _hand_over(self, ahead: Generator[Callable[[], Batch], None, None]) -> Iterator[Batch]:
        """Yield batches; on early exit, wait for those in progress, which still need their log."""
        try:
            with closing(ahead):
                for hand_over in ahead:
                    yield hand_over()
        finally:
            self._backend.wait()


class SendingLoader(BatchLoader):
    """Batches made on the host and sent to a device one ahead of use, concurrently with its work.

    Args:
        loader: Loader that makes the batches, ideally in pinned memory.
        plan: Plan of the batches, that of the loader.
        source: Dataset of the batches.
        backend: The device.
    """

    def __init__(self, loader: BatchLoader, plan: BatchPlan, source: BatchSource, *, backend: Backend) -> None:
        super().__init__(plan, source)
        self._loader, self._backend = loader, backend

    def make_batches(self, orders: Iterator[BatchOrder]) -> Iterator[object]:
        """Yield the batches of orders; see :class:`BatchLoader`."""

        def send(batch: object) -> object:
            return with_tensors(batch, lambda tensor: tensor.to(self._backend.device, non_blocking=True))

        ahead: deque[Callable[[], object]] = deque()
        for batch in self._loader.make_batches(orders):
            ahead.append(self._backend.make_ahead(partial(send, batch)))
            if len(ahead) > 1:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()


def _can_make(dataset: object) -> bool:
    if type(dataset) is Subset:
        return _can_make(dataset.dataset)
    if type(dataset) is JoinedDataset:
        return all(_can_make(part) for part in dataset.parts)
    return makes_on_device(dataset)


def _maker_of(dataset: object, backend: Backend, num_threads: int) -> _Maker:
    """Return the maker of batches of a dataset for which :func:`_can_make` is true, for a number of threads."""
    if isinstance(dataset, Subset):
        make = _maker_of(dataset.dataset, backend, num_threads)
        return lambda subset, indices: make(subset.dataset, [int(subset.indices[index]) for index in indices])
    if isinstance(dataset, JoinedDataset):
        makers = [_maker_of(part, backend, num_threads) for part in dataset.parts]

        def make_joined(joined_dataset: JoinedDataset, indices: Sequence[int]) -> Batch:
            used, order = joined_dataset.split(indices)
            made = [makers[part](joined_dataset.parts[part], positions) for part, positions in used]
            if len(made) == 1:
                return made[0]
            on_device = torch.from_numpy(order).to(next(iter(made[0].values())).device)
            return {key: column[on_device] for key, column in joined(made).items()}

        return make_joined
    assert isinstance(dataset, BaseEgoDataset)
    samples = DeviceSamples(dataset, backend, num_threads=num_threads)
    return lambda own, indices: samples.make(indices, own)
