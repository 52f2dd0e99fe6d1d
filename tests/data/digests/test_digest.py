"""Digest of a dataset: its inputs, refusals, and use of the cache."""

import dataclasses
import hashlib
import http.server
import os
import re
import shutil
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data.digests.digest import FileDigest, _Hashing, dataset_digest, digest_of, hash_by_jobs
from l5kit.data.digests.file_trees import name_problem, open_tree
from l5kit.data.user_cache import cache_folder
from l5kit.errors import (
    CorruptedDataError,
    DataChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    UnreachableDataError,
)
from support.nameless_zip import with_nameless_file

FILES = {".zgroup": b"{}", "frames/0": b"abc", "frames/.zarray": b"", "B": b"\x00" * 3_000_000, "ä/b c": b"1"}


def write(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def by_hand(files):
    """The digest as decision 39 has it: of sorted lines of path, size and SHA-256."""
    paths = sorted(files, key=lambda path: path.encode())
    lines = [f"{path}\t{len(files[path])}\t{hashlib.sha256(files[path]).hexdigest()}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def age(folder, seconds=60):
    """Make files old enough that their modification times reveal changes."""
    for path in [path for path in Path(folder).rglob("*") if path.is_file()] or [Path(folder)]:
        os.utime(path, ns=(time.time_ns() - seconds * 10**9,) * 2)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "city", FILES)


@pytest.fixture
def read_files(monkeypatch):
    """Paths of the files that are opened to be hashed."""
    opened = []
    original = _Hashing.result_of

    def note(self, file):
        opened.append(file.path)
        return original(self, file)

    monkeypatch.setattr(_Hashing, "result_of", note)
    return opened


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_it_is_that_of_path_size_and_content(folder, workers):
    assert dataset_digest(folder, workers=workers) == by_hand(FILES)


def test_a_known_digest():
    files = [FileDigest("b", 1, "1" * 64), FileDigest("a/c", 20, "2" * 64)]
    text = "a/c\t20\t" + "2" * 64 + "\nb\t1\t" + "1" * 64 + "\n"
    assert digest_of(files) == hashlib.sha256(text.encode()).hexdigest()


def test_a_zip_file_a_link_and_a_url_of_the_same_files_have_the_same(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "city.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("frames")
        for path, content in FILES.items():
            archive.writestr(path, content)
    (tmp_path / "link").symlink_to(folder)
    remote = fsspec.filesystem("memory")
    for path, content in FILES.items():
        remote.pipe(f"/test-digest/{path}", content)
    remote.pipe("/test-digest.zip", (tmp_path / "city.zip").read_bytes())
    urls = [f"file://{folder}", "memory://test-digest/", "memory://test-digest.zip"]
    places = [tmp_path / "city.zip", tmp_path / "link", *urls]
    assert [dataset_digest(place) for place in places] == [by_hand(FILES)] * 5
    remote.rm("/test-digest", recursive=True)


def test_one_file(folder):
    assert dataset_digest(folder / "frames" / "0") == by_hand({"0": b"abc"})
    fsspec.filesystem("memory").pipe("/test-one/0", b"abc")
    assert dataset_digest("memory://test-one/0") == by_hand({"0": b"abc"})


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("agents_mask/0.5/0", False),
        ("agents_mask/.zgroup", False),
        ("scenes/x.zarr/agents_mask/0.5/0", False),
        ("agents_mask", True),
        ("scenes/agents_mask/0", True),
        ("agents_masks/0", True),
    ],
)
def test_stored_agents_masks_do_not_count(tmp_path, path, counts):
    files = {".zgroup": b"{}", "scenes/x.zarr/.zgroup": b"{}"}
    folder = write(tmp_path / "city", {**files, path: b"mask"})
    assert dataset_digest(folder) == by_hand({**files, path: b"mask"} if counts else files)


trees = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "Z", "ä", "1 x", "agents"]), min_size=1, max_size=3).map("/".join),
    st.binary(max_size=40),
    min_size=1,
    max_size=6,
).filter(lambda files: not any(other.startswith(f"{path}/") for path in files for other in files))


@settings(max_examples=40)
@given(files=trees, data=st.data())
def test_any_tree_has_its_own_digest(files, data, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("tree"), files)
    digest = dataset_digest(folder, workers=1)
    assert digest == by_hand(files)
    path = data.draw(st.sampled_from(sorted(files)))
    (folder / path).write_bytes(files[path] + b"!")
    assert dataset_digest(folder, workers=1) != digest
    (folder / path).rename(folder / "moved")
    (folder / "moved").write_bytes(files[path])
    assert dataset_digest(folder, workers=1) != digest


def test_links_in_the_folder_are_followed(folder):
    (folder / "link").symlink_to("frames/0")
    (folder / "frames2").symlink_to("frames")
    linked = {"link": b"abc", "frames2/0": b"abc", "frames2/.zarray": b""}
    assert dataset_digest(folder) == by_hand({**FILES, **linked})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("../outside", "leads out of it"),
        ("/etc/hostname", "leads out of it"),
        ("nowhere", "which does not exist"),
        ("..", "leads out of it"),
        (".", "leads back"),
    ],
)
def test_other_links_are_refused(folder, target, message):
    (folder.parent / "outside").write_bytes(b"secret")
    (folder / "link").symlink_to(target)
    with pytest.raises(InvalidArgumentError, match=f"the link 'link', which .*{message}"):
        dataset_digest(folder)


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\\b", "C:x", os.fsdecode(b"a\xff")])
def test_odd_names_are_refused(folder, name):
    (folder / name).write_bytes(b"")
    with pytest.raises(InvalidArgumentError, match=r"holds a file named .*; rename or remove it"):
        dataset_digest(folder)


@pytest.mark.parametrize("path", ["", "/a", "a//b", "a/", "./a", "a/../b", "..", "a\\b", "C:/a", "a\x7f"])
def test_paths_that_may_leave_a_folder_are_no_names(path):
    assert name_problem(path) is not None


def test_pipes_are_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidArgumentError, match="'pipe', which is neither file nor folder"):
        dataset_digest(folder)


@pytest.mark.parametrize("name", ["../../x", "/x", "a/../../x"])
def test_zip_files_with_odd_or_repeated_names_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        archive.writestr(name, b"")
    with pytest.raises(InvalidArgumentError, match="must be a relative path"):
        dataset_digest(tmp_path / "odd.zip")
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    with pytest.raises(InvalidArgumentError, match="it occurs twice"):
        dataset_digest(tmp_path / "twice.zip")


def test_a_damaged_zip_file_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("frames/0", b"content")
    content = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(content.replace(b"content", b"CONTENT"))
    with pytest.raises(CorruptedDataError, match=r"a\.zip: frames/0 cannot be read: Bad CRC-32"):
        dataset_digest(tmp_path / "a.zip")


@pytest.fixture
def web_server(tmp_path):
    """URL of a folder on a server that lists names."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_on_a_web_server(web_server, tmp_path):
    files = {"frames/0": b"abc", "meta.json": b"{}"}
    write(tmp_path / "city", files)
    assert dataset_digest(f"{web_server}/city") == by_hand(files)
    assert dataset_digest(f"{web_server}/city/meta.json") == by_hand({"meta.json": b"{}"})


def test_letters_that_a_web_server_quotes_are_those_of_the_file(web_server, tmp_path):
    write(tmp_path / "city", FILES | {"a%20b#?": b"2"})
    assert dataset_digest(f"{web_server}/city") == by_hand(FILES | {"a%20b#?": b"2"})


def test_links_that_sort_the_page_of_a_web_server_are_no_files(web_server, tmp_path):
    write(tmp_path / "city", {"meta.json": b"{}"})
    page = '<a href="?C=N;O=D">Name</a> <a href="meta.json">meta.json</a> <a href="/">Parent Directory</a>'
    (tmp_path / "city" / "index.html").write_text(page)
    assert dataset_digest(f"{web_server}/city") == by_hand({"meta.json": b"{}"})


def test_a_folder_of_a_service_that_cannot_be_listed_is_an_error(web_server, tmp_path, monkeypatch):
    write(tmp_path / "city", FILES)
    system = fsspec.get_filesystem_class("http")
    real = system._ls_real

    async def ls(self, url, **options):
        if url.rstrip("/").endswith("frames"):
            raise ConnectionResetError("gone")
        return await real(self, url, **options)

    monkeypatch.setattr(system, "_ls_real", ls)
    with pytest.raises(UnreachableDataError, match=r"http://.*gone"):
        dataset_digest(f"{web_server}/city")


def test_a_service_that_goes_away_while_a_file_is_read_is_no_damage(monkeypatch):
    memory = fsspec.filesystem("memory")
    memory.pipe("/test-gone/0", b"abc")

    class ServerDisconnectedError(Exception):
        status = 503

    def fail(*_, **__):
        raise ServerDisconnectedError("no more")

    monkeypatch.setattr(type(memory), "open", fail)
    with pytest.raises(UnreachableDataError, match="no more"):
        dataset_digest("memory://test-gone")
    memory.rm("/test-gone", recursive=True)


def test_a_pipe_or_device_by_itself_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(InvalidArgumentError, match="neither file nor folder"):
            dataset_digest(place)


def test_a_file_without_a_name_in_a_zip_file_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("meta.json", b"{}")
    (tmp_path / "a.zip").write_bytes(with_nameless_file((tmp_path / "a.zip").read_bytes()))
    with pytest.raises(InvalidArgumentError, match="file named ''"):
        dataset_digest(tmp_path / "a.zip")


def test_a_zip_file_on_a_web_server_that_answers_no_ranges(web_server, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("frames/0", bytes(200_000))
    with pytest.raises(
        InvalidArgumentError, match=r"a\.zip' piece by piece: the service does not support range requests"
    ):
        dataset_digest(f"{web_server}/a.zip")


def test_what_is_not_there(tmp_path):
    for place in ("nowhere", "empty", "broken.zip"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "broken.zip").write_bytes(b"PK no zip file")
        with pytest.raises(DatasetNotFoundError, match=place):
            dataset_digest(tmp_path / place)


@pytest.mark.parametrize("change", ["written", "touched back", "replaced", "shortened", "removed"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_changes_while_it_is_read_is_noticed(folder, change, workers):
    def disturb(done, _):
        path = folder / "B"
        if done < 1000 or not path.exists():
            return
        status = path.stat()
        if change == "removed":
            path.unlink()
        elif change == "replaced":
            shutil.copy2(path, folder.parent / "B")
            os.replace(folder.parent / "B", path)
        else:
            path.write_bytes(b"1" * (2_999_999 if change == "shortened" else 3_000_000))
        if change == "touched back":
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    age(folder)
    with pytest.raises(DataChangedError, match=r"city: B (was written to|has vanished) while the files were read"):
        dataset_digest(folder, workers=workers, progress=disturb)


@pytest.mark.parametrize("workers", [1, 3])
def test_progress_is_told_in_bytes(folder, workers):
    told = []
    dataset_digest(folder, workers=workers, progress=lambda *numbers: told.append(numbers))
    num_bytes = sum(map(len, FILES.values()))
    assert told == sorted(told)
    assert told[-1] == (num_bytes, num_bytes)
    assert len(told) == 3 + 3  # 2**20 bytes at once of the large file, and three small ones


def test_a_cached_digest_is_taken_while_no_file_has_changed(folder, read_files):
    age(folder)
    for _ in range(3):
        assert dataset_digest(folder, cache=True) == by_hand(FILES)
    assert sorted(read_files) == sorted(FILES)
    dataset_digest(folder)
    assert len(read_files) == 2 * len(FILES)


@pytest.mark.parametrize("change", ["written back", "added", "removed", "renamed", "replaced", "moved"])
def test_a_cached_digest_is_not_taken_after_a_change(folder, change):
    """``written back`` has the same size and modification time as before."""
    age(folder)
    before = dataset_digest(folder, cache=True)
    target, files = folder / "frames" / "0", dict(FILES)
    status = target.stat()
    if change == "written back":
        target.write_bytes(b"abd")
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        files["frames/0"] = b"abd"
    elif change == "added":
        write(folder, {"new": b""})
        files["new"] = b""
    elif change == "removed":
        target.unlink()
        del files["frames/0"]
    elif change == "renamed":
        target.rename(folder / "frames" / "1")
        files["frames/1"] = files.pop("frames/0")
    elif change == "replaced":
        (folder.parent / "new").write_bytes(b"abd")
        os.utime(folder.parent / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(folder.parent / "new", target)
        files["frames/0"] = b"abd"
    else:
        folder.rename(folder.parent / "before")
        write(folder, files := {"other": b"1"})
    assert dataset_digest(folder, cache=True) == by_hand(files) != before


def test_files_that_have_just_been_written_are_read_again(folder, read_files):
    """Their modification times might not reveal a change."""
    age(folder)
    (folder / "frames" / "0").write_bytes(b"abc")
    for _ in range(2):
        assert dataset_digest(folder, cache=True) == by_hand(FILES)
    assert len(read_files) == 2 * len(FILES)


@pytest.mark.parametrize("content", ["", "no JSON", "[]", "{}", '{"state": 1}'])
def test_a_broken_cache_is_none(folder, content):
    age(folder)
    dataset_digest(folder, cache=True)
    (kept,) = (cache_folder() / "digests").iterdir()
    kept.write_text(content)
    assert dataset_digest(folder, cache=True) == by_hand(FILES)


def test_without_a_place_for_a_cache(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("L5KIT_CACHE_DIR", str(tmp_path / "file"))
    age(folder)
    assert dataset_digest(folder, cache=True) == by_hand(FILES)


def test_a_zip_file_is_cached_and_read_again_after_a_change(tmp_path, read_files):
    for content in (b"1", b"2"):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a", content)
        age(tmp_path / "a.zip")
        assert {dataset_digest(tmp_path / "a.zip", cache=True) for _ in range(2)} == {by_hand({"a": content})}
    assert read_files == ["a", "a"]


def test_files_on_a_server_that_tells_no_versions_are_read_again(read_files):
    fsspec.filesystem("memory").pipe("/test-versions/a", b"1")
    for _ in range(2):
        dataset_digest("memory://test-versions", cache=True)
    assert read_files == ["a", "a"]
    assert open_tree("memory://test-versions").list_files()[0].version == ()


def test_workers_of_an_engine_raise_what_a_file_raises(folder):
    files = open_tree(folder).list_files()
    with ThreadPoolExecutor(1) as workers:
        hashed = list(hash_by_jobs(folder, files, workers))
        assert digest_of(FileDigest(file.path, file.size, sha256) for file, sha256 in hashed) == by_hand(FILES)
        changed = [dataclasses.replace(files[0], size=files[0].size + 1), *files[1:]]
        with pytest.raises(DataChangedError, match=re.escape(files[0].path)):
            list(hash_by_jobs(folder, changed, workers))
