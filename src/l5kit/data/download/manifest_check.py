"""Check of downloaded files against a manifest, before they are moved to their final paths."""

from pathlib import Path, PurePosixPath

from l5kit.data.digests.digest import FileDigest, without_masks
from l5kit.data.digests.manifest import Manifest
from l5kit.data.download.fetching import file_digest
from l5kit.data.download.published_layout import PlacedPart
from l5kit.data.layout import GROUP_FILES
from l5kit.errors import DownloadError

_MAX_NAMED = 5


class ManifestCheck:
    """The files of a manifest, and which of them were verified.

    Args:
        manifest: Manifest of a whole data folder, or of a single zarr at any path.
        folder: The data folder.

    Attributes:
        extra: Downloaded files that are not in the manifest, relative to the data folder.
    """

    def __init__(self, manifest: Manifest, folder: Path) -> None:
        self._wanted = {PurePosixPath(file.path): file for file in manifest.files}
        self._is_of_zarr = any(PurePosixPath(name) in self._wanted for name in GROUP_FILES)
        self._folder = folder
        self._base = None if self._is_of_zarr else PurePosixPath()
        self._checked: set[PurePosixPath] = set()
        self.extra: list[str] = []

    def check(self, part: PlacedPart) -> None:
        """Compare a part with the manifest.

        Raises:
            DownloadError: Files of it differ, or the manifest is of a single zarr and this is a second one.
        """
        if self._is_of_zarr and not part.is_dataset:
            return
        base = self._base if self._base is not None else part.path
        if self._is_of_zarr and base != part.path:
            raise DownloadError(
                f"the manifest is of one zarr, but {base} and {part.path} were downloaded; download them one after the "
                "other, or give a manifest of the whole data folder"
            )
        self._base = base
        # files of the part by their manifest paths, which are relative to the zarr if the manifest is of a single zarr
        is_base = base == part.path
        if part.source.is_file() and not (part.is_dataset and is_base):
            digests = {part.path: _digest_at(part.source, part.path)}
        else:
            start, digests = PurePosixPath() if is_base else part.path, {}
            for each in Manifest.of(part.source).files:
                digests[start / each.path] = FileDigest(str(start / each.path), each.size, each.sha256)
        different = sorted(str(path) for path, file in digests.items() if self._is_other(path, file))
        if different:
            raise DownloadError(f"{part.path} is not what the manifest says: {_named(different)} differ")
        self._checked.update(digests)
        files = without_masks(digests.values())
        self.extra += [str(base / file.path) for file in files if PurePosixPath(file.path) not in self._wanted]

    def _is_other(self, path: PurePosixPath, file: FileDigest) -> bool:
        wanted = self._wanted.get(path)
        return wanted is not None and (wanted.size, wanted.sha256) != (file.size, file.sha256)

    def finish(self) -> None:
        """Compare files of the manifest that this call has not downloaded and that existed before.

        Raises:
            DownloadError: Files are missing, or differ.
        """
        left = {
            path: self._folder / (self._base or PurePosixPath()) / path for path in set(self._wanted) - self._checked
        }
        missing = sorted(str(path) for path, file in left.items() if not file.is_file())
        if missing:
            raise DownloadError(f"{self._folder} lacks files of the manifest: {_named(missing)}; download them as well")
        different = sorted(str(path) for path, file in left.items() if self._is_other(path, _digest_at(file, path)))
        if different:
            raise DownloadError(f"{self._folder} is not what the manifest says: {_named(different)} differ")


def _digest_at(file: Path, path: PurePosixPath) -> FileDigest:
    return FileDigest(str(path), file.stat().st_size, file_digest(file))


def _named(paths: list[str]) -> str:
    more = len(paths) - _MAX_NAMED
    return ", ".join(paths[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
