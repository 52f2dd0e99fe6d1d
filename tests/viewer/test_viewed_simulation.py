"""A simulation as the page asks for it, in files, and from the server."""

import base64
import gzip
import json
import shutil
import urllib.error
import urllib.request

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data import ChunkedDataset
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

FIRST_FRAME = 5  # of the log that is simulated


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_facts_say_what_was_run(driven_view):
    facts = driven_view.facts()
    assert (facts["name"], facts["num_scenes"], facts["has_map"]) == ("drives", 3, True)
    run = facts["run"]
    assert run["planner"].endswith("_FaultyInOneScene")
    assert (run["num_scored"], run["num_failed"]) == (2, 1)
    assert facts["notes"] == []


def test_the_table_has_scores_and_why_a_scene_was_not_driven(driven_view):
    columns = driven_view.scene_columns
    assert {len(values) for name, values in columns.items() if name not in ("error", "doubt")} == {3}
    assert columns["log_scene"] == [0, 2, 1]
    assert columns["score"] == [0.0, 0.0, None]
    assert "collision" in columns["failed"][0]
    assert columns["failed"][2] == []
    assert list(columns["error"]) == ["2"]
    assert "frame 30" in columns["error"]["2"]
    row = driven_view.scene_row(1)
    assert row == {name: [columns[name][1]] for name in row if name not in ("error", "doubt")} | {
        "error": {},
        "doubt": {},
    }


def test_a_drive_has_its_log_plans_and_values_from_the_origin_of_its_scene(driven_view, city, drives, unpack):
    scene, drive = unpack(driven_view.scene_bytes(1)), unpack(driven_view.drive_bytes(1))
    assert (drive.facts["log"], drive.facts["log_scene"]) == ("sample.zarr", 2)
    origin_m = np.array(scene.facts["origin_m"])
    log = ChunkedDataset(city / "scenes" / "sample.zarr").open().get_scene_dataset(2)
    logged_m = log.frames["ego_translation"][FIRST_FRAME:, :2]
    np.testing.assert_allclose(drive.arrays["log_xy"], logged_m - origin_m, atol=1e-3)
    plans = np.load(drives / "plans.npz")
    np.testing.assert_allclose(drive.arrays["plan_xy"], plans["scene_2"][..., :2] - origin_m, atol=2e-3)
    assert drive.facts["plan_times_s"] == plans["times_s"].tolist()
    gaps_m = np.linalg.norm(drive.arrays["log_xy"] - scene.arrays["ego_xy"], axis=1)
    np.testing.assert_allclose(drive.arrays["log_distance"], gaps_m, atol=2e-3)
    assert drive.arrays["off_road"].max() == 0.5
    assert np.isnan(drive.arrays["time_to_collision"]).any()


def test_epdms_is_a_curve_that_holds_for_its_windows_and_its_terms_are_values_and_failures(city, tmp_path, unpack):
    options = ClosedLoopOptions(show_bar=False, scenes=slice(0, 1))
    simulate(city, tmp_path / "out", planner="constant-velocity", score="epdms", options=options)
    drive = unpack(ViewedSimulation(SimulationFolder(tmp_path / "out")).drive_bytes(0))
    assert [curve["key"] for curve in drive.facts["curves"] if curve["key"].startswith("epdms")] == ["epdms"]
    values = drive.arrays["epdms"]
    assert np.flatnonzero(np.isfinite(values)).tolist() == list(range(15, 56))  # the last window begins in frame 55
    for first in range(15, 55, 5):
        assert len(set(values[first : first + 5].tolist())) == 1
    names = [metric["name"] for metric in drive.facts["metrics"]]
    assert names[:2] == ["epdms", "epdms_no_at_fault_collisions"]
    kinds = {failure["kind"] for failure in drive.facts["failures"]}
    assert "epdms_drivable_area_compliance" in kinds


def test_failures_name_their_track_as_a_text(driven_view, unpack):
    scene, drive = unpack(driven_view.scene_bytes(0)), unpack(driven_view.drive_bytes(0))
    collisions = [failure for failure in drive.facts["failures"] if failure["kind"] == "collision_at_fault"]
    assert collisions
    assert {failure["track_id"] for failure in collisions} <= set(scene.facts["track_ids"])


@pytest.mark.parametrize("ask_for", ["scene", "scene_bytes", "drive_bytes", "scene_row"])
def test_a_scene_that_was_not_driven_says_why(driven_view, ask_for):
    with pytest.raises(CorruptedDataError, match=r"scene 1 of sample\.zarr was not driven to its end: frame 30"):
        getattr(driven_view, ask_for)(2)
    with pytest.raises(IndexOutOfRangeError):
        getattr(driven_view, ask_for)(3)


def test_without_its_log_a_simulation_is_shown_alone_with_a_note(drives, tmp_path, unpack):
    copy = shutil.copytree(drives, tmp_path / "drives")
    (copy / "run.json").write_text(json.dumps({"files": {"log": str(tmp_path / "gone.zarr")}}))
    view = ViewedSimulation(SimulationFolder(copy))
    assert any("no longer exists" in note for note in view.notes)
    drive = unpack(view.drive_bytes(0))
    assert not drive.facts["has_log"]
    assert np.isnan(drive.arrays["log_xy"]).all()
    assert drive.facts["failures"]


def test_tables_of_another_simulation_are_refused(drives, tmp_path):
    copy = shutil.copytree(drives, tmp_path / "drives")
    (copy / "scenes.csv").write_text("scene,position,score\n0,0,1\n")
    with pytest.raises(CorruptedDataError, match=r"has 1 driven scenes, but simulated\.zarr has 2"):
        ViewedSimulation(SimulationFolder(copy))


def test_the_server_sends_drives_of_simulations(driven_view, city_files):
    with ViewerServer(driven_view) as server:
        assert ask(f"{server.url}api/drive/0") == (200, driven_view.drive_bytes(0))
        status, content = ask(f"{server.url}api/drive/2")
        assert (status, "not driven to its end" in json.loads(content)["error"]) == (422, True)
        assert ask(f"{server.url}api/drive/9")[0] == 404
    log = ViewedLog(city_files)
    assert log.drive_bytes(0) is None
    with ViewerServer(log) as server:
        status, content = ask(f"{server.url}api/drive/0")
        assert (status, json.loads(content)["error"]) == (404, "The dataset is not a simulation")


def test_a_file_holds_the_drive(driven_view, tmp_path, read_page):
    write_exported_page(tmp_path / "a.html", driven_view, 1)
    page = read_page((tmp_path / "a.html").read_text("utf-8"))
    (text,) = [text for attributes, text in page.scripts() if attributes.get("id") == "l5kit-export"]
    drive = gzip.decompress(base64.b64decode(json.loads(text)["drive"], validate=True))
    assert drive == driven_view.drive_bytes(1)


@pytest.mark.parametrize(
    ("asked", "name"),
    [("/home/me/x.py:Mine", "x.py:Mine"), (r"C:\me\x.py:Mine", "x.py:Mine"), ("idm", "idm"), ("/home/me/run/", "run")],
)
def test_a_page_names_the_file_of_a_planner_without_its_folders(drives, tmp_path, asked, name):
    copy = shutil.copytree(drives, tmp_path / "drives")
    for file in ("scores.json", "run.json"):
        content = json.loads((copy / file).read_text())
        (copy / file).write_text(json.dumps(content | {"planner": asked, "agents": asked}))
    facts = ViewedSimulation(SimulationFolder(copy)).facts()
    assert (facts["run"]["planner"], facts["run"]["agents"]) == (name, name)
