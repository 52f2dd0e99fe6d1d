"""Content of each frame of a log."""

import math
import pickle
import shutil

import numpy as np
import pytest

from l5kit.configs.config import load_metadata
from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.log_facts import LogFacts
from l5kit.errors import CorruptedDataError
from l5kit.visualization.visualizer.common import MapLaneVisualization
from l5kit.visualization.visualizer.zarr_utils import (
    COLORS,
    _get_frame_data,
    _get_frame_trajectories,
    zarr_to_visualizer_scene,
)
from support.fixture_s import make_fixture_s, make_fixture_s_arrays
from support.logs import make_agent, make_agents, make_faces, make_frames, make_scene
from support.maps import lane_lines_m, make_map
from support.tolerances import FLOAT32


@pytest.fixture(scope="module")
def small_map(tmp_path_factory):
    return make_map(tmp_path_factory.mktemp("map") / "map.pb")


def frame_data(map_api, *agents, faces=None, **kwargs):
    """Content of a frame with the AV at the origin."""
    frames, rows, tl_faces = make_frames([make_agents(*agents)], None if faces is None else [faces], **kwargs)
    return _get_frame_data(map_api, frames[0], rows, tl_faces)


def corners_of(shape):
    return {(round(x, 5) + 0.0, round(y, 5) + 0.0) for x, y in zip(shape.xs, shape.ys, strict=True)}


def lines_of(content):
    """Label, track and points of each trajectory."""
    return [
        (line.legend_label, line.track_id, np.stack([line.xs, line.ys], axis=1).tolist())
        for line in content.trajectories
    ]


def color_of_lane(content, index):
    return content.lanes[index].color


def test_the_av_is_its_box_in_the_world():
    ego = frame_data(None, positions_m=[[10.0, 20.0]], yaws_rad=math.pi / 2).ego
    assert corners_of(ego) == {(9.075, 17.565), (10.925, 17.565), (10.925, 22.435), (9.075, 22.435)}
    assert (ego.center_x, ego.center_y, ego.color) == (10.0, 20.0, "red")


def test_the_av_of_a_log_is_as_large_as_it_says():
    log = make_scene([make_agents()], positions_m=[[1.0, 2.0]], facts=LogFacts((8.0, 4.0, 3.0)))
    assert corners_of(zarr_to_visualizer_scene(log, None)[0].ego) == {(-3, 0), (-3, 4), (5, 0), (5, 4)}


def test_agents_are_their_boxes_with_class_probability_and_speed():
    car = make_agent(7, (3.0, 4.0), extent=(4, 2, 1), velocity=(3, -4), labels={"CAR": 0.75, "VAN": 0.25})
    content = frame_data(None, car)
    (agent,) = content.agents
    assert corners_of(agent) == {(1.0, 3.0), (1.0, 5.0), (5.0, 5.0), (5.0, 3.0)}
    assert agent[2:] == ("#1F77B4", 7, "PERCEPTION_LABEL_CAR", 0.75)
    assert agent.speed_mps == 5.0
    assert content.trajectories == []


def test_corners_of_a_turned_agent_go_around():
    (agent,) = frame_data(None, make_agent(1, (0, 0), yaw=0.5, extent=(4, 2, 1))).agents
    sides_m = np.hypot(np.diff(agent.xs, append=agent.xs[0]), np.diff(agent.ys, append=agent.ys[0]))
    np.testing.assert_allclose(sorted(sides_m), [2, 2, 4, 4], atol=FLOAT32)


@pytest.mark.parametrize(
    ("name", "color"),
    [
        ("CAR", "#1F77B4"),
        ("CYCLIST", "#CC33FF"),
        ("PEDESTRIAN", "#66CCFF"),
        pytest.param("ANIMAL", "#1F77B4", id="one without a colour of its own"),
    ],
)
def test_agents_have_the_colour_of_their_class(name, color):
    (agent,) = frame_data(None, make_agent(1, labels={name: 0.6, "UNKNOWN": 0.4})).agents
    assert (agent.agent_type, agent.color) == (f"PERCEPTION_LABEL_{name}", color)


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(make_agent(1, extent=(0, 0, 0)), id="without an extent"),
        pytest.param(make_agent(1, labels={"CAR": -1.0}), id="with a negative probability"),
    ],
)
def test_m4_agents_that_a_simulation_has_hidden_are_left_out(hidden):
    content = frame_data(None, hidden, make_agent(2))
    assert [agent.track_id for agent in content.agents] == [2]


def test_lanes_and_crosswalks_within_50_m_are_shown(small_map):
    content = frame_data(small_map, make_agent(1))
    assert len(content.lanes) == 4
    assert {lane.color for lane in content.lanes} == {"gray"}
    lane, (crosswalk,) = content.lanes[0], content.crosswalks
    np.testing.assert_allclose(lane.xs, [-20, 20, 20, 0, -20], atol=0.01)
    np.testing.assert_allclose(lane.ys, [2, 2, -2, -2, -2], atol=0.01)
    np.testing.assert_allclose([crosswalk.xs, crosswalk.ys], [[0, 3, 3], [-5, -5, 5]], atol=0.01)
    assert crosswalk.color == "yellow"


def test_the_square_moves_with_the_av(small_map):
    assert len(frame_data(small_map, positions_m=[[3.0, 0.0]]).lanes) == 5
    assert frame_data(small_map, positions_m=[[0.0, 200.0]]).lanes == []


@pytest.mark.parametrize(
    ("faces", "lights", "green"),
    [
        pytest.param({}, "gray", "gray", id="no faces"),
        pytest.param({"R": 0, "G": 0}, "gray", "gray", id="all off"),
        pytest.param({"G": 1}, "#33CC33", "#33CC33", id="one face, two lanes"),
        pytest.param({"Y": 1}, "#FFFF66", "gray", id="yellow"),
        pytest.param({"R": 1, "G": 0}, "#FF3300", "gray", id="green is off"),
        pytest.param({"R": 1, "Y": 1, "G": 1}, "#FF3300", "#33CC33", id="red first"),
        pytest.param({"G": 1, "Y": 1, "R": 1}, "#FF3300", "#33CC33", id="red last"),
        pytest.param({"G": 1, "Y": 1}, "#FFFF66", "#33CC33", id="yellow over green"),
        pytest.param({"nowhere": 1, "green": 1}, "gray", "gray", id="not faces of the map"),
    ],
)
def test_v13_lanes_have_the_colour_of_their_active_faces(small_map, faces, lights, green):
    content = frame_data(small_map, faces=make_faces(**faces))
    assert [color_of_lane(content, index) for index in range(3)] == [lights, green, "gray"]


def test_lanes_are_tuples_of_three_that_know_their_boundaries(small_map):
    lanes = frame_data(small_map).lanes
    assert {len(lane) for lane in lanes} == {3}
    xs, ys, color = lanes[0]
    left, right = lane_lines_m(0.0)
    for lane in (lanes[0], lanes[0]._replace(color="pink"), pickle.loads(pickle.dumps(lanes[0]))):
        (left_xs, left_ys), (right_xs, right_ys) = lane.boundaries
        np.testing.assert_allclose(np.stack([left_xs, left_ys], axis=1), left[:, :2], atol=1e-2)
        np.testing.assert_allclose(np.stack([right_xs, right_ys], axis=1), right[::-1, :2], atol=1e-2)
        assert lane.num_left_points == 2
    assert lanes[0]._replace(color="pink").color == "pink"
    assert MapLaneVisualization(xs, ys, color).boundaries == []


def test_without_a_map_there_are_no_lanes():
    scene = make_scene([make_agents(make_agent(1))], [make_faces(R=1)])
    (content,) = zarr_to_visualizer_scene(scene, None)
    assert (content.lanes, content.crosswalks, len(content.agents)) == ([], [], 1)


def test_agents_of_a_log_have_a_summed_probability_above_a_tenth():
    agents = [
        make_agent(1, labels={"CAR": 0.06, "VAN": 0.06, "UNKNOWN": 0.88}),
        make_agent(2, labels={"CAR": 0.05, "UNKNOWN": 0.95}),
        make_agent(3, labels={"CAR": 0.1, "UNKNOWN": 0.9}),
    ]
    (content,) = zarr_to_visualizer_scene(make_scene([make_agents(*agents)]), None)
    assert [agent.track_id for agent in content.agents] == [1]
    assert [line.track_id for line in content.trajectories] == [1, -1]


def test_trajectories_leave_out_frames_without_the_track():
    scene = make_scene(
        [
            make_agents(make_agent(5, (50, 0)), make_agent(4, (40, 0))),
            make_agents(make_agent(4, (41, 1))),
            make_agents(make_agent(6, (60, 2)), make_agent(5, (52, 2)), make_agent(4, (42, 2))),
        ]
    )
    frames = zarr_to_visualizer_scene(scene, None)
    assert lines_of(frames[0]) == [
        ("agent_trajectory", 5, [[50, 0], [52, 2]]),
        ("agent_trajectory", 4, [[40, 0], [41, 1], [42, 2]]),
        ("ego_trajectory", -1, [[0, 0], [1, 0], [2, 0]]),
    ]
    assert lines_of(frames[1]) == [
        ("agent_trajectory", 4, [[41, 1], [42, 2]]),
        ("ego_trajectory", -1, [[1, 0], [2, 0]]),
    ]
    assert [line.track_id for line in frames[2].trajectories] == [6, 5, 4, -1]
    assert {line.color for line in frames[0].trajectories[:-1]} == {"blue"}
    assert frames[0].trajectories[-1].color == "red"


def test_trajectories_hold_the_frames_in_which_a_shown_track_is_below_the_threshold():
    """The threshold says whose trajectory a frame has, not which of its points."""
    doubtful = {"CAR": 0.05, "UNKNOWN": 0.95}
    scene = make_scene(
        [make_agents(make_agent(1, (k, 1), labels=doubtful if k in (0, 5, 6, 7) else {"CAR": 1.0})) for k in range(25)]
    )
    frames = zarr_to_visualizer_scene(scene, None)
    assert [line.xs.tolist() for line in frames[1].trajectories[:-1]] == [list(range(1, 21))]
    assert [len(frame.trajectories) for frame in frames[:9]] == [1, 2, 2, 2, 2, 1, 1, 1, 2]


def test_trajectories_are_20_frames_of_agents_and_100_of_the_av():
    scene = make_scene([make_agents(make_agent(1, (k, 1))) for k in range(130)])
    frames = zarr_to_visualizer_scene(scene, None)
    agent, ego = frames[10].trajectories
    assert agent.xs.tolist() == list(range(10, 30))
    assert ego.xs.tolist() == list(range(10, 110))
    assert [len(line.xs) for line in frames[125].trajectories] == [5, 5]


def test_a_track_that_is_not_there_has_no_points():
    frames, agents, _ = make_frames([make_agents(make_agent(2, (1, 1)))])
    lines = _get_frame_trajectories(frames, [agents], [3, 2], 0)
    assert [(line.track_id, line.xs.tolist()) for line in lines] == [(3, []), (2, [1.0]), (-1, [0.0])]


def test_fixture_s_has_the_trajectories_of_a_loop_over_tracks():
    log = make_fixture_s()
    for index, content in enumerate(zarr_to_visualizer_scene(log, None)):
        expected = []
        for agent in content.agents:
            rows = [log.agents[slice(*frame["agent_index_interval"])] for frame in log.frames[index : index + 20]]
            points = [row["centroid"].tolist() for row in np.concatenate(rows) if row["track_id"] == agent.track_id]
            expected.append(("agent_trajectory", agent.track_id, points))
        ego = log.frames["ego_translation"][index : index + 100, :2].tolist()
        assert lines_of(content) == [*expected, ("ego_trajectory", -1, ego)]


def test_trajectories_can_be_left_out():
    scene = make_scene([make_agents(make_agent(1))] * 2)
    assert [frame.trajectories for frame in zarr_to_visualizer_scene(scene, None, with_trajectories=False)] == [[], []]


def test_frames_without_agents_are_shown():
    frames = zarr_to_visualizer_scene(make_scene([make_agents(), make_agents(make_agent(1)), make_agents()]), None)
    assert [len(frame.agents) for frame in frames] == [0, 1, 0]
    assert [len(frame.trajectories) for frame in frames] == [1, 2, 1]


def test_a_log_without_traffic_lights_is_shown(tmp_path, small_map):
    make_scene([make_agents(make_agent(1))], [make_faces(R=1)]).save(str(tmp_path / "log.zarr"))
    shutil.rmtree(tmp_path / "log.zarr" / "traffic_light_faces")
    with pytest.warns(RuntimeWarning, match="traffic_light_faces"):
        log = ChunkedDataset(str(tmp_path / "log.zarr")).open()
    (content,) = zarr_to_visualizer_scene(log, small_map)
    assert {lane.color for lane in content.lanes} == {"gray"}


@pytest.mark.parametrize("num_scenes", [0, 2])
def test_a_dataset_that_has_not_one_scene_is_refused(num_scenes):
    one = make_fixture_s()
    log = ChunkedDataset.concatenate([one] * num_scenes) if num_scenes else ChunkedDataset.in_memory()
    with pytest.raises(ValueError, match=f"scene_dataset has {num_scenes} scenes"):
        zarr_to_visualizer_scene(log, None)


def assert_same_frames(ours, theirs):
    """Compare all fields of all frames."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for elements, expected in zip(([one.ego], *one[1:]), ([other.ego], *other[1:]), strict=True):
            assert len(elements) == len(expected)
            for a, b in zip(elements, expected, strict=True):
                assert a[2:] == b[2:]
                np.testing.assert_array_equal([a.xs, a.ys], [b.xs, b.ys])


def test_the_second_scene_of_a_log_on_disk_is_read_where_it_is(tmp_path, small_map):
    scenes, frames, agents, tl_faces = make_fixture_s_arrays()
    scenes = np.repeat(scenes[:1], 2)
    scenes["frame_index_interval"] = [(0, 10), (10, 30)]
    ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=tl_faces).save(
        str(tmp_path / "two.zarr")
    )
    opened = ChunkedDataset(str(tmp_path / "two.zarr")).open()
    whole = zarr_to_visualizer_scene(make_fixture_s(), small_map)
    assert_same_frames(zarr_to_visualizer_scene(opened.get_scene_dataset(1), small_map), whole[10:])


def test_a_scene_that_leaves_out_frames_before_it_is_refused(small_map):
    scenes, frames, agents, tl_faces = make_fixture_s_arrays()
    scenes["frame_index_interval"] = (10, 30)
    late = ChunkedDataset.in_memory(scenes=scenes, frames=frames, agents=agents, tl_faces=tl_faces)
    with pytest.raises(CorruptedDataError, match=r"\[10, 30\] of scene 0 does not start at 0"):
        zarr_to_visualizer_scene(late, small_map)


@pytest.fixture(scope="module")
def street_map(shared_data):
    meta = load_metadata(str(shared_data / "meta.json"))
    return MapAPI(str(shared_data / "semantic_synth.pb"), np.array(meta["world_to_ecef"]))


@pytest.fixture(scope="module")
def recorded(shared_data):
    return ChunkedDataset(str(shared_data / "single_scene.zarr")).open().get_scene_dataset(0)


@pytest.fixture(scope="module")
def recorded_frames(recorded, street_map):
    return zarr_to_visualizer_scene(recorded, street_map)


def test_every_recorded_row_above_the_threshold_is_an_agent(recorded, recorded_frames):
    kept = recorded.agents["label_probabilities"][:, 3:16].sum(axis=1) > np.float32(0.1)
    assert len(recorded_frames) == len(recorded.frames) == 248
    assert sum(len(frame.agents) for frame in recorded_frames) == kept.sum()
    assert [agent.track_id for frame in recorded_frames for agent in frame.agents] == recorded.agents["track_id"][
        kept
    ].tolist()


def test_recorded_boxes_have_the_centroids_of_the_log(recorded, recorded_frames):
    kept = recorded.agents["label_probabilities"][:, 3:16].sum(axis=1) > np.float32(0.1)
    middles = [[agent.xs.mean(), agent.ys.mean()] for frame in recorded_frames for agent in frame.agents]
    np.testing.assert_allclose(middles, recorded.agents["centroid"][kept], atol=FLOAT32)


def test_recorded_classes_are_those_of_the_log(recorded_frames):
    classes = {agent.agent_type for frame in recorded_frames for agent in frame.agents}
    assert {"PERCEPTION_LABEL_CAR", "PERCEPTION_LABEL_PEDESTRIAN"} <= classes <= set(PERCEPTION_LABELS)


@pytest.mark.parametrize("index", [0, 60, 120, 247])
def test_recorded_lanes_and_their_lights_are_those_of_the_map(recorded, street_map, recorded_frames, index):
    ids, bounds = (street_map.bounds_info["lanes"][key] for key in ("ids", "bounds"))
    ego = recorded.frames["ego_translation"][index, :2]
    near = [i for i, (low, high) in enumerate(bounds) if ((low - 50 < ego) & (ego < high + 50)).all()]
    faces = recorded.tl_faces[slice(*recorded.frames["traffic_light_faces_index_interval"][index])]
    states = [street_map.get_lane_tl_state(ids[i], faces) for i in near]
    assert [lane.color for lane in recorded_frames[index].lanes] == [COLORS.get(state, "gray") for state in states]
    for lane, row in zip(recorded_frames[index].lanes, near, strict=True):
        coords = street_map.get_lane_coords(ids[row])
        outline = np.concatenate([coords["xyz_left"], coords["xyz_right"][::-1]])[:, :2]
        np.testing.assert_array_equal(np.stack([lane.xs, lane.ys], axis=1), outline)


def test_some_recorded_lanes_have_lights(recorded_frames):
    assert {lane.color for frame in recorded_frames for lane in frame.lanes} > {"gray", COLORS["RED"]}
