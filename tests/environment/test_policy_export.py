"""Exported policies: the same actions, the same drives, and descriptions."""

import io
import zipfile

import numpy as np
import pytest
import torch

import l5kit
from l5kit.closedloop.checkpoints import NetworkContext
from l5kit.closedloop.planners import open_planner
from l5kit.data import ChunkedDataset, SceneRecords, find_dataset_files, open_map
from l5kit.environment.policy_driver import PolicyDriver
from l5kit.environment.policy_export import export_policy
from l5kit.environment.policy_file import find_policy_file, read_policy
from l5kit.errors import InvalidArgumentError
from l5kit.planning.checkpoint import CheckpointError
from l5kit.simulation import RoadMap, SceneBatch, SceneSimulation
from l5kit.workflows.exported_network import ExportedNetwork

POLICY = "route_policy"


@pytest.fixture(scope="module")
def path(city):
    return city / "scenes" / "sample.zarr"


@pytest.fixture(scope="module")
def exported(path, tmp_path_factory):
    return export_policy(POLICY, tmp_path_factory.mktemp("policy") / "policy.onnx", log=path).file


def observations(size, num_rows=20):
    """Values as great as those of a layout, among them road users that are not there."""
    rng = np.random.default_rng(3)
    seen = rng.uniform(-1.5, 1.5, (num_rows, size)).astype(np.float32)
    seen[:, rng.random(size) < 0.3] = 0.0
    return seen


def test_an_export_computes_what_the_policy_does(exported):
    network, options = read_policy(find_policy_file(POLICY))
    driver = PolicyDriver.load(exported)
    assert driver.options == options
    seen = observations(network.num_inputs)
    np.testing.assert_allclose(driver.network.act(seen), network.act(seen), rtol=1e-5, atol=1e-5)


def test_a_program_of_torch_computes_it_too(path, tmp_path):
    network, _ = read_policy(find_policy_file(POLICY))
    file = export_policy(POLICY, tmp_path / "policy.pt2", log=path).file
    seen = observations(network.num_inputs, num_rows=5)
    actions = torch.export.load(file).module()({"observations": torch.from_numpy(seen)})["actions"]
    np.testing.assert_allclose(actions.detach().numpy(), network.act(seen), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_policies_with_attention_are_exported(path, tmp_path, suffix):
    """Made out of the one that ships: its weights for road users, and queries of random weights."""
    shipped = find_policy_file(POLICY)
    file = tmp_path / "driver.zip"
    rng, name = np.random.default_rng(5), "features_extractor.sets.agents"
    with zipfile.ZipFile(shipped) as archive, zipfile.ZipFile(file, "w") as other:
        weights = torch.load(io.BytesIO(archive.read("policy.pth")), weights_only=True)
        num_own, width = weights["features_extractor.own.weight"].shape[1], len(weights[f"{name}.each.2.bias"])
        query = rng.normal(size=(4 * width, num_own)).astype(np.float32)
        weights[f"{name}.query.weight"] = torch.from_numpy(query)
        weights[f"{name}.query.bias"] = torch.zeros(4 * width)
        weights[f"{name}.mix.weight"] = weights[f"{name}.mix.weight"].repeat(1, 4)
        torch.save(weights, stored := io.BytesIO())
        other.writestr("data", archive.read("data"))
        other.writestr("policy.pth", stored.getvalue())
    network, options = read_policy(file)
    export = export_policy(file, tmp_path / f"policy{suffix}", log=path, licence="MIT").file
    seen = observations(network.num_inputs)
    expected = network.act(seen)
    if suffix == ".onnx":
        driver = PolicyDriver.load(export)
        assert driver.options == options
        actions = driver.network.act(seen)
    else:
        actions = torch.export.load(export).module()({"observations": torch.from_numpy(seen)})["actions"]
        actions = actions.detach().numpy()
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-5)
    without, _ = read_policy(shipped)
    assert np.abs(expected - without.act(seen)).max() > 0.01


def test_an_export_drives_as_the_policy_does(exported, city):
    """Over 100 frames positions are within a millimetre."""
    files = find_dataset_files(city)
    log = ChunkedDataset(str(files.dataset)).open()
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], facts=log.facts, road=RoadMap(open_map(files)))
    context = NetworkContext(files, log.facts, device="cpu")
    driven = []
    for name in (POLICY, str(exported)):
        seat = open_planner(name, context=context).seat
        frames = SceneSimulation(batch, ego=seat, strict=True).run().buffer.frames
        driven.append(frames["ego_translation"].copy())
    assert len(driven[0]) == 100
    assert np.ptp(driven[0], axis=0).max() > 5
    np.testing.assert_allclose(driven[1], driven[0], rtol=0, atol=1e-3)


def test_it_tells_what_it_is(exported):
    facts = ExportedNetwork(exported).facts
    assert facts.workflow == "policy"
    assert [each.name for each in (*facts.inputs, *facts.outputs)] == ["observations", "actions"]
    assert facts.inputs[0].shape[0] == "B"
    assert facts.checked["largest_difference"] <= 1e-5
    assert facts.licence != "not stated"


def test_where_networks_are_wanted_it_is_refused(exported):
    with pytest.raises(CheckpointError, match="is an exported policy of l5kit train-rl, which l5kit simulate"):
        l5kit.load_model(exported)


def test_files_that_are_there_and_other_suffixes_are_refused(exported, path):
    with pytest.raises(FileExistsError, match="exists"):
        export_policy(POLICY, exported, log=path)
    with pytest.raises(InvalidArgumentError, match=r"ends in \.onnx or \.pt2"):
        export_policy(POLICY, exported.with_suffix(".zip"), log=path)
