"""Chunked dataset: scenes, frames, agents and traffic light faces of a log, on disk or in memory."""

import contextlib
import copy
import hashlib
import operator
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import ContainsArrayError, ContainsGroupError
from zarr.storage import LocalStore, MemoryStore, ZipStore

from l5kit._compiling import log_compilation
from l5kit._types import NumericArray, RecordArray, Records
from l5kit.data import layout
from l5kit.data.array_shapes import as_read_only
from l5kit.data.checks.finding import Finding
from l5kit.data.checks.validation import validate_dataset
from l5kit.data.dataset_summary import DatasetSummary, summarize_frames, text_table
from l5kit.data.display import html_card
from l5kit.data.filter import (
    get_agents_slice_from_frames,
    get_frames_slice_from_scenes,
    get_tl_faces_slice_from_frames,
)
from l5kit.data.index.log_index import require_readable_scene
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.log_facts import LogFacts, agreed_facts, require_facts
from l5kit.data.progress import Progress
from l5kit.data.record_sequence import rows_of, signature_of
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_CHUNK_SIZE,
    AGENT_DTYPE,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FORMAT_VERSION,
    FRAME_ARRAY_KEY,
    FRAME_CHUNK_SIZE,
    FRAME_DTYPE,
    FRAME_INTERVAL,
    SCENE_ARRAY_KEY,
    SCENE_CHUNK_SIZE,
    SCENE_DTYPE,
    TL_FACE_ARRAY_KEY,
    TL_FACE_CHUNK_SIZE,
    TL_FACE_DTYPE,
)
from l5kit.data.save import require_local, save_arrays
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.stores import store as stores
from l5kit.data.stores.chunk_files import ChunkCache
from l5kit.data.stores.chunked_array import ChunkedArray
from l5kit.data.stores.columns_array import ColumnsArray, StoredColumns, require_columns
from l5kit.data.stores.decoded_store import DecodedSource, map_or_build
from l5kit.data.stores.npy_files import MappedArray
from l5kit.data.stores.remote_reading import RemoteReading
from l5kit.data.views import Segments, view_of, view_of_scenes
from l5kit.errors import (
    CorruptedDataError,
    DatasetFormatError,
    DatasetNotFoundError,
    InvalidArgumentError,
    L5KitError,
    MissingArrayError,
    ReadOnlyDatasetError,
    UnreachableDataError,
    without_secrets,
)

__all__ = [
    "AGENT_ARRAY_KEY",
    "AGENT_CHUNK_SIZE",
    "AGENT_DTYPE",
    "FORMAT_VERSION",
    "FRAME_ARRAY_KEY",
    "FRAME_CHUNK_SIZE",
    "FRAME_DTYPE",
    "SCENE_ARRAY_KEY",
    "SCENE_CHUNK_SIZE",
    "SCENE_DTYPE",
    "TL_FACE_ARRAY_KEY",
    "TL_FACE_CHUNK_SIZE",
    "TL_FACE_DTYPE",
    "ChunkedDataset",
]

_OPEN_MODES = ("r", "r+", "a")
_CREATE_MODES = ("w", "w-", "a")


class ChunkedDataset:
    """A log of scenes, frames, agents and traffic light faces.

    The four attributes hold arrays of records (see :mod:`l5kit.data.records`). They are empty until :meth:`open` or
    :meth:`initialize`, and may be replaced by NumPy arrays.

    It is also a sequence of scenes: ``len(dataset)`` is the number of scenes, ``dataset[3]`` one scene as a dataset
    with its frames, agents and faces, ``dataset[-5:]`` a view of several scenes, and ``for scene in dataset`` iterates
    over all of them. A dataset is always true, even without scenes. ``with ChunkedDataset(path) as dataset`` opens it
    for reading and closes it at the end of the block.

    Args:
        path: Folder (``*.zarr``), zip file, URL supported by fsspec, or zarr store object. A suspicious path gives a
            ``RuntimeWarning``.
        key: Ignored; an argument of L5Kit 1.x.
        storage_options: Options for the fsspec file system of a URL, such as ``{"anon": True}`` for a public S3 bucket.
        remote_reading: Attempts, time limits and number of concurrent requests for a URL; None to take them from the
            environment (``L5KIT_REMOTE_TIMEOUT_S`` and so on).

    Raises:
        InvalidArgumentError: Storage options are given for a local path.

    Attributes:
        path: Path or URL; empty for a dataset in memory.
        scenes: Scenes, ``SCENE_DTYPE``.
        frames: Frames of all scenes, ``FRAME_DTYPE``.
        agents: Agents of all frames, ``AGENT_DTYPE``.
        tl_faces: Traffic light faces of all frames, ``TL_FACE_DTYPE``.
        root: The zarr group, after :meth:`open` or :meth:`initialize`.
    """

    def __init__(
        self,
        path: stores.StoreLocation,
        key: str = "",
        *,
        storage_options: Mapping[str, object] | None = None,
        remote_reading: RemoteReading | None = None,
    ) -> None:
        self.key = key
        self.path = stores.path_of(path)
        if storage_options and not stores.is_url(self.path):
            raise InvalidArgumentError(f"storage_options are for URLs, and the path is {self.path!r}; leave them out")
        self._remote = stores.RemoteAccess(storage_options, remote_reading)
        self.scenes: Any = np.empty(0, dtype=SCENE_DTYPE)
        self.frames: Any = np.empty(0, dtype=FRAME_DTYPE)
        self.agents: Any = np.empty(0, dtype=AGENT_DTYPE)
        self.tl_faces: Any = np.empty(0, dtype=TL_FACE_DTYPE)
        self._facts: LogFacts | None = None
        self._location: stores.StoreLocation = path if isinstance(path, Store) else self.path
        if self.path and not isinstance(path, Store):
            if ".zarr" not in self.path:
                warnings.warn(f"dataset path {self.path!r} does not contain '.zarr'", RuntimeWarning, stacklevel=2)
            if not stores.is_url(self.path) and not os.path.exists(self.path):
                warnings.warn(f"dataset path {self.path!r} does not exist", RuntimeWarning, stacklevel=2)

    @classmethod
    def in_memory(
        cls,
        *,
        scenes: Records | None = None,
        frames: Records | None = None,
        agents: Records | None = None,
        tl_faces: Records | None = None,
        facts: LogFacts | None = None,
    ) -> "ChunkedDataset":
        """Return a dataset of the given arrays (None: empty) and facts (None: those of L5Kit 1.5), without a path.

        Raises:
            InvalidArgumentError: ``facts`` is no :class:`LogFacts`, or there are faces but frames lack their intervals.
        """
        require_facts(facts)
        if frames is not None and tl_faces is not None:
            problem = layout.find_ownerless_faces(frames.dtype, len(tl_faces))
            if problem is not None:
                raise InvalidArgumentError(f"frames {problem}; add the field, or pass no tl_faces")
        dataset = ChunkedDataset("")
        dataset._facts = facts
        given = {"scenes": scenes, "frames": frames, "agents": agents, "tl_faces": tl_faces}
        for name, array in given.items():
            if array is not None:
                setattr(dataset, name, array)
        return dataset

    def initialize(
        self,
        mode: str = "w",
        num_scenes: int = 0,
        num_frames: int = 0,
        num_agents: int = 0,
        num_tl_faces: int = 0,
        *,
        facts: LogFacts | None = None,
    ) -> Self:
        """Create the arrays of a new dataset, all zero, ready to be written to.

        Args:
            mode: ``w`` replaces an existing dataset, ``w-`` refuses to, ``a`` adds to an existing zarr group.
            num_scenes: Initial number of rows of ``scenes``. Arrays also grow by ``append``.
            num_frames: Initial number of rows of ``frames``.
            num_agents: Initial number of rows of ``agents``.
            num_tl_faces: Initial number of rows of ``tl_faces``.
            facts: Facts of the log, written as attributes of the group; None writes none, like L5Kit 1.5.

        Raises:
            InvalidArgumentError: Invalid mode, length or facts, a zip file, or a folder whose content would be lost.
                Nothing has been changed in these cases.
        """
        require_facts(facts)
        _require_one_of("mode", mode, _CREATE_MODES)
        lengths = {
            SCENE_ARRAY_KEY: _as_length("num_scenes", num_scenes),
            FRAME_ARRAY_KEY: _as_length("num_frames", num_frames),
            AGENT_ARRAY_KEY: _as_length("num_agents", num_agents),
            TL_FACE_ARRAY_KEY: _as_length("num_tl_faces", num_tl_faces),
        }
        store = stores.create_store(self._location, remote=self._remote)
        try:
            self.root = layout.create_group(store, mode, facts)
        except (ContainsGroupError, ContainsArrayError, FileExistsError) as error:
            raise InvalidArgumentError(f"mode is 'w-', but there is a dataset at {self.path!r}: {error}") from error
        present = sorted(key for key in lengths if key in self.root)
        if present:
            raise InvalidArgumentError(
                f"mode is {mode!r}, but {self.path!r} exists and holds {present}; open('r+') it to add rows, "
                "or pass mode='w' to replace it"
            )
        self._facts = facts
        cache = ChunkCache(int(1e9))
        for key, length in lengths.items():
            attribute = layout.ARRAYS[key].attribute
            setattr(self, attribute, ChunkedArray(layout.create_array(self.root, key, length), cache))
        return self

    def open(
        self,
        mode: str = "r",
        cached: bool | Literal["mmap"] = True,
        cache_size_bytes: int = int(1e9),
        *,
        cache_folder: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> Self:
        """Open the arrays of an existing dataset.

        ``cached="mmap"`` maps decoded files into memory. It is the fastest way to read random rows, and all processes
        of a machine share the pages. The files are built in the cache folder when a dataset is first opened this way,
        and rebuilt when the dataset has changed. If that is impossible (full disk, damaged chunk, dataset in a memory
        store), a ``RuntimeWarning`` gives the reason and chunks are cached as with True.

        Args:
            mode: ``r`` to read, ``r+`` or ``a`` to also change and append.
            cached: True to cache decoded chunks of all arrays; False to keep only the current chunk of each array;
                ``"mmap"`` to map decoded files (mode ``r`` only).
            cache_size_bytes: Maximum size of the cached chunks.
            cache_folder: Folder for decoded files; None for the user's cache folder, or ``L5KIT_CACHE_DIR``.
            progress: Show a progress bar on a terminal while decoded files are built.

        A dataset without traffic light faces (an older layout) opens with a ``RuntimeWarning``; its frames get an empty
        face interval.

        Raises:
            DatasetNotFoundError: There is no dataset at the path.
            InvalidArgumentError: Invalid mode, or arguments that contradict each other.
            UnreachableDataError: The service behind a URL refuses or does not answer.
            MissingArrayError: ``scenes``, ``frames`` or ``agents`` is missing.
            DatasetFormatError: An array does not hold records with the required fields, or a fact is invalid.
        """
        _require_one_of("mode", mode, _OPEN_MODES)
        if isinstance(cached, str) and cached != "mmap":
            raise InvalidArgumentError(f"cached must be True, False or 'mmap', got {cached!r}")
        if cached == "mmap" and mode != "r":
            raise InvalidArgumentError(
                f"cached is 'mmap' and mode is {mode!r}, but decoded files are never changed; pass mode='r' to read, "
                "or cached=True to write"
            )
        if cache_folder is not None and cached != "mmap":
            raise InvalidArgumentError(
                f"cache_folder is {cache_folder!r}, but cached is {cached!r}; pass cached='mmap'"
            )
        log_compilation()
        self.root = self._open_group(mode)

        # Attributes of another version only give a warning, as the arrays may still be readable.
        version, labels = self.root.attrs.get("format_version"), self.root.attrs.get("labels")
        if version not in (None, FORMAT_VERSION):
            message = f"dataset {self.path!r} has format_version {version}; this l5kit knows version {FORMAT_VERSION}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if labels is not None and labels != PERCEPTION_LABELS:
            message = f"dataset {self.path!r} lists other perception labels than l5kit: {labels}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._facts = self._read_facts()
        cache = ChunkCache(cache_size_bytes if cached else 0)
        opened: dict[str, Records] = {}
        for key in layout.ARRAYS:  # a separate loop, so that warnings point at the caller's line
            opened[key] = self._open_array(key, cache)
        self._check_face_intervals(opened)
        if cached == "mmap":
            opened |= self._map_arrays(opened, cache_folder, progress)
        for key, array in opened.items():
            setattr(self, layout.ARRAYS[key].attribute, array)
        return self

    def close(self) -> None:
        """Release arrays and files; the dataset is then as before :meth:`open`. A dataset in memory stays unchanged.

        Arrays taken from the dataset earlier remain readable. A zarr store passed by the caller stays open.
        """
        if not hasattr(self, "root"):
            return
        if not isinstance(self._location, Store):
            self.root.store.close()
        del self.root
        self._facts = None
        for attribute, dtype, _ in layout.ARRAYS.values():
            setattr(self, attribute, np.empty(0, dtype=dtype))

    def __enter__(self) -> Self:
        """Open the dataset for reading, unless it is open already or in memory."""
        is_somewhere = bool(self.path) or isinstance(self._location, Store)
        return self.open() if is_somewhere and not hasattr(self, "root") else self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.scenes)

    def __bool__(self) -> bool:
        """Return True, even for a dataset without scenes."""
        return True

    def __getitem__(self, scenes: SceneSelection) -> "ChunkedDataset":
        """Return one scene like :meth:`view_scene`, or a view of several for a slice, index list or mask.

        Raises:
            IndexOutOfRangeError: A scene does not exist.
            InvalidArgumentError: The index has an unsupported type.
            CorruptedDataError: As in :meth:`view_scene`.
        """
        if scenes is None or isinstance(scenes, (str, tuple)):
            raise InvalidArgumentError(
                f"a dataset is indexed by scenes, with whole numbers, slices, lists or masks, got {scenes!r}; its "
                "arrays are the attributes scenes, frames, agents and tl_faces"
            )
        indices = selected_scenes(scenes, len(self), argument="index")
        if not isinstance(scenes, slice) and np.ndim(scenes) == 0:
            return self.view_scene(int(indices[0]))
        return view_of_scenes(self, indices)

    def __iter__(self) -> Iterator["ChunkedDataset"]:
        """Yield every scene like :meth:`view_scene`."""
        return map(self.view_scene, range(len(self)))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NumericArray:
        """Return an object array with the dataset as its only element, so that NumPy does not iterate it."""
        array = np.empty((), dtype=object)
        array[()] = self
        return array

    def _map_arrays(
        self, opened: Mapping[str, Records], cache_folder: str | os.PathLike[str] | None, progress: bool
    ) -> Mapping[str, MappedArray]:
        """Return memory-mapped versions of the arrays on disk; none, with a warning, if mapping fails."""
        chunked = {key: array for key, array in opened.items() if isinstance(array, ChunkedArray)}
        try:
            return map_or_build(DecodedSource.of(self.root, chunked), cache_folder, show_bar=progress)
        except (L5KitError, OSError) as error:
            _warn(f"dataset {self.path!r} is read from its chunks, not from decoded files: {error}")
            return {}

    def open_readable(self) -> dict[str, L5KitError]:
        """Open every array that can be opened for reading, and return the errors of the remaining arrays by name.

        Facts that cannot be read are replaced by those of L5Kit 1.5.

        Raises:
            DatasetNotFoundError: There is no dataset at the path.
            DatasetFormatError: The metadata of the group is damaged.
        """
        self.root = self._open_group("r")
        errors: dict[str, L5KitError] = {}
        opened: dict[str, Records] = {}
        cache = ChunkCache(0)
        for key, (attribute, _, _) in layout.ARRAYS.items():
            try:
                opened[key] = self._open_array(key, cache)
                if {FRAME_ARRAY_KEY, TL_FACE_ARRAY_KEY} <= opened.keys():
                    self._check_face_intervals(opened)
            except UnreachableDataError:
                raise
            except L5KitError as error:
                errors[key] = error
            else:
                setattr(self, attribute, opened[key])
        with contextlib.suppress(DatasetFormatError):  # reported separately by the checks
            self._facts = self._read_facts()
        return errors

    def _open_group(self, mode: str) -> zarr.Group:
        store = stores.open_store(self._location, writable=mode != "r", remote=self._remote)
        location = self.path or type(store).__name__
        try:
            return _open_group_of_either_version(store, mode, location)
        except UnreachableDataError:
            raise
        except FileNotFoundError as error:
            inside = stores.group_inside_zip(store)
            advice = (
                f"it has one in the folder {inside!r}; make a zip file of what is in that folder"
                if inside
                else "check the path, or initialize() a new one"
            )
            raise DatasetNotFoundError(
                f"no dataset at {location!r}: there is no zarr group (.zgroup); {advice}"
            ) from error
        except L5KitError:
            raise
        except Exception as error:  # damaged files make zarr, its parsers and the store raise many types
            raise DatasetFormatError(
                f"{stores.describe_file(store, '.zgroup')} or .zattrs is damaged ({type(error).__name__}: {error}); "
                "restore it from the source of the dataset"
            ) from error

    def _read_facts(self) -> LogFacts | None:
        name = "zarr.json" if self.root.metadata.zarr_format == 3 else ".zattrs"
        file = stores.describe_file(self.root.store, name)
        return LogFacts.from_attributes(self.root.attrs.asdict(), file=file)

    def _check_face_intervals(self, opened: Mapping[str, Any]) -> None:
        """Refuse frames without face intervals if there are faces: all traffic lights would be lost silently."""
        problem = layout.find_ownerless_faces(opened[FRAME_ARRAY_KEY].zarr_array.dtype, len(opened[TL_FACE_ARRAY_KEY]))
        if problem is not None:
            raise DatasetFormatError(
                f"{self._metadata_file(FRAME_ARRAY_KEY)} {problem}; give the field its name, or restore the metadata "
                "from the source of the dataset"
            )

    def _metadata_file(self, key: str) -> str:
        name = "zarr.json" if self.root.metadata.zarr_format == 3 else ".zarray"
        return stores.describe_file(self.root.store, f"{key}/{name}")

    def _open_array(self, key: str, cache: ChunkCache) -> Records:
        is_columns, file = self.root.metadata.zarr_format == 3, self._metadata_file(key)
        try:
            array: Any = self.root[key]
        except KeyError as error:
            if key != TL_FACE_ARRAY_KEY or is_columns:
                raise MissingArrayError(
                    f"array {key!r} is missing from the dataset ({file}); restore it from the source of the dataset"
                ) from error
            _warn(f"dataset {self.path!r} has no array {key!r}: it is read as one without traffic lights")
            return np.empty(0, dtype=TL_FACE_DTYPE)
        except UnreachableDataError:
            raise
        except Exception as error:
            raise DatasetFormatError(
                f"{file} cannot be read ({type(error).__name__}: {error}); restore it from the source of the dataset"
            ) from error
        if is_columns:
            columns = StoredColumns.open(array, key, file)
            return ColumnsArray(columns, cache, dtype=layout.presented_dtype(columns.dtype, key))

        # a dataset of zarr 2 has one array of one axis per kind of record
        advice = "this is not a dataset of this format, or its metadata is damaged"
        if not isinstance(array, zarr.Array) or array.ndim != 1:
            raise DatasetFormatError(f"{file} must describe an array of one axis, got {array!r}; {advice}")
        if array.chunks[0] < 1:
            raise DatasetFormatError(f"{file} must have chunks of at least one row, got {array.chunks}; {advice}")
        layout.check_fields(array.dtype, key, file)
        layout.check_size(array, file)
        return ChunkedArray(array, cache, dtype=layout.presented_dtype(array.dtype, key))

    def __str__(self) -> str:
        """Return a table of the contents."""
        return text_table(self.summary().as_columns())

    def __repr__(self) -> str:
        """Return path and counts."""
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name, _, _ in layout.ARRAYS.values())
        return f"<{type(self).__name__} {without_secrets(self.path) or 'in memory'!r}: {counts}>"

    def _repr_html_(self) -> str:
        """Return a card for notebooks; reads only a small part of the dataset."""
        return html_card(type(self).__name__, self._card_facts, subject=self)

    def _card_facts(self) -> dict[str, object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # too few frames to measure the rate
            summary = self.summary()
        return {
            "path": self.path or "in memory",
            "scenes": summary.num_scenes,
            "frames": summary.num_frames,
            "agents": summary.num_agents,
            "traffic light faces": summary.num_tl_faces,
            "hours": summary.total_time_h,
            "frames a second": summary.frequency_hz,
            "agents in a frame": summary.agents_per_frame,
        }

    @property
    def facts(self) -> LogFacts:
        """Facts of the log: size of the AV, time between two frames, original class names.

        Logs written by l5kit store them as attributes; other logs have the constants of L5Kit 1.5. Views and copies
        keep the facts of their log.
        """
        return self._facts or LogFacts()

    @property
    def own_facts(self) -> LogFacts | None:
        """Facts stored in the log itself; None if the constants of L5Kit 1.5 apply."""
        return self._facts

    def summary(self) -> DatasetSummary:
        """Return the counts and times that describe the dataset."""
        counts = len(self.agents), len(self.tl_faces)
        return summarize_frames(self.scenes, self.frames, *counts, step_time_s=self.facts.step_time_s)

    def validate(
        self,
        *,
        checksums: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        workers: Workers = 1,
    ) -> list[Finding]:
        """Check the whole dataset and return the findings of :func:`l5kit.data.checks.validation.validate_dataset`."""
        # mapped arrays are copies, but the files themselves are to be checked
        dataset = copy.copy(self)
        for key, (attribute, _, _) in layout.ARRAYS.items():
            if isinstance(getattr(self, attribute), MappedArray):
                setattr(dataset, attribute, self._open_array(key, ChunkCache(0)))
        return validate_dataset(dataset, checksums=checksums, progress=progress, workers=workers)

    def fingerprint(self) -> str | None:
        """Return a digest of path, names, sizes and modification times of the files; None for a dataset in memory."""
        signatures = []
        for array in (self.scenes, self.frames, self.agents):
            signature = signature_of(array)
            if signature is None:
                return None
            signatures.append(signature)
        return hashlib.sha256(repr(signatures).encode()).hexdigest()

    def get_scene_dataset(self, scene_index: int) -> "ChunkedDataset":
        """Return a copy of one scene in memory, with intervals that start at 0.

        An empty scene stays empty, even if frames without a scene follow that may have belonged to it.

        Args:
            scene_index: Scene index; negative values count from the end.

        Raises:
            InvalidArgumentError: The scene does not exist.
            CorruptedDataError: A file of the scene is damaged or missing, the intervals of the scene or its frames are
                wrong, or there are frames but no scenes.
        """
        scene = self.view_scene(scene_index)
        scene.agents, scene.tl_faces = np.array(scene.agents), np.array(scene.tl_faces)
        return scene

    def view_scene(self, scene_index: int) -> "ChunkedDataset":
        """Return a read-only view of one scene, with intervals that start at 0 and without copying agents and faces.

        Scene and frames are copies. Agents and faces are read-only; for a log in memory they reflect its later changes.

        Args:
            scene_index: Scene index; negative values count from the end.

        Raises:
            InvalidArgumentError: The scene does not exist.
            CorruptedDataError: As in :meth:`get_scene_dataset`.
        """
        num_scenes = len(self.scenes)
        if num_scenes == 0 and len(self.frames) > 0:
            raise CorruptedDataError(
                f"{self.path or 'a log in memory'!r} has {len(self.frames)} frames but no scenes, so there is no scene "
                f"{scene_index}; restore the array 'scenes' from the source of the dataset"
            )
        if num_scenes == 0:
            raise InvalidArgumentError(
                f"scene_index is {scene_index}, but the dataset has no scenes; open() it first if it lies on disk"
            )
        if not -num_scenes <= scene_index < num_scenes:
            raise InvalidArgumentError(
                f"scene_index {scene_index} is out of range for a dataset of {num_scenes} scenes; "
                f"use {-num_scenes} to {num_scenes - 1}"
            )
        start = int(scene_index) % num_scenes  # non-negative
        require_readable_scene(self, start)

        # make the intervals relative to the first rows of this scene
        scenes = np.array(rows_of(self.scenes, slice(start, start + 1), strict=True))
        frames = np.array(rows_of(self.frames, get_frames_slice_from_scenes(scenes[0]), strict=True))
        scenes[FRAME_INTERVAL] -= scenes[FRAME_INTERVAL][0, 0]
        if len(frames) == 0:
            return self.in_memory(scenes=scenes, frames=frames, facts=self._facts)
        # rows of a scene are contiguous, from the first row of its first frame to the last row of its last frame
        agents = as_read_only(rows_of(self.agents, get_agents_slice_from_frames(frames[0], frames[-1]), strict=True))
        faces = as_read_only(rows_of(self.tl_faces, _faces_slice(frames)))
        if len(self.tl_faces) == 0 and _faces_slice(frames).stop > 0:
            _warn(f"{self.path or 'a log in memory'!r} has no traffic light faces, although its frames name some")
        for field in (AGENT_INTERVAL, FACE_INTERVAL):
            if field in (frames.dtype.names or ()):
                frames[field] -= frames[field][0, 0]
        return self.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=faces, facts=self._facts)

    @staticmethod
    def concatenate(datasets: Iterable["ChunkedDataset"], *, facts: LogFacts | None = None) -> "ChunkedDataset":
        """Return a view over several opened datasets, one after the other, without copying them.

        Args:
            datasets: Opened datasets.
            facts: Facts of the result, required if the facts of the datasets differ; None for their common facts.

        Raises:
            InvalidArgumentError: ``datasets`` is empty, has an item that is not a dataset, or has differing facts.
        """
        if not isinstance(datasets, Iterable) or isinstance(datasets, (str, bytes, ChunkedDataset)):
            raise InvalidArgumentError(f"datasets must be a list of opened datasets, got the single {datasets!r}")
        datasets = list(datasets)
        if not datasets:
            raise InvalidArgumentError("datasets must hold at least one opened dataset, got none")
        for dataset in datasets:
            if not isinstance(dataset, ChunkedDataset):
                raise InvalidArgumentError(
                    f"datasets must hold opened datasets, got {dataset!r}; pass ChunkedDataset(path).open() for a path"
                )

        # rows of a dataset follow those of all earlier datasets, so its intervals shift by the number of earlier rows
        lengths = {
            name: np.array([len(getattr(dataset, name)) for dataset in datasets], dtype=np.int64)
            for name in ("scenes", "frames", "agents", "tl_faces")
        }
        offsets = {name: np.cumsum(counts) - counts for name, counts in lengths.items()}
        shifts = {
            "scenes": {FRAME_INTERVAL: offsets["frames"]},
            "frames": {AGENT_INTERVAL: offsets["agents"], FACE_INTERVAL: offsets["tl_faces"]},
        }
        views = {}
        for name, counts in lengths.items():
            segments = Segments(np.arange(len(datasets)), np.zeros_like(counts), counts, shifts.get(name, {}))
            views[name] = view_of([getattr(dataset, name) for dataset in datasets], segments, name)
        if facts is None:
            facts = agreed_facts([(dataset.path or "a log in memory", dataset.own_facts) for dataset in datasets])
        return ChunkedDataset.in_memory(**views, facts=facts)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
        workers: Workers = 1,
    ) -> None:
        """Write all arrays to a new folder or zip file, atomically.

        Args:
            path: Folder, or file whose name ends in ``.zip``.
            overwrite: Replace an existing dataset or zip file.
            progress: Called with the number of rows written and the total.
            workers: Number of threads that read the data, or an executor.

        Raises:
            CorruptedDataError: Rows cannot be read, or a chunk file is missing (except of faces).
            FileExistsError: ``path`` exists, before or after writing, and ``overwrite`` is False.
            InvalidArgumentError: ``path`` is a URL, or something other than a dataset exists there.
        """
        target = stores.path_of(path)
        require_local("path", target)
        arrays = {key: getattr(self, name) for key, (name, _, _) in layout.ARRAYS.items()}
        save_arrays(arrays, Path(target), overwrite=overwrite, facts=self._facts, progress=progress, workers=workers)


def _open_group_of_either_version(store: Store, mode: str, location: str) -> zarr.Group:
    """Open the zarr 2 group of a dataset or, for reading, the zarr 3 group of a columnar export."""
    # Use consolidated metadata if present (None), except for local stores, whose metadata files are read directly.
    is_at_hand = isinstance(store, (LocalStore, MemoryStore, ZipStore))
    consolidated = None if mode == "r" and not is_at_hand else False
    try:
        return zarr.open_group(
            store=store, mode="r" if mode == "r" else "r+", zarr_format=2, use_consolidated=consolidated
        )
    except FileNotFoundError:
        group = zarr.open_group(store=store, mode="r", zarr_format=3, use_consolidated=consolidated)
    require_columns(group, location)
    if mode != "r":
        raise ReadOnlyDatasetError(
            f"{location} is an export in columns, which is only read; open it with mode='r', or save() it to a folder "
            f"and open that with mode={mode!r}"
        )
    return group


def _faces_slice(frames: RecordArray) -> slice:
    if FACE_INTERVAL not in (frames.dtype.names or ()):
        return slice(0, 0)
    return get_tl_faces_slice_from_frames(frames[0], frames[-1])


def _as_length(argument: str, value: int) -> int:
    try:
        length = operator.index(value)
    except TypeError:
        length = -1
    if length < 0:
        raise InvalidArgumentError(f"{argument} must be a whole number of at least 0, got {value!r}")
    return length


def _require_one_of(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"{argument} must be one of {allowed}, got {value!r}")


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
