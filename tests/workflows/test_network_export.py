"""Exports of networks: outputs equal to torch, descriptions of inputs, and refusal of broken or foreign files."""

import pickle
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import l5kit
from l5kit.closedloop.options import ClosedLoopOptions
from l5kit.closedloop.run import simulate
from l5kit.configs.runs import WORKFLOWS
from l5kit.data import ChunkedDataset
from l5kit.dataset import collate
from l5kit.errors import InvalidArgumentError, MissingDependencyError
from l5kit.planning.checkpoint import CheckpointMismatchError, read_checkpoint
from l5kit.planning.torch_files import CheckpointError
from l5kit.workflows.exported_network import ExportedNetwork
from l5kit.workflows.network_export import export_network
from l5kit.workflows.network_tracing import NetworkExportError
from support.models import one_thread
from support.networks import save_network
from support.workflows import small_config

__all__ = ["one_thread"]

pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

INDICES = [20, 3, 60, 41, 7]

LONG_TO_TRACE = ("urban_driver", "motion_tokens", "query_centric", "safepathnet", "agent_motion_multimodal")
"""Unrolled or large networks, whose export takes a minute and more."""


@pytest.fixture(scope="module")
def log(city):
    return ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()


@pytest.fixture(scope="module")
def weights(city, tmp_path_factory):
    """Return a function that writes an untrained network of a workflow."""
    folder = tmp_path_factory.mktemp("weights")
    return lambda workflow: save_network(workflow, city, folder)


@pytest.fixture(scope="module")
def planner(weights, log, tmp_path_factory):
    """An exported planner."""
    return export_network(weights("vector_planner"), tmp_path_factory.mktemp("planner") / "planner.onnx", log=log).file


@pytest.mark.slow
@pytest.mark.parametrize(
    "workflow", [pytest.param(name, marks=pytest.mark.long if name in LONG_TO_TRACE else ()) for name in WORKFLOWS]
)
def test_an_export_gives_what_torch_gives(workflow, weights, log, tmp_path):
    file = weights(workflow)
    done = export_network(file, tmp_path / "network.onnx", log=log)
    model, exported = l5kit.load_model(file), l5kit.load_model(done.file)
    batch = collate([model.samples_of(log)[index] for index in INDICES])
    wanted, found = model.predict(batch), exported.predict(batch)
    assert found.keys() == wanted.keys() == {each.name for each in done.facts.outputs}
    most = min(1e-5 + 32 * done.facts.checked["of_torch_by_rounding"], 1e-3)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=most, atol=most, err_msg=key)
    assert {each.name for each in done.facts.inputs} <= {*batch, "token_uniforms"}


def test_the_metadata_tell_all_that_is_needed(planner):
    metadata = {each.key for each in onnx.load(planner).metadata_props}
    names = ("config", "weights_sha256", "inputs", "outputs", "licence", "l5kit", "opset", "checksum")
    assert {f"l5kit.{name}" for name in names} <= metadata
    facts = ExportedNetwork(planner).facts
    units = {each.name: each.unit for each in (*facts.inputs, *facts.outputs)}
    assert units["lanes_mid"].startswith("m")
    assert (units["positions"], units["yaws"]) == ("m", "rad")
    shapes = {each.name: each.shape for each in facts.inputs}
    assert shapes["other_agents_polyline"][:2] == ("B", "A")
    assert (facts.licence, facts.workflow) == ("not stated", "vector_planner")


def test_exported_networks_are_pickled(planner, log):
    model = l5kit.load_model(planner)
    batch = collate([model.samples_of(log)[20]])
    again = pickle.loads(pickle.dumps(model.network))
    torch.testing.assert_close(again(batch)["positions"], model.network(batch)["positions"], rtol=0, atol=0)


def without(key):
    return lambda batch: {name: value for name, value in batch.items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(without("lanes_mid"), "no 'lanes_mid', which planner.onnx takes", id="without a key"),
        pytest.param(
            lambda batch: {**batch, "lanes_mid": batch["lanes_mid"][:, :, :1]}, "'lanes_mid' has shape", id="shape"
        ),
        pytest.param(
            lambda batch: {**batch, "lanes_mid": batch["lanes_mid"][:1]}, "B = 2 as in", id="two numbers of samples"
        ),
        pytest.param(
            lambda batch: {**batch, "all_other_agents_types": batch["all_other_agents_types"].float()},
            "'all_other_agents_types' is float32; this network takes int64",
            id="type",
        ),
    ],
)
def test_samples_that_do_not_fit_are_refused_by_key(change, message, planner, log):
    model = l5kit.load_model(planner)
    batch = collate([model.samples_of(log)[index] for index in (20, 30)])
    with pytest.raises(InvalidArgumentError, match=message):
        model.predict(change(batch))


def foreign():
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [value])
    return helper.make_model(graph).SerializeToString()


def changed(content):
    """The file with another weight."""
    model = onnx.load_model_from_string(content)
    weight = next(each for each in model.graph.initializer if len(each.raw_data) > 100)
    weight.raw_data = bytes([weight.raw_data[0] ^ 1]) + weight.raw_data[1:]
    return model.SerializeToString()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda content: content[: len(content) // 2], "not an ONNX file, or is truncated|broken", id="cut off"
        ),
        pytest.param(lambda content: b"", "not one of l5kit|not an ONNX file", id="empty"),
        pytest.param(changed, "checksum", id="changed"),
        pytest.param(lambda content: foreign(), "not one of l5kit checkpoint export", id="of somebody else"),
    ],
)
def test_files_that_are_broken_or_of_others_are_refused(damage, message, planner, tmp_path):
    (tmp_path / "x.onnx").write_bytes(damage(planner.read_bytes()))
    with pytest.raises(CheckpointError, match=message):
        l5kit.load_model(tmp_path / "x.onnx")


def test_a_configuration_of_another_workflow_is_refused(planner):
    with pytest.raises(CheckpointMismatchError, match="exported network of vector_planner"):
        l5kit.load_model(planner, cfg=small_config("raster_planner"))


def test_an_export_has_no_weights_for_others(planner):
    with pytest.raises(CheckpointError, match="has no weights to load into another one"):
        read_checkpoint(planner)


def test_a_file_that_is_there_stays(planner, weights, log):
    with pytest.raises(FileExistsError, match="exists"):
        export_network(weights("vector_planner"), planner, log=log)
    with pytest.raises(InvalidArgumentError, match=r"ends in \.onnx or \.pt2"):
        export_network(weights("vector_planner"), planner.with_suffix(".pt"), log=log)
    with pytest.raises(InvalidArgumentError, match="an exported network"):
        export_network(planner, planner.with_name("again.onnx"), log=log)


class Counts(torch.nn.Module):
    """A layer that depends on values, which no program can."""

    def forward(self, values):
        return values * len(torch.unique(values))


def test_what_does_not_export_is_named_by_its_layer_and_not_written(weights, log, tmp_path):
    model = l5kit.load_model(weights("raster_planner"))
    inner = getattr(model.network, "residual", model.network)
    inner.model = torch.nn.Sequential(inner.model, Counts())
    with pytest.raises(NetworkExportError, match=r"does not export because of .*model\.1 \(line \d+ of"):
        export_network(model, tmp_path / "x.onnx", log=log)
    assert list(tmp_path.iterdir()) == []


def test_without_the_runtime_the_extra_is_named(planner, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r"onnxruntime: pip install .*\[onnx\]"):
        l5kit.load_model(planner)


def test_the_exported_planner_drives_as_the_weights_do(weights, planner, city, tmp_path):
    """Over 100 steps states are within a millimetre."""
    options = ClosedLoopOptions(num_frames=100, device="cpu")
    driven = []
    for name, file in (("torch", weights("vector_planner")), ("onnx", planner)):
        result = simulate(city, tmp_path / name, planner=str(file), options=options)
        assert result.failed == ()
        frames = ChunkedDataset(str(tmp_path / name / "simulated.zarr")).open().frames
        driven.append(np.array(frames["ego_translation"]))
    assert len(driven[0]) >= 100
    assert np.ptp(driven[0][:100], axis=0).max() > 1.0
    np.testing.assert_allclose(driven[1], driven[0], rtol=0, atol=1e-3)
