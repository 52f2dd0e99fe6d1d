"""The example that trains Urban Driver."""

import re

import pytest
from PIL import Image

SMALL_WORLD = ("data_generation_params.other_agents_num=3", "data_generation_params.lane_params.max_num_lanes=3")


@pytest.mark.parametrize(
    ("workflow", "options", "horizon"),
    [("urban_driver", (), "3.2 s"), ("vector_planner", ("--open-loop",), "1.2 s")],
)
def test_planners_are_trained_and_tested(train_little, split_city, tmp_path, workflow, options, horizon):
    printed = train_little("urban_driver.py", "--data", split_city, *options, changes=SMALL_WORLD)
    assert f"{horizon}   constant velocity" in printed
    assert f"{horizon}   predicted" in printed
    assert (tmp_path / "out" / "training-1" / f"{workflow}.safetensors").is_file()
    assert Image.open(tmp_path / "out" / f"{workflow.replace('_', '-')}.png").width > 480


def test_long_steps_are_scored_as_in_the_training(train_little, split_city):
    strides = ("history_step_size=2", "future_step_size=2", "future_num_frames=6")
    changes = (*SMALL_WORLD, *(f"model_params.{stride}" for stride in strides))
    printed = train_little("urban_driver.py", "--data", split_city, changes=changes)
    of_training = re.search(r"val/ade_m/1.2s ([0-9.]+).*constant_velocity/ade_m/1.2s ([0-9.]+)", printed)
    of_example = re.search(r"1.2 s +constant velocity +([0-9.]+) m.*\n(?:.*\n)+?1.2 s +predicted +([0-9.]+) m", printed)
    assert float(of_example[1]) == pytest.approx(float(of_training[2]), abs=0.006)
    assert float(of_example[2]) == pytest.approx(float(of_training[1]), abs=0.006)
