"""Addresses become a data folder: from a server with bad habits, from folders, archives and buckets."""

import hashlib
import shutil
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import PurePosixPath

import fsspec
import pytest
from filelock import FileLock

from l5kit.data import ChunkedDataset, validate_path
from l5kit.data.digests.manifest import Manifest
from l5kit.data.download import Retries, UnpackLimits, download_dataset
from l5kit.data.download.downloading import WORK_FOLDER
from l5kit.errors import CorruptedDataError, DownloadError, InvalidArgumentError
from support import bad_server as tricks

PUBLISHED = [
    *("aerial_map/aerial_map.png", "city.json", "meta.json"),
    *("scenes/sample.zarr", "semantic_map/semantic_map.pb"),
]


def tar(folder, names, *, inside=""):
    """Bytes of a tar file with some files and folders of a folder."""
    file = folder.parent / "made.tar"
    with tarfile.open(file, "w") as archive:
        for name, source in names.items():
            archive.add(source, f"{inside}{name}")
    content = file.read_bytes()
    file.unlink()
    return content


def files_in(folder):
    """All files in a folder by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def wanted(city):
    return files_in(city)


@pytest.fixture
def archives(city, server, tmp_path):
    """Addresses of three archives as the owner offers them, each broken off once."""
    broken = tricks.cut(5_000)
    maps = {"semantic_map.pb": city / "semantic_map" / "semantic_map.pb"}
    maps |= {name: city / name for name in ("city.json", "meta.json")}
    sample = tar(tmp_path / "x", {"sample.zarr": city / "scenes" / "sample.zarr"}, inside="scenes/")
    return [
        server.add("/sample.tar", sample, broken) + "?X-Amz-Signature=SECRET",
        server.add("/semantic_map.tar", tar(tmp_path / "x", maps, inside="semantic_map/"), broken),
        server.add("/aerial_map.tar", tar(tmp_path / "x", {"aerial_map": city / "aerial_map"}), broken),
    ]


def test_archives_become_the_published_layout(archives, wanted, tmp_path, retries):
    done = download_dataset(archives, tmp_path / "out", retries=retries)
    assert files_in(tmp_path / "out") == wanted
    assert sorted(map(str, done.placed)) == PUBLISHED
    assert (done.present, done.extra) == ((), ())
    assert done.datasets == (tmp_path / "out" / "scenes" / "sample.zarr",)
    assert validate_path(done.datasets[0]) == []


def test_the_next_call_downloads_nothing_again(archives, server, tmp_path, retries):
    first = download_dataset(archives, tmp_path / "out", retries=retries)
    server.asked.clear()
    signed_anew = [archives[0].replace("SECRET", "OTHER"), *archives[1:]]
    second = download_dataset(signed_anew, tmp_path / "out", retries=retries)
    assert (second.placed, second.present) == ((), first.placed)
    assert server.asked == []
    (tmp_path / "out" / "meta.json").unlink()
    third = download_dataset(archives, tmp_path / "out", retries=retries)
    assert third.placed == (PurePosixPath("meta.json"),)


def test_what_was_changed_since_is_not_taken_for_what_was_downloaded(archives, tmp_path, retries):
    download_dataset(archives, tmp_path / "out", retries=retries)
    size = (tmp_path / "out" / "meta.json").stat().st_size
    (tmp_path / "out" / "meta.json").write_bytes(bytes(size))
    with pytest.raises(FileExistsError, match=r"meta\.json exists and differs"):
        download_dataset(archives, tmp_path / "out", retries=retries)


@pytest.mark.parametrize("stopped_at", range(1, 30, 4))
def test_after_ctrl_c_the_next_call_goes_on(archives, wanted, server, tmp_path, retries, stopped_at):
    count = 0

    @contextmanager
    def stage(_):
        def progress(done, total):
            nonlocal count
            count += 1
            if count == stopped_at:
                raise KeyboardInterrupt

        yield progress

    try:
        download_dataset(archives, tmp_path / "out", retries=retries, stage=stage)
    except KeyboardInterrupt:
        here = files_in(tmp_path / "out")
        assert all(wanted[name] == here[name] for name in here if not name.startswith(WORK_FOLDER))
    done = download_dataset(archives, tmp_path / "out", retries=retries)
    assert files_in(tmp_path / "out") == wanted
    assert sorted(map(str, (*done.placed, *done.present))) == PUBLISHED


@pytest.mark.parametrize(
    "arrange",
    [
        pytest.param(lambda city, made: shutil.copytree(city, made), id="as published"),
        pytest.param(lambda city, made: shutil.copytree(city, made / "data" / "city"), id="deeper"),
        pytest.param(
            lambda city, made: [
                shutil.copytree(city / "scenes" / "sample.zarr", made / "scenes" / "sample.zarr" / "sample.zarr"),
                *(shutil.copy(file, made) for file in city.rglob("*map.p*")),
                shutil.copy(city / "meta.json", made / "semantic_map.meta"),
                *(shutil.copy(city / name, made / name) for name in ("city.json", "meta.json")),
                (made / "semantic_map.meta").unlink(),
            ],
            id="without folders",
        ),
    ],
)
def test_any_arrangement_of_a_folder_becomes_the_published_layout(city, wanted, tmp_path, arrange):
    arrange(city, tmp_path / "made")
    done = download_dataset([str(tmp_path / "made")], tmp_path / "out", workers=2)
    assert files_in(tmp_path / "out") == wanted
    assert sorted(map(str, done.placed)) == PUBLISHED


def test_places_of_test_sets_zips_and_texts(city, tmp_path):
    made, zarr = tmp_path / "made", city / "scenes" / "sample.zarr"
    shutil.copytree(zarr, made / "chopped_100" / "sample.zarr")
    (made / "chopped_100" / "mask.npz").write_bytes(b"mask")
    (made / "chopped_100" / "gt.csv").write_bytes(b"truth")
    (made / "LICENSE").write_text("terms")
    (made / "train.zarr.zip").write_bytes(b"PK\x03\x04 stays as it is")
    done = download_dataset([str(made)], tmp_path / "out")
    assert sorted(map(str, done.placed)) == [
        "other/made/LICENSE",
        "scenes/chopped_100/gt.csv",
        "scenes/chopped_100/mask.npz",
        "scenes/chopped_100/sample.zarr",
        "scenes/train.zarr.zip",
    ]
    assert [path.name for path in done.datasets] == ["sample.zarr", "train.zarr.zip"]


def test_a_zip_of_one_zarr_takes_the_name_of_the_archive(city, server, tmp_path):
    zarr, file = city / "scenes" / "sample.zarr", tmp_path / "made.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(zarr.rglob("*")):
            archive.write(path, path.relative_to(zarr))
    download_dataset([server.add("/get/validate.zip", file.read_bytes())], tmp_path / "out")
    assert files_in(tmp_path / "out" / "scenes" / "validate.zarr") == files_in(zarr)


def test_a_folder_of_archives_and_one_archive(archives, server, city, wanted, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    for name, content in server.files.items():
        (folder / name.strip("/")).write_bytes(content)
    download_dataset([str(folder)], tmp_path / "out")
    assert files_in(tmp_path / "out") == wanted
    assert len(list(folder.iterdir())) == 3
    download_dataset([str(folder / "sample.tar")], tmp_path / "one")
    assert list(files_in(tmp_path / "one")) == [name for name in files_in(tmp_path / "one") if "sample.zarr" in name]


@pytest.fixture
def bucket(city):
    """URL of a bucket with the city."""
    memory = fsspec.filesystem("memory")
    memory.put(str(city), "/bucket/city", recursive=True)
    yield "memory://bucket/city"
    memory.rm("/bucket", recursive=True)


def test_a_bucket_becomes_a_data_folder(bucket, wanted, tmp_path):
    done = download_dataset([bucket], tmp_path / "out", workers=3)
    assert files_in(tmp_path / "out") == wanted
    assert download_dataset([bucket], tmp_path / "out").present == done.placed
    download_dataset([f"{bucket}/meta.json"], tmp_path / "one")
    assert list(files_in(tmp_path / "one")) == ["meta.json"]


def test_a_bucket_that_fails_now_and_then(bucket, wanted, tmp_path, monkeypatch, retries, waits):
    system = type(fsspec.filesystem("memory"))
    real, asked = system.cat_file, []

    def cat_file(self, path, **options):
        asked.append(path)
        if len(asked) % 2:
            raise RuntimeError("slow down")
        return real(self, path, **options)

    monkeypatch.setattr(system, "cat_file", cat_file)
    download_dataset([bucket], tmp_path / "out", retries=retries, workers=1)
    assert files_in(tmp_path / "out") == wanted
    assert set(waits) == {1.0}


def test_a_bucket_is_listed_by_a_new_connection_after_one_that_broke(
    bucket, wanted, tmp_path, monkeypatch, retries, waits
):
    system = type(fsspec.filesystem("memory"))
    real, asked = system.find, []

    def find(self, path, **options):
        asked.append(self)
        if self is asked[0]:
            raise EOFError("the connection is gone")
        return real(self, path, **options)

    # as that of FTP, which has a connection for each object, and never opens another one to list
    monkeypatch.setattr(system, "cachable", False)
    monkeypatch.setattr(system, "find", find)
    download_dataset([bucket], tmp_path / "out", retries=retries, workers=1)
    assert files_in(tmp_path / "out") == wanted
    assert waits == [1.0]


def test_a_bucket_that_stops_goes_on_with_the_missing_files(bucket, wanted, tmp_path, monkeypatch):
    system = type(fsspec.filesystem("memory"))
    real, asked = system.cat_file, []

    def cat_file(self, path, **options):
        asked.append(path)
        if len(asked) == 6:
            raise PermissionError("not you")
        return real(self, path, **options)

    monkeypatch.setattr(system, "cat_file", cat_file)
    with pytest.raises(DownloadError, match=r"memory://bucket/city/.* cannot be read: PermissionError: not you"):
        download_dataset([bucket], tmp_path / "out", workers=1)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [WORK_FOLDER]
    (files,) = (tmp_path / "out" / WORK_FOLDER).glob("*/files")
    here = {name: content for name, content in files_in(files).items() if ".part" not in name}
    assert here.items() <= wanted.items()
    assert sum(map(bool, here.values())) >= 5
    asked[:] = ["of the second call"] * 10
    download_dataset([bucket], tmp_path / "out", workers=1)
    assert files_in(tmp_path / "out") == wanted
    num_left = sum(map(bool, wanted.values())) - sum(map(bool, here.values()))
    assert len(asked) - 10 in (num_left, num_left - 1)  # one may have arrived before its thread was stopped


def test_a_folder_that_cannot_be_listed_is_an_error(city, tmp_path, monkeypatch):
    system = fsspec.get_filesystem_class("file")
    real = system.ls

    def ls(self, path, **options):
        if path.endswith("agents"):
            raise PermissionError("not you")
        return real(self, path, **options)

    monkeypatch.setattr(system, "ls", ls)
    with pytest.raises(DownloadError, match="cannot be read: PermissionError: not you"):
        download_dataset([str(city)], tmp_path / "out", workers=1)


def test_names_of_a_bucket_that_leave_the_folder(tmp_path):
    memory = fsspec.filesystem("memory")
    memory.pipe("/bad/other", b"x")
    memory.store["/bad/city/../../outside"] = memory.store["/bad/other"]
    try:
        with pytest.raises(DownloadError, match="leaves the folder"):
            download_dataset(["memory://bad/city"], tmp_path / "a" / "out")
    finally:
        memory.rm("/bad", recursive=True)
    assert [path.name for path in tmp_path.rglob("outside")] == []


@pytest.mark.parametrize("place", ["meta.json", "scenes/sample.zarr/.zgroup"])
def test_what_is_there_and_differs_stays(archives, server, wanted, tmp_path, retries, place):
    out = tmp_path / "out"
    (out / place).parent.mkdir(parents=True)
    (out / place).write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="exists and differs from the downloaded files; --overwrite replaces it"):
        download_dataset(archives, out, retries=retries)
    assert (out / place).read_bytes() == b"mine"
    num_asked = len(server.asked)
    done = download_dataset(archives, out, retries=retries, overwrite=True)
    assert files_in(out) == wanted
    assert len(done.placed) + len(done.present) == 5
    again = [path for path, _ in server.asked[num_asked:]]
    assert ("/semantic_map.tar" if place == "meta.json" else "/sample.tar?X-Amz-Signature=SECRET") not in again


def test_a_manifest_lets_nothing_else_in(archives, city, server, tmp_path, retries):
    manifest = Manifest.of(city)
    done = download_dataset(archives, tmp_path / "out", retries=retries, manifest=manifest)
    assert (len(done.placed), done.extra) == (5, ())
    changed = bytearray(server.files["/sample.tar"])
    place = changed.index((city / "scenes" / "sample.zarr" / ".zattrs").read_bytes()) + 5
    changed[place] ^= 1
    server.files["/sample.tar"] = bytes(changed)
    with pytest.raises(DownloadError, match=r"scenes/sample.zarr is not what .* scenes/sample.zarr/.zattrs differ"):
        download_dataset(archives, tmp_path / "other", retries=retries, manifest=manifest)
    assert [path.name for path in (tmp_path / "other").iterdir()] == [WORK_FOLDER]


def test_a_manifest_of_which_something_is_missing(archives, city, tmp_path, retries):
    with pytest.raises(DownloadError, match=r"lacks files of the manifest: aerial_map/aerial_map.png; download"):
        download_dataset(archives[:2], tmp_path / "out", retries=retries, manifest=Manifest.of(city))
    done = download_dataset(archives[2:], tmp_path / "out", retries=retries, manifest=Manifest.of(city))
    assert done.placed == (PurePosixPath("aerial_map/aerial_map.png"),)
    (tmp_path / "out" / "meta.json").write_bytes(b"{}")
    with pytest.raises(DownloadError, match=r"is not what the manifest says: meta.json differ"):
        download_dataset(archives[2:], tmp_path / "out", retries=retries, manifest=Manifest.of(city))


def test_a_manifest_of_one_zarr(archives, city, tmp_path, retries):
    zarr = Manifest.of(city / "scenes" / "sample.zarr")
    for _ in range(2):  # the second time it is there already
        done = download_dataset(archives, tmp_path / "out", retries=retries, manifest=zarr)
        assert done.extra == ()
    without = Manifest(zarr.files[1:])
    done = download_dataset(archives, tmp_path / "out", retries=retries, manifest=without)
    assert done.extra == (f"scenes/sample.zarr/{zarr.files[0].path}",)


def test_a_digest_behind_an_address(server, archives, tmp_path, retries):
    digest = hashlib.sha256(server.files["/semantic_map.tar"]).hexdigest()
    download_dataset([f"{archives[1]}#sha256={digest}"], tmp_path / "out", retries=retries)
    with pytest.raises(DownloadError, match="must have the SHA-256 digest 0000"):
        download_dataset([f"{archives[1]}#sha256={'0' * 64}"], tmp_path / "out", retries=retries)


def test_errors_keep_secrets(server, tmp_path):
    with pytest.raises(DownloadError) as error:
        download_dataset([f"{server.url}/nothing?X-Amz-Signature=SECRET"], tmp_path / "out")
    assert "/nothing: the server answers 404" in str(error.value)
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<!DOCTYPE html><p>Log in", "a web page, which may require a login"),
        (b"something", "must be an archive .* and is neither"),
        (b"\x04\x22\x4d\x18", "compressed with lz4"),
    ],
)
def test_what_is_no_dataset_is_not_kept(server, tmp_path, content, told):
    url = server.add("/sample.tar", content)
    for num_asked in (1, 2):
        with pytest.raises(DownloadError, match=told):
            download_dataset([url], tmp_path / "out")
        assert len(server.asked) == num_asked


def test_a_damaged_archive_is_downloaded_again(server, archives, tmp_path, retries):
    good = server.files["/sample.tar"]
    server.files["/sample.tar"] = good[: len(good) // 2]
    with pytest.raises(CorruptedDataError, match="download it again"):
        download_dataset(archives[:1], tmp_path / "out", retries=retries)
    server.files["/sample.tar"] = good
    assert download_dataset(archives[:1], tmp_path / "out", retries=retries).datasets


def test_an_archive_without_a_dataset(server, tmp_path):
    (tmp_path / "text").write_text("hello")
    url = server.add("/text.tar", tar(tmp_path / "x", {"text": tmp_path / "text"}))
    with pytest.raises(DownloadError, match=r"has no part of a dataset: no zarr, semantic_map\.pb"):
        download_dataset([url], tmp_path / "out")


def test_two_files_for_one_place(city, tmp_path):
    shutil.copytree(city, tmp_path / "made" / "a")
    shutil.copytree(city / "semantic_map", tmp_path / "made" / "b")
    assert len(download_dataset([str(tmp_path / "made")], tmp_path / "one").placed) == 5
    (tmp_path / "made" / "b" / "semantic_map.pb").write_bytes(b"another")
    with pytest.raises(DownloadError, match=r"two files for semantic_map/semantic_map\.pb, in 'semantic_map' and 'b'"):
        download_dataset([str(tmp_path / "made")], tmp_path / "two")


def test_limits_reach_the_archives(archives, tmp_path, retries):
    with pytest.raises(DownloadError, match="more entries than any dataset"):
        download_dataset(archives, tmp_path / "out", retries=retries, limits=UnpackLimits(max_entries=2))


def test_no_room_keeps_what_came(archives, server, tmp_path, retries, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=(1 << 24) if "unpacked" in str(path) else 1 << 40)
    )
    with pytest.raises(DownloadError, match="unpacked, needs"):
        download_dataset(archives[:1], tmp_path / "out", retries=retries)
    num_asked = len(server.asked)
    monkeypatch.undo()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    download_dataset(archives[:1], tmp_path / "out", retries=retries)
    assert len(server.asked) == num_asked


def test_a_place_on_another_disk(city, wanted, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.data.download.downloading._device", lambda path: hash(path))
    download_dataset([str(city)], tmp_path / "out")
    assert files_in(tmp_path / "out") == wanted


def test_calls_that_make_no_sense(city, tmp_path):
    with pytest.raises(InvalidArgumentError, match="there is no address"):
        download_dataset([], tmp_path / "out")
    with pytest.raises(DownloadError, match="there is nothing at"):
        download_dataset([str(tmp_path / "nothing")], tmp_path / "out")
    with pytest.raises(DownloadError, match="there is nothing at memory://nothing"):
        download_dataset(["memory://nothing/here"], tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="are nested"):
        download_dataset([str(city)], city / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        download_dataset([str(city)], tmp_path / "file")
    with pytest.raises(DownloadError, match="cannot be reached: Protocol not known"):
        download_dataset(["nosuch://bucket"], tmp_path / "out", retries=Retries(max_tries=1))


def test_only_one_process_downloads_to_a_folder(city, tmp_path):
    (tmp_path / "out" / WORK_FOLDER).mkdir(parents=True)
    with (
        FileLock(tmp_path / "out" / WORK_FOLDER / "lock"),
        pytest.raises(DownloadError, match="another process is downloading"),
    ):
        download_dataset([str(city)], tmp_path / "out")


def test_the_log_opens(city, tmp_path):
    (path,) = download_dataset([str(city)], tmp_path / "out").datasets
    assert len(ChunkedDataset(path).open().scenes) == len(ChunkedDataset(city / "scenes" / "sample.zarr").open().scenes)
