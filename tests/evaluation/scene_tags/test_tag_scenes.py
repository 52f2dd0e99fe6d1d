"""Tags of a synthetic city, compared with its map and records, and of damaged scenes."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.map.opened import open_map
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.scene_tags import TAG_KINDS, SceneTags, TagThresholds, tag_scenes
from l5kit.synthetic import make_city

NUM_SCENES = 6


@pytest.fixture(scope="module")
def log_and_map(tmp_path_factory):
    """A town of nine intersections, some of them with lights."""
    city = make_city(
        tmp_path_factory.mktemp("tags") / "city", seed=11, num_scenes=NUM_SCENES, num_frames=200, town_size=300.0
    )
    files = find_dataset_files(city.path)
    return ChunkedDataset(files.dataset).open(), open_map(files)


@pytest.fixture(scope="module")
def tags(log_and_map):
    return tag_scenes(*log_and_map)


def test_stops_at_red_beside_the_map_and_the_faces_of_the_log(log_and_map, tags):
    """The lane nearest to the AV, or one ahead of it, is red while the AV stops, and the AV does not move."""
    log, map_api = log_and_map
    num_frames = 0
    for scene in range(NUM_SCENES):
        part = log.get_scene_dataset(scene)
        frames, faces = part.frames[:], part.tl_faces[:]
        for begin, end in tags.frames_of(scene, "stop_at_red"):
            way_m = frames["ego_translation"][begin:end, :2]
            assert np.linalg.norm(way_m - way_m[0], axis=1).max() < 2.0
            for frame in range(begin, end, 5):
                lane, _ = map_api.get_nearest_lane(frames["ego_translation"][frame, :2])
                shown = faces[slice(*frames["traffic_light_faces_index_interval"][frame])]
                lanes = {lane, *map_api.get_lanes_ahead(lane)}
                assert "RED" in {map_api.get_lane_tl_state(name, shown) for name in lanes}
                num_frames += 1
    assert num_frames >= 5


def test_turns_beside_the_headings_of_the_log(log_and_map, tags):
    log, _ = log_and_map
    for scene in range(NUM_SCENES):
        rotations = log.get_scene_dataset(scene).frames[:]["ego_rotation"]
        yaws = np.unwrap(np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]))
        turned_deg = np.degrees(yaws[-1] - yaws[0])
        # in this town roads are straight, and no vehicle reverses a turn
        assert tags.has("left_turn")[scene] == (turned_deg > 60)
        assert tags.has("right_turn")[scene] == (turned_deg < -60)
    assert tags.has("left_turn").any() or tags.has("right_turn").any()


def test_without_a_map_the_tags_that_need_none_are_the_same(log_and_map, tags):
    alone = tag_scenes(log_and_map[0], scenes=[2, 0], workers=2)
    assert alone.scenes.tolist() == [2, 0]
    for column, kind in enumerate(TAG_KINDS):
        assert_array_equal(alone.is_known[:, column], not kind.needs_map)
        for row, scene in enumerate([2, 0]):
            expected = np.zeros((0, 2)) if kind.needs_map else tags.frames_of(scene, kind.name)
            assert_array_equal(alone.frames_of(row, kind.name), expected)
    assert alone.as_json()["unknown"]["2"] == ["stop_at_red", "lane_change", "unprotected_crossing"]


def test_damaged_and_empty_scenes_have_an_empty_row_and_an_error(log_and_map, tags):
    log, map_api = log_and_map
    scenes, frames, agents = (getattr(log, name)[:] for name in ("scenes", "frames", "agents"))
    first = int(scenes["frame_index_interval"][1, 0])
    frames["ego_translation"][first + 5] = np.nan
    scenes["frame_index_interval"][5, 0] = scenes["frame_index_interval"][5, 1]
    damaged = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=log.tl_faces[:])
    calls = []
    found = tag_scenes(damaged, map_api, progress=lambda *call: calls.append(call))
    assert found.errors == {1: "frame 5: the pose of the AV is not finite in the log", 5: "scene 5 has no frame"}
    assert calls[-1] == (NUM_SCENES, NUM_SCENES)
    assert not found.is_known[[1, 5]].any()
    assert found.counts[[1, 5]].sum() == 0
    assert_array_equal(found.counts[[0, 2, 3, 4]], tags.counts[[0, 2, 3, 4]])


def test_the_table_as_json(tags):
    content = json.loads(json.dumps(tags.as_json(), allow_nan=False))
    assert [tag["name"] for tag in content["tags"]] == list(tags.names)
    for scene in range(NUM_SCENES):
        events = content["scenes"][str(scene)]
        assert events == {name: tags.frames_of(scene, name).tolist() for name in tags.names if tags.has(name)[scene]}
    assert content["unknown"] == content["error"] == {}


def test_thresholds_change_what_is_found(log_and_map, tags):
    log, map_api = log_and_map
    long = tag_scenes(log, map_api, thresholds=TagThresholds(standing_s=1e3))
    assert not long.has("standing").any()
    assert not long.has("stop_at_red").any()
    assert tags.has("standing").any()


def test_an_unknown_tag_is_refused(tags):
    with pytest.raises(InvalidArgumentError, match="there is no tag 'cutin'; there are left_turn, right_turn,"):
        tags.has("cutin")


def test_rows_of_a_table():
    rows = [
        {"cut_in": np.array([[3, 4], [9, 12]])},
        {},
        {"standing": np.array([[0, 30]]), "cut_in": np.zeros((0, 2), int)},
    ]
    table = SceneTags.of_rows([4, 5, 6], rows, {5: "broken"})
    assert table.counts[:, table.names.index("cut_in")].tolist() == [2, 0, 0]
    assert table.frames_of(2, "standing").tolist() == [[0, 30]]
    assert table.is_known.sum(axis=1).tolist() == [1, 0, 2]


def test_no_scenes(log_and_map):
    assert len(tag_scenes(log_and_map[0], scenes=[])) == 0
    assert isinstance(log_and_map[1], MapAPI)
