"""Configurations of trainings: what is read, and what is refused."""

import math
from pathlib import Path

import pytest

from l5kit.configs.known_keys import check_known_keys, warn_of_misspelt_keys
from l5kit.configs.networks import BackboneParams, SafePathNetParams, VectorModelParams
from l5kit.configs.overrides import load_training_config, shipped_config_names, with_overrides
from l5kit.configs.runs import WORKFLOWS, LoaderParams, OptimizerParams, WeightsName
from l5kit.configs.training import TrainingParams, read_workflow
from l5kit.errors import ConfigError
from support.workflows import small_config

LOADERS = ("train_data_loader", "val_data_loader")


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_workflow_has_a_configuration(workflow):
    params = TrainingParams.from_cfg(small_config(workflow))
    assert params.workflow == params.run.output_name == workflow
    assert params.horizons_s[-1] == pytest.approx(params.future_num_frames * 0.1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("train_params.max_num_step", "unknown key; did you mean train_params.max_num_steps"),
        ("model_parms", "model_parms: unknown key; did you mean model_params"),
        ("model_params.learning_rate", "this key does not belong here; move it to train_params"),
        ("max_num_steps", "max_num_steps: this key does not belong here; move it to train_params"),
        ("train_params.batchsize", "did you mean train_data_loader.batch_size"),
        ("train_params.workflow", "move it to the top of the file"),
        ("data_generation_params.lane_params.max_lanes", "did you mean data_generation_params.lane_params.max_num_"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused_with_the_nearest_right_one(path, message):
    cfg = with_overrides(small_config("vector_planner"), [f"{path}=1"])
    with pytest.raises(ConfigError) as caught:
        TrainingParams.from_cfg(cfg)
    assert message in str(caught.value)


def test_all_wrong_keys_are_named():
    with pytest.raises(ConfigError, match=r"model_params\.x.*train_params\.y"):
        check_known_keys({"model_params": {"x": 1}, "train_params": {"y": 2}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("workflow=planner", "workflow: expected one of raster_planner"),
        ("workflow=null", "--workflow"),
        ("train_params.max_num_steps=null", "max_num_steps or num_epochs"),
        ("train_params.max_num_steps=0", r"train_params\.max_num_steps: .* from 1 to 1e\+12, got 0"),
        ("train_params.precision=8", r"train_params\.precision"),
        ("train_params.logger=paper", "'csv' or 'tensorboard'"),
        ("train_params.horizons_s=[2.0]", "beyond the predicted 1.2 s"),
        ("train_params.horizons_s=[0]", r"a list of finite numbers greater than 0 \(seconds\), got \[0\]"),
        ("train_params.horizons_s=2", "list of finite numbers"),
        ("train_data_loader.perturb_probability=1.5", "from 0 to 1"),
        ("train_data_loader.perturb_std=[1, 2]", "three finite numbers of at least 0"),
        ("train_data_loader={key: a, batch_size: 2, num_workers: 2, threads: 2}", "not both"),
        (
            "train_data_loader={key: a, batch_size: 2, num_workers: 2, on_device: true}",
            "made on_device; remove one of them",
        ),
        ("train_data_loader.batch_size=true", r"train_data_loader\.batch_size"),
        ("train_data_loader={batch_size: 2}", r"train_data_loader\.key: this key is missing"),
        ("model_params.criterion=l2", r"model_params\.criterion: .*'l1'.*'l2'"),
        (
            "model_params={history_num_frames: 0, future_num_frames: 2, step_time: 0.1, velocity_residual: true}",
            "velocities need past frames",
        ),
        ("model_params.future_num_frames=0", r"model_params\.future_num_frames"),
        ("train_params=3", "train_params: expected a mapping"),
    ],
)
def test_a_wrong_value_is_refused_by_name(change, message):
    with pytest.raises(ConfigError, match=message):
        TrainingParams.from_cfg(with_overrides(small_config("raster_planner"), [change]))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"velocity_residual": "true"}, "constant_velocity", id="of earlier configurations"),
        pytest.param({"kinematic_residual": "ctra"}, "ctra", id="named"),
        pytest.param({"velocity_residual": "true", "kinematic_residual": "ctrv"}, "ctrv", id="the name wins"),
    ],
)
def test_what_differences_are_learned_to(changes, expected):
    cfg = small_config("raster_planner")
    cfg["model_params"].pop("velocity_residual", None)
    texts = [f"model_params.{key}={value}" for key, value in changes.items()]
    assert TrainingParams.from_cfg(with_overrides(cfg, texts)).residual_to == expected


def test_urban_driver_goes_on_with_its_last_step_instead_of_at_constant_velocity():
    cfg = with_overrides(small_config("urban_driver"), ["model_params.kinematic_residual=constant_velocity"])
    with pytest.raises(ConfigError, match=r"urban_driver predicts step by step.*velocity_residual"):
        TrainingParams.from_cfg(cfg)


@pytest.mark.parametrize(
    ("workflow", "changes"),
    [
        pytest.param("raster_planner", ["velocity_residual=false"], id="no baseline"),
        pytest.param("urban_driver", ["velocity_residual=true"], id="step by step"),
        pytest.param("motion_tokens", ["kinematic_residual=ctra"], id="tokens"),
    ],
)
def test_a_unit_is_that_of_differences_to_a_baseline(workflow, changes):
    cfg = with_overrides(small_config(workflow), [f"model_params.{change}" for change in changes])
    with pytest.raises(ConfigError, match="residual_unit_m: it is the unit of differences"):
        TrainingParams.from_cfg(with_overrides(cfg, ["model_params.residual_unit_m=2.0"]))


def test_a_unit_of_differences():
    cfg = with_overrides(small_config("vector_planner"), ["model_params.kinematic_residual=ctra"])
    assert TrainingParams.from_cfg(cfg).residual_unit_m is None
    assert TrainingParams.from_cfg(with_overrides(cfg, ["model_params.residual_unit_m=2.0"])).residual_unit_m == 2.0


def test_motion_tokens_are_told_no_motion():
    cfg = with_overrides(small_config("motion_tokens"), ["model_params.motion_features=true"])
    with pytest.raises(ConfigError, match="not supported by motion_tokens"):
        TrainingParams.from_cfg(cfg)


def test_early_stopping_needs_evaluations():
    cfg = with_overrides(small_config("raster_planner"), ["train_params.early_stopping_patience=2"])
    assert TrainingParams.from_cfg(cfg).run.early_stopping_patience == 2
    del cfg["val_data_loader"]
    with pytest.raises(ConfigError, match="add a val_data_loader"):
        TrainingParams.from_cfg(cfg)


def test_strides_make_steps_longer():
    cfg = with_overrides(small_config("raster_planner"), ["model_params.future_step_size=2"])
    assert TrainingParams.from_cfg(cfg).horizons_s == (pytest.approx(2.4),)


def test_the_past_of_vectors_tells_velocities_too():
    for workflow, key in (("urban_driver", "history_num_frames_ego"), ("safepathnet", "history_num_frames_agents")):
        cfg = with_overrides(load_training_config(workflow), [f"model_params.{key}=0"])
        with pytest.raises(ConfigError, match=f"model_params.{key}: velocities need past frames"):
            TrainingParams.from_cfg(cfg)


def test_past_and_future_steps_have_lengths_of_their_own():
    changes = ["model_params.history_step_size=2", "model_params.future_step_size=5"]
    params = TrainingParams.from_cfg(with_overrides(small_config("raster_planner"), changes))
    assert (params.past_step_time_s, params.step_time_s) == (pytest.approx(0.2), pytest.approx(0.5))


def test_defaults_are_those_of_l5kit_1_5():
    loader = LoaderParams.from_cfg({"train_data_loader": {"key": "a", "batch_size": 2}}, "train_data_loader")
    assert (loader.min_frame_history, loader.min_frame_future, loader.perturb_probability) == (10, 1, 0.0)
    assert loader.perturb_std == (0.5, 1.5, pytest.approx(0.5235988))
    assert loader.shuffle
    assert OptimizerParams.from_cfg({"train_params": {}}).learning_rate == 1e-3
    vector = VectorModelParams.from_cfg({"model_params": {}})
    assert vector.weights_scaling == (1.0, 1.0, 1.0)
    assert not vector.use_agent_labels


@pytest.mark.parametrize(("workers", "threads"), [({}, 1), ({"num_workers": 2}, 0), ({"num_workers": 0}, 1)])
def test_threads_make_batches_where_no_processes_do(workers, threads):
    loader = {"key": "a", "batch_size": 2, **workers}
    assert LoaderParams.from_cfg({"val_data_loader": loader}, "val_data_loader").threads == threads


def test_each_loader_has_keys_of_its_own():
    cfg = {name: {"key": "a", "batch_size": 2, "max_num_batches": 3, "perturb_std": [0, 1, 2]} for name in LOADERS}
    trained, evaluated = (LoaderParams.from_cfg(cfg, name) for name in LOADERS)
    assert (trained.shuffle, trained.max_num_batches, trained.perturb_std) == (True, None, (0.0, 1.0, 2.0))
    assert (evaluated.shuffle, evaluated.max_num_batches) == (False, 3)
    with pytest.raises(
        ConfigError, match=r"val_data_loader\.batch_size: expected a whole number from 1 to 100000, got 0"
    ):
        LoaderParams.from_cfg({"val_data_loader": {"key": "a", "batch_size": 0}}, "val_data_loader")
    for name, key in zip(LOADERS, ("max_num_batches", "perturb_std"), strict=True):
        with pytest.raises(ConfigError, match=f"{name}.{key}: this key does not belong here; move it to"):
            check_known_keys({name: {key: None}})


def test_the_name_of_the_weights_is_that_of_the_workflow_unless_it_is_configured():
    def name_of(params):
        return WeightsName.from_cfg({"workflow": "simnet", "train_params": params}).output_name

    assert name_of({}) == "simnet"
    assert name_of({"output_name": "mine"}) == "mine"
    assert name_of({"output_name": "für [0]"}) == "für [0]"
    with pytest.raises(ConfigError, match="--workflow"):
        read_workflow({"train_params": {}})
    with pytest.raises(ConfigError, match=r"train_params\.output_name: expected a file name .*, got 3"):
        name_of({"output_name": 3})


@pytest.mark.parametrize(
    "name", ["", "../other", "a/b", "a\\b", ".hidden", "a\n", "a\0", "\ud800", "x" * 101], ids=ascii
)
def test_weights_stay_in_the_folder_of_their_training(name):
    cfg = small_config("raster_planner")
    cfg["train_params"]["output_name"] = name
    with pytest.raises(ConfigError, match=r"^train_params\.output_name: expected a file name without folder"):
        TrainingParams.from_cfg(cfg)


def test_what_is_not_said_of_weights_is_left_open():
    assert BackboneParams.from_cfg({"model_params": {"model_architecture": "resnet50"}}).pretrained is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model_params.step_time=1e-320", r"model_params\.step_time: expected a finite number from 1e-06 to 3600"),
        (f"train_data_loader.batch_size={10**30}", r"train_data_loader\.batch_size: .* from 1 to 100000, got 10"),
        (f"train_data_loader.num_workers={10**30}", r"train_data_loader\.num_workers: .* from 0 to 10000, got 10"),
        (f"train_params.max_num_steps={10**30}", r"train_params\.max_num_steps: .* from 1 to 1e\+12, got 10"),
        (f"train_params.num_epochs={10**30}", r"train_params\.num_epochs: .* from 1 to 1e\+06, got 10"),
        (
            f"train_params.accumulate_grad_batches={10**9}",
            r"train_params\.accumulate_grad_batches: .* from 1 to 100000",
        ),
        (f"train_params.seed={2**64}", r"train_params\.seed: expected a whole number from 0 to 9\.22337e\+18, got 184"),
        (
            "train_params.learning_rate=1e300",
            r"train_params\.learning_rate: .* above 0 and at most 1e\+06, got 1e\+300",
        ),
        ("train_params.weight_decay=-1", r"train_params\.weight_decay: expected a finite number of at least 0, got -1"),
        (f"train_data_loader.threads={2**63}", r"train_data_loader\.threads: .* from 0 to 10000, got 92"),
    ],
)
def test_numbers_beyond_what_any_machine_can_do_are_refused(change, message):
    with pytest.raises(ConfigError, match=rf"^{message}"):
        TrainingParams.from_cfg(with_overrides(small_config("raster_planner"), [change]))


def test_a_network_larger_than_any_machine_is_refused_before_it_is_made():
    cfg = with_overrides(small_config("vector_planner"), [f"model_params.dim_features={10**9}"])
    with pytest.raises(ConfigError, match=r"^model_params\.dim_features: .* from 1 to 16384, got 1000000000"):
        TrainingParams.from_cfg(cfg)


def test_only_options_that_are_given_reach_safepathnet():
    cfg = {"model_params": {"agent_num_trajectories": 2, "dropout": 0.0, "nhead": 4, "yaw_residual": "single"}}
    assert SafePathNetParams.from_cfg(cfg).options == {"nhead": 4, "yaw_residual": "single", "dropout": 0.0}


def test_overrides_are_read_as_yaml_and_change_a_copy():
    cfg = {"a": {"b": 1}}
    assert with_overrides(cfg, ["a.b=[1, 2]", "c.d=text", "e=1e-3"]) == {
        "a": {"b": [1, 2]},
        "c": {"d": "text"},
        "e": 1e-3,
    }
    assert cfg == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("-1E3", -1e3),
        ("2.5e2", 250.0),
        ("[1e-1, {a: .5e1}]", [0.1, {"a": 5.0}]),
        ("'1e3'", "1e3"),
        ("'2020'", "2020"),
        ("'007'", "007"),
        ("nan", "nan"),
        ("infinity", "infinity"),
        ("1e", "1e"),
        ("a1e3", "a1e3"),
        (".inf", math.inf),
        ("12", 12),
    ],
)
def test_only_plain_numbers_of_yaml_are_numbers(text, value):
    found = with_overrides({}, [f"a={text}"])["a"]
    assert (found, type(found)) == (value, type(value))


def test_an_override_of_one_section_changes_no_other_one():
    loader = {"batch_size": 4, "sizes": [1, 2]}
    cfg = {"train_data_loader": loader, "val_data_loader": loader, "both": [loader, (loader,)]}
    changed = with_overrides(cfg, ["train_data_loader.batch_size=8"])
    assert changed == {**cfg, "train_data_loader": {"batch_size": 8, "sizes": [1, 2]}}
    assert changed["val_data_loader"]["sizes"] is not changed["train_data_loader"]["sizes"]
    assert loader["batch_size"] == 4


def test_a_configuration_that_is_part_of_itself_is_not_copied():
    cfg = {}
    cfg["a"] = cfg
    with pytest.raises(ConfigError, match=r"^the configuration is nested too deep"):
        with_overrides(cfg, ["b=1"])


@pytest.mark.parametrize("override", ["a..c=1", ".a=1", "a.=1", " .x=2", "a. .b=1"])
def test_an_empty_part_of_a_path_is_refused(override):
    with pytest.raises(ConfigError, match=r"expected KEY=VALUE, .* a name on both sides of each dot"):
        with_overrides({"a": {"b": 1}}, [override])


@pytest.mark.parametrize("override", ["a.b", "=1", "a.b.c=1", "a.b=[1"])
def test_overrides_that_cannot_be_meant_are_refused(override):
    with pytest.raises(ConfigError):
        with_overrides({"a": {"b": 1}}, [override])


def test_a_configuration_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="a shipped configuration"):
        load_training_config("nowhere.yaml")


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_configurations_that_ship_are_right(workflow):
    assert set(shipped_config_names()) == set(WORKFLOWS)
    params = TrainingParams.from_cfg(load_training_config(workflow))
    assert params.workflow == workflow
    assert params.horizons_s[-1] >= 2.0
    assert params.val_loader.key != params.train_loader.key


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_examples_are_right(workflow):
    path = Path(__file__).resolve().parents[2] / "examples" / f"{workflow}_config.yaml"
    assert TrainingParams.from_cfg(load_training_config(str(path))).workflow == workflow


def test_a_misspelt_key_of_rasters_is_told_and_one_of_ones_own_is_not():
    cfg = {"raster_params": {"raster_size": [10, 10], "pixle_size": [0.5, 0.5], "weather": "fine"}}
    with pytest.warns(
        UserWarning, match=r"raster_params.pixle_size is not a known key .did you mean 'pixel_size'"
    ) as told:
        warn_of_misspelt_keys(cfg, "raster_params")
    assert len(told) == 1
    warn_of_misspelt_keys({}, "raster_params")
