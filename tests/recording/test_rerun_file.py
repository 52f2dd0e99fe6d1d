"""Rerun recordings, read back with the reader of the library."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from support.tolerances import FLOAT32

pytest.importorskip("torch", reason="scenes are read with the rules of the datasets, which need torch")

from l5kit.configs.config import load_matrix, load_metadata
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.log_facts import LogFacts
from l5kit.errors import CorruptedDataError, MissingDependencyError, UnsupportedValueError, install_command
from l5kit.visualization.recording import RecordingForm, write_rerun
from l5kit.visualization.recording.colors import CLASS_RGB, EGO_RGB, LIGHT_RGB
from l5kit.visualization.scene_content import read_scene_content
from support.recordings import AGENTS, BIG_TRACK, EGO_YAW, START_NS, read_case, read_rerun

TIMES_NS = [START_NS + 100_000_000 * frame for frame in range(4)]
EVERY_FRAME = (
    "/scene/ego",
    "/scene/ego_trajectory/past",
    "/scene/ego_trajectory/future",
    "/scene/agents",
    "/scene/agents/headings",
    "/scene/agents/past",
    "/scene/agents/future",
    "/state/speed_mps",
)


@pytest.fixture
def needs_rerun():
    pytest.importorskip("rerun")
    pytest.importorskip("rerun.chunk", reason="reading recordings needs a newer rerun-sdk than writing them")


@pytest.fixture
def case(tmp_path):
    return read_case(tmp_path / "map.pb")


@pytest.fixture
def recorded(needs_rerun, case, tmp_path):
    """Content of a recording of the tiny scene, and the scene."""
    scene, map_api = case
    write_rerun(tmp_path / "scene.rrd", scene, map_api)
    return read_rerun(tmp_path / "scene.rrd"), scene


def values_of(content, path, component):
    """A component in each row of an entity."""
    return [values[component] for _, _, values in content.rows[path]]


def rgb_of(number):
    return [number >> 24, number >> 16 & 255, number >> 8 & 255]


def yaws_of(quaternions):
    quaternions = np.array(quaternions, dtype=float).reshape(-1, 4)
    assert (quaternions[:, :2] == 0).all()
    return 2 * np.arctan2(quaternions[:, 2], quaternions[:, 3])


def strips_of(content, path):
    """x and y of the lines of an entity in each row."""
    return [
        [[(x, y) for x, y, _ in strip] for strip in strips]
        for strips in values_of(content, path, "LineStrips3D:strips")
    ]


def test_each_entity_has_a_row_at_the_time_of_each_frame(recorded):
    content, _ = recorded
    assert content.rows.keys() == {*EVERY_FRAME, "/scene/map/lights"}
    for path in EVERY_FRAME:
        assert [row[:2] for row in content.rows[path]] == list(enumerate(TIMES_NS))
    assert [row[:2] for row in content.rows["/scene/map/lights"]] == [(frame, TIMES_NS[frame]) for frame in (0, 2, 3)]


def test_the_recording_says_what_it_holds(recorded):
    content, _ = recorded
    facts = content.static["/__properties/scene"]
    assert (facts["scene_index"], facts["host"], facts["num_frames"]) == ([0], ["host-a"], [4])
    assert facts["origin_world_m"] == [7, 1]
    (classes,) = (value for name, value in content.static["/scene"].items() if name.startswith("AnnotationContext"))
    described = [entry["class_description"]["info"] for entry in classes[0]]
    assert [entry["class_id"] for entry in classes[0]] == list(range(len(PERCEPTION_LABELS)))
    assert [described[index]["label"] for index in (3, 12, 14)] == ["car", "cyclist", "pedestrian"]
    assert [rgb_of(entry["color"]) for entry in described] == CLASS_RGB.tolist()


def test_the_av_is_moved_by_its_transform(recorded):
    content, _ = recorded
    assert values_of(content, "/scene/ego", "Transform3D:translation") == [[[2 * frame, 0, 0]] for frame in range(4)]
    yaws = yaws_of(values_of(content, "/scene/ego", "Transform3D:quaternion"))
    np.testing.assert_allclose(yaws, EGO_YAW, rtol=FLOAT32)
    box = content.static["/scene/ego/box"]
    np.testing.assert_allclose(box["Boxes3D:half_sizes"], [[4.87 / 2, 1.85 / 2, 1.8 / 2]])
    np.testing.assert_allclose(box["Boxes3D:centers"], [[0, 0, 0.9]])
    assert (rgb_of(box["Boxes3D:colors"][0]), box["Boxes3D:labels"]) == (list(EGO_RGB), ["AV"])


def test_boxes_stand_where_the_agents_are_and_leave_with_them(recorded):
    content, _ = recorded
    for agents, (_, _, values) in zip(AGENTS, content.rows["/scene/agents"], strict=True):
        centers_m = np.array(values["Boxes3D:centers"]).reshape(-1, 3)
        np.testing.assert_allclose(centers_m[:, :2] + [7, 1], agents["centroid"], rtol=FLOAT32)
        np.testing.assert_allclose(centers_m[:, 2], agents["extent"][:, 2] / 2)
        np.testing.assert_allclose(np.array(values["Boxes3D:half_sizes"]).reshape(-1, 3), agents["extent"] / 2)
        np.testing.assert_allclose(yaws_of(values["Boxes3D:quaternions"]), agents["yaw"], rtol=FLOAT32)
        assert values["Boxes3D:class_ids"] == agents["label_probabilities"].argmax(axis=1).tolist()
        assert values["track_id"] == agents["track_id"].tolist()
        np.testing.assert_allclose(values["probability"], agents["label_probabilities"].max(axis=1, initial=0))


def test_agents_have_their_facts_and_labels(recorded):
    content, scene = recorded
    labels = values_of(content, "/scene/agents", "Boxes3D:labels")
    assert labels == [["1 car", f"{BIG_TRACK} pedestrian"], ["1 car"], [], ["1 car", "3 cyclist"]]
    assert values_of(content, "/scene/agents", "speed_mps") == [[5, 0], [0], [], [0, 0]]
    is_in_mask = [taken for row in values_of(content, "/scene/agents", "is_in_agents_mask") for taken in row]
    assert is_in_mask == scene.mask.is_in_mask.tolist()


def test_the_mark_on_a_box_leads_to_its_front(recorded):
    content, _ = recorded
    start, end = np.array(values_of(content, "/scene/agents/headings", "LineStrips3D:strips")[0][0])
    np.testing.assert_allclose(start[:2], [3, 1])
    np.testing.assert_allclose(end - start, [2 * np.cos(0.5), 2 * np.sin(0.5), 0], atol=FLOAT32)
    assert start[2] > 1.5


def test_lanes_have_the_colour_of_their_lights(recorded):
    content, _ = recorded
    green, _, red = LIGHT_RGB.tolist()
    path = "/scene/map/lights"
    colors = [[rgb_of(color) for color in row] for row in values_of(content, path, "Mesh3D:vertex_colors")]
    assert colors == [[red] * 5, [], [green] * 10]
    positions_m = values_of(content, path, "Mesh3D:vertex_positions")
    assert [len(row) for row in positions_m] == [5, 0, 10]
    np.testing.assert_allclose(positions_m[0][0], [-27, 1, 0.04], atol=0.02)
    triangles = values_of(content, path, "Mesh3D:triangle_indices")
    assert [len(row) for row in triangles] == [3, 0, 6]
    assert np.unique(triangles[2]).tolist() == list(range(10))
    assert values_of(content, path, "lane_ids") == [["lights"], [], ["lights", "green"]]


def test_the_map_is_static(recorded):
    content, _ = recorded
    lanes = content.static["/scene/map/lanes"]
    assert len(lanes["Mesh3D:vertex_positions"]) == 5 * 5
    assert len(lanes["Mesh3D:triangle_indices"]) == 5 * 3
    boundaries_m = content.static["/scene/map/lane_boundaries"]["LineStrips3D:strips"]
    assert len(boundaries_m) == 2 * 5
    np.testing.assert_allclose(boundaries_m[1], [(-27, -3, 0), (-7, -3, 0), (13, -3, 0)], atol=0.02)
    (near_m,) = content.static["/scene/map/crosswalks"]["LineStrips3D:strips"]
    np.testing.assert_allclose(np.array(near_m)[:, :2], [(-7, -6), (-4, -6), (-4, 4), (-7, -6)], atol=0.02)


def test_trajectories_lead_from_the_past_to_the_future(needs_rerun, case, tmp_path):
    write_rerun(tmp_path / "scene.rrd", *case, form=RecordingForm(ego_trajectory_s=0.2, agent_trajectory_s=0.1))
    content = read_rerun(tmp_path / "scene.rrd")
    ego = [(2.0 * frame, 0.0) for frame in range(4)]
    assert strips_of(content, "/scene/ego_trajectory/past") == [[ego[:1]], [ego[:2]], [ego[:3]], [ego[1:]]]
    assert strips_of(content, "/scene/ego_trajectory/future") == [[ego[:3]], [ego[1:]], [ego[2:]], [ego[3:]]]
    first, second, fourth = (3, 1), (3.5, 1.25), (4.5, 1.75)  # of track 1
    pasts, futures = strips_of(content, "/scene/agents/past"), strips_of(content, "/scene/agents/future")
    assert [row[0] for row in pasts if row] == [[first], [first, second], [fourth]]
    assert [row[0] for row in futures if row] == [[first, second], [second], [fourth]]
    assert [len(row) for row in futures] == [2, 1, 0, 2]


def test_what_is_past_is_dimmer_than_what_is_to_come(recorded):
    content, _ = recorded
    futures = [[rgb_of(c) for c in row] for row in values_of(content, "/scene/agents/future", "LineStrips3D:colors")]
    pasts = [[rgb_of(c) for c in row] for row in values_of(content, "/scene/agents/past", "LineStrips3D:colors")]
    car, pedestrian, cyclist = (CLASS_RGB[index].tolist() for index in (3, 14, 12))
    assert futures == [[car, pedestrian], [car], [], [car, cyclist]]
    assert pasts[0] == [[part // 2 for part in car], [part // 2 for part in pedestrian]]
    ego = [content.static[f"/scene/ego_trajectory/{name}"]["LineStrips3D:colors"] for name in ("past", "future")]
    assert [[rgb_of(color) for color in colors] for colors in ego] == [[[127, 0, 0]], [[255, 0, 0]]]


def test_the_speed_of_the_av_can_be_plotted(recorded):
    content, _ = recorded
    np.testing.assert_allclose(values_of(content, "/state/speed_mps", "Scalars:scalars"), [[20]] * 4)


def test_a_scene_without_a_map_has_no_map_and_no_lights(needs_rerun, case, tmp_path):
    scene, _ = case
    write_rerun(tmp_path / "scene.rrd", scene, None)
    content = read_rerun(tmp_path / "scene.rrd")
    assert content.rows.keys() == set(EVERY_FRAME)
    assert [path for path in content.static if "map" in path] == []


def test_a_layout_goes_with_the_recording(needs_rerun, case, tmp_path):
    from rerun.chunk import RrdReader

    write_rerun(tmp_path / "scene.rrd", *case)
    assert len(RrdReader(tmp_path / "scene.rrd").blueprints()) == 1
    assert len(RrdReader(tmp_path / "scene.rrd").recordings()) == 1


def test_no_recording_of_the_process_is_touched(needs_rerun, case, tmp_path):
    import rerun

    own = rerun.RecordingStream("own", make_default=True)
    try:
        write_rerun(tmp_path / "scene.rrd", *case)
        assert rerun.get_recording_id() == own.get_recording_id()
    finally:
        rerun.set_global_data_recording(None)


def test_progress_counts_the_frames(needs_rerun, case, tmp_path):
    seen = []
    write_rerun(tmp_path / "scene.rrd", *case, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 4)]


def test_a_file_appears_whole_or_not_at_all(needs_rerun, case, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scene.rrd").write_text("older")
    with pytest.raises(KeyboardInterrupt):
        write_rerun(tmp_path / "out" / "scene.rrd", *case, progress=stop)
    assert [(file.name, file.read_text()) for file in (tmp_path / "out").iterdir()] == [("scene.rrd", "older")]


def test_a_missing_folder_is_named(needs_rerun, case, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_rerun(tmp_path / "nowhere" / "scene.rrd", *case)


def test_without_rerun_the_extra_is_named(case, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "l5kit.visualization.recording.rerun_columns", raising=False)
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("rerun"))):
        write_rerun(tmp_path / "scene.rrd", *case)
    assert not (tmp_path / "scene.rrd").exists()


def test_a_process_that_turns_rerun_off_gets_an_error(needs_rerun, case, tmp_path, monkeypatch):
    monkeypatch.setenv("RERUN", "off")
    with pytest.raises(UnsupportedValueError, match="environment variable RERUN"):
        write_rerun(tmp_path / "scene.rrd", *case)
    assert not (tmp_path / "scene.rrd").exists()


def test_times_that_do_not_ascend_are_refused(needs_rerun, case, tmp_path):
    scene, map_api = case
    scene.timestamps_ns[0] = -1
    with pytest.raises(CorruptedDataError, match="frame 0 is at -1 ns, but times must ascend from 0 on"):
        write_rerun(tmp_path / "scene.rrd", scene, map_api)


@pytest.mark.process
def test_importing_the_package_loads_neither_library():
    source = "import sys, l5kit.visualization.recording as r; assert not {'foxglove', 'rerun'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_av_is_as_large_as_its_log_says(needs_rerun, case, tmp_path):
    scene = replace(case[0], facts=LogFacts((8.0, 3.0, 4.0)))
    write_rerun(tmp_path / "scene.rrd", scene, None)
    box = read_rerun(tmp_path / "scene.rrd").static["/scene/ego/box"]
    np.testing.assert_allclose(box["Boxes3D:half_sizes"], [[4, 1.5, 2]])
    np.testing.assert_allclose(box["Boxes3D:centers"], [[0, 0, 2]])


@pytest.mark.slow
def test_the_real_scene_is_recorded_with_a_street_map(needs_rerun, shared_data, tmp_path):
    meta = str(shared_data / "meta.json")
    map_api = MapAPI(
        str(shared_data / "semantic_synth.pb"), load_matrix(load_metadata(meta), "world_to_ecef", path=meta)
    )
    dataset = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    scene = read_scene_content(dataset, 0, map_api=map_api)
    write_rerun(tmp_path / "scene.rrd", scene, map_api)
    assert 1e6 < (tmp_path / "scene.rrd").stat().st_size < 6e6
    content = read_rerun(tmp_path / "scene.rrd")
    rows = content.rows["/scene/agents"]
    assert [time_ns for _, time_ns, _ in rows] == dataset.frames["timestamp"].tolist()
    centers_m = np.array([center for _, _, values in rows for center in values["Boxes3D:centers"]])
    world_m = centers_m[:, :2] + content.static["/__properties/scene"]["origin_world_m"]
    np.testing.assert_allclose(world_m, dataset.agents["centroid"], atol=2e-5)
    assert len(content.static["/scene/map/lane_boundaries"]["LineStrips3D:strips"]) > 400
