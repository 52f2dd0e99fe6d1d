"""MCAP files, read back with the library of the format and the schemas in the file."""

import re
import sys

import numpy as np
import pytest

from support.tolerances import FLOAT32, FLOAT64, FLOAT64_LONG, NETWORK

pytest.importorskip("torch", reason="scenes are read with the rules of the datasets, which need torch")

from l5kit.configs.config import load_matrix, load_metadata
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.errors import CorruptedDataError, MissingDependencyError, install_command
from l5kit.visualization.recording import RecordingForm, write_mcap
from l5kit.visualization.recording.colors import CLASS_RGB, LIGHT_RGB
from l5kit.visualization.recording.nearby_map import light_changes
from l5kit.visualization.scene_content import read_scene_content
from support.recordings import AGENTS, BIG_TRACK, EGO_YAW, START_NS, entities_after, read_case, read_mcap, yaw_of

SCENE_TOPICS = ("/ego", "/ego/trajectory", "/agents", "/agents/labels", "/agents/trajectories")
EVERY_FRAME = ("/tf", "/ego/state", *SCENE_TOPICS)
TIMES_NS = [START_NS + 100_000_000 * frame for frame in range(4)]


@pytest.fixture
def needs_foxglove():
    pytest.importorskip("foxglove")
    pytest.importorskip("mcap")


@pytest.fixture
def case(tmp_path):
    return read_case(tmp_path / "map.pb")


@pytest.fixture
def recorded(needs_foxglove, case, tmp_path):
    """Messages of the tiny scene, and the scene."""
    scene, map_api = case
    write_mcap(tmp_path / "scene.mcap", scene, map_api)
    return read_mcap(tmp_path / "scene.mcap"), scene


def of_topic(messages, topic):
    return [message for message in messages if message.topic == topic]


def rgb_of(color):
    return [round(255 * part) for part in (color.r, color.g, color.b)]


def xy_of(points):
    return [(point.x, point.y) for point in points]


def test_each_topic_has_its_messages_at_the_times_of_the_frames(recorded):
    messages, _ = recorded
    assert {message.topic for message in messages} == {*EVERY_FRAME, "/tf_static", "/map", "/lights"}
    for topic in EVERY_FRAME:
        assert [message.time_ns for message in of_topic(messages, topic)] == TIMES_NS
    for topic in ("/tf_static", "/map"):
        assert [message.time_ns for message in of_topic(messages, topic)] == TIMES_NS[:1]
    assert [message.time_ns for message in of_topic(messages, "/lights")] == [TIMES_NS[frame] for frame in (0, 2, 3)]
    times_ns = [message.time_ns for message in messages]
    assert times_ns == sorted(times_ns)


def test_every_entity_is_in_the_frame_of_the_scene_at_its_time(recorded):
    messages, _ = recorded
    entities = [
        (message.time_ns, entity)
        for message in messages
        if message.topic in (*SCENE_TOPICS, "/map", "/lights")
        for entity in message.content.entities
    ]
    assert len(entities) > 20
    for time_ns, entity in entities:
        assert entity.frame_id == "scene"
        assert entity.timestamp.ToNanoseconds() == time_ns


def test_the_file_is_compressed_and_indexed_and_says_what_it_holds(needs_foxglove, case, tmp_path):
    from mcap.reader import make_reader

    write_mcap(tmp_path / "scene.mcap", *case)
    with open(tmp_path / "scene.mcap", "rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        metadata = {record.name: record.metadata for record in reader.iter_metadata()}
    assert {chunk.compression for chunk in summary.chunk_indexes} == {"zstd"}
    assert all(chunk.message_index_offsets for chunk in summary.chunk_indexes)
    assert summary.statistics.message_count == 5 + 4 * len(EVERY_FRAME)
    assert {schema.name for schema in summary.schemas.values()} == {
        "foxglove.SceneUpdate",
        "foxglove.FrameTransform",
        "l5kit.EgoState",
    }
    assert metadata["l5kit.classes"] == {str(index): label for index, label in enumerate(PERCEPTION_LABELS)}
    assert metadata["l5kit.scene"] == {
        "scene_index": "0",
        "host": "host-a",
        "num_frames": "4",
        "origin_world_x_m": "7.0",
        "origin_world_y_m": "1.0",
    }


def test_the_transforms_lead_from_the_world_to_the_av(recorded):
    messages, _ = recorded
    (to_scene,) = (message.content for message in of_topic(messages, "/tf_static"))
    assert (to_scene.parent_frame_id, to_scene.child_frame_id) == ("world", "scene")
    assert (to_scene.translation.x, to_scene.translation.y, to_scene.translation.z) == (7, 1, 0)
    assert yaw_of(to_scene.rotation) == 0
    for frame, message in enumerate(of_topic(messages, "/tf")):
        transform = message.content
        assert (transform.parent_frame_id, transform.child_frame_id) == ("scene", "ego")
        assert (transform.translation.x, transform.translation.y, transform.translation.z) == (2 * frame, 0, 0)
        assert yaw_of(transform.rotation) == pytest.approx(EGO_YAW)


def test_boxes_stand_where_the_agents_are(recorded):
    messages, _ = recorded
    for agents, message in zip(AGENTS, of_topic(messages, "/agents"), strict=True):
        assert [entity.id for entity in message.content.entities] == [str(track) for track in agents["track_id"]]
        for agent, entity in zip(agents, message.content.entities, strict=True):
            (cube,) = entity.cubes
            np.testing.assert_allclose(
                [cube.pose.position.x + 7, cube.pose.position.y + 1], agent["centroid"], atol=FLOAT64
            )
            assert cube.pose.position.z == pytest.approx(agent["extent"][2] / 2)
            assert yaw_of(cube.pose.orientation) == pytest.approx(float(agent["yaw"]))
            np.testing.assert_array_equal([cube.size.x, cube.size.y, cube.size.z], agent["extent"])
            assert rgb_of(cube.color) == CLASS_RGB[agent["label_probabilities"].argmax()].tolist()


def test_the_mark_on_a_box_leads_to_its_front(recorded):
    messages, _ = recorded
    (mark,) = of_topic(messages, "/agents")[0].content.entities[0].lines
    (start, end) = mark.points
    np.testing.assert_allclose([start.x + 7, start.y + 1], [10, 2], atol=FLOAT64)
    np.testing.assert_allclose([end.x - start.x, end.y - start.y], [2 * np.cos(0.5), 2 * np.sin(0.5)], atol=FLOAT32)
    assert start.z == end.z > 1.5


def test_agents_have_their_facts_and_labels(recorded):
    messages, scene = recorded
    entities = of_topic(messages, "/agents")[0].content.entities
    facts = [{pair.key: pair.value for pair in entity.metadata} for entity in entities]
    reasons = [scene.mask.reasons[index] for index in scene.mask.reason_indices[:2]]
    assert facts == [
        {
            "track_id": "1",
            "label": "PERCEPTION_LABEL_CAR",
            "probability": "1.00",
            "speed_mps": "5.00",
            "agents_mask": reasons[0],
        },
        {
            "track_id": str(BIG_TRACK),
            "label": "PERCEPTION_LABEL_PEDESTRIAN",
            "probability": "0.90",
            "speed_mps": "0.00",
            "agents_mask": reasons[1],
        },
    ]
    texts = [[text.text for text in m.content.entities[0].texts] for m in of_topic(messages, "/agents/labels")]
    assert texts == [["1 car", f"{BIG_TRACK} pedestrian"], ["1 car"], [], ["1 car", "3 cyclist"]]


def test_agents_that_leave_are_deleted(recorded):
    messages, _ = recorded
    gone = [[deletion.id for deletion in message.content.deletions] for message in of_topic(messages, "/agents")]
    assert gone == [[], [str(BIG_TRACK)], ["1"], []]


@pytest.mark.parametrize("topic", ["/agents", "/lights"])
def test_a_jump_to_a_frame_shows_what_playing_up_to_it_shows(recorded, topic):
    messages, _ = recorded
    for time_ns in TIMES_NS:
        last = [message for message in of_topic(messages, topic) if message.time_ns <= time_ns][-1]
        played = entities_after(messages, topic, time_ns)
        assert played == {entity.id: entity for entity in last.content.entities}


def test_lanes_have_the_colour_of_their_lights(recorded):
    messages, _ = recorded
    green, _, red = LIGHT_RGB.tolist()
    shown = [
        {name: rgb_of(entity.triangles[0].color) for name, entity in entities_after(messages, "/lights", time).items()}
        for time in TIMES_NS
    ]
    assert shown == [{"lights": red}, {"lights": red}, {}, {"lights": green, "green": green}]
    lit = entities_after(messages, "/lights", TIMES_NS[0])["lights"]
    assert {pair.key: pair.value for pair in lit.metadata} == {"lane": "lights", "light": "RED"}


def area_m2(triangles):
    """Sum of the signed areas; each triangle is counter-clockwise."""
    points = np.array(xy_of(triangles.points))[np.array(triangles.indices).reshape(-1, 3)]
    (ab, ac) = points[:, 1] - points[:, 0], points[:, 2] - points[:, 0]
    areas = 0.5 * (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    assert (areas >= 0).all()
    return areas.sum()


def test_the_map_has_the_areas_of_the_lanes_near_the_way(recorded):
    messages, _ = recorded
    (update,) = of_topic(messages, "/map")
    lanes, boundaries, crosswalks = update.content.entities
    assert [entity.id for entity in update.content.entities] == ["lanes", "lane boundaries", "crosswalks"]
    np.testing.assert_allclose([area_m2(lane) for lane in lanes.triangles], [160, 160, 160, 44, 36], rtol=NETWORK)
    np.testing.assert_allclose(
        xy_of(boundaries.lines[1].points), [(-27, -3), (-7, -3), (13, -3)], atol=0.02, err_msg="right side of `lights`"
    )
    (near,) = crosswalks.lines
    np.testing.assert_allclose(xy_of(near.points), [(-7, -6), (-4, -6), (-4, 4), (-7, -6)], atol=0.02)


def test_less_of_the_map_can_be_recorded(needs_foxglove, case, tmp_path):
    write_mcap(tmp_path / "scene.mcap", *case, form=RecordingForm(map_radius_m=10))
    (update,) = of_topic(read_mcap(tmp_path / "scene.mcap"), "/map")
    assert [len(update.content.entities[0].triangles), len(update.content.entities[2].lines)] == [3, 1]


def test_trajectories_lead_from_the_past_to_the_future(needs_foxglove, case, tmp_path):
    write_mcap(tmp_path / "scene.mcap", *case, form=RecordingForm(ego_trajectory_s=0.2, agent_trajectory_s=0.2))
    messages = read_mcap(tmp_path / "scene.mcap")
    ways = [
        {entity.id: [xy_of(line.points) for line in entity.lines] for entity in message.content.entities}
        for message in of_topic(messages, "/ego/trajectory")
    ]
    assert ways == [
        {"past": [], "future": [[(0, 0), (2, 0), (4, 0)]]},
        {"past": [[(0, 0), (2, 0)]], "future": [[(2, 0), (4, 0), (6, 0)]]},
        {"past": [[(0, 0), (2, 0), (4, 0)]], "future": [[(4, 0), (6, 0)]]},
        {"past": [[(2, 0), (4, 0), (6, 0)]], "future": []},
    ]
    ways = [
        {entity.id: [xy_of(line.points) for line in entity.lines] for entity in message.content.entities}
        for message in of_topic(messages, "/agents/trajectories")
    ]
    first, second, fourth = (3, 1), (3.5, 1.25), (4.5, 1.75)  # of track 1, which frame 2 lacks
    assert ways == [
        {"past": [], "future": [[first, second]]},
        {"past": [[first, second]], "future": [[second, fourth]]},
        {"past": [], "future": []},
        {"past": [[second, fourth]], "future": []},
    ]


def test_what_is_past_is_fainter_than_what_is_to_come(recorded):
    messages, _ = recorded
    for topic, rgb in (("/ego/trajectory", [255, 0, 0]), ("/agents/trajectories", CLASS_RGB[3].tolist())):
        past, future = of_topic(messages, topic)[1].content.entities
        assert [(entity.id, rgb_of(entity.lines[0].color)) for entity in (past, future)] == [
            ("past", rgb),
            ("future", rgb),
        ]
        assert past.lines[0].color.a < 0.5 < future.lines[0].color.a


def test_the_state_of_the_av_can_be_plotted(recorded):
    messages, _ = recorded
    states = [message.content for message in of_topic(messages, "/ego/state")]
    assert [state["world_x_m"] for state in states] == [7, 9, 11, 13]
    assert [state["num_agents"] for state in states] == [2, 1, 0, 2]
    np.testing.assert_allclose([state["speed_mps"] for state in states], 20)
    np.testing.assert_allclose([state["yaw_rad"] for state in states], EGO_YAW)
    assert {state["world_y_m"] for state in states} == {1}


def test_a_scene_without_a_map_has_no_map_and_no_lights(needs_foxglove, case, tmp_path):
    scene, _ = case
    write_mcap(tmp_path / "scene.mcap", scene, None)
    messages = read_mcap(tmp_path / "scene.mcap")
    assert {message.topic for message in messages} == {*EVERY_FRAME, "/tf_static"}


def test_an_older_file_is_replaced(needs_foxglove, case, tmp_path):
    (tmp_path / "scene.mcap").write_text("older")
    write_mcap(tmp_path / "scene.mcap", *case)
    assert read_mcap(tmp_path / "scene.mcap")


def test_progress_counts_the_frames(needs_foxglove, case, tmp_path):
    seen = []
    write_mcap(tmp_path / "scene.mcap", *case, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_file_appears_whole_or_not_at_all(needs_foxglove, case, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "scene.mcap").write_text("older")
    with pytest.raises(KeyboardInterrupt):
        write_mcap(tmp_path / "out" / "scene.mcap", *case, progress=stop)
    assert [(file.name, file.read_text()) for file in (tmp_path / "out").iterdir()] == [("scene.mcap", "older")]


def test_a_missing_folder_is_named(needs_foxglove, case, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_mcap(tmp_path / "nowhere" / "scene.mcap", *case)


def test_without_foxglove_the_extra_is_named(case, tmp_path, monkeypatch):
    for module in ("mcap_messages", "mcap_shapes"):
        monkeypatch.delitem(sys.modules, f"l5kit.visualization.recording.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "foxglove", None)
    monkeypatch.setitem(sys.modules, "foxglove.messages", None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command("mcap"))):
        write_mcap(tmp_path / "scene.mcap", *case)
    assert not (tmp_path / "scene.mcap").exists()


def test_times_that_do_not_ascend_are_refused(needs_foxglove, case, tmp_path):
    scene, map_api = case
    scene.timestamps_ns[2] = scene.timestamps_ns[1]
    with pytest.raises(CorruptedDataError, match=r"frame 2 is at \d+ ns, but times must ascend"):
        write_mcap(tmp_path / "scene.mcap", scene, map_api)


@pytest.mark.parametrize("time_ns", [2**32 * 10**9, 2**63 - 1])
def test_times_that_the_schemas_cannot_hold_are_refused_also_where_lights_change(
    needs_foxglove, case, tmp_path, time_ns
):
    scene, map_api = case
    frame = [frame for frame, _ in light_changes(scene.lights, dict.fromkeys(range(9)))][-1]
    assert frame > 0
    scene.timestamps_ns[frame:] = time_ns - np.arange(scene.num_frames - frame)[::-1]
    with pytest.raises(CorruptedDataError, match=r"of scene 0, frame \d, .* 2106.*; correct the timestamps"):
        write_mcap(tmp_path / "scene.mcap", scene, map_api)


def test_the_real_scene_is_recorded_with_a_street_map(needs_foxglove, shared_data, tmp_path):
    meta = str(shared_data / "meta.json")
    map_api = MapAPI(
        str(shared_data / "semantic_synth.pb"), load_matrix(load_metadata(meta), "world_to_ecef", path=meta)
    )
    dataset = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    scene = read_scene_content(dataset, 0, map_api=map_api)
    write_mcap(tmp_path / "scene.mcap", scene, map_api)
    assert 1e6 < (tmp_path / "scene.mcap").stat().st_size < 6e6
    messages = read_mcap(tmp_path / "scene.mcap")
    agents = of_topic(messages, "/agents")
    assert [message.time_ns for message in agents] == dataset.frames["timestamp"].tolist()
    assert sum(len(message.content.entities) for message in agents) == len(dataset.agents) == 20_802
    centers_m = np.array(
        [
            (entity.cubes[0].pose.position.x, entity.cubes[0].pose.position.y)
            for message in agents
            for entity in message.content.entities
        ]
    )
    np.testing.assert_allclose(centers_m + scene.ego_positions_m[0, :2], dataset.agents["centroid"], atol=FLOAT64_LONG)
    (update,) = of_topic(messages, "/map")
    assert 200 < len(update.content.entities[0].triangles) < 3000
    last_ns = int(scene.timestamps_ns[-1])
    assert entities_after(messages, "/agents", last_ns).keys() == {entity.id for entity in agents[-1].content.entities}
