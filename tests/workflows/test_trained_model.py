"""Models that are loaded in one line: what they predict, from samples of which form, and what is refused."""

import numpy as np
import pytest
import torch
from torch.utils.data import Subset

import l5kit
from l5kit.configs.runs import WORKFLOWS
from l5kit.data import ChunkedDataset, LocalDataManager
from l5kit.dataset import collate
from l5kit.errors import ConfigError, InvalidArgumentError
from l5kit.planning.checkpoint import CheckpointMismatchError, export_torchscript, load_checkpoint, read_checkpoint
from l5kit.planning.network_inputs import network_inputs
from l5kit.workflows import TrainedModel, TrainingConfig, load_network, make_model, open_samples
from support.models import one_thread
from support.networks import save_network
from support.tolerances import NETWORK
from support.workflows import small_config

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of", "ignore:.*torch.jit.*deprecated")

INDICES = [20, 3, 60]


@pytest.fixture(scope="module")
def files(city, tmp_path_factory):
    """A file with an untrained network of each workflow."""
    folder = tmp_path_factory.mktemp("networks")
    return {workflow: save_network(workflow, city, folder) for workflow in WORKFLOWS}


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_what_is_predicted_is_what_the_network_gives_without_the_future(workflow, files, city, log):
    model = l5kit.load_model(files[workflow])
    samples = model.samples_of(log)
    batch = collate([samples[index] for index in INDICES])
    config = TrainingConfig.from_cfg(small_config(workflow))
    truth = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
    network = load_network(files[workflow], config, truth, allow_pickle=False)
    with torch.no_grad():
        expected = network(network_inputs(collate([truth[index] for index in INDICES])))
    predicted = model.predict(batch)
    assert predicted.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(predicted[key], value.numpy(), rtol=0, atol=NETWORK)
    assert all(isinstance(value, np.ndarray) for value in predicted.values())
    assert not model.training


def test_samples_of_any_form_are_predicted_alike(files, log):
    model = l5kit.load_model(files["raster_planner"])
    samples = model.samples_of(log)
    listed = [samples[index] for index in INDICES]
    expected = model.predict(collate(listed))["positions"]
    assert expected.shape == (3, 12, 2)
    forms = {
        "columns": samples.make_columns(INDICES),
        "list": listed,
        "dataset": Subset(samples, INDICES),
    }
    for form, given in forms.items():
        np.testing.assert_allclose(
            model.predict(given, batch_size=2)["positions"], expected, rtol=0, atol=NETWORK, err_msg=form
        )
    np.testing.assert_allclose(model.predict(listed[1])["positions"], expected[1], rtol=0, atol=NETWORK)


def test_gradients_flow_where_it_is_called_as_a_network(files, log):
    model = l5kit.load_model(files["vector_planner"])
    batch = collate([model.samples_of(log)[20]])
    model(batch)["positions"].sum().backward()
    assert any(parameter.grad is not None for parameter in model.parameters())
    assert not torch.from_numpy(model.predict(batch)["positions"]).requires_grad


def test_the_samples_are_those_of_a_path_and_its_map(files, city):
    model = l5kit.load_model(files["vector_planner"])
    by_path, by_folder = model.samples_of(city), model.samples_of(city / "scenes" / "sample.zarr", data_folder=city)
    np.testing.assert_array_equal(by_path[20]["lanes_mid"], by_folder[20]["lanes_mid"])


def test_a_network_is_built_without_data(tmp_path, files):
    """Weights are moved to a machine that has neither log nor map."""
    (tmp_path / "weights.safetensors").write_bytes(files["raster_planner"].read_bytes())
    model = l5kit.load_model(tmp_path / "weights.safetensors", device="cpu")
    assert model.device == torch.device("cpu")
    assert "raster_planner" in repr(model)
    assert "raster_planner" in model._repr_html_()


@pytest.mark.parametrize("map_type", ["py_semantic", "box_debug", "stub_debug", "semantic_debug"])
def test_channels_are_counted_as_the_rasterizer_does(city, map_type):
    config = TrainingConfig.from_cfg(small_config("raster_planner", raster_params={"map_type": map_type}))
    samples = open_samples(config, config.params.val_loader, LocalDataManager(city), perturbed=False)
    with torch.random.fork_rng():
        assert [value.shape for value in make_model(config).state_dict().values()] == [
            value.shape for value in make_model(config, samples).state_dict().values()
        ]


def test_a_file_of_1_5_needs_its_configuration(tmp_path, files, log):
    cfg = dict(read_checkpoint(files["raster_planner"]).config)
    network = make_model(TrainingConfig.from_cfg(cfg))
    load_checkpoint(network, files["raster_planner"])
    export_torchscript(tmp_path / "planner.pt", network.eval())
    torch.save(network.state_dict(), tmp_path / "planner.pth")
    with pytest.raises(ConfigError, match="in Python: cfg"):
        l5kit.load_model(tmp_path / "planner.pt")
    for section in ("train_data_loader", "val_data_loader", "train_params"):
        cfg.pop(section)
    expected = l5kit.load_model(files["raster_planner"])
    sample = expected.samples_of(log)[20]
    for name in ("planner.pt", "planner.pth"):
        model = l5kit.load_model(tmp_path / name, cfg=cfg)
        np.testing.assert_allclose(
            model.predict(sample)["positions"], expected.predict(sample)["positions"], rtol=0, atol=NETWORK
        )


def test_what_cannot_be_loaded_or_predicted_is_an_error(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        l5kit.load_model(tmp_path / "none.safetensors")
    with pytest.raises(CheckpointMismatchError, match="Take the configuration of its training"):
        l5kit.load_model(files["raster_planner"], cfg=read_checkpoint(files["vector_planner"]).config)
    if not torch.cuda.is_available():
        with pytest.raises(InvalidArgumentError, match="finds no CUDA"):
            l5kit.load_model(files["raster_planner"], device="cuda")
    with pytest.raises(InvalidArgumentError, match="device is 'cdua', which torch does not know"):
        l5kit.load_model(files["raster_planner"], device="cdua")
    model = l5kit.load_model(files["raster_planner"])
    assert isinstance(model, TrainedModel)
    for nothing in ([], 3):
        with pytest.raises(InvalidArgumentError, match="pass a sample, a batch"):
            model.predict(nothing)
    for lacking in ({}, {"history_positions": np.zeros((3, 2), np.float32)}):
        with pytest.raises(InvalidArgumentError, match=r"no 'image', which this network takes.*samples_of\(log\)"):
            model.predict(lacking)
