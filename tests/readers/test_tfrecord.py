"""TFRecord files: records and damage, with a writer that is independent of the reader."""

import struct

import pytest

from l5kit.errors import CorruptedDataError
from l5kit.readers import tfrecord
from l5kit.readers.tfrecord import RecordDamage, RecordSpan, list_records, masked_crc32c, read_record
from support.womd import masked_crc, record_of

CONTENTS = [b"first", b"", bytes(range(64)), b"the last one"]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "some.tfrecord"
    file.write_bytes(b"".join(map(record_of, CONTENTS)))
    return file


def starts():
    """First byte of each record."""
    sizes = [len(content) + 16 for content in CONTENTS]
    return [sum(sizes[:number]) for number in range(len(sizes))]


def damaged(path, position, byte=0xFF):
    data = bytearray(path.read_bytes())
    data[position] ^= byte
    path.write_bytes(data)


def contents_of(path):
    """Content of each record, or what is wrong with it."""
    found = []
    for place in list_records(path):
        if isinstance(place, RecordDamage):
            found.append(f"{place.number}: {place.problem}")
            continue
        try:
            found.append(read_record(path, place))
        except CorruptedDataError as error:
            found.append(f"{place.number}: {error}")
    return found


@pytest.mark.parametrize("content", [b"", b"123456789", bytes(1000)], ids=["empty", "digits", "zeros"])
def test_the_checksum_is_that_of_the_bitwise_definition(content):
    assert masked_crc32c(content) == masked_crc(content)


def test_the_checksum_of_the_published_check_value():
    crc = 0xE3069283  # CRC-32C of these digits
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_records_are_listed_in_order_and_read_back(path):
    places = list(list_records(path))
    assert places == [
        RecordSpan(number, start, len(content))
        for number, (start, content) in enumerate(zip(starts(), CONTENTS, strict=True))
    ]
    assert [read_record(path, place) for place in places] == CONTENTS
    assert places[-1].end == path.stat().st_size


def test_an_empty_file_has_no_records_and_says_so_when_read(tmp_path):
    path = tmp_path / "empty.tfrecord"
    path.touch()
    assert list(list_records(path)) == []
    with pytest.raises(CorruptedDataError, match="the file is empty"):
        read_record(path, RecordSpan(0, 0, 0))


@pytest.mark.parametrize("offset", [12, 12 + 50, 12 + 64, 12 + 67], ids=["content", "inside", "crc", "last of crc"])
def test_a_damaged_content_costs_its_record_alone(path, offset):
    damaged(path, starts()[2] + offset)
    found = contents_of(path)
    assert found[:2] + found[3:] == CONTENTS[:2] + CONTENTS[3:]
    assert found[2].startswith(f"2: the record at byte {starts()[2]} is damaged: its content does not fit its checksum")


@pytest.mark.parametrize("offset", [0, 2, 7, 8, 11])
def test_behind_a_damaged_length_the_next_whole_record_is_found(path, offset):
    damaged(path, starts()[1] + offset)
    found = contents_of(path)
    assert found[0] == CONTENTS[0]
    assert found[1].startswith("1: its length, ")
    assert found[2:] == CONTENTS[2:]


def test_a_length_that_fits_its_checksum_but_not_the_file(path):
    length = struct.pack("<Q", 1 << 50)
    path.write_bytes(path.read_bytes() + length + struct.pack("<I", masked_crc(length)) + b"more")
    found = contents_of(path)
    assert found[:-1] == CONTENTS
    assert found[-1] == f"4: the file ends {(1 << 50)} bytes before the record does"


@pytest.mark.parametrize("kept", [1, 7, 11, 12, 20, 27])
def test_a_cut_record_at_the_end_is_told_and_the_others_are_there(path, kept):
    path.write_bytes(path.read_bytes()[: starts()[3] + kept])
    found = contents_of(path)
    assert found[:3] == CONTENTS[:3]
    assert len(found) == 4
    assert found[3].startswith("3: the file ends ")


def test_a_compressed_file_is_named(tmp_path):
    path = tmp_path / "some.tfrecord"
    path.write_bytes(b"\x1f\x8b\x08" + bytes(100))
    (damage,) = list_records(path)
    assert damage.problem.startswith("the file is compressed by gzip")


def test_a_file_that_was_changed_after_the_list_is_told(path):
    place = list(list_records(path))[1]
    with pytest.raises(CorruptedDataError, match="it has 0 bytes and had 3 before"):
        read_record(path, RecordSpan(place.number, place.start, 3))


def test_a_long_damage_is_searched_through_block_by_block(path, monkeypatch):
    monkeypatch.setattr("l5kit.readers.tfrecord._SEARCHED_AT_ONCE", 7)
    damaged(path, starts()[1])
    assert contents_of(path)[2:] == CONTENTS[2:]


@pytest.mark.parametrize("byte", [0x01, 0x80])
def test_any_damaged_byte_is_found_and_never_read_as_content(path, byte):
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole)
        damaged(path, position, byte)
        found = contents_of(path)
        read = [content for content in found if isinstance(content, bytes)]
        assert len(found) > len(read) >= len(CONTENTS) - 1, position
        assert set(read) < set(CONTENTS), position


def test_a_file_full_of_lengths_without_content_is_given_up(tmp_path, monkeypatch):
    """Each length fits its checksum and asks for all that follows, which takes a year to compare for a large file."""
    head = record_of(bytes(60_000))[:12]
    path = tmp_path / "some.tfrecord"
    path.write_bytes(b"x" + head * 10_000)
    compared = []
    content_of = tfrecord._content_of
    monkeypatch.setattr(
        tfrecord, "_content_of", lambda file, place: compared.append(place.length) or content_of(file, place)
    )
    (damage,) = list_records(path)
    assert isinstance(damage, RecordDamage)
    assert sum(compared) <= 4 * path.stat().st_size
