"""Choice of episodes: draws that repeat, starts, damaged scenes, and options."""

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from l5kit.data.records import FRAME_INTERVAL
from l5kit.environment.episode_choice import EpisodeChoice, EpisodeDraws, EpisodeStart, frames_of_scenes
from l5kit.environment.gym_types import read_masked_options, read_options
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.logs import make_several_scenes_log

LENGTHS = np.array([100, 100, 40, 100])


def make_choice(*, bad=(), lengths=LENGTHS, **fields):
    def check(scene):
        if scene in bad:
            raise CorruptedDataError(f"chunk of {scene}")

    args = {"max_scene_id": len(lengths), "overfit_id": None, "is_anywhere": True, "num_frames": 30}
    return EpisodeChoice(lengths, **(args | fields), check_scene=check)


def draws(choice, num=50, seed=0, **wanted):
    generator = np.random.default_rng(seed)
    return [choice.draw(generator, wanted) for _ in range(num)]


def test_draws_repeat_and_keep_to_the_scenes():
    starts = draws(make_choice())
    assert starts == draws(make_choice())
    assert starts != draws(make_choice(), seed=1)
    assert {start.scene for start in starts} == {0, 1, 2, 3}
    assert all(start.first_frame + 30 <= LENGTHS[start.scene] for start in starts)
    assert {start.scene for start in draws(make_choice(max_scene_id=2))} == {0, 1}
    assert {start.scene for start in draws(make_choice(overfit_id=3))} == {3}


def test_episodes_may_be_the_rest_of_a_scene():
    choice = make_choice(is_anywhere=False, num_frames=None, first_frame=35)
    assert set(draws(choice)) == {EpisodeStart(scene, 35, int(LENGTHS[scene]) - 35) for scene in range(4)}
    assert choice.longest == 100


@pytest.mark.filterwarnings("ignore:scene . is left out")
def test_damaged_scenes_are_left_out_once():
    choice = make_choice(bad=(1, 2))
    with pytest.warns(RuntimeWarning, match="is left out: chunk of") as caught:
        starts = draws(choice)
    assert {start.scene for start in starts} == {0, 3}
    assert len(caught) == 2
    assert choice.damaged == {1, 2}
    with pytest.raises(CorruptedDataError, match="scene 1 is damaged: chunk of 1"):
        draws(choice, scene_id=1)
    assert choice.measured_scenes == [0, 3]
    assert choice.draw(np.random.default_rng(0), {}, next_id=1).scene == 3


@pytest.mark.filterwarnings("ignore:scene . is left out")
def test_scenes_that_are_too_short_are_left_out_while_others_have_enough():
    choice = make_choice(num_frames=50)
    with pytest.warns(RuntimeWarning, match="scene 2 is left out: it has 40 frames, and episodes need 50") as caught:
        starts = draws(choice)
    assert {start.scene for start in starts} == {0, 1, 3}
    assert [warning.filename for warning in caught] == [__file__]
    assert choice.too_short == {2}
    with pytest.raises(InvalidArgumentError, match="scene 2 has 40"):
        draws(choice, scene_id=2)
    with pytest.raises(InvalidArgumentError, match="num_simulation_steps is 200"):
        draws(make_choice(num_frames=200))
    told = make_choice(is_anywhere=False, first_frame=35, num_frames=None, lengths=np.array([100, 36]))
    assert {start.scene for start in draws(told)} == {0}


@pytest.mark.filterwarnings("error")
def test_strict_choices_leave_nothing_out():
    choice = make_choice(bad=(2,), strict=True)
    with pytest.raises(CorruptedDataError, match="scene 2 is damaged: chunk of 2"):
        draws(choice)
    assert choice.damaged == set()
    with pytest.raises(CorruptedDataError, match="scene 2 is damaged"):
        _ = choice.measured_scenes


@pytest.mark.filterwarnings("ignore:scene . is left out")
def test_nothing_is_left_where_all_are_damaged():
    choice = make_choice(bad=range(4))
    with pytest.raises(CorruptedDataError, match="no scene is left: 4 of 4 are damaged"):
        draws(choice)
    with pytest.raises(CorruptedDataError, match="no scene is left: 4 of 4 are damaged"):
        _ = choice.measured_scenes
    with pytest.raises(CorruptedDataError, match="scene 1 is damaged: chunk of 1"):
        draws(make_choice(bad=(1,), overfit_id=1))


def test_the_scales_are_measured_in_the_first_ten_sound_scenes():
    lengths = np.full(20, 100)
    assert make_choice(lengths=lengths).measured_scenes == list(range(10))
    with pytest.warns(RuntimeWarning, match="scene 3 is left out"):
        assert make_choice(lengths=lengths, bad=(3,)).measured_scenes == [0, 1, 2, *range(4, 11)]
    assert make_choice(overfit_id=2).measured_scenes == [2]


def test_lengths_are_0_where_the_log_does_not_have_the_frames():
    log = make_several_scenes_log()
    assert frames_of_scenes(log).tolist() == [20, 0, 1, 16]
    scenes = np.array(log.scenes)
    scenes[FRAME_INTERVAL] = [(20, 0), (-1, 3), (20, 10**13), (21, 37)]

    class Changed:
        frames = log.frames

    Changed.scenes = scenes
    assert frames_of_scenes(Changed).tolist() == [0, 0, 0, 16]


def test_options_are_read_with_or_without_a_mask():
    assert read_options(None) == {}
    assert read_options({"scene_id": np.int64(3)}) == {"scene_id": 3}
    given = {"reset_mask": "mask", "start_frame_index": 2}
    assert read_masked_options(given) == ("mask", {"start_frame_index": 2})
    assert set(given) == {"reset_mask", "start_frame_index"}, "it stays as it is"
    assert read_masked_options(None) == (None, {})
    for options in (5, "scene_id", ["scene_id"]):
        with pytest.raises(InvalidArgumentError, match="pass a dictionary, or None"):
            read_masked_options(options)


def test_scenes_in_which_episodes_fail_are_drawn_more_often():
    choice = EpisodeChoice(np.full(10, 50), 10, None, True, 20)
    draws = EpisodeDraws(choice, 400, failed_share=0.5)
    slots = np.arange(400)
    draws.seed(slots, 3)
    assert np.bincount(draws.draw(slots, {})[0], minlength=10).max() < 80  # no failures
    draws.note(np.array([2, 7, 7, 4]), np.array([True, True, True, False]))
    counts = np.bincount(draws.draw(slots, {})[0], minlength=10)
    assert counts[7] > counts[2] > 70
    assert counts[[2, 7]].sum() == pytest.approx(400 * (0.5 + 0.5 * 0.2), abs=50)
    assert (draws.draw(slots, {"scene_id": 5})[0] == 5).all()
    draws.note(np.repeat([2, 7], 60), np.zeros(120, bool))  # both have gone well many times
    assert np.bincount(draws.draw(slots, {})[0], minlength=10)[[2, 7]].sum() < 130


def test_without_a_share_draws_are_as_before():
    choice = EpisodeChoice(np.full(10, 50), 10, None, True, 20)
    plain, noted = EpisodeDraws(choice, 5), EpisodeDraws(choice, 5)
    for draws in (plain, noted):
        draws.seed(np.arange(5), 1)
    noted.note(np.array([3]), np.array([True]))
    np.testing.assert_array_equal(plain.draw(np.arange(5), {}), noted.draw(np.arange(5), {}))
