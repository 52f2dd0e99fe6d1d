"""Archives: good ones are unpacked, and bad ones never write outside the folder."""

import bz2
import gzip
import io
import lzma
import shutil
import stat
import tarfile
import zipfile

import pytest

from l5kit.data.download.archives import archive_kind, unpack
from l5kit.data.unpack_limits import UnpackLimits
from l5kit.errors import CorruptedDataError, DownloadError
from support.nameless_zip import with_nameless_file

FILES = {"city/meta.json": b"{}", "city/scenes/a.zarr/.zgroup": b"0" * 70_000, "city/empty": b""}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def tar_of(members, *, packed="", format=tarfile.PAX_FORMAT):  # noqa: A002 - as tarfile calls it
    """Bytes of a tar file; a member is a name with its content or with the attributes of its header."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, what in members:
            info = tarfile.TarInfo(name)
            content = what if isinstance(what, bytes) else b""
            info.size = len(content)
            for attribute, value in what.items() if isinstance(what, dict) else ():
                setattr(info, attribute, value)
            archive.addfile(info, io.BytesIO(content) if content else None)
    return PACKERS[packed](buffer.getvalue())


def zip_of(members):
    """Bytes of a zip file; a member is a name or header with its content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def unpacked(tmp_path):
    """Unpack the bytes of an archive; returns its files by their paths."""

    def run(archive, **options):
        file, folder = tmp_path / "archive", tmp_path / "folder"
        file.write_bytes(archive)
        folder.mkdir()
        try:
            unpack(file, folder, called="ARCHIVE", **options)
        finally:
            assert {path.name for path in tmp_path.iterdir()} == {"archive", "folder"}, "something left the folder"
            assert not any(path.is_symlink() for path in folder.rglob("*"))
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return run


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_tar_files_come_out_as_they_went_in(unpacked, packed, format):  # noqa: A002
    folders = [("./", {"type": tarfile.DIRTYPE}), ("city/", {"type": tarfile.DIRTYPE})]
    assert unpacked(tar_of([*folders, *FILES.items()], packed=packed, format=format)) == FILES


def test_zip_files_come_out_as_they_went_in(unpacked):
    seen = []
    members = [("city/", b""), *FILES.items()]
    assert unpacked(zip_of(members), progress=lambda done, total: seen.append((done, total))) == FILES
    assert seen == sorted(seen)
    assert 0 < seen[-1][0] <= seen[-1][1]


def test_what_macos_adds_is_left_out(unpacked):
    extra = [("__MACOSX/._meta.json", b"x"), ("city/._meta.json", b"x"), ("city/.DS_Store", b"x")]
    assert unpacked(zip_of([*FILES.items(), *extra])) == FILES


def test_permissions_are_those_of_new_files(tmp_path, unpacked):
    unpacked(tar_of([("tool", {"mode": 0o6777, "uid": 0})]))
    assert stat.S_IMODE((tmp_path / "folder" / "tool").stat().st_mode) & 0o6111 == 0


BAD_NAMES = [
    ("../outside", "leaves the folder"),
    ("city/../../outside", "leaves the folder"),
    ("city/..", "leaves the folder"),
    ("/tmp/outside", "leaves the folder"),
    ("..\\outside", "not a name on every system"),
    ("C:/outside", "not a name on every system"),
    ("city/nul.txt", "not a name on every system"),
    ("city/name.", "not a name on every system"),
    ("city/line\nbreak", "not a name on every system"),
    ("city/" + "x" * 300, "too long"),
    ("a/" * 70 + "b", "too long"),
]


@pytest.mark.parametrize(("name", "told"), BAD_NAMES)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_names_that_leave_the_folder_or_are_none_elsewhere_are_refused(unpacked, make, name, told):
    with pytest.raises(DownloadError, match=rf"ARCHIVE: the entry .* {told}; nothing of the archive is used"):
        unpacked(make([("city/meta.json", b"{}"), (name, b"x")]))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("city/a", "city/A"), "one name on some systems"),
        (("City/a", "city/b"), "one name on some systems"),
        (("caf\u00e9", "cafe\u0301"), "one name on some systems"),
        (("a", "./a"), "occurs twice"),
        (("a", "a/b"), "both a file and a folder"),
        (("a/b", "a"), "both a file and a folder"),
    ],
)
@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_names_that_clash_are_refused(unpacked, make, names, told):
    with pytest.raises(DownloadError, match=told):
        unpacked(make([(name, b"x") for name in names]))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({"type": tarfile.SYMTYPE, "linkname": "/etc"}, id="symbolic link"),
        pytest.param({"type": tarfile.SYMTYPE, "linkname": "meta.json"}, id="symbolic link inside"),
        pytest.param({"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, id="hard link"),
        pytest.param({"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}, id="device"),
        pytest.param({"type": tarfile.BLKTYPE}, id="disk"),
        pytest.param({"type": tarfile.FIFOTYPE}, id="pipe"),
        pytest.param({"type": tarfile.GNUTYPE_SPARSE}, id="file with holes"),
    ],
)
def test_links_and_devices_in_tar_files_are_refused(unpacked, header):
    with pytest.raises(DownloadError, match=r"is a (link|device)"):
        unpacked(tar_of([("bad", header), ("bad/passwd", b"x")], format=tarfile.GNU_FORMAT))


def test_links_in_zip_files_are_refused(unpacked):
    link = zipfile.ZipInfo("bad")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(DownloadError, match="is a link"):
        unpacked(zip_of([(link, b"/etc")]))


def test_encrypted_entries_are_refused(unpacked):
    archive = bytearray(zip_of([("a", b"x")]))
    archive[archive.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(DownloadError, match="is encrypted"):
        unpacked(bytes(archive))


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(zip_of([("zeros", bytes(3_000_000))]), id="zip"),
        pytest.param(zip_of([(f"zeros{number}", bytes(200_000)) for number in range(15)]), id="zip of many"),
        pytest.param(tar_of([("zeros", bytes(3_000_000))], packed=".gz"), id="tar.gz"),
        pytest.param(tar_of([("zeros", bytes(3_000_000))], packed=".xz"), id="tar.xz"),
        pytest.param(tar_of([("a" * 2_000_000, b"")], packed=".gz", format=tarfile.GNU_FORMAT), id="name"),
        pytest.param(gzip.compress(tar_of([("a", b"x")]) + bytes(3_000_000)), id="behind the end"),
    ],
)
def test_bombs_do_not_go_off(unpacked, tmp_path, archive):
    with pytest.raises(DownloadError, match=r"many times its size|is too long"):
        unpacked(archive, limits=UnpackLimits(max_ratio=50.0, free_bytes=1_000_000))
    assert sum(path.stat().st_size for path in (tmp_path / "folder").rglob("*")) < 1_100_000


def test_a_header_may_not_ask_for_all_the_memory(unpacked):
    """A name said to have 4 GB, in a file that can hold it by its size limit."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    with pytest.raises(CorruptedDataError, match="is damaged, truncated"):
        unpacked(info.tobuf(tarfile.GNU_FORMAT) + bytes(100_000), limits=UnpackLimits(free_bytes=1 << 40))


def test_too_many_entries(unpacked):
    with pytest.raises(DownloadError, match="more entries than any dataset"):
        unpacked(zip_of([(f"{number}", b"") for number in range(12)]), limits=UnpackLimits(max_entries=10))


def test_no_room_on_the_disk(unpacked, monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 24))
    with pytest.raises(DownloadError, match="ARCHIVE, unpacked, needs"):
        unpacked(zip_of(FILES.items()))


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
def test_a_tar_file_that_was_cut_off_is_no_dataset(unpacked, packed, kept):
    content = b"".join(bytes([number]) * 97 for number in range(256))
    archive = tar_of([(f"file{number}", content) for number in range(4)], packed=packed)
    with pytest.raises(CorruptedDataError, match="ARCHIVE is damaged, truncated"):
        unpacked(archive[: int(len(archive) * kept) if packed else int(100_000 * kept)])


def test_a_tar_file_cut_between_its_members(unpacked):
    """tarfile itself takes this for the end of the archive."""
    archive = tar_of([("a", bytes(512)), ("b", bytes(512))])
    with pytest.raises(CorruptedDataError, match="the end of the archive is missing"):
        unpacked(archive[:1024])


def test_a_damaged_header_is_not_the_end(unpacked):
    """tarfile itself takes this for the end of the archive, too."""
    archive = bytearray(tar_of([("a", bytes(512)), ("b", bytes(512))]))
    archive[1024 + 100] ^= 1
    with pytest.raises(CorruptedDataError, match="the end of the archive is missing"):
        unpacked(bytes(archive))


@pytest.mark.parametrize("place", [0.3, 0.5, 0.9])
def test_a_flipped_bit_in_a_packed_file_is_seen(unpacked, place):
    archive = bytearray(zip_of([("a", bytes(range(256)) * 300)]))
    archive[int(len(archive) * place * 0.5) + 40] ^= 4
    with pytest.raises((CorruptedDataError, DownloadError)):
        unpacked(bytes(archive))


@pytest.mark.parametrize(
    ("head", "kind"), [(b"\x04\x22\x4d\x18", "lz4"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"Rar!\x1a", "rar")]
)
def test_packings_that_python_does_not_know_are_named(unpacked, head, kind):
    with pytest.raises(DownloadError, match=f"ARCHIVE is compressed with {kind}; unpack it with a suitable tool"):
        unpacked(head + bytes(600))


@pytest.mark.parametrize("content", [b"", b"{}", bytes(1024), b"x" * 2000])
def test_what_is_no_archive(tmp_path, unpacked, content):
    file = tmp_path / "archive"
    file.write_bytes(content)
    assert archive_kind(file, called="ARCHIVE") is None
    with pytest.raises(DownloadError, match="ARCHIVE is not an archive"):
        unpacked(content)


def test_a_zip_file_whose_directory_names_a_place_before_it_is_damaged(unpacked):
    archive = bytearray(zip_of([("a", b"1"), ("b", b"2")]))
    end = archive.index(b"PK\5\6")
    archive[end + 16 : end + 20] = (int.from_bytes(archive[end + 16 : end + 20], "little") + 40).to_bytes(4, "little")
    with pytest.raises(CorruptedDataError, match="ARCHIVE is damaged"):
        unpacked(bytes(archive))


def test_an_entry_without_a_name_is_left_out(unpacked):
    assert unpacked(with_nameless_file(zip_of([("a", b"1")]))) == {"a": b"1"}
