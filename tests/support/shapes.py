"""Shapes of many kinds that are drawn at random, for tests of what draws them."""

from collections.abc import Callable

import numpy as np

HEIGHT, WIDTH = 61, 83

Shape = list[np.ndarray]
Maker = Callable[[np.random.Generator], Shape]


def to_units(points_px: np.ndarray) -> np.ndarray:
    return np.clip(points_px * 512.0, -(2.0**30), 2.0**30).astype(np.int32)


def make_polygon(size_px: float) -> Maker:
    def make(rng: np.random.Generator) -> Shape:
        center_px = rng.uniform((0, 0), (WIDTH, HEIGHT))
        return [
            to_units(center_px + rng.uniform(-size_px, size_px, (rng.integers(1, 9), 2)))
            for _ in range(rng.integers(1, 4))
        ]

    return make


def make_boxes(rng: np.random.Generator) -> Shape:
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)]) * rng.uniform((2, 1), (9, 4))
    yaws = rng.uniform(-np.pi, np.pi, rng.integers(1, 8)) * (rng.random() < 0.8)
    return [
        to_units(corners @ [(np.cos(yaw), np.sin(yaw)), (-np.sin(yaw), np.cos(yaw))] + rng.uniform(-10, 95, 2))
        for yaw in yaws
    ]


def make_lane(rng: np.random.Generator) -> Shape:
    yaws = rng.uniform(-np.pi, np.pi) + np.linspace(0, rng.uniform(-1.5, 1.5), 20)
    directions = np.stack([np.cos(yaws), np.sin(yaws)], -1)
    middle_px = rng.uniform(-40, 120, 2) + np.cumsum(directions, axis=0) * rng.uniform(0.2, 6)
    aside = directions[:, ::-1] * (1, -1) * rng.uniform(1, 5)
    return [to_units(np.concatenate([middle_px + aside, (middle_px - aside)[::-1]]))]


def make_on_grid(rng: np.random.Generator) -> Shape:
    return [to_units(rng.integers(-4, 90, (rng.integers(1, 7), 2)).astype(float)) for _ in range(rng.integers(1, 3))]


def make_upright(rng: np.random.Generator) -> Shape:
    (left, right), (top, bottom) = rng.uniform(-20, 100, (2, 2))
    return [to_units(np.array([(left, top), (right, top), (right, bottom), (left, bottom)]))]


def make_degenerate(rng: np.random.Generator) -> Shape:
    ends = rng.uniform(-10, 90, (2, 2))
    return [to_units(np.repeat(ends, rng.integers(1, 4), axis=0)), to_units(np.repeat(ends[:1], 3, axis=0))]


def make_outside(rng: np.random.Generator) -> Shape:
    return [to_units(rng.uniform(0, 60, (5, 2)) + rng.choice([-70, -30, 60, 85], 2))]


MAKERS: dict[str, Maker] = {
    "tiny": make_polygon(0.8),
    "small": make_polygon(6),
    "large": make_polygon(60),
    "larger than the picture": make_polygon(2000),
    "boxes": make_boxes,
    "lanes": make_lane,
    "whole pixels": make_on_grid,
    "upright": make_upright,
    "degenerate": make_degenerate,
    "outside": make_outside,
}
