"""Colours of scenes from above: those of the viewer, distinguishable for people with red-green colour blindness."""

import importlib.resources
import itertools
import re

import numpy as np
import pytest

from l5kit.data.labels import PERCEPTION_LABELS
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.visualization.birdseye.tones import CLASS_RGB, EGO_RGB, LIGHT_RGB, THEMES, shade, tones_of

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009,
# severity 1.0, on linear RGB.
SIGHTS = {
    "usual": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}
XYZ_FROM_RGB = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
WHITE = (0.95047, 1.0, 1.08883)


def lab(rgb, sight):
    """CIELAB of sRGB from 0 to 255, with simulated colour vision."""
    share = np.asarray(rgb, np.float64) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(SIGHTS[sight]) @ linear, 0, 1)
    x, y, z = np.cbrt(np.asarray(XYZ_FROM_RGB) @ seen / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one, other, sight):
    return np.linalg.norm(lab(one, sight) - lab(other, sight))


def over(color, ground, opacity):
    return opacity * np.asarray(color, float) + (1 - opacity) * np.asarray(ground, float)


def class_rgb(name):
    return CLASS_RGB[PERCEPTION_LABELS.index(f"PERCEPTION_LABEL_{name}")]


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_lanes_with_lights_are_told_apart(theme, sight):
    tones = tones_of(theme)
    lanes = {name: over(rgb, tones.lane, tones.light_tint) for name, rgb in zip(LIGHT_COLORS, LIGHT_RGB, strict=True)}
    for (one, a), (other, b) in itertools.combinations({"none": tones.lane, **lanes}.items(), 2):
        assert distance(a, b, sight) > 12, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_road_users_the_log_and_the_plan_are_told_apart(theme, sight):
    tones = tones_of(theme)
    drawn = {"AV": EGO_RGB, "plan": tones.plan, "ghost": tones.ghost}
    drawn |= {name: class_rgb(name) for name in ("CAR", "CYCLIST", "PEDESTRIAN")}
    for (one, a), (other, b) in itertools.combinations(drawn.items(), 2):
        assert distance(a, b, sight) > 12, (one, other)
    for name, color in drawn.items():
        assert distance(color, tones.lane, sight) > 20, name


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_class_is_taken_for_the_av(sight):
    for name, rgb in zip(PERCEPTION_LABELS, CLASS_RGB, strict=True):
        assert distance(rgb, EGO_RGB, sight) > 20, name


def test_the_test_finds_colours_that_are_taken_for_each_other():
    """Lights of usual red and green are one to people with deuteranopia."""
    assert distance((229, 72, 77), (47, 180, 87), "usual") > 60
    lane = tones_of("light").lane
    assert distance(over((229, 72, 77), lane, 0.5), over((47, 180, 87), lane, 0.5), "deuteranopia") < 5


def test_the_viewer_has_the_same_colours():
    palette = (importlib.resources.files("l5kit.visualization.viewer") / "page" / "palette.js").read_text("utf-8")
    light, dark = palette.index("const LIGHT ="), palette.index("const DARK =")

    def rgb(digits):
        return tuple(bytes.fromhex(digits))

    classes = dict(re.findall(r'^  (\w+_LABEL_\w+): "#(\w{6})",$', palette, re.MULTILINE))
    assert [rgb(classes[name]) for name in PERCEPTION_LABELS] == [tuple(color) for color in CLASS_RGB.tolist()]
    assert rgb(re.search(r'EGO_COLOR = "#(\w{6})"', palette)[1]) == EGO_RGB
    lights = dict(re.findall(r'(\w+): "#(\w{6})"', re.search(r"LIGHT_COLORS = \{(.*)\}", palette)[1]))
    assert tuple(rgb(lights[name.lower()]) for name in LIGHT_COLORS) == LIGHT_RGB

    for theme, text in (("light", palette[light:dark]), ("dark", palette[dark:])):
        tones = tones_of(theme)
        pairs = {
            **{name: rgb(digits) for name, digits in re.findall(r"^  (\w+): 0x(\w{6}),$", text, re.MULTILINE)},
            **{name: rgb(digits) for name, digits in re.findall(r'^  (\w+): "#(\w{6})",$', text, re.MULTILINE)},
            **{name: float(number) for name, number in re.findall(r"^  (\w+): ([\d.]+),$", text, re.MULTILINE)},
        }
        for name in ("ground", "lane", "border", "crosswalk", "past", "ghost", "plan", "mark", "label", "halo"):
            assert getattr(tones, name) == pairs[name], (theme, name)
        assert tones.crosswalk_ground == pairs["crosswalkGround"]
        assert (tones.light_tint, tones.lane_over_aerial, tones.box_edge) == (
            pairs["lightTint"],
            pairs["laneOverAerial"],
            pairs["boxEdge"],
        )


@pytest.mark.parametrize(
    ("factor", "expected"), [(1, (32, 64, 96)), (0.5, (16, 32, 48)), (0, (0, 0, 0)), (2, (255, 255, 255))]
)
def test_a_shade_is_darker_below_1_and_lighter_above(factor, expected):
    assert shade((32, 64, 96), factor) == expected
