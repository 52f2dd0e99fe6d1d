"""Whatever a server does, the right bytes come or an error, and none of them twice without need."""

import hashlib
import json
import random
import shutil
import time
from contextlib import contextmanager
from email.utils import formatdate

import pytest

from l5kit.data.download.addresses import parse_address
from l5kit.data.download.fetching import Expected, InterruptedReplyError, Reply, Retries, fetch_file
from l5kit.data.download.http_source import HttpSource
from l5kit.data.download.part_file import PartFile
from l5kit.errors import DownloadError, InvalidArgumentError
from support import bad_server as tricks


@pytest.fixture
def fetch(server, tmp_path, retries, content):
    """Download a file that the server answers for with some tricks; returns its bytes."""

    def run(*answers, body=content, url=None, **options):
        if url is None:
            url = server.add("/file.tar", body, *answers)
        target = tmp_path / "file.tar"
        options = {"retries": retries, "identity": "file"} | options
        fetch_file(HttpSource(url, "FILE", timeout_s=5.0), target, **options)
        assert {path.name for path in tmp_path.iterdir()} == {"file.tar"}
        return target.read_bytes()

    run.folder = tmp_path
    return run


def test_an_honest_server_is_asked_once(fetch, server, content):
    seen = []
    assert fetch(advance=lambda done, total: seen.append((done, total))) == content
    assert server.ranges() == [None]
    assert seen[-1] == (300_000, 300_000)


@pytest.mark.parametrize("body", [b"", b"x"], ids=["empty", "one byte"])
def test_small_files(fetch, body):
    assert fetch(body=body) == body


def test_a_broken_connection_goes_on_where_it_broke(fetch, server, content, waits):
    assert fetch(tricks.cut(100_000), tricks.cut(0), tricks.cut(70_000)) == content
    # 64 KiB before the end of what is here come again; 70,000 bytes of which 4,464 are new
    assert server.ranges() == [None, "bytes=34464-", "bytes=34464-", f"bytes={34464 + 4464}-"]
    assert {headers.get("If-Range") for _, headers in server.asked[1:]} == {
        f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    }
    assert waits == [1.0, 2.0, 1.0]  # the second brought nothing


@pytest.mark.parametrize(
    ("trick", "told"),
    [
        pytest.param(tricks.repeat_the_start, "differ from those received before", id="repeats the start"),
        pytest.param(tricks.name_another_range, "sends 'bytes 10-", id="another range"),
        pytest.param(tricks.name_no_range, "a part without a valid range", id="no range"),
        pytest.param(tricks.name_another_size, "declared size was 300000 bytes, but is now 300007", id="another size"),
        pytest.param(tricks.tell_less_than_the_range, "declares 1 bytes", id="length and range differ"),
        pytest.param(tricks.send_too_much, "sends more than the", id="too much"),
        pytest.param(tricks.say_too_much, "but is now 300100", id="says too much"),
        pytest.param(tricks.pack, "encoded as 'gzip'", id="packed"),
        pytest.param(tricks.status(416), "had shrunk", id="nothing there"),
        pytest.param(tricks.status(204), "status 204", id="no content"),
    ],
)
def test_what_a_server_does_to_ranges_is_noticed_and_the_file_begun_anew(fetch, server, content, trick, told):
    assert fetch(tricks.cut(100_000), trick) == content
    assert server.ranges() == [None, "bytes=34464-", None]
    told_last = []
    for max_tries in (6, 7):  # the last try is the one or the other trick
        with pytest.raises(DownloadError, match=f"given up after {max_tries} tries") as error:
            fetch(*[tricks.cut(100_000), trick] * 20, retries=Retries(max_tries, sleep=lambda _: None))
        told_last.append(str(error.value))
    assert told in " ".join(told_last)


def test_a_server_without_ranges_sends_all_of_it_again(fetch, server, content):
    assert fetch(tricks.cut(100_000), tricks.ignore_range) == content
    assert len(server.asked) == 2


def test_too_short_a_file_is_never_taken_for_whole(fetch, waits):
    with pytest.raises(DownloadError, match=r"ended after \d+ of \d+ bytes; given up after 6 tries"):
        fetch(*[tricks.say_too_much] * 20)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize("seed", range(12))
def test_after_any_tricks_the_right_bytes_come(fetch, content, seed):
    chosen = random.Random(seed).choices(tricks.PASSING_TRICKS, k=5)
    assert fetch(*chosen, retries=Retries(max_tries=10, sleep=lambda _: None)) == content


def test_a_file_that_changes_on_the_way_is_begun_anew(fetch, server, content):
    other = content[::-1]

    def change(answer):
        server.files["/file.tar"] = other
        tricks.cut(100_000)(answer)

    assert fetch(change) == other


class Source:
    """A file with successive replies, each from the requested byte on."""

    name = "FILE"

    def __init__(self, *replies):
        self._replies = list(replies)

    @contextmanager
    def open_from(self, start, validator):
        yield self._replies.pop(0)(start)


def test_more_bytes_than_were_told_are_not_taken(tmp_path, retries, waits):
    source = Source(lambda _: Reply(0, 3, "v", iter([b"abcd"])), lambda _: Reply(0, 3, "v", iter([b"abc"])))
    fetch_file(source, tmp_path / "file", identity="file", retries=retries)
    assert ((tmp_path / "file").read_bytes(), len(waits)) == (b"abc", 1)


def test_bytes_of_two_versions_are_not_put_together(tmp_path, retries, content):
    """The second version agrees in the re-requested bytes, and differs before them."""
    changed = bytes(30_000) + content[30_000:]

    def broken():
        yield content[:100_000]
        raise InterruptedReplyError("FILE: the connection broke")

    source = Source(
        lambda _: Reply(0, len(content), "first", broken()),
        *2 * [lambda start: Reply(start, len(content), "second", iter([changed[start:]]))],
    )
    fetch_file(source, tmp_path / "file", identity="file", retries=retries)
    assert (tmp_path / "file").read_bytes() == changed


def test_a_changed_file_under_an_old_tag_is_seen_by_its_bytes(fetch, server, content):
    other = content[:20_000] + bytes(280_000)
    tag = '"same"'

    def change(answer):
        server.files["/file.tar"] = other
        answer.send(content[:100_000], status=200, length=300_000, ETag=tag)

    def go_on(answer):
        answer.part(ETag=tag)

    assert fetch(change, go_on) == other


@pytest.mark.parametrize(
    ("headers", "is_resumed"),
    [
        pytest.param({"ETag": 'W/"weak"'}, False, id="weak tag"),
        pytest.param({"ETag": None}, False, id="nothing"),
        pytest.param({"ETag": None, "Last_Modified": tricks.LAST_MODIFIED}, True, id="date"),
        pytest.param({"ETag": None, "Last_Modified": "now"}, False, id="new date"),
    ],
)
def test_only_what_tells_versions_apart_is_relied_on(fetch, server, content, headers, is_resumed):
    if headers.get("Last_Modified") == "now":
        headers = headers | {"Last_Modified": formatdate(time.time() + 9, usegmt=True)}

    def start(answer):
        answer.send(content[:100_000], status=200, length=300_000, **headers)

    assert fetch(start, lambda answer: answer.honest(**headers)) == content
    assert server.ranges() == [None, "bytes=34464-" if is_resumed else None]


def test_with_a_digest_no_tag_is_needed(fetch, server, content):
    def start(answer):
        answer.send(content[:100_000], status=200, length=300_000, ETag=None)

    expected = Expected(sha256=hashlib.sha256(content).hexdigest())
    assert fetch(start, expected=expected) == content
    assert server.ranges() == [None, "bytes=34464-"]


def test_a_file_put_together_wrongly_is_begun_anew_by_its_digest(fetch, server, content):
    wrong = bytes(20_000) + content[20_000:100_000]

    def start_wrong(answer):
        answer.send(wrong, status=200, length=300_000)

    expected = Expected(sha256=hashlib.sha256(content).hexdigest())
    assert fetch(start_wrong, expected=expected) == content
    assert server.ranges() == [None, "bytes=34464-", None]


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        pytest.param(Expected(sha256="0" * 64), "must have the SHA-256 digest 000000", id="digest"),
        pytest.param(Expected(size=299_999), "has 300,000 bytes, but must have 299,999", id="size"),
    ],
)
def test_another_file_is_refused_at_once(fetch, server, tmp_path, expected, told):
    with pytest.raises(DownloadError, match=told):
        fetch(expected=expected)
    assert len(server.asked) == 1
    assert not (tmp_path / "file.tar").exists()


def test_a_size_that_only_the_caller_knows_is_checked(fetch, content, retries):
    with pytest.raises(DownloadError, match=r"300000 of 300001 bytes came|bytes, but must have"):
        fetch(*[tricks.send_chunks] * 20, expected=Expected(size=300_001))
    assert fetch(tricks.send_chunks, expected=Expected(size=300_000)) == content


@pytest.mark.parametrize(
    ("code", "advice"), [(401, "personal"), (403, "get a new one"), (404, "spelling"), (410, "removed"), (402, "check")]
)
def test_what_does_not_pass_is_not_tried_again(fetch, server, waits, code, advice):
    with pytest.raises(DownloadError, match=rf"FILE: the server answers {code} .*{advice}"):
        fetch(tricks.status(code))
    assert len(server.asked) == 1
    assert waits == []


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(fetch, content, waits, code):
    assert fetch(tricks.status(code), tricks.status(code)) == content
    assert waits == [1.0, 2.0]


def test_a_server_that_asks_to_wait_is_listened_to(fetch, content, waits):
    date = formatdate(time.time() + 50, usegmt=True)
    assert fetch(tricks.status(503, Retry_After="7"), tricks.status(503, Retry_After=date)) == content
    assert waits[0] == 7.0
    assert 7.0 < waits[1] <= 51.0


def test_a_server_that_asks_for_an_hour_is_left_alone(fetch, waits):
    with pytest.raises(DownloadError, match="asks to wait 3600 s"):
        fetch(tricks.status(503, Retry_After="3600"))
    assert waits == []


def test_redirects_are_followed_with_the_range(fetch, server, content):
    to = server.add("/there", content, tricks.cut(100_000))
    start = server.add("/here", b"", *[tricks.status(302, Location=to)] * 2)
    assert fetch(url=start) == content
    assert [path for path, _ in server.asked] == ["/here", "/there"] * 2
    assert server.ranges() == [None, None, "bytes=34464-", "bytes=34464-"]


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("ftp://127.0.0.1/file", "from http to ftp"),
        ("file:///etc/passwd", "not allowed"),
        ("/file.tar", "redirect"),
    ],
)
def test_redirects_to_elsewhere_or_in_circles_are_refused(fetch, server, location, told):
    url = server.add("/file.tar", b"", *[tricks.status(302, Location=location)] * 30)
    with pytest.raises(DownloadError, match=told):
        fetch(url=url)


def test_nobody_there(fetch, waits):
    with pytest.raises(DownloadError, match=r"FILE: no connection \(.*refused.*\); given up after 6 tries"):
        fetch(url="http://127.0.0.1:9/file")
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_ctrl_c_keeps_what_is_here_for_the_next_call(fetch, server, tmp_path, content):
    def stop_later(done, _):
        if done > 150_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(advance=stop_later, body=content * 3)
    (journal,) = tmp_path.glob("*.json")
    here = json.loads(journal.read_text())["num_bytes"]
    assert 150_000 < here < 900_000
    assert not (tmp_path / "file.tar").exists()
    assert fetch(body=content * 3) == content * 3
    assert server.ranges() == [None, f"bytes={here - 65_536}-"]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda journal: journal.unlink(), id="gone"),
        pytest.param(lambda journal: journal.write_bytes(b'{"num_bytes":'), id="cut"),
        pytest.param(lambda journal: journal.write_text(journal.read_text().replace('"file"', '"else"')), id="other"),
        pytest.param(lambda journal: journal.write_text("[]"), id="a list"),
        pytest.param(
            lambda journal: journal.write_text(journal.read_text().replace("100000", "400000")), id="too long"
        ),
    ],
)
def test_a_part_without_its_journal_is_not_used(fetch, server, tmp_path, content, damage):
    with pytest.raises(DownloadError):
        fetch(tricks.cut(100_000), retries=Retries(max_tries=1))
    (journal,) = tmp_path.glob("*.json")
    damage(journal)
    assert fetch() == content
    assert server.ranges() == [None, None]


def test_after_a_power_failure_only_what_was_safe_is_used(fetch, server, tmp_path, content):
    with pytest.raises(DownloadError):
        fetch(tricks.cut(100_000), retries=Retries(max_tries=1))
    with (tmp_path / "file.tar.part").open("ab") as file:
        file.write(bytes(50_000))  # what had been written behind the last checkpoint, and came back as zeros
    assert fetch() == content
    assert server.ranges() == [None, "bytes=34464-"]


def test_a_killed_process_leaves_what_its_last_checkpoint_has(tmp_path):
    part = PartFile(tmp_path / "file", "me")
    part.start(10, '"tag"')
    part.append(b"1234")
    part.checkpoint()
    part.append(b"5678")  # and then it is killed
    again = PartFile(tmp_path / "file", "me")
    assert (again.num_bytes, again.size, again.validator, again.tail(2)) == (4, 10, '"tag"', b"34")
    again.close()
    part._file.close()


def test_a_full_disk_is_told_before_anything_is_written(fetch, server, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    with pytest.raises(DownloadError, match=r"FILE needs 0.000 GB, but the disk of .* has 0.001 GB free"):
        fetch()
    assert len(server.asked) == 1


def test_user_and_password_go_to_that_server_only(fetch, server, content):
    to = server.add("/there", content)
    start = server.add("/here", b"", tricks.status(302, Location=to))
    assert fetch(url=start.replace("//", "//me:se%20cret@")) == content
    assert [headers.get("Authorization") for _, headers in server.asked] == ["Basic bWU6c2UgY3JldA==", None]


def test_a_packed_file_that_is_told_to_be_encoded_is_the_file(fetch, server, content):
    def tell(answer):
        answer.honest(Content_Encoding="x-gzip")

    url = server.add("/city.tar.gz", content, tell)
    fetch_file(HttpSource(url, url), fetch.folder / "city.tar.gz", identity="city", retries=Retries(max_tries=1))
    assert (fetch.folder / "city.tar.gz").read_bytes() == content


def test_letters_that_addresses_cannot_have_are_sent_quoted(fetch, server, content):
    server.add("/caf%C3%A9%20map.tar", content)
    assert fetch(url=f"{server.url}/caf\u00e9 map.tar?a=b%20c") == content
    assert [path for path, _ in server.asked] == ["/caf%C3%A9%20map.tar?a=b%20c"]


def test_a_port_that_is_none(fetch, waits):
    with pytest.raises(DownloadError, match="FILE is not an address of a web server"):
        fetch(url="http://host:port/file")
    assert waits == []


def test_a_file_without_a_size_stops_where_the_disk_is_full(fetch, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=(1 << 24) + 50_000))
    with pytest.raises(DownloadError, match="FILE needs"):
        fetch(tricks.send_chunks)


def test_retries_that_make_no_sense():
    with pytest.raises(InvalidArgumentError, match="max_tries must be at least 1"):
        Retries(max_tries=0)


@pytest.mark.parametrize(
    ("text", "name", "file_name"),
    [
        ("https://me:pw@host/a/b.tar?X-Amz-Signature=77", "https://host/a/b.tar", "b.tar"),
        ("s3://bucket/city/", "s3://bucket/city/", "city"),
        ("https://host/..%2f..%2fetc%00", "https://host/..%2f..%2fetc%00", "etc_"),
        ("https://host/%2e%2e", "https://host/%2e%2e", "file"),
        ("~/city", "~/city", "city"),
    ],
)
def test_addresses_without_their_secrets(text, name, file_name):
    address = parse_address(text)
    assert (address.name, address.file_name) == (name, file_name)


@pytest.mark.parametrize(
    ("first", "second", "are_same"),
    [
        ("https://h/f?X-Amz-Signature=1&Expires=2", "https://h/f?X-Amz-Signature=3&Expires=4", True),
        ("https://h/f?file=a&sig=1", "https://h/f?file=b&sig=1", False),
        ("https://a:b@h/f", "https://h/f", True),
        ("https://h/f", "https://h/g", False),
        ("https://h/f", "http://h/f", False),
    ],
)
def test_an_address_is_known_again_when_it_is_signed_anew(first, second, are_same):
    assert (parse_address(first).identity == parse_address(second).identity) == are_same


def test_what_is_known_of_a_file_stands_behind_its_address():
    address = parse_address(f"https://host/f.tar#sha256={'AB' * 32}&size=12")
    assert address.expected == Expected(12, "ab" * 32)
    assert address.text == "https://host/f.tar"
    assert parse_address("folder#1").text == "folder#1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://host/f#sha256=12",
        "https://host/f#size=-1",
        "https://host/",
        "https:///f",
        "a\nb",
        "https://h/f/",
        "http://[::1",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(InvalidArgumentError):
        parse_address(text)
