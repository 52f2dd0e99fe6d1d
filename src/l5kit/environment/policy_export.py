"""Export of policies: the network from observations to actions as ONNX or ``torch.export`` file, and its reader."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn

from l5kit import __version__
from l5kit._types import Float32Array
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.download.fetching import file_digest
from l5kit.data.map.opened import open_map
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.environment.models import SetFeatures, compact_features
from l5kit.environment.observations.compact_view import CompactSight
from l5kit.environment.policy_file import Layer, PolicyNetwork, find_policy_file, read_policy
from l5kit.environment.policy_options import PolicyOptions
from l5kit.errors import InvalidArgumentError
from l5kit.planning.checkpoint import class_path_of
from l5kit.planning.weights_file import EXPORT_FORMAT
from l5kit.simulation.engine.scene_batch import RoadMap, SceneBatch
from l5kit.simulation.engine.scene_simulation import SceneSimulation
from l5kit.workflows.checkpoint_conversion import require_target
from l5kit.workflows.exported_network import POLICY, ExportedNetwork, ExportFacts
from l5kit.workflows.network_export import NetworkExport, export_module, licence_of

_SEEN, _ACTIONS = "observations", "actions"
_SIZES: Final = (1, 3, 8)


class PolicyModule(nn.Module):
    """Torch module of a :class:`~l5kit.environment.policy_file.PolicyNetwork`, with the same outputs.

    Args:
        network: The policy.
    """

    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.layers = nn.ModuleList(map(_linear, network.layers))
        self.encoder = network.encoder
        if self.encoder is not None:
            self.register_buffer("scales", torch.from_numpy(self.encoder.scales.copy()))
            self.own = _linear(self.encoder.own)
            self.sets = nn.ModuleDict()
            for name, layers in self.encoder.sets.items():
                query = None if layers.query is None else _linear(layers.query)
                each = _linear(layers.first), _linear(layers.second)
                self.sets[name] = SetFeatures(*each, _linear((layers.mix, None)), query=query)
        self.eval()

    def forward(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return ``actions`` (B, O) of ``observations`` (B, D), both float32."""
        values = batch[_SEEN]
        if self.encoder is not None:
            scales, parts = self.get_buffer("scales"), self.encoder.layout.parts
            values = compact_features(values, (scales[0], scales[1]), own=self.own, sets=self.sets, parts=parts)
        for index, layer in enumerate(self.layers):
            values = layer(values if index == 0 else torch.tanh(values))
        return {_ACTIONS: values}


class ExportedPolicy:
    """Policy of an ONNX file, run by onnxruntime.

    Args:
        file: The file.

    Attributes:
        options: Options of its training.
        num_inputs: Values of an observation.
        num_outputs: Values of an action, or the number of discrete actions.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        CheckpointError: The file is broken, or not from l5kit.
        InvalidArgumentError: It is not a policy.
    """

    def __init__(self, file: Path) -> None:
        self._network = ExportedNetwork(file)
        facts = self._network.facts
        if facts.workflow != POLICY:
            raise InvalidArgumentError(f"{file} is an exported network of {facts.workflow}, not a policy")
        self.num_inputs, self.num_outputs = (int(each[0].shape[1]) for each in (facts.inputs, facts.outputs))
        self.options = PolicyOptions.of_json(facts.config)

    def act(self, seen: Float32Array) -> Float32Array:
        """Return means of actions, or a logit of each discrete action, (R, outputs), for observations (R, inputs)."""
        actions: Float32Array = self._network({_SEEN: torch.from_numpy(np.ascontiguousarray(seen))})[_ACTIONS].numpy()
        return actions


def export_policy(
    policy: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    log: str | os.PathLike[str],
    licence: str | None = None,
    overwrite: bool = False,
) -> NetworkExport:
    """Write the network of a policy as ONNX, or as a ``torch.export`` program.

    The input ``observations`` (B, D) are compact observations, with columns and scales given by the options in the
    metadata; the output ``actions`` (B, O) are means of actions, or logits of the actions of a grid. The file is
    checked against torch, to 1e-5, on observations of a log.

    Args:
        policy: As in :meth:`~l5kit.environment.policy_driver.PolicyDriver.load`.
        target: File to write, ``.onnx`` or ``.pt2``.
        log: Path of a log with its map.
        licence: Licence of the weights; None for that of their card.
        overwrite: Replace an existing file.

    Raises:
        InvalidArgumentError: The target has another suffix, or the policy is broken.
        FileExistsError: The target exists and ``overwrite`` is False.
        MissingDependencyError: A library of the extra ``onnx`` is missing.
        NetworkExportError: The outputs of the file differ from those of torch.
    """
    written = Path(target)
    require_target(written, suffixes=(".onnx", ".pt2"), overwrite=overwrite)
    file = find_policy_file(policy)
    network, options = read_policy(file)
    seen = torch.from_numpy(_observations_of(log, options, max(_SIZES)))
    module = PolicyModule(network)

    def sizes() -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
        for size in _SIZES:
            yield f"{size} observations", {_SEEN: seen[:size]}

    facts = ExportFacts(
        version=EXPORT_FORMAT,
        l5kit=__version__,
        workflow=POLICY,
        network=class_path_of(module),
        licence=licence or licence_of(file),
        weights_sha256=file_digest(file),
        opset=0,
        inputs=(),
        outputs=(),
        checked={},
        config=options.as_json(),
    )
    return export_module(module, written, {_SEEN: seen[:4]}, sizes=sizes(), facts=facts)


def _observations_of(log_path: str | os.PathLike[str], options: PolicyOptions, size: int) -> Float32Array:
    """Return observations of the AV in the first frames of the first scene of a log, repeated to (size, D)."""
    files = find_dataset_files(log_path)
    log, map_api = ChunkedDataset(str(files.dataset)).open(), open_map(files)
    road = None if map_api is None else RoadMap(map_api)
    batch = SceneBatch.of_scenes([SceneRecords.read(log, 0)], facts=log.facts, road=road)
    sight = CompactSight(batch, options.layout, threshold=options.threshold)
    simulation = SceneSimulation(batch)
    seen: list[Float32Array] = []
    while len(simulation.running) and len(seen) < size:
        seen.append(sight.look(simulation.state())[0])
        simulation.step()
    if not seen:
        raise InvalidArgumentError("the first scene of the log has fewer than two frames; pass another log")
    rows: Float32Array = np.concatenate(seen)
    return rows[np.arange(size) % len(rows)]


def _linear(layer: "Layer | tuple[Float32Array, None]") -> nn.Linear:
    """Return a layer with given weights and offsets."""
    weights, offsets = layer
    linear = nn.Linear(weights.shape[1], weights.shape[0], bias=offsets is not None)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weights.copy()))
        if offsets is not None:
            linear.bias.copy_(torch.from_numpy(offsets.copy()))
    return linear
