"""``l5kit drive``: the page that it writes, and drives that it scores."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import webbrowser

import pytest

from l5kit.cli.drive import static_server
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.jobs.data_record import DataRecord
from support.cities import NUM_FRAMES, NUM_SCENES


@pytest.fixture
def drive_file(city, tmp_path):
    """A drive without keys, as the page would save it, except for its scores."""
    content = {
        "format": "l5kit drive",
        "version": 1,
        "log": "sample.zarr",
        "digest": DataRecord.of_log(find_dataset_files(city).dataset).digest,
        "scene": 2,
        "keys": [0] * (NUM_FRAMES - 1),
        "states": [[0.0, 0.0, 0.0, 0.0]] * NUM_FRAMES,
        "score": 2.0,
        "metrics": {"comfort": 1.0},
    }
    path = tmp_path / "drive-2.json"
    path.write_text(json.dumps(content))
    return path


def test_it_writes_a_page_and_tells_its_size(l5kit, city, tmp_path):
    done = l5kit("drive", city, "--out", tmp_path / "page", "--scene", 1, "--scene", 2, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["scenes"] == 2
    assert 0 < facts["zipped_mb"] < 5
    assert (tmp_path / "page" / "index.html").is_file()
    assert (tmp_path / "page" / "data" / "policy.bin").is_file()


def test_driven_scenes_are_driven_on_the_map_of_their_log(l5kit, drives, tmp_path):
    done = l5kit("drive", drives, "--out", tmp_path / "page", "--scene", 0, "--no-serve")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "page" / "data" / "scene-0.bin").is_file()


def test_a_page_that_is_there_stays_without_overwrite(l5kit, city, tmp_path):
    words = ("drive", city, "--out", tmp_path / "page", "--no-serve")
    assert l5kit(*words, "--scene", 1).exit_code == 0
    refused = l5kit(*words)
    assert refused.exit_code == 1
    assert "pass overwrite (--overwrite) to replace it" in refused.stderr
    assert l5kit(*words, "--overwrite").exit_code == 0
    assert len(list((tmp_path / "page" / "data").glob("scene-*"))) == NUM_SCENES


def test_it_serves_the_page_until_it_is_interrupted(l5kit, city, tmp_path, monkeypatch):
    opened = []

    def interrupt(address):
        opened.append(address)
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", interrupt)
    done = l5kit("drive", city, "--out", tmp_path / "page", "--scene", 1)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == opened[0]
    assert done.stderr.splitlines()[-2:] == ["Press Ctrl+C to end.", "ended"]


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_ends_it_cleanly(city, tmp_path):
    words = ["drive", str(city), "--out", str(tmp_path / "page"), "--scene", "1", "--no-browser"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-m", "l5kit", *words], text=True, **pipes) as process:
        try:
            assert any(line.startswith("http://127.0.0.1:") for line in process.stdout)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert stderr.splitlines()[-2:] == ["Press Ctrl+C to end.", "ended"]


def test_the_server_gives_the_files_of_the_folder_alone(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("the page")
    (tmp_path / "secret.txt").write_text("not for others")
    with static_server(tmp_path / "page") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answers = {}
        for path in ("/", "/../secret.txt"):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
            connection.request("GET", path)
            response = connection.getresponse()
            answers[path] = response.status, response.read()
            connection.close()
        server.shutdown()
        thread.join()
    assert answers["/"] == (200, b"the page")
    assert answers["/../secret.txt"][0] == 404


def test_a_port_that_is_taken_is_named(tmp_path):
    with static_server(tmp_path) as server, pytest.raises(OSError, match="cannot listen on --port"):  # noqa: SIM117
        with static_server(tmp_path, port=server.server_port):
            pass


def test_it_scores_a_drive_and_says_what_differs(l5kit, city, drive_file, tmp_path):
    done = l5kit("drive", city, "--score", drive_file, "--out", tmp_path / "mine")
    assert done.exit_code == 0, done.stderr
    assert "warning: page and simulation differ in score" in done.stderr
    assert "no collisions at fault" in done.stdout or "comfort" in done.stdout
    assert (tmp_path / "mine" / "scores.json").is_file()
    again = l5kit("drive", city, "--score", drive_file, "--out", tmp_path / "mine", "--json")
    assert json.loads(again.stdout)["different"] == ["score", "states"]


def test_a_drive_that_is_not_there_is_named(l5kit, city, tmp_path):
    done = l5kit("drive", city, "--score", tmp_path / "drive.json")
    assert done.exit_code == 1
    assert "there is no such file" in done.stderr


def test_the_title_names_the_scene_of_the_drive(l5kit, city, drive_file, tmp_path):
    done = l5kit("drive", city, "--score", drive_file, "--out", tmp_path / "mine")
    assert done.stdout.startswith("Drive of scene 2\n")


def test_a_drive_in_another_log_names_the_argument(l5kit, city, drive_file, tmp_path):
    drive_file.write_text(json.dumps(json.loads(drive_file.read_text()) | {"digest": "0" * 64}))
    done = l5kit("drive", city, "--score", drive_file, "--out", tmp_path / "mine")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: PATH is '{city}', whose log has the digest")
