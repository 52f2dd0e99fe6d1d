"""The server of the page: its content, its clients, and its refusals."""

import gc
import http.client
import json
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import escape

import numpy as np
import pytest
from numba.core import event

pytest.importorskip("tornado")

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.visualization.viewer import viewed_log
from l5kit.visualization.viewer.page_files import page_files
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.logs import make_agents, make_scene, write_with_chunks

NOTHING = "There is nothing at this address"
JSON, PNG, SVG, BYTES = "application/json", "image/png", "image/svg+xml", "application/octet-stream"


@dataclass
class Answer:
    """An answer."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def media_type(self):
        return self.headers["Content-Type"]

    @property
    def json(self):
        assert self.media_type == JSON
        return json.loads(self.content)

    @property
    def error(self):
        assert set(self.json) == {"error"}
        return self.json["error"]


def ask(server, path, *, method="GET", host=None):
    """Ask for a path exactly as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", f"127.0.0.1:{server.port}" if host is None else host)
        connection.endheaders()
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def log(city_files):
    return ViewedLog(city_files)


@pytest.fixture(scope="module")
def server(log):
    with ViewerServer(log) as server:
        yield server


# What is there


def test_the_page_has_a_policy_and_a_new_nonce_each_time(server):
    nonces = set()
    for _ in range(3):
        answer = ask(server, "/")
        assert answer.status == 200
        assert answer.media_type.lower() == "text/html; charset=utf-8"
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        own, nonce = policy["script-src"].split(" ")
        assert own == policy["connect-src"] == "'self'"
        nonce = nonce.removeprefix("'nonce-").removesuffix("'")
        assert len(nonce) >= 16
        assert answer.content.decode("utf-8").count(f'nonce="{nonce}"') == 2
        nonces.add(nonce)
    assert len(nonces) == 3


@pytest.mark.parametrize("path", ["/", "/api/dataset", "/api/scene/0", "/page/app.js", "/nothing", "/api/scene/99"])
def test_no_answer_is_guessed_kept_or_shared(server, path):
    headers = ask(server, path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-cache"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Server" not in headers


def test_every_script_is_handed_out(server):
    for file in page_files():
        answer = ask(server, f"/page/{file.name}")
        assert (answer.status, answer.media_type, answer.content) == (200, file.media_type, file.content)


def test_facts_of_the_dataset(server, city, city_log):
    assert ask(server, "/api/dataset").json == {
        "name": "sample.zarr",
        "path": str(city / "scenes" / "sample.zarr"),
        "num_scenes": 3,
        "num_frames": 300,
        "num_agents": len(city_log.agents),
        "has_map": True,
        "has_aerial": True,
        "sample_kinds": ["semantic", "satellite"],
        "notes": [],
        "run": None,
        "predictions": None,
    }


def test_the_table_has_a_value_for_each_scene(server, city_log):
    columns = ask(server, "/api/scenes").json
    assert columns.pop("error") == columns.pop("doubt") == {}
    assert set(columns) == {
        "num_frames",
        "length_s",
        "agents_per_frame",
        "distance_m",
        "turn_deg",
        "turn",
        "speed_mps",
        "host",
    }
    assert all(len(values) == 3 for values in columns.values())
    assert columns["num_frames"] == [100, 100, 100]
    assert columns["length_s"] == [9.9, 9.9, 9.9]
    assert columns["host"] == city_log.scenes["host"].tolist()


@pytest.mark.parametrize("scene_index", range(3))
def test_scenes_are_those_of_the_dataset(server, log, unpack, scene_index):
    answer = ask(server, f"/api/scene/{scene_index}")
    assert (answer.status, answer.media_type) == (200, BYTES)
    assert answer.content == log.scene_bytes(scene_index)
    assert unpack(answer.content).facts["scene_index"] == scene_index


def test_the_map_is_the_one_of_the_dataset(server, log, unpack):
    answer = ask(server, "/api/map")
    assert (answer.status, answer.media_type) == (200, BYTES)
    assert answer.content == log.map_bytes
    assert unpack(answer.content).facts["num_lanes"] > 100


def test_what_the_map_says_of_lanes_is_sent_apart_from_it(server, log, unpack):
    answer = ask(server, "/api/lanes")
    assert (answer.status, answer.media_type) == (200, BYTES)
    assert answer.content == log.lane_bytes()
    assert unpack(answer.content).facts["num_lanes"] == unpack(log.map_bytes).facts["num_lanes"]


def test_the_aerial_picture_is_sent_in_tiles(server, log):
    facts = ask(server, "/api/aerial/1")
    assert (facts.status, facts.json) == (200, log.aerial.facts(log.ego_height_m(1)))
    tile = ask(server, "/api/tile/0/1/0")
    assert (tile.status, tile.media_type, tile.content) == (200, "image/jpeg", log.aerial.tile(0, 1, 0))
    assert ask(server, "/api/tile/0/99/0").status == ask(server, "/api/aerial/99").status == 404


PICTURES = {
    "raster of the AV": ("/api/raster/1/40", PNG, ("raster_png", 1, 40, None, {"map_kind": "semantic"})),
    "an empty track": ("/api/raster/1/40?track=", PNG, ("raster_png", 1, 40, None, {"map_kind": "semantic"})),
    "raster of a kind": ("/api/raster/1/40?kind=box", PNG, ("raster_png", 1, 40, None, {"map_kind": "box"})),
    "raster of an agent": (
        "/api/raster/0/5?kind=satellite&track={track}",
        PNG,
        ("raster_png", 0, 5, "track", {"map_kind": "satellite"}),
    ),
    "vectors of the AV": ("/api/vector/1/40", SVG, ("vector_svg", 1, 40, None, {})),
    "vectors of an agent": ("/api/vector/0/5?track={track}", SVG, ("vector_svg", 0, 5, "track", {})),
}


@pytest.fixture(scope="module")
def some_track(city_log):
    """An agent of frame 5 of scene 0 that passes the label filter."""
    agents = city_log.agents[slice(*city_log.frames[5]["agent_index_interval"])]
    return int(agents["track_id"][agents["label_probabilities"][:, 3:].max(axis=1) > 0.5][0])


@pytest.mark.parametrize(("path", "media_type", "call"), PICTURES.values(), ids=PICTURES.keys())
def test_samples_are_drawn(server, log, some_track, path, media_type, call):
    name, scene_index, frame_index, track_id, options = call
    track_id = some_track if track_id == "track" else None
    answer = ask(server, path.format(track=some_track))
    assert (answer.status, answer.media_type) == (200, media_type)
    assert answer.content == getattr(log.samples, name)(scene_index, frame_index, track_id, **options)


# What is not there

MISSING = {
    "/api/scene/3": "scene 3 is out of range; the dataset has the scenes 0 to 2",
    "/api/scene/999999999999999999": "scene 999999999999999999 is out of range; the dataset has the scenes 0 to 2",
    "/api/scene/9999999999999999999": NOTHING,
    "/api/scene/" + 5000 * "1": NOTHING,
    "/api/scene/-1": NOTHING,
    "/api/scene/1.5": NOTHING,
    "/api/scene/0x1": NOTHING,
    "/api/scene/": NOTHING,
    "/api/scene/0/": NOTHING,
    "/api/scene/0%0A": NOTHING,
    "/api/scene/%30": NOTHING,
    "/api/scene/%D9%A1": NOTHING,
    "/api/scene/\u00b9": NOTHING,
    "/api/raster/3/0": "scene 3 is out of range; the dataset has the scenes 0 to 2",
    "/api/raster/0/100": "frame 100 is out of range; scene 0 has the frames 0 to 99",
    "/api/raster/0/999999999999999999": "frame 999999999999999999 is out of range; scene 0 has the frames 0 to 99",
    "/api/vector/3/0": "scene 3 is out of range; the dataset has the scenes 0 to 2",
    "/api/vector/0/100": "frame 100 is out of range; scene 0 has the frames 0 to 99",
    "/api/raster/0/0?kind=street": "map_kind is 'street'; allowed are semantic, satellite, box",
    "/api/raster/0/0?track=99999": "track 99999 is not among the agents of the current frame",
    "/api/vector/0/0?track=99999": "track 99999 is not among the agents of the current frame",
    "/api/raster/0/0?track=18446744073709551616": "track 18446744073709551616 is not among the agents",
    "/api/raster/0/0?track=99999999999999999999": "track 99999999999999999999 is not among the agents",
    "/api/raster/0/0?track=111111111111111111111": "track must be a number",
    "/api/raster/0/0?track=-1": "track must be a number",
    "/api/raster/0/0?track=1e3": "track must be a number",
    "/api/raster/0/0?track=%D9%A1": "track must be a number",
    "/api/vector/0/0?track=%C2%B2": "track must be a number",
    "/api": NOTHING,
    "/api/": NOTHING,
    "/api/datasets": NOTHING,
    "/favicon.ico": NOTHING,
    "/index.html": NOTHING,
}


@pytest.mark.parametrize(("path", "said"), MISSING.items(), ids=[ascii(path)[:50] for path in MISSING])
def test_what_is_not_there_is_404_and_says_so(server, path, said):
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:  # takes any bytes as a path
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = Answer(response.status, response.headers, response.read())
    assert answer.status == 404
    assert said in answer.error


def test_a_query_that_is_no_text_is_refused(server):
    answer = ask(server, "/api/raster/0/0?kind=%ff")
    assert (answer.status, answer.error) == (400, "Bad Request")


PATHS_TO_FILES = [
    "/page/page.html",
    "/page/page.css",
    "/page/",
    "/page",
    "/page/..",
    "/page/../page.html",
    "/page/../server.py",
    "/page/%2e%2e/server.py",
    "/page/%2e%2e%2fserver.py",
    "/page/..%2fserver.py",
    "/page/..%5cserver.py",
    "/page/..\\server.py",
    "/page/%252e%252e%252fserver.py",
    "/page/vendor/uplot.js",
    "/page/vendor%2fuplot.js",
    "/page/app.js/",
    "/page/app.js%00",
    "/page/app.js%00.html",
    "/page/./app.js",
    "/page//app.js",
    "/page/APP.JS",
    "/page//etc/passwd",
    "/page/%2fetc%2fpasswd",
    "//etc/passwd",
    "/etc/passwd",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "file:///etc/passwd",
    "/api/scene/../dataset",
    "/static/app.js",
    "/api/map/../../page/app.js",
]


@pytest.mark.parametrize("path", PATHS_TO_FILES)
def test_no_spelling_of_a_path_reaches_a_file(server, path):
    answer = ask(server, path)
    assert answer.status == 404
    assert answer.error in {NOTHING, "There is no such script"}


def test_a_path_with_a_zero_byte_reaches_no_file(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
        connection.sendall(b"GET /page/app.js\0 HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] in {b"400", b"404"}


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/api/dataset", "/api/scene/0", "/api/map", "/api/raster/0/0"])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_there_is_nothing_to_change(server, path, method):
    answer = ask(server, path, method=method)
    assert answer.status == 405
    assert method == "HEAD" or answer.error == "Method Not Allowed"


# clients

PATHS = ["/", "/page/app.js", "/api/dataset", "/api/scenes", "/api/scene/0", "/api/map", "/api/raster/0/0", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["evil.com", "evil.com:{port}", "127.0.0.1.evil.com", "localhost.evil.com:80"])
def test_sites_that_lead_here_by_another_name_get_nothing(server, path, host):
    answer = ask(server, path, host=host.format(port=server.port))
    assert (answer.status, answer.error) == (403, "Forbidden host")


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "HEAD"])
def test_the_name_is_looked_at_whatever_the_method(server, method):
    assert ask(server, "/api/dataset", method=method, host="evil.com").status == 403


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "[::1",
        "]",
        "]localhost[",
        "[localhost]",
        "::1",
        "localhost:",
        "localhost:x",
        "localhost:8787:1",
        "0.0.0.0",
        "localhost.",
        "u@localhost",
        "2130706433",
    ],
)
def test_other_hosts_and_malformed_ones_get_nothing(server, host):
    assert ask(server, "/api/dataset", host=host).status in {400, 403}


@pytest.mark.parametrize(
    "lines",
    [b"", b"Host:\r\n", b"Host: localhost\r\nHost: evil.com\r\n", b"Host: evil.com\r\nHost: localhost\r\n"],
    ids=["none", "an empty one", "a foreign one behind", "a foreign one before"],
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_request_names_its_host_once(server, version, lines):
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
        connection.sendall(b"GET /api/dataset HTTP/" + version + b"\r\n" + lines + b"\r\n")
        assert connection.makefile("rb").readline().split()[1] in {b"400", b"403"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
@pytest.mark.parametrize("port", ["", ":{port}", ":80"], ids=["no port", "its port", "another port"])
def test_names_of_this_machine_are_served(server, host, port):
    assert ask(server, "/api/dataset", host=host + port.format(port=server.port)).status == 200


@pytest.mark.parametrize("host", ["evil.com", "192.168.0.7:80"])
def test_a_server_that_is_open_to_the_network_answers_to_any_name(log, host):
    with ViewerServer(log, address="0.0.0.0") as server:
        assert server.url == f"http://127.0.0.1:{server.port}/"
        assert ask(server, "/api/dataset", host=host).status == 200


def test_ip_6_is_served_where_there_is_one(log):
    try:
        server = ViewerServer(log, address="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server, socket.create_connection(("::1", server.port), timeout=300) as connection:
        assert server.url == f"http://[::1]:{server.port}/"
        connection.sendall(b"GET /api/dataset HTTP/1.0\r\nHost: [::1]\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"200"


# Threads, ports, ends


def test_many_questions_at_once_get_the_answers_of_one(server):
    paths = ["/api/scenes", "/api/map", "/api/scene/0", "/api/scene/1", "/api/raster/1/40", "/api/vector/1/40"]
    alone = [ask(server, path).content for path in paths]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda path: ask(server, path).content, paths * 6))
    assert together == alone * 6


def test_first_questions_may_come_at_once(city_files):
    """Nothing is read yet: all threads ask for the same things at the same time."""
    with ViewerServer(ViewedLog(city_files)) as server, ThreadPoolExecutor(8) as pool:
        for path in ("/api/scene/2", "/api/map", "/api/scenes", "/api/vector/2/10", "/api/raster/2/10"):
            answers = list(pool.map(lambda _, path=path: ask(server, path), range(8)))
            assert {answer.status for answer in answers} == {200}
            assert len({answer.content for answer in answers}) == 1


class HeldSampler:
    """Stands in for what draws samples: notes what it begins, and ends nothing before it is released."""

    def __init__(self):
        self.begun, self.released = [], threading.Event()

    def draw(self, scene_index, frame_index, track_id, **options):
        self.begun.append(frame_index)
        assert self.released.wait(300)
        return b"%d" % frame_index

    def wait_for_begin(self):
        wait_until(lambda: self.begun)


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "nothing has happened for two minutes"
        time.sleep(0.01)


@pytest.fixture
def held(city_files, monkeypatch):
    """A server whose samples are not drawn before they are released, and what holds them."""
    log, sampler = ViewedLog(city_files), HeldSampler()
    for name in ("raster_png", "vector_svg"):
        monkeypatch.setattr(log.samples, name, sampler.draw)
    with ViewerServer(log) as server:
        yield server, sampler
        sampler.released.set()


def ask_and_leave(server, path):
    """Ask for a path and go away without the answer."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=300)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def test_what_the_page_shows_never_waits_for_samples(held, server):
    held_server, sampler = held
    paths = ["/", "/api/dataset", "/api/scenes", "/api/map", "/api/scene/0", "/api/scene/2", "/api/status"]
    with ThreadPoolExecutor(12) as pool:
        samples = [pool.submit(ask, held_server, f"/api/{kind}/0/3") for kind in ("raster", "vector") for _ in range(6)]
        sampler.wait_for_begin()
        for path in paths:
            answer = ask(held_server, path)
            assert answer.status == 200
            assert path == "/" or answer.content == ask(server, path).content
        assert not any(sample.done() for sample in samples)
        assert len(sampler.begun) == 1, "samples are drawn one after the other"
        sampler.released.set()
        assert {sample.result().content for sample in samples} == {b"3"}


def test_of_samples_that_nobody_waits_for_none_is_drawn(held):
    """As when the slider moves while kernels are being compiled."""
    server, sampler = held
    first = ask_and_leave(server, "/api/raster/0/0")
    sampler.wait_for_begin()
    stale = [ask_and_leave(server, f"/api/{('raster', 'vector')[frame % 2]}/0/{frame}") for frame in range(1, 31)]
    with ThreadPoolExecutor(1) as pool:
        newest = pool.submit(ask, server, "/api/raster/0/31")
        for connection in [first, *stale]:
            ask(server, "/api/status")  # so that it has come in before it goes away
            connection.close()
        for _ in range(5):
            ask(server, "/api/dataset")
        sampler.released.set()
        assert newest.result().content == b"31"
    assert sampler.begun == [0, 31]
    assert ask(server, "/api/raster/0/5").content == b"5"


def test_samples_wait_until_all_is_there_that_data_needs(city_files, monkeypatch):
    """Kernels are compiled one at a time; those that scenes are read with come first."""
    log, prepared, sampler = ViewedLog(city_files), threading.Event(), HeldSampler()
    sampler.released.set()
    monkeypatch.setattr(log, "prepare_reading", lambda: prepared.wait(300))
    monkeypatch.setattr(log.samples, "raster_png", sampler.draw)
    with ViewerServer(log) as server, ThreadPoolExecutor(1) as pool:
        sample = pool.submit(ask, server, "/api/raster/0/7")
        assert ask(server, "/api/scene/0").status == 200
        time.sleep(0.2)
        assert sampler.begun == []
        prepared.set()
        assert sample.result().content == b"7"


def test_samples_are_drawn_although_the_preparation_fails(city_files, monkeypatch):
    log = ViewedLog(city_files)
    monkeypatch.setattr(log, "prepare_reading", lambda: 1 // 0)
    with ViewerServer(log) as server:
        assert ask(server, "/api/raster/0/7").media_type == PNG


def test_what_reads_has_ended_when_the_server_is_closed(city_files, monkeypatch):
    """zarr warns at the end of the process of what is still being read."""
    log, reading = ViewedLog(city_files), threading.Event()
    monkeypatch.setattr(log, "read_ahead", lambda: (reading.set(), time.sleep(0.3), log.scene_bytes(0)))
    before = set(threading.enumerate())
    with ViewerServer(log):
        assert reading.wait(60)
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("l5kit view")]


def test_the_status_says_whether_kernels_are_being_compiled(held, monkeypatch):
    server, sampler = held
    draw = sampler.draw

    def compile_and_draw(*arguments, **options):
        with event.trigger_event("numba:compile"):
            return draw(*arguments, **options)

    monkeypatch.setattr(server._logs[0].samples, "raster_png", compile_and_draw)
    wait_until(lambda: ask(server, "/api/status").json == {"compiling": False})
    with ThreadPoolExecutor(1) as pool:
        sample = pool.submit(ask, server, "/api/raster/0/1")
        wait_until(lambda: ask(server, "/api/status").json == {"compiling": True})
        assert not sample.done()
        sampler.released.set()
        assert sample.result().status == 200
    assert ask(server, "/api/status").json == {"compiling": False}


def test_a_taken_port_is_an_error_and_0_takes_a_free_one(server, log):
    with pytest.raises(OSError, match="use"):
        ViewerServer(log, port=server.port)
    with ViewerServer(log, port=0) as other:
        assert other.port not in (0, server.port)
        assert ask(other, "/api/dataset").content == ask(server, "/api/dataset").content


def test_an_address_of_another_machine_is_an_error(log):
    with pytest.raises(OSError):
        ViewerServer(log, address="192.0.2.1")


def test_closing_frees_the_port_and_ends_the_thread(log):
    before = num_server_threads()
    server = ViewerServer(log)
    ask(server, "/api/dataset")
    assert num_server_threads() == before + 1
    server.close()
    server.close()
    server.wait()
    assert num_server_threads() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    with ViewerServer(log, port=server.port) as again:
        assert ask(again, "/api/dataset").status == 200


def num_server_threads():
    return sum(thread.name == "l5kit view" for thread in threading.enumerate())


@pytest.mark.timeout(60)
def test_a_server_may_be_closed_right_after_its_start(log):
    for _ in range(20):
        ViewerServer(log).close()


def test_closing_does_not_wait_for_answers(log, monkeypatch, caplog):
    started, ended = threading.Event(), threading.Event()

    def slow(scene_index):
        started.set()
        ended.wait(30)
        return b""

    slow_log = ViewedLog(log._files)
    monkeypatch.setattr(slow_log, "scene_bytes", slow)
    monkeypatch.setattr(slow_log, "read_ahead", lambda: None)
    server = ViewerServer(slow_log)

    def ask_in_vain():
        with pytest.raises(OSError):
            ask(server, "/api/scene/0")

    asking = threading.Thread(target=ask_in_vain)
    asking.start()
    assert started.wait(30)
    before = time.monotonic()
    server.close()
    assert time.monotonic() - before < 5
    ended.set()
    asking.join(30)
    assert not asking.is_alive()
    gc.collect()
    assert caplog.records == []


def test_waiting_ends_when_the_server_is_closed(log):
    server = ViewerServer(log)
    waiting = threading.Thread(target=server.wait)
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    server.close()
    waiting.join(10)
    assert not waiting.is_alive()


def test_unexpected_errors_are_told_and_logged(city_files, monkeypatch, caplog):
    log = ViewedLog(city_files)
    monkeypatch.setattr(log, "scene_bytes", lambda scene_index: 1 // 0)
    with ViewerServer(log) as server:
        answer = ask(server, "/api/scene/0")
        assert answer.status == 500
        assert answer.error.startswith("ZeroDivisionError: ")
        assert "Traceback" not in answer.error
        assert ask(server, "/api/dataset").status == 200
    assert any(record.exc_info for record in caplog.records)


# Damaged and odd datasets


@pytest.fixture
def damaged(city_copy, city_log):
    """Files of a dataset whose agents of the middle of scene 1 are damaged."""
    path = city_copy / "scenes" / "sample.zarr"
    shutil.rmtree(path)
    lengths = {"scenes": 10, "frames": 1000, "agents": 500, "traffic_light_faces": 1000}
    write_with_chunks(city_log, path, chunk_lengths=lengths)
    row = int(city_log.frames[150]["agent_index_interval"][0])
    (path / "agents" / str(row // 500)).write_bytes(b"\0" * 100)
    return find_dataset_files(city_copy), f"sample.zarr/agents/{row // 500}"


def test_a_damaged_scene_is_422_and_names_its_file(damaged, caplog):
    files, chunk = damaged
    with ViewerServer(ViewedLog(files)) as server:
        answer = ask(server, "/api/scene/1")
        assert answer.status == 422
        assert chunk in answer.error
        assert "restore it" in answer.error
        assert [ask(server, f"/api/scene/{index}").status for index in (0, 2)] == [200, 200]
        sample = ask(server, "/api/raster/1/50")
        assert sample.status == 422
        assert chunk in sample.error
        assert ask(server, "/api/raster/0/50").status == ask(server, "/api/scenes").status == 200
    assert caplog.records == []


def test_frames_that_cannot_be_read_are_told_in_the_table(city_copy, city_log):
    path = city_copy / "scenes" / "sample.zarr"
    shutil.rmtree(path)
    lengths = {"scenes": 10, "frames": 50, "agents": 20_000, "traffic_light_faces": 1000}
    write_with_chunks(city_log, path, chunk_lengths=lengths)
    (path / "frames" / "3").unlink()
    with ViewerServer(ViewedLog(find_dataset_files(city_copy))) as server:
        columns = ask(server, "/api/scenes").json
        assert list(columns["error"]) == ["1"]
        assert "sample.zarr/frames/3 is missing" in columns["error"]["1"]
        for name in ("length_s", "agents_per_frame", "distance_m", "turn_deg", "turn", "speed_mps"):
            assert [value is None for value in columns[name]] == [False, True, False], name
        assert [ask(server, f"/api/scene/{index}").status for index in range(3)] == [200, 422, 200]


@pytest.mark.parametrize("damaged_m", [1e307, 1.7e308, -1.2e306, 1e200, float("nan")])
def test_an_impossible_position_is_told_in_the_table_and_leaves_the_others(city_copy, damaged_m):
    log = ChunkedDataset(city_copy / "scenes" / "sample.zarr").open()
    frames = log.frames[:]
    frames["ego_translation"][150, 0] = damaged_m
    broken = ChunkedDataset.in_memory(
        scenes=log.scenes[:], frames=frames, agents=log.agents[:], tl_faces=log.tl_faces[:]
    )
    broken.save(city_copy / "broken.zarr")
    with ViewerServer(ViewedLog(find_dataset_files(city_copy / "broken.zarr"))) as server:
        columns = ask(server, "/api/scenes").json
        assert columns["error"] == {}
        assert list(columns["doubt"]) == ["1"]
        assert columns["doubt"]["1"].startswith("ego_translation of frame 50 is not finite, or more than")
        for name in ("distance_m", "turn", "speed_mps"):
            assert [value is None for value in columns[name]] == [False, True, False], name
        assert [ask(server, f"/api/scene/{index}").status for index in range(3)] == [200, 200, 200]


def test_rounding_makes_no_number_that_json_does_not_have(city_files, monkeypatch):
    log = ViewedLog(city_files)
    table = viewed_log.read_scene_table(log._dataset)
    huge = replace(table, distances_m=np.array([1e307, 1.7e308, 3.0]), turns_deg=np.array([-1e307, 0.0, 2.0]))
    monkeypatch.setattr(viewed_log, "read_scene_table", lambda *arguments, **options: huge)
    columns = log.scene_columns
    assert (columns["distance_m"], columns["turn_deg"]) == ([None, None, 3.0], [None, 0.0, 2.0])
    json.dumps(columns, allow_nan=False)


def test_scenes_that_cannot_be_read_at_all_are_422(city_copy):
    (city_copy / "scenes" / "sample.zarr" / "scenes" / "0").write_bytes(b"\0" * 100)
    with ViewerServer(ViewedLog(find_dataset_files(city_copy))) as server:
        answer = ask(server, "/api/scenes")
        assert (answer.status, "sample.zarr/scenes/0" in answer.error) == (422, True)
        assert ask(server, "/").status == 200


def test_a_dataset_without_map_has_boxes(city_files):
    files = replace(city_files, semantic_map=None, aerial=None, meta=None, notes=("no semantic map found",))
    with ViewerServer(ViewedLog(files)) as server:
        facts = ask(server, "/api/dataset").json
        assert (facts["has_map"], facts["sample_kinds"]) == (False, ["box"])
        assert facts["notes"] == ["no semantic map found"]
        answer = ask(server, "/api/map")
        assert (answer.status, answer.error) == (404, "The dataset has no map")
        assert ask(server, "/api/lanes").status == 404
        assert not facts["has_aerial"]
        assert ask(server, "/api/tile/0/0/0").status == 404
        answer = ask(server, "/api/aerial/0")
        assert (answer.status, answer.error) == (404, "The dataset has no aerial picture")
        assert ask(server, "/api/scene/0").status == ask(server, "/api/raster/0/0").status == 200
        vectors = ask(server, "/api/vector/0/0")
        assert vectors.status in {404, 422}
        assert "need a semantic map" in vectors.error


DAMAGES = {
    "a map cut short": ("semantic_map/semantic_map.pb", lambda file: file.write_bytes(file.read_bytes()[:1000])),
    "garbage for a map": ("semantic_map/semantic_map.pb", lambda file: file.write_bytes(b"\xff" * 100)),
    "meta.json that is no JSON": ("meta.json", lambda file: file.write_text("{")),
    "meta.json without a matrix": ("meta.json", lambda file: file.write_text("{}")),
    "meta.json with another matrix": ("meta.json", lambda file: file.write_text('{"world_to_ecef": [[1, 2]]}')),
    "meta.json that is no text": ("meta.json", lambda file: file.write_bytes(b"\xff\xfe\x00")),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_map_is_left_out_with_a_note(city_copy, name, damage):
    damage(city_copy / name)
    with ViewerServer(ViewedLog(find_dataset_files(city_copy))) as server:
        facts = ask(server, "/api/dataset").json
        assert not facts["has_map"]
        (note,) = facts["notes"]
        assert note.startswith("the map is not shown: ")
        assert name.rpartition("/")[2] in note
        assert ask(server, "/api/map").status == 404
        assert ask(server, "/api/scene/0").status == 200
        for kind in facts["sample_kinds"]:
            answer = ask(server, f"/api/raster/0/0?kind={kind}")
            assert answer.status in {200, 422}, answer.content


def test_a_dataset_without_scenes_is_served(tmp_path):
    ChunkedDataset.in_memory().save(tmp_path / "empty.zarr")
    with ViewerServer(ViewedLog(find_dataset_files(tmp_path / "empty.zarr"))) as server:
        assert ask(server, "/api/dataset").json["num_scenes"] == 0
        assert ask(server, "/api/scenes").json["num_frames"] == []
        answer = ask(server, "/api/scene/0")
        assert (answer.status, answer.error) == (404, "scene 0 is out of range; the dataset has no scenes")


TEXTS = ["</title><script>", "\"'&<!--", "a\u2028b", "\udcffx", "{{ x }}", "\U0001f697", "<!-- l5kit:data -->"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts_of_the_dataset_stay_texts(tmp_path, unpack, text):
    """As the name of a car, and as the name of the dataset."""
    log = make_scene([make_agents()])
    log.scenes["host"] = text[:16]
    path = tmp_path / f"{text.replace('/', '')}.zarr"
    try:
        write_with_chunks(log, path)
    except OSError:
        pytest.skip("the file system does not take this name")
    shown = text[:16].replace("\udcff", "\ufffd")
    with ViewerServer(ViewedLog(find_dataset_files(path))) as server:
        facts = ask(server, "/api/dataset").json
        assert (facts["name"], facts["path"]) == (path.name, str(path))
        assert ask(server, "/api/scenes").json["host"] == [shown]
        assert unpack(ask(server, "/api/scene/0").content).facts["host"] == shown
        page = ask(server, "/")
        assert page.status == 200
        title = escape(path.name.encode("utf-8", "replace").decode())
        assert f"<title>{title} - l5kit</title>" in page.content.decode("utf-8")


# two datasets side by side


@pytest.fixture(scope="module")
def two(log, lit_log):
    with ViewerServer(log, beside=lit_log) as server:
        yield server


@pytest.fixture(scope="module")
def lit_log(tmp_path_factory):
    """A log of one scene without a map."""
    folder = tmp_path_factory.mktemp("beside")
    write_with_chunks(make_scene([make_agents()] * 4), folder / "other.zarr")
    return ViewedLog(find_dataset_files(folder / "other.zarr"))


@pytest.mark.parametrize(("side", "name"), [("left", "sample.zarr"), ("right", "other.zarr")])
def test_each_side_has_its_dataset(two, side, name):
    assert ask(two, f"/{side}/api/dataset").json["name"] == name
    page = ask(two, f"/{side}/")
    assert f"<title>{name} - l5kit</title>" in page.content.decode()
    assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
    assert ask(two, f"/{side}/api/scene/3").status == 404


def test_the_page_of_two_datasets_shows_both(two):
    page = ask(two, "/")
    assert "<title>sample.zarr beside other.zarr - l5kit</title>" in page.content.decode()
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert "frame-src 'self'" in page.headers["Content-Security-Policy"]
    assert ask(two, "/api/dataset").error == NOTHING
    assert ask(two, "/left/", host="evil.example").status == 403
    assert ask(two, "/page/beside.js").status == 200


def test_there_are_no_sides_of_one_dataset(server):
    assert ask(server, "/left/").error == NOTHING
    assert ask(server, "/right/api/dataset").error == NOTHING
