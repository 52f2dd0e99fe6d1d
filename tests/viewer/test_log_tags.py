"""Tags of scenes for the page: computed in the background, cached, and sent as far as known."""

import json
import os
from concurrent.futures import Executor, Future

import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.map.opened import open_maps
from l5kit.data.user_cache import cache_folder
from l5kit.errors import L5KitError
from l5kit.evaluation.scene_tags import TAG_KINDS, tag_scenes
from l5kit.visualization.viewer import log_tags
from l5kit.visualization.viewer.log_tags import LogTags
from support.cities import NUM_SCENES


@pytest.fixture
def city_dataset(city_copy):
    return ChunkedDataset(city_copy / "scenes" / "sample.zarr").open()


@pytest.fixture(scope="module")
def city_maps(city_files):
    return open_maps(city_files)


def nothing():
    """Do nothing."""


def found_of(tags):
    tags.find()
    return tags.since(0)


def test_the_tags_of_the_page_are_those_of_the_log(city_dataset, city_map, city_maps):
    tags, page = tag_scenes(city_dataset, city_map), found_of(LogTags(city_dataset, city_maps, nothing))
    assert (page["done"], page["error"]) == (NUM_SCENES, "")
    assert [tag["name"] for tag in page["tags"]] == [kind.name for kind in TAG_KINDS]
    assert page["scenes"] == {number: events for number, events in tags.as_json()["scenes"].items() if events}
    assert page["scenes"]


def test_the_tags_of_one_scene_are_those_of_all(city_dataset, city_maps):
    tags = LogTags(city_dataset, city_maps, nothing)
    alone = [tags.of_scene(scene)["scenes"] for scene in range(NUM_SCENES)]
    assert {number: events for scene in alone for number, events in scene.items()} == found_of(tags)["scenes"]


def test_tags_that_were_told_are_not_told_again(city_dataset, city_maps):
    tags = LogTags(city_dataset, city_maps, nothing)
    everything = found_of(tags)
    rest = tags.since(1)
    assert rest["done"] == NUM_SCENES
    assert rest["scenes"] == {number: events for number, events in everything["scenes"].items() if number != "0"}
    assert tags.since(NUM_SCENES + 7)["scenes"] == {}


def test_without_a_map_it_says_which_tags_are_not_known(city_dataset):
    known = {tag["name"]: tag["is_known"] for tag in LogTags(city_dataset, None, nothing).since(0)["tags"]}
    assert known == {kind.name: not kind.needs_map for kind in TAG_KINDS}


def test_tags_are_kept_until_log_or_map_change(city_dataset, city_maps, monkeypatch):
    first = found_of(LogTags(city_dataset, city_maps, nothing))
    (file,) = (cache_folder() / "scene_tags").iterdir()
    calls = []
    monkeypatch.setattr(log_tags, "tag_scenes", lambda *place, **how: calls.append(how) or tag_scenes(*place, **how))
    assert found_of(LogTags(city_dataset, city_maps, nothing)) == first
    assert calls == []
    file.write_text(json.dumps([{}]))  # of another number of scenes
    assert found_of(LogTags(city_dataset, city_maps, nothing)) == first
    assert len(calls) == NUM_SCENES
    assert json.loads(file.read_text()) != [{}]
    found_of(LogTags(city_dataset, None, nothing))
    touched = city_dataset.path + "/agents/.zarray"
    os.utime(touched, ns=(1, 1))
    found_of(LogTags(ChunkedDataset(city_dataset.path).open(), city_maps, nothing))
    assert len(calls) == 3 * NUM_SCENES


def test_tags_of_damaged_logs_are_not_kept(city_dataset, city_maps):
    frames = city_dataset.frames[:]
    frames["ego_translation"][3] = float("nan")
    damaged = ChunkedDataset.in_memory(
        scenes=city_dataset.scenes[:], frames=frames, agents=city_dataset.agents[:], tl_faces=city_dataset.tl_faces[:]
    )
    damaged.fingerprint = city_dataset.fingerprint
    whole, page = found_of(LogTags(city_dataset, city_maps, nothing)), None
    for path in (cache_folder() / "scene_tags").iterdir():
        path.unlink()
    page = found_of(LogTags(damaged, city_maps, nothing))
    assert page["scenes"] == {number: events for number, events in whole["scenes"].items() if number != "0"}
    assert page["done"] == NUM_SCENES
    assert list((cache_folder() / "scene_tags").iterdir()) == []


def test_closing_the_viewer_ends_the_work(city_dataset, city_maps):
    calls = []

    def require_open():
        calls.append(1)
        if len(calls) == 3:
            raise L5KitError("the viewer has been closed")

    page = found_of(LogTags(city_dataset, city_maps, require_open))
    assert (page["done"], page["error"]) == (1, "the viewer has been closed")


class Threads(Executor):
    """Counts what it is handed over."""

    def __init__(self):
        self.calls = []

    def submit(self, function):
        self.calls.append(function)
        return Future()


def test_the_work_is_begun_once(city_dataset):
    tags, threads = LogTags(city_dataset, None, nothing), Threads()
    tags.begin(threads)
    tags.begin(threads)
    assert threads.calls == [tags.find]
