"""``l5kit view``: addresses, files, what is missing, and how it ends."""

import builtins
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import webbrowser

import numpy as np
import pytest

from l5kit.errors import install_command

pytest.importorskip("torch")
pytest.importorskip("tornado")

from l5kit.cli import view as view_module
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.evaluation import write_pred_csv
from l5kit.visualization.viewer.server import ViewerServer

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/")


def ask(port, path="/api/dataset"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.fixture
def opened(monkeypatch):
    """Addresses that were opened in a browser."""
    addresses = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


@pytest.fixture
def answers(monkeypatch):
    """Stops each server like Ctrl+C, after it has answered a request for its facts; yields the answer."""
    answered = []

    def interrupt(server):
        answered.append(ask(server.port))
        raise KeyboardInterrupt

    monkeypatch.setattr(ViewerServer, "wait", interrupt)
    return answered


@pytest.fixture
def taken_port():
    """A port of this machine that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def lonely_log(city, tmp_path):
    """A dataset without map, aerial picture and meta.json."""
    return shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "far" / "away" / "alone.zarr")


# Serving


def test_a_page_is_served_and_opened_once(l5kit, city, opened, answers):
    done = l5kit("view", city)
    (line,) = done.stdout.splitlines()
    assert done.exit_code == 0
    assert ADDRESS.fullmatch(line)
    assert opened == [line]
    ((status, content),) = answers
    assert (status, json.loads(content)["num_scenes"]) == (200, 3)
    assert done.stderr.splitlines() == ["Press Ctrl+C to end.", "ended"]


def test_a_simulation_is_served_with_its_scores(l5kit, drives, opened, answers):
    done = l5kit("view", drives)
    assert done.exit_code == 0
    ((_, content),) = answers
    facts = json.loads(content)
    assert (facts["num_scenes"], facts["run"]["num_failed"], facts["has_map"]) == (3, 1, True)


def test_a_drive_is_written_as_a_file(l5kit, drives, tmp_path):
    done = l5kit("view", drives, "--scene", 1, "--export", tmp_path / "drive.html")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'drive.html'}\n")
    done = l5kit("view", drives, "--scene", 2, "--export", tmp_path / "failed.html")
    assert done.exit_code == 1
    assert "scene 1 of sample.zarr was not driven to its end: frame 30" in done.stderr
    assert not (tmp_path / "failed.html").exists()


def test_no_browser_is_opened_where_none_is_wanted(l5kit, city, opened, answers):
    done = l5kit("view", city, "--no-browser")
    assert (done.exit_code, opened, len(answers)) == (0, [], 1)


def test_a_scene_is_in_the_address(l5kit, city, opened, answers):
    done = l5kit("view", city, "--scene", 2)
    assert done.stdout.endswith("/#scene=2\n")
    assert opened == [done.stdout.strip()]


def test_the_port_is_free_again_at_the_end(l5kit, city, answers):
    done = l5kit("view", city, "--no-browser", "--port", 0)
    port = int(ADDRESS.search(done.stdout)[1])
    assert port > 0
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_taken_port_that_was_named_is_an_error_in_one_line(l5kit, city, opened, taken_port):
    done = l5kit("view", city, "--port", taken_port)
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert f"cannot listen on --address 127.0.0.1 --port {taken_port}: " in done.stderr
    assert "choose another port" in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_port_is_taken_where_the_usual_one_is_not_free(l5kit, city, answers, taken_port, monkeypatch):
    monkeypatch.setattr(view_module, "_PORT", taken_port)
    done = l5kit("view", city, "--no-browser")
    assert done.exit_code == 0
    assert int(ADDRESS.search(done.stdout)[1]) != taken_port
    assert answers[0][0] == 200


def test_the_usual_port_is_taken_where_it_is_free(l5kit, city, answers, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = listening.getsockname()[1]
    monkeypatch.setattr(view_module, "_PORT", free)
    assert int(ADDRESS.search(l5kit("view", city, "--no-browser").stdout)[1]) == free


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_this_machine_alone_is_no_warning(l5kit, city, answers, address):
    assert "warning" not in l5kit("view", city, "--no-browser", "--port", 0, "--address", address).stderr


def test_an_address_that_others_reach_is_warned_of(l5kit, city, answers):
    done = l5kit("view", city, "--no-browser", "--port", 0, "--address", "0.0.0.0")
    assert done.exit_code == 0
    assert "warning: anyone who can reach 0.0.0.0 can view this dataset" in done.stderr


@pytest.mark.parametrize("address", ["192.0.2.1", "no such host"])
def test_an_address_that_is_not_of_this_machine_is_an_error(l5kit, city, address):
    done = l5kit("view", city, "--no-browser", "--port", 0, "--address", address)
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"cannot listen on --address {address} --port 0" in done.stderr
    assert done.stderr.count("\n") == 1


# What is not there


@pytest.mark.parametrize("options", [(), ("--export", "{folder}/a.html")], ids=["served", "exported"])
def test_a_scene_that_is_not_there_is_an_error(l5kit, city, tmp_path, opened, options):
    done = l5kit("view", city, "--scene", 3, *(option.format(folder=tmp_path) for option in options))
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert done.stderr == "error: scene 3 is out of range; the dataset has the scenes 0 to 2\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("--scene", -1), ("--scene", "first"), ("--port", 65536), ("--port", -1), ("--frames", 3)],
    ids=str,
)
def test_a_wrong_call_is_an_error_of_its_own(l5kit, city, arguments):
    assert l5kit("view", city, *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "does not exist"),
        ("a folder", "there is no *.zarr in it"),
        ("a.zarr.zip", "not a readable zip file"),
    ],
    ids=["nothing", "a folder", "a file"],
)
def test_what_is_no_dataset_is_an_error_in_one_line(l5kit, tmp_path, opened, name, said):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a.zarr.zip").write_text("text")
    done = l5kit("view", tmp_path / name)
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert "unexpected" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_dataset_without_a_map_works_and_says_so(l5kit, lonely_log, answers):
    done = l5kit("view", lonely_log, "--no-browser")
    assert done.exit_code == 0
    assert "note: no semantic map found (" in done.stderr
    assert "--map names one" in done.stderr
    assert json.loads(answers[0][1])["has_map"] is False


def test_a_damaged_map_is_left_out_and_said(l5kit, city_copy, answers, tmp_path):
    file = city_copy / "semantic_map" / "semantic_map.pb"
    file.write_bytes(file.read_bytes()[:1000])
    for options in (["--no-browser"], ["--export", tmp_path / "a.html"]):
        done = l5kit("view", city_copy, *options)
        assert done.exit_code == 0
        assert "note: the map is not shown: " in done.stderr
        assert "semantic_map.pb" in done.stderr
    assert json.loads(answers[0][1])["has_map"] is False
    assert (tmp_path / "a.html").exists()


def test_a_map_that_was_named_and_is_not_there_is_an_error(l5kit, city, opened):
    done = l5kit("view", city, "--map", "nowhere.pb")
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert "--map 'nowhere.pb': there is no such file" in done.stderr


def test_tornado_is_asked_for_where_it_is_missing(l5kit, city, opened, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "l5kit.visualization.viewer.server")
    monkeypatch.delattr("l5kit.visualization.viewer.server", raising=False)
    true_import = builtins.__import__

    def import_without_tornado(name, *arguments, **options):
        if name.partition(".")[0] == "tornado":
            raise ModuleNotFoundError("No module named 'tornado'", name="tornado")
        return true_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", import_without_tornado)
    done = l5kit("view", city)
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert done.stderr == f"error: l5kit view needs Tornado, which the extra viz installs: {install_command('viz')}\n"
    assert l5kit("view", city, "--export", tmp_path / "a.html").exit_code == 0, "files need no server"


# Files


def test_a_scene_is_written_as_a_file(l5kit, city, tmp_path, opened):
    out = tmp_path / "a.html"
    done = l5kit("view", city, "--export", out, "--scene", 1)
    assert (done.exit_code, done.stdout, done.stderr, opened) == (0, f"{out}\n", "", [])
    assert "<title>Scene 1 - l5kit</title>" in out.read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_the_first_scene_is_written_where_none_is_named(l5kit, city, tmp_path):
    assert l5kit("view", city, "--export", tmp_path / "a.html").exit_code == 0
    assert l5kit("view", city, "--export", tmp_path / "b.html", "--scene", 0).exit_code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_notes_are_told_when_a_file_is_written(l5kit, lonely_log, tmp_path):
    done = l5kit("view", lonely_log, "--export", tmp_path / "a.html")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'a.html'}\n")
    assert "note: no semantic map found" in done.stderr


@pytest.fixture
def predictions(city, tmp_path):
    """Folder with the predictions of two agents of the first frame, and of one that is not there."""
    log = ChunkedDataset(find_dataset_files(city).dataset).open()
    tracks = [*log.agents[:2]["track_id"].astype(np.int64).tolist(), 10**9]
    folder = tmp_path / "scores"
    folder.mkdir()
    times = np.full(3, log.frames["timestamp"][0])
    write_pred_csv(folder / "predictions.csv", times, np.array(tracks), np.ones((3, 4, 2)), max_modes=1)
    return folder


def test_predictions_of_a_folder_are_shown_and_those_without_a_row_are_counted(l5kit, city, predictions, tmp_path):
    done = l5kit("view", city, "--predictions", predictions, "--export", tmp_path / "a.html")
    assert done.exit_code == 0
    assert "note: 1 of 3 predictions have no row in this log\n" in done.stderr
    assert '"predictions": "predictions.csv"' in (tmp_path / "a.html").read_text("utf-8")


def test_predictions_that_cannot_be_read_are_an_error_in_one_line(l5kit, city, predictions, tmp_path, opened):
    path = predictions / "predictions.csv"
    path.write_text(path.read_text() + "1,2\n")
    done = l5kit("view", city, "--predictions", path)
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert done.stderr == f"error: {str(path)!r}, line 5: 2 columns instead of 11\n"


def test_predictions_are_no_part_of_a_simulation(l5kit, drives, predictions, opened):
    done = l5kit("view", drives, "--predictions", predictions)
    assert (done.exit_code, done.stdout, opened) == (1, "", [])
    assert "is a simulation, which shows the plans of its planner" in done.stderr


def test_a_folder_that_is_not_there_is_an_error(l5kit, city, tmp_path):
    done = l5kit("view", city, "--export", tmp_path / "nowhere" / "a.html")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nowhere' does not exist; create it first" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_may_not_be_written_is_an_error(l5kit, city, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    done = l5kit("view", city, "--export", folder / "a.html")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "locked" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_error_while_writing_leaves_the_older_file(l5kit, city, tmp_path, monkeypatch):
    assert l5kit("view", city, "--export", tmp_path / "a.html").exit_code == 0
    older = (tmp_path / "a.html").read_bytes()

    def no_space(*arguments):
        raise OSError(28, "No space left on device", str(tmp_path / "a.html"))

    monkeypatch.setattr("pathlib.Path.write_bytes", no_space)
    done = l5kit("view", city, "--export", tmp_path / "a.html")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "No space left on device" in done.stderr
    assert (tmp_path / "a.html").read_bytes() == older


def test_a_damaged_scene_is_an_error_that_names_its_file(l5kit, city_copy, tmp_path):
    (city_copy / "scenes" / "sample.zarr" / "agents" / "0").write_bytes(b"\0" * 100)
    done = l5kit("view", city_copy, "--export", tmp_path / "a.html")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "sample.zarr/agents/0" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.html").exists()


# Its end


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


INTERRUPTED = {
    "while the dataset is opened": ("l5kit.visualization.viewer.viewed_log.ViewedLog", "__init__", False),
    "while the server starts": ("l5kit.visualization.viewer.server.ViewerServer", "__init__", False),
    "while the browser opens": ("webbrowser", "open", True),
    "while it serves": ("l5kit.visualization.viewer.server.ViewerServer", "wait", True),
    "while it ends, again": ("l5kit.visualization.viewer.server.ViewerServer", "close", True),
}


@pytest.mark.parametrize(("owner", "name", "is_up"), INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_an_interruption_is_its_end_whenever_it_comes(l5kit, city, opened, answers, monkeypatch, owner, name, is_up):
    monkeypatch.setattr(f"{owner}.{name}", interrupt)
    done = l5kit("view", city, "--port", 0)
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == "ended"
    assert bool(ADDRESS.search(done.stdout)) == is_up


def test_an_interrupted_export_is_none(l5kit, city, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.visualization.viewer.exported_page.scene_bytes", interrupt)
    done = l5kit("view", city, "--export", tmp_path / "a.html")
    assert (done.exit_code, done.stdout) == (130, "")
    assert list(tmp_path.iterdir()) == []


HOLD = """
import threading
from l5kit.visualization.viewer.sample_pictures import SamplePictures
SamplePictures.raster_png = lambda *arguments, **options: threading.Event().wait()
"""


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("is_drawing", [False, True], ids=["at rest", "while a sample takes long"])
def test_ctrl_c_ends_it_cleanly(city, is_drawing):
    """In a separate process whose output is a pipe: the address is printed at once."""
    start = f"{HOLD if is_drawing else ''}\nfrom l5kit.cli.main import run; run()"
    command = [sys.executable, "-c", start, "view", str(city), "--no-browser", "--port", "0"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=buffered, **pipes) as process:
        try:
            port = int(ADDRESS.fullmatch(process.stdout.readline().strip())[1])
            sample = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            if is_drawing:
                sample.request("GET", "/api/raster/0/0")
            assert ask(port)[0] == 200
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=30)
            sample.close()
        finally:
            process.kill()
    assert (process.returncode, stdout) == (0, "")
    said = [line for line in stderr.splitlines() if not line.startswith("note: compiling")]
    assert said == ["Press Ctrl+C to end.", "ended"]


def test_two_datasets_cannot_be_exported_together(l5kit, city, tmp_path):
    done = l5kit("view", city, "--beside", city, "--export", tmp_path / "a.html")
    assert done.exit_code == 1
    assert "--export writes one scene of one dataset, so it excludes --beside" in done.stderr
    assert list(tmp_path.iterdir()) == []
