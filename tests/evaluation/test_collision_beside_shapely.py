"""Boxes that touch or coincide collide as with L5Kit 1.5, which took the intersections of Shapely.

The reference is written from what is documented of 1.5. Where edges coincide, everything hangs on the last bit of the
corners, so the cases below put boxes side by side, corner to corner and into each other, at all headings.
"""

import math

import numpy as np
import pytest

from l5kit.evaluation.collision import CollisionType, detect_collision

shapely = pytest.importorskip("shapely")

BOX_DTYPE = np.dtype([("centroid", "f8", 2), ("extent", "f4", 3), ("yaw", "f4"), ("track_id", "u8")])
SIDES = ((0, 1), (2, 3), (0, 3), (1, 2))
TYPES = (CollisionType.FRONT, CollisionType.REAR, CollisionType.SIDE, CollisionType.SIDE)
NUM_CASES = 250


def corners_of(centroid, yaw, extent):
    """Front left, front right, rear right, rear left: c + a h + b n and so on."""
    a, b = extent[0] / 2, extent[1] / 2
    h, n = np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])
    return np.array([centroid + s * h + t * n for s, t in ((a, b), (a, -b), (-a, -b), (-a, b))], dtype=np.float64)


def lengths_by_shapely(ego_corners, agent_corners):
    agent = shapely.Polygon(agent_corners)
    return [shapely.LineString(ego_corners[list(side)]).intersection(agent).length for side in SIDES]


def collision_by_shapely(centroid, yaw, extent, agent):
    """The type, or None; and the corners of both boxes."""
    ego_corners = corners_of(centroid, yaw, extent)
    agent_corners = corners_of(agent["centroid"], agent["yaw"], agent["extent"])
    distance = np.linalg.norm(centroid - agent["centroid"][None], axis=-1)[0]
    diagonals = np.linalg.norm(extent[:2], axis=-1) + np.linalg.norm(agent["extent"][None, :2], axis=-1)[0]
    is_hit = distance < 0.5 * diagonals and shapely.Polygon(ego_corners).intersects(shapely.Polygon(agent_corners))
    lengths = lengths_by_shapely(ego_corners, agent_corners)
    return (TYPES[int(np.argmax(lengths))] if is_hit else None), ego_corners, agent_corners


def make_pair(rng, scale_m):
    """An ego and an agent of the same heading at the same place; half of them of the same size."""
    yaw = np.float32(rng.uniform(-math.pi, math.pi))
    centroid = rng.uniform(-scale_m, scale_m, 2)
    extent = np.array([4.87, 1.85]) if rng.random() < 0.5 else rng.uniform((1, 0.5), (8, 3)).astype(np.float32)
    agent = np.zeros(1, BOX_DTYPE)[0]
    agent["centroid"], agent["yaw"], agent["track_id"] = centroid, yaw, 1
    agent["extent"] = (*extent, 1.5) if rng.random() < 0.5 else rng.uniform((0.5, 0.3, 1.5), (8, 3, 1.6))
    return centroid, (float(yaw) if rng.random() < 0.5 else yaw), extent, agent


def shift(agent, yaw, along, across):
    agent["centroid"] += along * np.array([math.cos(yaw), math.sin(yaw)])
    agent["centroid"] += across * np.array([-math.sin(yaw), math.cos(yaw)])


def half_sums(extent, agent):
    return (extent[:2].astype(np.float64) + agent["extent"][:2]) / 2


def half_differences(extent, agent):
    return (extent[:2].astype(np.float64) - agent["extent"][:2]) / 2


def identical(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    agent["extent"][:2] = extent
    return centroid, yaw, extent, agent


def side_by_side(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    reach = half_sums(extent, agent)
    offset = rng.uniform(-reach, reach)
    touching = rng.integers(2)
    offset[touching] = reach[touching] * rng.choice([-1, 1])
    shift(agent, yaw, *offset)
    return centroid, yaw, extent, agent


def corner_to_corner(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    if rng.random() < 0.5:
        agent["yaw"] = rng.uniform(-math.pi, math.pi)
    ego_corners = corners_of(centroid, yaw, extent)
    own_corners = corners_of(np.zeros(2), agent["yaw"], agent["extent"])
    agent["centroid"] = ego_corners[rng.integers(4)] - own_corners[rng.integers(4)]
    return centroid, yaw, extent, agent


def edges_on_one_line(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    reach = half_sums(extent, agent)
    offset = rng.uniform(-reach, reach)
    on_line = rng.integers(3)
    for axis in (0, 1) if on_line == 2 else (on_line,):
        offset[axis] = half_differences(extent, agent)[axis] * rng.choice([-1, 1])
    shift(agent, yaw, *offset)
    return centroid, yaw, extent, agent


def same_heading(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    shift(agent, yaw, *rng.uniform(-half_sums(extent, agent), half_sums(extent, agent)))
    return centroid, yaw, extent, agent


def nearly_the_same_heading(rng, scale_m):
    centroid, yaw, extent, agent = rng.choice([identical, side_by_side, edges_on_one_line])(rng, scale_m)
    agent["yaw"] = np.nextafter(agent["yaw"], np.float32(rng.choice([-9, 9])))
    return centroid, yaw, extent, agent


def nearly_the_same_place(rng, scale_m):
    centroid, yaw, extent, agent = rng.choice([identical, side_by_side, edges_on_one_line])(rng, scale_m)
    agent["centroid"] = np.nextafter(agent["centroid"], rng.choice([-1e9, 1e9], 2))
    return centroid, yaw, extent, agent


def square_to_each_other(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    agent["yaw"] = yaw + rng.integers(1, 4) * math.pi / 2
    if rng.random() < 0.5:
        shift(agent, yaw, *rng.uniform((-4, -3), (4, 3)))
    return centroid, yaw, extent, agent


def along_the_axes(rng, scale_m):  # whole and half metres: every number is exact
    agent = np.zeros(1, BOX_DTYPE)[0]
    agent["centroid"], agent["extent"] = rng.integers(-5, 6, 2) / 2, (rng.integers(1, 9), rng.integers(1, 5), 1.5)
    return rng.integers(-5, 6, 2) / 2, 0.0, np.array([rng.integers(1, 9), rng.integers(1, 5)], np.float64), agent


def thin_as_a_line(rng, scale_m):
    centroid, yaw, extent, agent = rng.choice([side_by_side, edges_on_one_line, same_heading])(rng, scale_m)
    agent["extent"][rng.integers(2)] = 0
    return centroid, yaw, extent, agent


def anywhere(rng, scale_m):
    centroid, yaw, extent, agent = make_pair(rng, scale_m)
    agent["yaw"] = rng.uniform(-math.pi, math.pi)
    agent["centroid"] += rng.uniform(-5, 5, 2)
    return centroid, yaw, extent, agent


KINDS = (
    identical,
    side_by_side,
    corner_to_corner,
    edges_on_one_line,
    same_heading,
    nearly_the_same_heading,
    nearly_the_same_place,
    square_to_each_other,
    along_the_axes,
    thin_as_a_line,
    anywhere,
)


def rounding_decides(ego_corners, agent_corners, found):
    """Whether Shapely itself gives the type for the same two boxes, or has nothing but rounding errors to compare.

    It gives another type for the same boxes when the corners are listed from another one on, or when the world is moved
    by a fraction of a metre: its intersections are rounded, and repaired when that made them inconsistent.
    """
    if max(lengths_by_shapely(ego_corners, agent_corners)) <= 4 * np.spacing(np.abs(ego_corners).max()):
        return True
    moves = [(0.0, 0.0), *((2.0**-k, 0.0) for k in range(1, 12)), *((0.0, 2.0**-k) for k in range(1, 12))]
    return any(
        TYPES[int(np.argmax(lengths_by_shapely(ego_corners + move, np.roll(agent_corners, first, axis=0) + move)))]
        == found
        for move in moves
        for first in range(4)
    )


@pytest.mark.parametrize("scale_m", [10.0, 1000.0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_collisions_are_those_of_1_5(kind, scale_m):
    """Collisions agree in all cases, and sides unless rounding decides in Shapely: fewer than one in a hundred."""
    rng = np.random.default_rng([KINDS.index(kind), int(scale_m)])
    others = []
    for _ in range(NUM_CASES):
        centroid, yaw, extent, agent = kind(rng, scale_m)
        expected, *corners = collision_by_shapely(centroid, yaw, extent, agent)
        found = detect_collision(centroid, yaw, extent, np.array([agent]))
        assert (found is None) == (expected is None), (centroid, yaw, extent, agent)
        if found is not None and found[0] != expected:
            assert rounding_decides(*corners, found[0]), (centroid, yaw, extent, agent)
            others.append(agent)
    assert len(others) < NUM_CASES / 100
