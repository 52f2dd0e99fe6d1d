"""The example that trains the raster planner and tests it open loop."""

import json
import shutil
from dataclasses import asdict

from PIL import Image

from l5kit.synthetic.params import CityParams

SMALL_NETWORK = ("model_params.model_architecture=simple_cnn", "raster_params.raster_size=[112, 112]")


def test_real_data_is_trained_on_with_the_configuration_of_full_size(train_little, split_city, tmp_path):
    printed = train_little("planning.py", "--data", split_city, changes=SMALL_NETWORK)
    assert "1.2 s   constant velocity" in printed  # 12 steps, as in the configuration of 1.5
    assert "1.2 s   predicted" in printed
    assert Image.open(tmp_path / "out" / "planning.png").width > 480


def test_a_second_run_keeps_the_city_and_the_first_training(train_little, split_city, tmp_path):
    city, first = tmp_path / "out" / "city", tmp_path / "out" / "training-1"
    shutil.copytree(split_city, city)
    recipe = json.loads((city / "city.json").read_text())
    of_the_example = asdict(CityParams(num_scenes=8, num_train_scenes=40))
    (city / "city.json").write_text(json.dumps(recipe | {"arguments": of_the_example}))
    first.mkdir()
    before = (city / "meta.json").stat().st_mtime_ns
    train_little("planning.py")
    assert (city / "meta.json").stat().st_mtime_ns == before
    assert list(first.iterdir()) == []
    assert (tmp_path / "out" / "training-2" / "raster_planner.safetensors").is_file()
