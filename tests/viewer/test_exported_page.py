"""A scene as one file: complete or not there, without the network, small, and the same each time."""

import base64
import gzip
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.errors import CorruptedDataError, IndexOutOfRangeError
from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.viewer import exported_page
from l5kit.visualization.viewer.content_bytes import lane_bytes, map_bytes, scene_bytes
from l5kit.visualization.viewer.exported_page import MAP_RADIUS_M, write_exported_page
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.logs import make_agent, make_agents, make_scene, write_with_chunks

MAX_BYTES = 5_000_000


@pytest.fixture(scope="module")
def log(city_files):
    return ViewedLog(city_files)


@pytest.fixture
def content_of(read_page):
    """Read what an exported file holds for the scripts."""

    def read(path):
        page = read_page(path.read_bytes().decode("utf-8"))
        (text,) = [text for attributes, text in page.scripts() if attributes.get("id") == "l5kit-export"]
        return json.loads(text)

    return read


def unzipped(text):
    return gzip.decompress(base64.b64decode(text, validate=True))


@pytest.mark.parametrize("scene_index", range(3))
def test_the_file_holds_the_scene_and_the_map_around_it(tmp_path, log, city_map, unpack, content_of, scene_index):
    write_exported_page(tmp_path / "a.html", log, scene_index)
    content, scene = content_of(tmp_path / "a.html"), log.scene(scene_index)
    shapes, lanes = read_map_shapes(city_map.arrays).near(scene.ego_positions_m[:, :2], MAP_RADIUS_M)
    assert content["scene_index"] == scene_index
    assert unzipped(content["scene"]) == scene_bytes(scene, lane_indices=lanes)
    assert unzipped(content["map"]) == map_bytes(shapes)
    assert unzipped(content["lanes"]) == lane_bytes(city_map.arrays, city_map.network, lane_indices=lanes)
    assert unpack(unzipped(content["scene"])).facts["scene_index"] == scene_index


def test_lights_shine_on_the_same_lanes_as_on_the_server(tmp_path, log, unpack, content_of):
    """Lanes are identified by their first point, in world metres, since the two maps index them differently."""

    def lit_places(scene, shapes):
        origin_m, lanes = np.array(shapes.facts["origin_m"]), scene.arrays["light_lanes"]
        first_points = shapes.arrays["lane_starts"][:-1][lanes]
        return np.round(shapes.arrays["lane_xy"][first_points] + origin_m, 2).tolist()

    num_left_out = 0
    for scene_index in range(3):
        write_exported_page(tmp_path / "a.html", log, scene_index)
        content = content_of(tmp_path / "a.html")
        part, part_map = unpack(unzipped(content["scene"])), unpack(unzipped(content["map"]))
        whole, whole_map = unpack(log.scene_bytes(scene_index)), unpack(log.map_bytes)
        in_part, in_whole = lit_places(part, part_map), lit_places(whole, whole_map)
        assert set(map(tuple, in_part)) <= set(map(tuple, in_whole))
        num_left_out += whole_map.facts["num_lanes"] - part_map.facts["num_lanes"]
    assert num_left_out > 0, "the case must leave lanes out"


def test_the_table_has_one_row_and_the_facts_name_no_folder(tmp_path, log, city_files, content_of):
    write_exported_page(tmp_path / "a.html", log, 1)
    content = content_of(tmp_path / "a.html")
    columns = log.scene_columns
    assert content["scenes"].pop("error") == content["scenes"].pop("doubt") == {}
    assert content["scenes"] == {name: [columns[name][1]] for name in content["scenes"]}
    assert content["dataset"] == {name: value for name, value in log.facts().items() if name != "path"}


def test_a_scene_with_impossible_positions_is_told_to_be_damaged(tmp_path, content_of):
    scenes = [make_scene([make_agents(make_agent(1, (k, 4))) for k in range(9)]) for _ in range(2)]
    scenes[1].frames["ego_translation"][4, 0] = 1.2e307
    ChunkedDataset.concatenate(scenes).save(tmp_path / "a.zarr")
    log = ViewedLog(find_dataset_files(tmp_path / "a.zarr"))
    for scene_index, num_notes in enumerate([0, 1]):
        write_exported_page(tmp_path / "a.html", log, scene_index)
        content = content_of(tmp_path / "a.html")
        assert len(content["dataset"]["notes"]) == num_notes
        assert (content["scenes"]["distance_m"][0] is None) == bool(num_notes)
    assert content["dataset"]["notes"][0].startswith("Scene 1 is damaged: ego_translation of frame 4 is not finite, or")


def test_no_folder_of_this_machine_is_handed_on(tmp_path, city_files):
    """Notes of a dataset name where its parts were looked for."""
    notes = (f"no semantic map found in or near {city_files.dataset}",)
    log = ViewedLog(replace(city_files, semantic_map=None, notes=notes))
    write_exported_page(tmp_path / "a.html", log, 0)
    text = (tmp_path / "a.html").read_text("utf-8")
    assert str(city_files.dataset.parent) not in text
    assert str(tmp_path) not in text
    assert "sample.zarr" in text


def test_the_file_loads_nothing(tmp_path, log, read_page):
    write_exported_page(tmp_path / "a.html", log, 0)
    html = (tmp_path / "a.html").read_text("utf-8")
    page = read_page(html)
    loading = {"src", "srcset", "href", "xlink:href", "data", "action", "formaction", "poster", "background", "ping"}
    for tag, attributes in page.tags:
        for name in loading & attributes.keys():
            assert attributes[name].startswith(("data:", "#")), (tag, name, attributes[name])
        assert not re.search(r"url\(\s*['\"]?(?!#|data:)", attributes.get("style") or ""), tag
        assert tag not in {"iframe", "object", "embed", "base", "frame"}
        assert tag != "meta" or attributes.get("http-equiv", "").lower() != "refresh"
    assert all(address.startswith("data:text/javascript;base64,") for address in page.import_map().values())
    for style in re.findall(r"<style.*?>(.*?)</style>", html, re.DOTALL):
        assert not re.search(r"url\(\s*['\"]?(?!#|data:)|@import", style)
    outside = re.sub(r"<script type=\"(importmap|application/json)\".*?</script>", "", html, flags=re.DOTALL)
    assert re.findall(r"\bhttps?://(?!www\.w3\.org/)[^\s\"'<]*", outside) == []


def test_equal_scenes_give_equal_bytes_at_any_time(tmp_path, log, city_files, monkeypatch):
    write_exported_page(tmp_path / "a.html", log, 0)
    later = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: later)
    write_exported_page(tmp_path / "b.html", ViewedLog(city_files), 0)
    write_exported_page(tmp_path / "c.html", log, 1)
    first = (tmp_path / "a.html").read_bytes()
    assert (tmp_path / "b.html").read_bytes() == first
    assert (tmp_path / "c.html").read_bytes() != first


# Complete or not at all


def failing(*arguments, **options):
    raise OSError("the disk is full")


def half_written(path, content):
    with path.open("wb") as file:
        file.write(content[:1000])
    failing()


@pytest.mark.parametrize("has_older", [True, False], ids=["an older file", "no file"])
@pytest.mark.parametrize(
    ("target", "name", "replacement"),
    [(exported_page, "map_bytes", failing), (Path, "write_bytes", half_written)],
    ids=["before writing", "in the middle"],
)
def test_an_error_leaves_what_was_there(tmp_path, log, monkeypatch, target, name, replacement, has_older):
    if has_older:
        (tmp_path / "a.html").write_text("older")
    monkeypatch.setattr(target, name, replacement)
    with pytest.raises(OSError, match="the disk is full"):
        write_exported_page(tmp_path / "a.html", log, 0)
    assert [path.name for path in tmp_path.iterdir()] == (["a.html"] if has_older else [])
    assert not has_older or (tmp_path / "a.html").read_bytes() == b"older"


@pytest.mark.parametrize("scene_index", [3, -1, 10**18])
def test_a_scene_that_is_not_there_is_an_error(tmp_path, log, scene_index):
    with pytest.raises(IndexOutOfRangeError, match="the dataset has the scenes 0 to 2"):
        write_exported_page(tmp_path / "a.html", log, scene_index)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named_first(tmp_path, log, monkeypatch):
    monkeypatch.setattr(log, "scene", failing)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_exported_page(tmp_path / "nowhere" / "a.html", log, 0)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_exported_page(tmp_path, log, 0)


def test_a_damaged_scene_is_an_error_and_leaves_the_others(tmp_path, city_log, content_of):
    lengths = {"scenes": 10, "frames": 50, "agents": 20_000, "traffic_light_faces": 1000}
    path = Path(write_with_chunks(city_log, tmp_path / "a.zarr", chunk_lengths=lengths))
    (path / "frames" / "3").unlink()
    log = ViewedLog(find_dataset_files(path))
    with pytest.raises(CorruptedDataError, match=r"a\.zarr/frames/3 is missing"):
        write_exported_page(tmp_path / "a.html", log, 1)
    assert not (tmp_path / "a.html").exists()
    write_exported_page(tmp_path / "a.html", log, 2)
    assert content_of(tmp_path / "a.html")["scenes"]["error"] == {}


# Odd datasets


def as_log(dataset, path):
    write_with_chunks(
        dataset, path, chunk_lengths=dict.fromkeys(["scenes", "frames", "traffic_light_faces"], 9) | {"agents": 999}
    )
    return ViewedLog(find_dataset_files(path))


def test_a_scene_without_map_and_of_one_frame(tmp_path, unpack, content_of):
    write_exported_page(tmp_path / "a.html", as_log(make_scene([make_agents()]), tmp_path / "a.zarr"), 0)
    content = content_of(tmp_path / "a.html")
    assert content["map"] is content["lanes"] is None
    assert content["dataset"]["has_map"] is False
    assert unpack(unzipped(content["scene"])).facts["num_frames"] == 1


def test_positions_that_are_not_finite_are_handed_on(tmp_path, unpack, content_of, city_files):
    made = make_scene([make_agents(make_agent(1, (np.nan, np.inf)), make_agent(2, (1, 2)))] * 3)
    made.frames["ego_translation"][1] = np.nan
    write_with_chunks(made, tmp_path / "a.zarr")
    files = replace(city_files, dataset=tmp_path / "a.zarr")
    write_exported_page(tmp_path / "a.html", ViewedLog(files), 0)
    content = content_of(tmp_path / "a.html")
    scene = unpack(unzipped(content["scene"]))
    assert content["scenes"]["distance_m"] == [None]
    assert (scene.arrays["agent_xy"][1] + scene.facts["origin_m"]).tolist() == [1, 2]
    assert np.isnan(scene.arrays["agent_xy"][0, 0])


TEXTS = ["</script><b>", "<!--<script>", "\"'&", "a\u2028b\u2029", "\udcffx", "\U0001f697", "<!-- l5kit:data -->"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts_of_the_dataset_stay_texts(tmp_path, read_page, content_of, unpack, log, text):
    """As the name of a car, and as the name of the dataset."""
    made = make_scene([make_agents()])
    made.scenes["host"] = text[:16]
    name = f"{text.replace('/', '')}.zarr"
    try:
        write_exported_page(tmp_path / "a.html", as_log(made, tmp_path / name), 0)
    except OSError:
        pytest.skip("the file system does not take this name")
    content = content_of(tmp_path / "a.html")
    assert content["dataset"]["name"] == name
    shown = text[:16].replace("\udcff", "\ufffd")
    assert content["scenes"]["host"] == [shown]
    assert unpack(unzipped(content["scene"])).facts["host"] == shown
    write_exported_page(tmp_path / "plain.html", log, 0)
    hostile, plain = (read_page((tmp_path / file).read_text("utf-8")) for file in ("a.html", "plain.html"))
    assert hostile.tags == plain.tags


# Size


def test_a_long_and_full_scene_is_small(tmp_path, city_files, city_log):
    """248 frames of 90 agents whose numbers are noise, so that nothing helps to compress them."""
    rng = np.random.default_rng(1)
    agents = np.zeros(248 * 90, city_log.agents.dtype)
    middle_m = city_log.frames[0]["ego_translation"][:2]
    agents["centroid"] = middle_m + rng.uniform(-60, 60, (len(agents), 2))
    agents["yaw"] = rng.uniform(-np.pi, np.pi, len(agents))
    agents["extent"] = rng.uniform(1, 6, (len(agents), 3))
    agents["velocity"] = rng.normal(0, 5, (len(agents), 2))
    agents["track_id"] = np.tile(np.arange(90), 248)
    agents["label_probabilities"][:, 3] = rng.uniform(0.4, 1, len(agents))
    agents["label_probabilities"][:, 1] = 1 - agents["label_probabilities"][:, 3]
    made = make_scene([agents[90 * k : 90 * k + 90] for k in range(248)], positions_m=np.tile(middle_m, (248, 1)))
    write_with_chunks(
        made,
        tmp_path / "a.zarr",
        chunk_lengths=dict.fromkeys(["scenes", "frames", "agents", "traffic_light_faces"], 9999),
    )
    write_exported_page(tmp_path / "a.html", ViewedLog(replace(city_files, dataset=tmp_path / "a.zarr")), 0)
    assert 300_000 < (tmp_path / "a.html").stat().st_size <= MAX_BYTES


@pytest.mark.parametrize("name", ["semantic_map.pb", "semantic_synth.pb"])
def test_the_real_scene_is_small(tmp_path, shared_data, unpack, content_of, name):
    files = find_dataset_files(
        shared_data / "single_scene.zarr",
        map_path=shared_data / name,
        meta_path=shared_data / "meta.json",
        aerial_path=shared_data / "aerial_map.png",
    )
    write_exported_page(tmp_path / "a.html", ViewedLog(files), 0)
    assert (tmp_path / "a.html").stat().st_size <= MAX_BYTES
    scene = unpack(unzipped(content_of(tmp_path / "a.html")["scene"]))
    truth = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    assert scene.facts["num_frames"] == 248
    positions_m = scene.arrays["agent_xy"] + scene.facts["origin_m"]
    assert np.abs(positions_m - truth.agents["centroid"]).max() < 1e-3
