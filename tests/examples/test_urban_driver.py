"""The example that trains Urban Driver."""

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
