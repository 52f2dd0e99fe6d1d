"""Scenes as series of pictures."""

import numpy as np
import pytest

from l5kit.errors import IndexOutOfRangeError, TrackNotFoundError, UnsupportedValueError
from l5kit.rasterization.semantic_rasterizer import COLORS
from l5kit.visualization.birdseye.tones import EGO_RGB, tones_of
from l5kit.visualization.sample_config import SampleForm
from l5kit.visualization.scene_pictures import ScenePainter, frames_to_draw
from support.logs import make_agent, make_log

FORM = SampleForm(raster_size_px=(200, 120), pixel_size_m=0.4, ego_center=(0.3, 0.5))


@pytest.fixture
def two_scenes():
    """Scenes of three and two frames; track 5 is in frames 1 and 2 of the first, in the latter with no class."""
    four, five, no_class = make_agent(4), make_agent(5), make_agent(5, labels={})
    return make_log([[[four], [four, five], [four, no_class]], [[], [five]]])


@pytest.mark.parametrize(
    ("scene", "track", "frames"), [(0, 4, [0, 1, 2]), (0, 5, [1]), (1, 5, [1])], ids=["all", "some", "second scene"]
)
def test_frames_of_a_track_are_counted_in_the_scene(two_scenes, scene, track, frames):
    assert frames_to_draw(two_scenes, scene, slice(None), track_id=track, form=FORM) == frames


def test_a_track_that_is_not_there_is_an_error_that_names_some(two_scenes):
    with pytest.raises(TrackNotFoundError, match=r"track 9 is in no frame of scene 0 .* seen longest are 4, 5"):
        frames_to_draw(two_scenes, 0, slice(None), track_id=9, form=FORM)


@pytest.mark.parametrize(
    ("frames", "track", "expected"),
    [
        (slice(None), None, [0, 1, 2]),
        (slice(1, 99), None, [1, 2]),
        (slice(None, None, 2), None, [0, 2]),
        (slice(None), 5, [1]),
    ],
    ids=["all", "past the end", "every other", "of an agent"],
)
def test_frames_to_draw(two_scenes, frames, track, expected):
    assert frames_to_draw(two_scenes, 0, frames, track_id=track, form=FORM) == expected


def test_frames_that_are_not_there_are_errors(two_scenes):
    with pytest.raises(IndexOutOfRangeError, match="scene 2 is out of range; the dataset has the scenes 0 to 1"):
        frames_to_draw(two_scenes, 2, slice(None), track_id=None, form=FORM)
    with pytest.raises(IndexOutOfRangeError, match="3:9 select none of the 3 frames"):
        frames_to_draw(two_scenes, 0, slice(3, 9), track_id=None, form=FORM)
    with pytest.raises(TrackNotFoundError, match="scene 0 shows it in 1 to 1"):
        frames_to_draw(two_scenes, 0, slice(2, 3), track_id=5, form=FORM)


@pytest.mark.parametrize(("frame", "has_speed"), [(0, False), (1, True)])
def test_the_first_frame_of_a_scene_has_no_speed(city_files, city_log, monkeypatch, frame, has_speed):
    texts = []
    monkeypatch.setattr(
        "l5kit.visualization.scene_pictures.captioned", lambda picture, text, **tones: texts.append(text)
    )
    ScenePainter(city_files, city_log, map_kind="box", form=FORM).picture(1, frame)
    assert ("m/s" in texts[0]) == has_speed


@pytest.mark.parametrize("kind", ["semantic", "satellite", "box"])
def test_the_av_is_green_where_it_should_be_in_the_colours_of_channels(city_files, city_log, kind):
    painter = ScenePainter(city_files, city_log, map_kind=kind, form=FORM, style="channels")
    picture = painter.picture(1, 30, with_trajectories=False, with_caption=False)
    assert picture.shape == (120, 200, 3)
    assert tuple(picture[60, 60]) == (0, 255, 0)


def test_an_agent_in_the_middle_is_green_and_the_av_among_the_others(city_files, city_log):
    painter = ScenePainter(city_files, city_log, map_kind="semantic", form=FORM, style="channels")
    frame = city_log.scenes[0]["frame_index_interval"][0] + 40
    start, end = city_log.frames[int(frame)]["agent_index_interval"]
    agents = city_log.agents[int(start) : int(end)]
    track = int(agents["track_id"][agents["label_probabilities"][:, 3] > 0.5][0])
    picture = painter.picture(0, 40, track, with_trajectories=False, with_caption=False)
    assert tuple(picture[60, 60]) == (0, 255, 0)
    assert np.count_nonzero((picture == (0, 255, 0)).all(axis=-1)) < 200


def test_the_av_drives_on_the_road(city_files, city_log):
    """There is road under the AV and along its future in every frame: map, boxes and trajectory fit together."""
    painter = ScenePainter(city_files, city_log, map_kind="semantic", form=FORM, style="channels")
    for frame_index in range(0, 100, 20):
        sample = painter.samples.get_frame(0, frame_index)
        background = sample["image"][-3:].transpose(1, 2, 0)
        known = sample["target_availabilities"] > 0
        homogeneous = np.column_stack([sample["target_positions"][known], np.ones(known.sum())])
        columns, rows = (sample["raster_from_agent"][:2] @ homogeneous.T).astype(int)
        inside = (columns >= 0) & (columns < 200) & (rows >= 0) & (rows < 120)
        under = np.rint(255 * background[rows[inside], columns[inside]]).astype(int)
        assert not (under == 255).all(axis=-1).any()
        assert tuple(np.rint(255 * background[60, 60]).astype(int)) != (255, 255, 255)


def test_active_lights_colour_lanes(city_files, city_log):
    samples = ScenePainter(city_files, city_log, map_kind="semantic", form=FORM, style="channels").samples
    seen = set()
    for frame_index in range(0, 300, 10):
        background = 255 * samples[frame_index]["image"][-3:]
        for name in ("RED", "GREEN"):
            distances = np.abs(background - np.array(COLORS[name])[:, None, None]).max(axis=0)
            seen |= {name} if (distances < 60).sum() > 20 else set()
    assert seen == {"RED", "GREEN"}


def test_a_film_is_its_pictures_and_tells_how_far_it_is(city_files, city_log):
    painter = ScenePainter(city_files, city_log, map_kind="box", form=FORM)
    calls = []
    film = list(painter.film(2, [3, 7], progress=lambda done, total: calls.append((done, total))))
    np.testing.assert_array_equal(film[1], painter.picture(2, 7))
    assert calls == [(0, 2), (1, 2)]


def test_a_frame_that_is_not_there_is_an_error(city_files, city_log):
    painter = ScenePainter(city_files, city_log, map_kind="box", form=FORM)
    with pytest.raises(IndexOutOfRangeError, match="scene 0 has the frames 0 to 99"):
        painter.picture(0, 100)
    with pytest.raises(IndexOutOfRangeError, match="scene -1"):
        painter.picture(-1, 0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["semantic", "satellite", "box"])
def test_with_the_look_of_the_viewer_the_av_is_red_on_the_ground_of_the_theme(city_files, city_log, kind, theme):
    painter = ScenePainter(city_files, city_log, map_kind=kind, form=FORM, theme=theme)
    picture = painter.picture(1, 30, with_trajectories=False, with_caption=False)
    assert picture.shape == (120, 200, 3)
    assert (picture[55:66, 52:69] == EGO_RGB).all(axis=-1).sum() > 12
    tones = tones_of(theme)
    lane, ground = ((picture == color).all(axis=-1).mean() for color in (tones.lane, tones.ground))
    assert (lane > 0.1) == (kind == "semantic")
    assert (ground > 0.1) == (kind != "satellite")


def test_the_same_frame_gives_the_same_picture(city_files, city_log):
    pictures = [ScenePainter(city_files, city_log, map_kind="semantic", form=FORM).picture(2, 50) for _ in range(2)]
    np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize(("option", "value"), [("style", "chanels"), ("theme", "drak")])
def test_a_style_or_theme_that_is_not_there_is_an_error(city_files, city_log, option, value):
    with pytest.raises(UnsupportedValueError, match=rf"{option} is '{value}' \(did you mean"):
        ScenePainter(city_files, city_log, map_kind="box", form=FORM, **{option: value})
