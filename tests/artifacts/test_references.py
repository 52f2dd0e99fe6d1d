"""Files that are fetched from where a reference says they lie."""

import fsspec
import pytest

from l5kit.artifacts.file_store import fetch_files
from l5kit.data.artifact import ArtifactStoreError
from l5kit.errors import InvalidArgumentError
from support.artifacts import files_below
from support.http_server import Answer, served

FILES = {"meta.json": b"{}", "scenes/a.zarr/.zgroup": b"group", "odd name #1 100%.txt": b"odd", "empty": b""}


def test_files_come_over_http_whatever_they_are_called(tmp_path):
    pytest.importorskip("aiohttp")

    def answer(request):
        name = request.path.removeprefix("/data/city/")
        return Answer(FILES[name]) if name in FILES else Answer(b"", 404)

    done = []
    with served(answer) as address:
        fetch_files(f"{address}/data/city", list(FILES), tmp_path, progress=lambda *counts: done.append(counts))
        assert files_below(tmp_path) == FILES
        assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
        with pytest.raises(ArtifactStoreError, match=rf"gone\.txt could not be read from {address}/data/city: "):
            fetch_files(f"{address}/data/city", ["gone.txt"], tmp_path)


def test_files_come_from_any_place_that_fsspec_knows(tmp_path):
    fsspec.filesystem("memory").pipe({f"/references/{name}": data for name, data in FILES.items()})
    fetch_files("memory://references", list(FILES), tmp_path)
    assert files_below(tmp_path) == FILES


def test_files_come_from_a_folder_whose_url_has_escapes(tmp_path):
    folder = tmp_path / "my data ü%20"
    folder.mkdir()
    (folder / "odd name %41").write_bytes(b"odd")
    fetch_files(folder.as_uri(), ["odd name %41"], tmp_path / "out")
    assert files_below(tmp_path / "out") == {"odd name %41": b"odd"}


def test_a_place_of_no_kind_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="cannot open 'gopher://x'"):
        fetch_files("gopher://x", ["a"], tmp_path)
