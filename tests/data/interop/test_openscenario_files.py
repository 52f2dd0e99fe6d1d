"""Scenes as OpenSCENARIO XML: presence and trajectories of road users, and validity against the schema."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, export_openscenario
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from support.fixture_s import save_fixture_s
from support.maps import make_map


@pytest.fixture
def log(tmp_path):
    save_fixture_s(tmp_path)
    return ChunkedDataset(tmp_path / "fixture_s.zarr").open()


def scenario(path):
    return ElementTree.parse(path).getroot()


def vertices_of(root, name):
    """Times and x, y, heading of the trajectory of an entity."""
    rows = []
    for vertex in root.findall(f".//Trajectory[@name='{name}']/Shape/Polyline/Vertex"):
        position = vertex.find("Position/WorldPosition")
        rows.append([float(vertex.get("time")), *(float(position.get(key)) for key in ("x", "y", "h"))])
    return np.array(rows)


def test_everybody_drives_as_recorded(log, tmp_path):
    files = export_openscenario(log, tmp_path / "out", semantic_map=make_map(tmp_path / "map.pb"))

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["map.xodr", *(file.name for file in files)]
    scenes, frames, agents = log.scenes[:], log.frames[:], log.agents[:]
    for file, scene in zip(files, scenes, strict=True):
        root = scenario(file)
        start, end = scene["frame_index_interval"].tolist()
        ego = vertices_of(root, "ego")
        np.testing.assert_allclose(ego[:, 1:3], frames[start:end]["ego_translation"][:, :2], atol=1e-4)
        times_s = (frames[start:end]["timestamp"] - frames[start]["timestamp"]) / 1e9
        np.testing.assert_allclose(ego[:, 0], times_s, atol=1e-4)
        rows = slice(frames[start]["agent_index_interval"][0], frames[end - 1]["agent_index_interval"][1])
        tracks = set(agents[rows]["track_id"].tolist())
        names = {each.get("name") for each in root.findall("Entities/ScenarioObject")}
        assert names == {"ego", *(f"agent-{track}" for track in tracks)}
        for track in tracks:
            own = agents[rows][agents[rows]["track_id"] == track]
            trajectory = vertices_of(root, f"agent-{track}")
            if len(own) > 1:
                np.testing.assert_allclose(trajectory[:, 1:3], own["centroid"], atol=1e-4)
                np.testing.assert_allclose(trajectory[:, 3], own["yaw"], atol=1e-5)
            size = root.find(f"Entities/ScenarioObject[@name='agent-{track}']//Dimensions")
            assert float(size.get("length")) == pytest.approx(float(own["extent"][0, 0]), abs=1e-3)
        assert root.find("RoadNetwork/LogicFile").get("filepath") == "map.xodr"


def test_who_comes_later_is_added_and_who_goes_is_deleted(log, tmp_path):
    (file,) = export_openscenario(log, tmp_path / "out", semantic_map=None, scenes=[0])

    root = scenario(file)
    started = {each.get("entityRef") for each in root.findall("Storyboard/Init/Actions/Private")}
    added = {each.get("entityRef") for each in root.iter("EntityAction") if each.find("AddEntityAction") is not None}
    everybody = {each.get("name") for each in root.findall("Entities/ScenarioObject")}
    assert "ego" in started
    assert started | added == everybody
    assert not started & added
    assert root.find("RoadNetwork/LogicFile") is None
    leaving = root.findall(".//Event[@name='leaves']")
    # agents of the last frame stay
    assert [event.find(".//EntityAction").get("entityRef") for event in leaving] == ["agent-2"]
    for event in leaving:
        name = event.find(".//EntityAction").get("entityRef")
        left_s = float(event.find(".//SimulationTimeCondition").get("value"))
        trajectory = vertices_of(root, name)
        if len(trajectory):
            assert left_s == pytest.approx(trajectory[-1, 0], abs=1e-4)


def test_scenes_count_from_the_end_and_those_without_frames_are_left_out(log, tmp_path):
    scenes = log.scenes[:]
    empty = scenes[:1].copy()
    empty["frame_index_interval"] = 0
    longer = ChunkedDataset.in_memory(
        scenes=np.concatenate([empty, scenes]), frames=log.frames[:], agents=log.agents[:], tl_faces=log.tl_faces[:]
    )

    (whole,) = export_openscenario(log, tmp_path / "out", semantic_map=None, scenes=[-1])
    files = export_openscenario(longer, tmp_path / "longer", semantic_map=None, scenes=[0, len(scenes)])

    assert whole.name == f"scene-{len(scenes) - 1:06}.xosc"
    assert [file.name for file in files] == [f"scene-{len(scenes):06}.xosc"]
    assert files[0].read_text() == whole.read_text()
    with pytest.raises(IndexOutOfRangeError, match=f"scenes names scene {len(scenes)}"):
        export_openscenario(log, tmp_path / "none", semantic_map=None, scenes=[len(scenes)])
    assert not (tmp_path / "none").exists()


def test_an_export_replaces_exports_only(log, tmp_path):
    out = tmp_path / "out"
    export_openscenario(log, out, semantic_map=None, scenes=[0])
    with pytest.raises(FileExistsError, match="overwrite=True"):
        export_openscenario(log, out, semantic_map=None, scenes=[0])
    export_openscenario(log, out, semantic_map=None, scenes=[0], overwrite=True)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"mine\.txt"):
        export_openscenario(log, out, semantic_map=None, scenes=[0], overwrite=True)


def test_the_schema_accepts_the_scenes(log, tmp_path):
    """The schema of OpenSCENARIO 1.2, as scenariogeneration brings it, has no complaint."""
    etree = pytest.importorskip("lxml.etree", reason="lxml is not installed (dependency group dev)")
    package = pytest.importorskip(
        "scenariogeneration", reason="scenariogeneration is not installed (dependency group dev)"
    )
    schemas = Path(package.__file__).resolve().parents[1] / "schemas"
    schema = etree.XMLSchema(etree.parse(str(schemas / "OpenSCENARIO_1_2.xsd")))

    for file in export_openscenario(log, tmp_path / "out", semantic_map=None):
        assert schema.validate(etree.parse(str(file))), list(schema.error_log)[:3]
