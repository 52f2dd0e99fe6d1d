"""zarr store on a folder of a remote service."""

from collections.abc import Mapping
from typing import Any, Self

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import FsspecStore

from l5kit.data.stores.remote_files import RemoteFiles
from l5kit.data.stores.remote_reading import RemoteReading

_OPTIONAL_NAMES = (".zmetadata", ".zattrs")


class RemoteStore(FsspecStore):
    """A folder accessed by fsspec whose files are read through :class:`RemoteFiles`.

    Writes are not retried, as in zarr's own store.

    Args:
        files: The service with the folder.
        path: Path of the folder on the service.
        read_only: Whether to refuse writes.
    """

    def __init__(self, files: RemoteFiles, path: str, *, read_only: bool) -> None:
        self.files = files
        super().__init__(fs=files.fs, path=path.rstrip("/"), read_only=read_only)

    @classmethod
    def at(
        cls,
        url: str,
        reading: RemoteReading,
        storage_options: Mapping[str, object] | None = None,
        *,
        read_only: bool,
    ) -> Self:
        """Return the store on the folder at a URL; see :meth:`RemoteFiles.at` for errors."""
        files, path = RemoteFiles.at(url, reading, storage_options)
        return cls(files, path, read_only=read_only)

    @property
    def fs(self) -> Any:
        """The file system of this process."""
        return self.files.fs

    @fs.setter
    def fs(self, fs: Any) -> None:
        """Do nothing: the file system of ``files`` is used, which zarr's store does not know."""

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return a store on the same folder, read-only or not."""
        return type(self)(self.files, self.path, read_only=read_only)

    def path_of_key(self, key: str) -> str:
        """Return the path of a file on the service."""
        return f"{self.path}/{key}" if key else self.path

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the content of a file, or part of it; None if there is none."""
        path = self.path_of_key(key)
        if key.rsplit("/", 1)[-1] in _OPTIONAL_NAMES:
            content = await self.files.read_if_allowed(path)
        else:
            content = await self.files.read(path, *bounds_of(byte_range))
        return None if content is None else prototype.buffer.from_bytes(content)

    async def exists(self, key: str) -> bool:
        """Return whether there is a file."""
        return await self.files.exists(self.path_of_key(key))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.files.url_of(self.path)}>"


def bounds_of(byte_range: ByteRequest | None) -> tuple[int | None, int | None]:
    """Return the start and stop of a part of a file, as in a slice."""
    if byte_range is None:
        return None, None
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, byte_range.end
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, None
    if isinstance(byte_range, SuffixByteRequest):
        return -byte_range.suffix, None
    raise TypeError(f"byte_range must be one of zarr's byte requests, got {byte_range!r}")
