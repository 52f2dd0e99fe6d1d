"""Collisions of all frames at once are those that detect_collision finds frame by frame."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.collision import CollisionType, detect_collision
from l5kit.evaluation.scene_collisions import NO_COLLISION, SceneCollisions, detect_scene_collisions
from support.logs import intervals, make_agents

EGO_M = np.array([4.87, 1.85])


def frame_by_frame(centroids_m, yaws_rad, extent_m, of_frames):
    """Types and track ids as detect_collision finds them, -1 for none."""
    found = [
        detect_collision(*pose, extent_m, agents)
        for *pose, agents in zip(centroids_m, yaws_rad, of_frames, strict=True)
    ]
    return [(NO_COLLISION, NO_COLLISION) if hit is None else (int(hit[0]), int(hit[1])) for hit in found]


def all_at_once(centroids_m, yaws_rad, extent_m, of_frames, **options):
    agents = np.concatenate([make_agents(), *of_frames])
    spans = np.array(intervals(map(len, of_frames)), np.int64).reshape(-1, 2)
    found = detect_scene_collisions(
        np.asarray(centroids_m), np.asarray(yaws_rad), extent_m, agents=agents, intervals=spans, **options
    )
    tracks = np.where(
        found.rows < 0, NO_COLLISION, np.append(agents, make_agents({}))["track_id"][found.rows].astype(int)
    )
    return list(zip(found.types.tolist(), tracks.tolist(), strict=True))


def random_frames(rng, num_frames, num_agents, spread_m):
    of_frames = []
    for _ in range(num_frames):
        agents = make_agents(*({"track_id": track} for track in range(1, num_agents + 1)))
        agents["centroid"] = rng.normal(0, spread_m, (num_agents, 2))
        agents["yaw"] = rng.uniform(-4, 4, num_agents)
        agents["extent"][:, :2] = rng.uniform(0, 8, (num_agents, 2))
        of_frames.append(agents)
    return of_frames


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset_m", [0.0, 3000.0], ids=["at the origin", "far from it"])
def test_all_frames_at_once_are_as_each_alone(dtype, offset_m):
    rng = np.random.default_rng(0)
    of_frames = random_frames(rng, 400, 4, 5.0)
    for agents in of_frames:
        agents["centroid"] += offset_m
    centroids_m = (rng.normal(0, 2, (400, 2)) + offset_m).astype(dtype)
    yaws_rad = rng.uniform(-4, 4, 400).astype(dtype)
    expected = frame_by_frame(centroids_m, yaws_rad, EGO_M, of_frames)
    assert {kind for kind, _ in expected} == {-1, 0, 1, 2}
    assert all_at_once(centroids_m, yaws_rad, EGO_M, of_frames) == expected


HALVES = st.integers(-8, 8).map(lambda number: number / 2)
BOX = st.tuples(HALVES, HALVES, st.integers(0, 8), st.integers(0, 8), st.integers(-2, 2))


@given(frames=st.lists(st.lists(BOX, max_size=4), max_size=4), quarter=st.integers(-2, 2))
def test_boxes_that_touch_in_points_and_edges_are_decided_alike(frames, quarter):
    """On a grid of half metres and quarter turns nearly everything is on an edge or a corner."""
    of_frames = [
        make_agents(
            *(
                {
                    "track_id": track,
                    "centroid": (x, y),
                    "extent": (length / 2, width / 2, 1),
                    "yaw": turns * math.pi / 2,
                }
                for track, (x, y, length, width, turns) in enumerate(boxes)
            )
        )
        for boxes in frames
    ]
    poses = np.zeros((len(frames), 2)), np.full(len(frames), quarter * math.pi / 2), np.array([4.0, 2.0])
    assert all_at_once(*poses, of_frames) == frame_by_frame(*poses, of_frames)


@pytest.mark.parametrize(
    ("centroid", "yaw", "extent"),
    [
        pytest.param((0, 0), 0.0, (4.87, 1.85, 1), id="the same box"),
        pytest.param((4.87, 0), 0.0, (4.87, 1.85, 1), id="edge on edge ahead"),
        pytest.param((0, 1.85), 0.0, (4.87, 1.85, 1), id="edge on edge beside"),
        pytest.param((4.87, 1.85), 0.0, (4.87, 1.85, 1), id="corner on corner"),
        pytest.param((0, 0), 0.0, (1, 1, 1), id="inside"),
        pytest.param((0, 0), 0.3, (20, 20, 1), id="around"),
        pytest.param((0, 0), math.pi / 2, (20, 1, 1), id="across"),
        pytest.param((2.435, 0.925), 0.7, (0, 0, 1), id="a corner, without size: hidden"),
        pytest.param((2.435, 0), 0.0, (3, 0, 1), id="a line"),
        pytest.param((0, 0), math.pi / 4, (7, 7, 1), id="four corners cut off"),
    ],
)
def test_special_boxes_are_decided_alike(centroid, yaw, extent):
    of_frames = [make_agents({"track_id": 1, "centroid": centroid, "yaw": yaw, "extent": extent})]
    poses = np.zeros((1, 2)), np.zeros(1), EGO_M
    assert all_at_once(*poses, of_frames) == frame_by_frame(*poses, of_frames)


def test_the_first_agent_in_the_order_of_the_array_decides():
    behind, ahead = {"track_id": 1, "centroid": (-4, 0)}, {"track_id": 2, "centroid": (4, 0)}
    of_frames = [make_agents(behind, ahead), make_agents(ahead, behind), make_agents()]
    found = all_at_once(np.zeros((3, 2)), np.zeros(3), EGO_M, of_frames)
    assert found == [(CollisionType.REAR, 1), (CollisionType.FRONT, 2), (NO_COLLISION, NO_COLLISION)]


@pytest.mark.parametrize("hide", [{"extent": 0}, {"label_probabilities": -1}], ids=["no size", "negative probability"])
def test_m4_agents_that_a_simulation_has_hidden_do_not_collide(hide):
    agents = make_agents({"track_id": 1, "centroid": (4, 0)}, {"track_id": 2, "centroid": (-4, 0)})
    for field, value in hide.items():
        agents[field][0] = value
    assert all_at_once(np.zeros((1, 2)), np.zeros(1), EGO_M, [agents]) == [(CollisionType.REAR, 2)]


def test_agents_that_are_left_out_do_not_collide():
    agents = make_agents({"track_id": 1, "centroid": (4, 0)}, {"track_id": 2, "centroid": (-4, 0)})
    found = all_at_once(np.zeros((1, 2)), np.zeros(1), EGO_M, [agents], is_left_out=np.array([True, False]))
    assert found == [(CollisionType.REAR, 2)]


@pytest.mark.parametrize("num_frames", [0, 3])
def test_scenes_without_agents_or_frames_have_no_collisions(num_frames):
    of_frames = [make_agents()] * num_frames
    found = all_at_once(np.zeros((num_frames, 2)), np.zeros(num_frames), EGO_M, of_frames)
    assert found == [(NO_COLLISION, NO_COLLISION)] * num_frames


def test_frames_may_share_rows_and_come_in_any_order():
    agents = make_agents({"track_id": 1, "centroid": (4, 0)}, {"track_id": 2, "centroid": (-4, 0)})
    found = detect_scene_collisions(
        np.zeros((3, 2)), np.zeros(3), EGO_M, agents=agents, intervals=np.array([[1, 2], [0, 2], [0, 0]])
    )
    assert found.types.tolist() == [CollisionType.REAR, CollisionType.FRONT, NO_COLLISION]
    assert found.rows.tolist() == [1, 0, NO_COLLISION]


ONE_FRAME = {
    "centroids_m": np.zeros((1, 2)),
    "yaws_rad": np.zeros(1),
    "extent_m": EGO_M,
    "agents": make_agents({"yaw": float("nan")}),
    "intervals": np.array([[0, 0]]),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"centroids_m": np.zeros((1, 3))}, "centroids_m has shape", id="three coordinates"),
        pytest.param({"yaws_rad": np.zeros(2)}, "yaws_rad \\(2,\\)", id="another number of headings"),
        pytest.param({"centroids_m": np.full((1, 2), np.nan)}, "the AV of frame 0", id="a position that is not known"),
        pytest.param({"yaws_rad": np.array([np.inf])}, "the AV of frame 0", id="a heading that is none"),
        pytest.param({"extent_m": np.array([np.nan, 1])}, "extent_m is", id="an extent that is not known"),
        pytest.param({"agents": np.zeros(3)}, "target_agents must be", id="no records"),
        pytest.param({"intervals": np.zeros((2, 2), int)}, "intervals has shape", id="intervals of other frames"),
        pytest.param({"intervals": np.array([[0, 2]])}, "interval of frame 0 is \\[0, 2\\]", id="beyond the agents"),
        pytest.param({"intervals": np.array([[-1, 1]])}, "interval of frame 0", id="before the agents"),
        pytest.param({"intervals": np.array([[1, 0]])}, "interval of frame 0", id="backwards"),
        pytest.param({"intervals": np.array([[0, 1]])}, "track 0 of target_agents", id="an agent without a heading"),
        pytest.param({"is_left_out": np.zeros(2, bool)}, "is_left_out has shape", id="a mask of other agents"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    assert detect_scene_collisions(**ONE_FRAME).types.tolist() == [NO_COLLISION]
    with pytest.raises(InvalidArgumentError, match=message):
        detect_scene_collisions(**ONE_FRAME | changes)


def test_types_and_rows_of_different_lengths_are_refused():
    with pytest.raises(InvalidArgumentError, match="rows \\(1,\\) for \\(2,\\)"):
        SceneCollisions(np.zeros(2, np.int64), np.zeros(1, np.int64))
