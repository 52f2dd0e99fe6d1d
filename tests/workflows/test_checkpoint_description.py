"""Descriptions of checkpoints, from their names and shapes alone."""

import zipfile
from random import Random

import pytest
import torch

from l5kit.configs.overrides import load_training_config, shipped_config_names, with_overrides
from l5kit.errors import ConfigError
from l5kit.planning.checkpoint import save_checkpoint
from l5kit.planning.torch_files import CheckpointError
from l5kit.workflows import TrainingConfig, make_model
from l5kit.workflows.architectures import architecture_of
from l5kit.workflows.checkpoint_description import describe_checkpoint, mismatch_with_config
from support import networks_of_1_5 as of_1_5
from support.checkpoint_damage import damaged_checkpoints

RASTER = {"model_params.model_architecture": "simple_cnn"}


def shapes_of(network):
    return {name: tuple(value.shape) for name, value in network.state_dict().items()}


def on_meta(name):
    with torch.device("meta"):
        return make_model(TrainingConfig.from_cfg(load_training_config(name)))


@pytest.mark.parametrize(
    ("make", "name", "workflows", "settings"),
    [
        pytest.param(
            lambda: of_1_5.RasterizedPlanningModel("resnet50", 15, 150),
            "RasterizedPlanningModel",
            ("raster_planner", "simnet"),
            {
                "model_params.model_architecture": "resnet50",
                "num_channels": 15,
                "model_params.history_num_frames": 5,
                "model_params.future_num_frames": 50,
            },
            id="the simulation model that was published",
        ),
        pytest.param(
            lambda: of_1_5.RasterizedPlanningModel("resnet18", 5, 36),
            "RasterizedPlanningModel",
            ("raster_planner", "simnet"),
            {
                "model_params.model_architecture": "resnet18",
                "num_channels": 5,
                "model_params.history_num_frames": 0,
                "model_params.future_num_frames": 12,
            },
            id="resnet18",
        ),
        pytest.param(
            lambda: of_1_5.RasterizedPlanningModel("simple_cnn", 3, 36),
            "RasterizedPlanningModel",
            ("raster_planner", "simnet"),
            {**RASTER, "num_channels": 3, "model_params.future_num_frames": 12},
            id="a map without boxes",
        ),
        pytest.param(
            lambda: of_1_5.backbone("simple_cnn", 25, 100),
            "RasterizedMotionModel",
            ("agent_motion", "agent_motion_multimodal"),
            {
                **RASTER,
                "num_channels": 25,
                "model_params.history_num_frames": 10,
                "model_params.future_num_frames": 50,
            },
            id="the backbone alone",
        ),
        pytest.param(
            lambda: of_1_5.VectorizedModel(12),
            "VectorizedModel",
            ("vector_planner",),
            {"model_params.future_num_frames": 12},
            id="vectors",
        ),
        pytest.param(of_1_5.VectorizedUnrollModel, "VectorizedUnrollModel", ("urban_driver",), {}, id="unrolled"),
        pytest.param(
            lambda: of_1_5.SafePathNetModel(30, 20),
            "SafePathNetModel",
            ("safepathnet",),
            {
                "model_params.future_num_frames": 30,
                "model_params.agent_num_trajectories": 20,
                "model_params.dim_local": 128,
                "model_params.dim_global": 256,
                "model_params.dim_feedforward": 1024,
            },
            id="safepathnet",
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.model.", "model._orig_mod.module."])
def test_networks_of_1_5_are_told_by_names_and_shapes(make, name, workflows, settings, prefix):
    with torch.device("meta"):
        shapes = shapes_of(make())
    found = architecture_of({f"{prefix}{key}": shape for key, shape in shapes.items()})
    assert found.model_class.endswith(f".{name}")
    assert (found.workflows, found.settings, found.is_residual) == (workflows, settings, False)


def test_several_readings_are_all_told_unless_the_class_decides():
    """12 steps of 3 values and a logit, 3 times, are 111: as many as 37 steps of 3 values."""
    shapes = shapes_of(of_1_5.RasterizedMultiModalPlanningModel("simple_cnn", 5, 12, 3))
    several = {"model_params.future_num_frames": 12, "model_params.num_modes": 3}
    by_shapes = architecture_of(shapes)
    assert by_shapes.settings["model_params.future_num_frames"] == 37
    assert by_shapes.readings == (several,)
    by_class = architecture_of(shapes, "l5kit.planning.rasterized.multimodal_model.RasterizedMultiModalPlanningModel")
    assert by_class.settings.items() >= several.items()
    assert (by_class.workflows, by_class.readings) == ((), ())


@pytest.mark.parametrize(
    "shapes",
    [
        {},
        {"0.weight": (4, 3), "2.weight": (2, 4)},
        {"input_embed.weight": (256, 3)},
        {"conv1.weight": (64, 3, 7, 7), "fc.weight": (10, 512)},
        {"model.0.weight": (), "model.4.weight": (), "model.9.weight": ()},
        {"module.": (2,)},
    ],
)
def test_other_networks_are_not_known(shapes):
    assert architecture_of(shapes) is None


@pytest.mark.parametrize("name", shipped_config_names())
def test_networks_of_shipped_configurations_fit_them(name):
    model = on_meta(name)
    found = architecture_of(shapes_of(model))
    assert name in found.workflows
    cfg = load_training_config(name)
    wanted = {key: cfg["model_params"].get(key.removeprefix("model_params.")) for key in found.settings}
    assert {key: value for key, value in found.settings.items() if key != "num_channels"} == {
        key: value for key, value in wanted.items() if key != "num_channels"
    }


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("vector_planner", {"model_params.dim_features": 64}),
        ("urban_driver", {"model_params.dim_features": 64}),
        ("safepathnet", {}),
        ("raster_planner", {}),
        ("agent_motion", {}),
        ("agent_motion_multimodal", {}),
    ],
)
def test_networks_that_are_told_the_motion(name, further):
    wanted = {"model_params.motion_features": True, **further}
    cfg = with_overrides(load_training_config(name), [f"{key}={value}".lower() for key, value in wanted.items()])
    with torch.device("meta"):
        model = make_model(TrainingConfig.from_cfg(cfg))
    found = architecture_of(shapes_of(model))
    assert name in found.workflows
    if name not in ("urban_driver", "agent_motion_multimodal"):  # whose steps the shapes leave open
        wanted["model_params.future_num_frames"] = cfg["model_params"]["future_num_frames"]
    assert wanted.items() <= found.settings.items()


def test_a_file_of_ours_tells_its_configuration_and_fits_it(tmp_path):
    cfg = load_training_config("agent_motion_multimodal")
    save_checkpoint(tmp_path / "a.safetensors", make_model(TrainingConfig.from_cfg(cfg)), config=cfg, facts={"step": 7})
    found = describe_checkpoint(tmp_path / "a.safetensors")
    assert (found.kind, found.needs_pickle, found.config, found.facts) == (
        "safetensors of l5kit",
        False,
        cfg,
        {"step": 7},
    )
    assert found.fits == ("agent_motion_multimodal",)
    assert not mismatch_with_config(found, cfg)
    assert found.architecture.is_residual
    assert "model_params.kinematic_residual" in found.architecture.not_in_weights
    other = {**cfg, "model_params": {**cfg["model_params"], "num_modes": 2}}
    mismatch = mismatch_with_config(found, other)
    last = "residual.motion_head.layers.layers.2"
    assert [name for name, _, _ in mismatch.reshaped] == [f"{last}.weight", f"{last}.bias"]
    own = {**cfg, "raster_params": {**cfg["raster_params"], "map_type": "absent.py:Mine"}}
    with pytest.raises(ConfigError, match=r"raster_params\.map_type: .* names absent\.py:Mine, which is not imported"):
        mismatch_with_config(found, own)


@pytest.mark.parametrize(
    ("writer", "kind", "needs_pickle"),
    [
        ("script", "TorchScript archive", False),
        ("state dict", "state dict", False),
        ("training", "dict with a state dict under 'model_state_dict'", False),
        ("module", "whole pickled module", True),
        ("legacy module", "whole pickled module", True),
    ],
)
def test_files_of_1_5_are_told(writer, kind, needs_pickle, tmp_path, monkeypatch):
    of_1_5.WRITERS[writer](of_1_5.VectorizedModel(12), tmp_path / "OL.pt")
    monkeypatch.setattr(torch.jit, "load", None)  # nothing is run
    found = describe_checkpoint(tmp_path / "OL.pt")
    assert (found.kind, found.needs_pickle) == (kind, needs_pickle)
    assert found.num_parameters == 2_209_316
    assert found.dtypes == {"float32": 33}
    assert found.architecture.workflows == ("vector_planner",)
    assert found.as_dict()["architecture"]["settings"] == {"model_params.future_num_frames": 12}


class Runs:
    """Would write a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("is_new", [True, False])
def test_nothing_in_a_file_is_run(is_new, tmp_path):
    content = {"state_dict": {"a": torch.ones(3)}, "hook": Runs(tmp_path / "run"), "pytorch-lightning_version": "2"}
    torch.save(content, tmp_path / "a.ckpt", _use_new_zipfile_serialization=is_new)
    found = describe_checkpoint(tmp_path / "a.ckpt")
    assert (found.kind, found.needs_pickle, found.num_parameters) == ("checkpoint of Lightning", True, 3)
    assert not (tmp_path / "run").exists()


def test_a_module_that_holds_itself_is_refused(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    module._modules["0"]._modules["loop"] = module
    torch.save(module, tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"a\.pt cannot be read .* holds itself"):
        describe_checkpoint(tmp_path / "a.pt")


def test_a_module_that_has_been_cut_is_refused(tmp_path):
    of_1_5.save_legacy_module(of_1_5.RasterizedPlanningModel("simple_cnn", 5, 36), tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(content[:-5000])
    with pytest.raises(CheckpointError, match=r"a\.pt is cut short"):
        describe_checkpoint(tmp_path / "a.pt")


def test_a_driver_of_stable_baselines_is_told(tmp_path):
    torch.save({"actor.weight": torch.ones(2, 3)}, tmp_path / "policy.pth")
    with zipfile.ZipFile(tmp_path / "driver.zip", "w") as archive:
        archive.writestr("data", "{}")
        archive.write(tmp_path / "policy.pth", "policy.pth")
        archive.writestr("_stable_baselines3_version", "2.4.0")
    found = describe_checkpoint(tmp_path / "driver.zip")
    assert found.kind == "driver of stable-baselines3 2.4.0 (l5kit train-rl)"
    assert (found.num_parameters, found.architecture) == (6, None)
    with zipfile.ZipFile(tmp_path / "broken.zip", "w") as archive:
        archive.writestr("policy.pth", "no weights")
        archive.writestr("_stable_baselines3_version", "2.4.0")
    with pytest.raises(CheckpointError, match=r"broken\.zip is a broken driver"):
        describe_checkpoint(tmp_path / "broken.zip")


@pytest.mark.slow
def test_damaged_checkpoints_are_told_or_described(tmp_path):
    outcomes = [outcome_of(path) for _, path in damaged_checkpoints(Random(3), tmp_path)]
    assert set(outcomes) == {"described", "named"}
    assert outcomes.count("described") > 50


def outcome_of(path):
    try:
        describe_checkpoint(path).as_dict()
    except CheckpointError as error:
        return "named" if str(path) in str(error) else "vague"
    return "described"
