"""Configurations of L5Kit 1.x train as they are, with --workflow to say what."""

import pytest
import yaml
from typer.testing import CliRunner

from l5kit.cli.main import make_app
from l5kit.configs.training import TrainingParams
from support.cities import small_city
from support.configs_of_1_x import format_4, format_7


@pytest.mark.parametrize(
    ("workflow", "text"),
    [
        pytest.param("raster_planner", format_4(perturb=0.5), id="planning"),
        pytest.param("agent_motion", format_4(future=50), id="agent motion"),
        pytest.param("simnet", format_4(history=5, future=50, render_ego_history=False), id="simulation"),
        pytest.param("raster_planner", format_4(architecture="simple_cnn", size=112, shuffle=False), id="DriverGym"),
        pytest.param("urban_driver", format_7("urban_driver", steps=5), id="Urban Driver"),
        pytest.param("vector_planner", format_7("vector_planner", steps=5), id="open loop"),
        pytest.param("safepathnet", format_7("safepathnet", steps=1000, epochs=6), id="SafePathNet"),
    ],
)
def test_they_are_accepted(workflow, text):
    params = TrainingParams.from_cfg(yaml.safe_load(text) | {"workflow": workflow})
    assert params.run.num_epochs == (6 if workflow == "safepathnet" else None)
    assert params.run.max_num_steps == (1000 if workflow == "safepathnet" else 5)
    assert params.optimizer.learning_rate == 1e-3


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return small_city(tmp_path_factory.mktemp("configs") / "city").path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workflow", "text"),
    [
        pytest.param(
            "raster_planner",
            format_4(perturb=0.5, architecture="simple_cnn", size=112, workers=0, steps=1),
            id="format 4",
        ),
        pytest.param("urban_driver", format_7("urban_driver", steps=1), id="format 7, Urban Driver"),
        pytest.param("safepathnet", format_7("safepathnet", steps=1), id="format 7, SafePathNet"),
    ],
)
def test_they_train(workflow, text, city, tmp_path, monkeypatch):
    monkeypatch.setenv("L5KIT_DATA_FOLDER", str(city))
    (tmp_path / "config.yaml").write_text(text)
    few = ("--set", "val_data_loader.max_num_batches=1")
    call = ("train", tmp_path / "config.yaml", "--workflow", workflow, "--out", tmp_path / "out", *few)
    done = CliRunner().invoke(make_app(), list(map(str, call)), prog_name="l5kit")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out" / f"{workflow}.safetensors").is_file()
    if workflow == "safepathnet":
        assert "no effect on the training: model_params.use_perturbation" in done.stderr
