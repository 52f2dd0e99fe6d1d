"""Export of networks to files for other programs, compared with torch on samples before they are published."""

import copy
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import nn

from l5kit import __version__
from l5kit._files import replaced_when_complete
from l5kit._types import JsonObject
from l5kit.configs.texts import parse_json, read_text
from l5kit.data.download.fetching import file_digest
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.base import BaseEgoDataset
from l5kit.dataset.sample_batch import collate
from l5kit.errors import InvalidArgumentError
from l5kit.planning.checkpoint import class_path_of
from l5kit.planning.network_inputs import network_inputs, tensors_on
from l5kit.planning.weights_file import CARD_FILE, EXPORT_FORMAT
from l5kit.prediction.vectorized.motion_tokens_model import MotionTokenModel
from l5kit.prediction.vectorized.motion_tokens_sampling import UNIFORMS_KEY, draw_uniforms
from l5kit.sampling.sample_keys import KEYS_BY_DATASET
from l5kit.workflows.checkpoint_conversion import require_target
from l5kit.workflows.exported_network import (
    CHECKSUM_KEY,
    ExportedArray,
    ExportedNetwork,
    ExportFacts,
    TokenDraws,
    checksum_of_model,
)
from l5kit.workflows.network_tracing import (
    AGENT_KEYS,
    OPSET,
    NetworkExportError,
    agent_axis,
    inputs_that_count,
    onnx_of,
    trace,
)
from l5kit.workflows.trained_model import TrainedModel, load_model

if TYPE_CHECKING:
    from onnx import ModelProto

_ONNX, _PROGRAM = ".onnx", ".pt2"
_FACTS_IN_PROGRAM: Final = "l5kit.json"

_TRACED: Final = 4
_BATCHES: Final = (1, 3, 8)
"""Number of samples for tracing a network, and batch sizes for checking the file."""

_TOLERANCE: Final = 1e-5
"""Tolerance between values of the file and of torch, absolute and relative."""

_MOST_BY_ROUNDING: Final = 1e-3
"""Upper bound of the tolerance if rounding moves torch's own values by more than that."""

_OF_SUMS: Final = 32
"""Factor on torch's own rounding: reordering a sum of a thousand terms changes it by up to the square root of that."""

_UNITS: Final = (("positions", "m"), ("positions_all", "m"), ("yaws", "rad"), ("yaws_all", "rad"), ("scales", "m"))
"""Suffixes of keys of predictions, and their units."""

_SYMBOL: Final = re.compile(r"\bs\d+\b")

_UNSTATED: Final = "not stated"

_Run = Callable[[dict[str, torch.Tensor]], Mapping[str, torch.Tensor]]


@dataclass(frozen=True)
class NetworkExport:
    """A written export.

    Attributes:
        file: The file.
        facts: Its facts.
    """

    file: Path
    facts: ExportFacts


def export_network(
    model: TrainedModel | str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    log: ChunkedDataset | str | os.PathLike[str],
    licence: str | None = None,
    overwrite: bool = False,
) -> NetworkExport:
    """Write a trained network as ONNX, or as a program of ``torch.export``, that runs without l5kit.

    Inputs have the names of the keys of samples, outputs those of predictions; processing of samples (units,
    differences to kinematic baselines, poses) is included. The number of samples is free, and that of agents if the
    network allows it. A network that samples motion tokens takes the uniform numbers as an input, ``token_uniforms``.
    Before it is published, the file is run on samples of a log, with batch sizes that differ from tracing, and must
    agree with torch to 1e-5. If torch itself varies more by rounding (with single samples, or with inputs and weights
    changed in their last bit), 32 times that variation is allowed, as sums may be reordered, but at most 1e-3.

    Args:
        model: A trained network; or its weights, as :func:`load_model` takes them.
        target: Output file, which ends in ``.onnx`` or ``.pt2``.
        log: A log with samples for tracing and checking: opened, or its path.
        licence: Licence of the weights; None for that on the card of shipped weights.
        overwrite: Replace an older file.

    Raises:
        InvalidArgumentError: The target has the wrong suffix, the log has no samples, or the network is an export.
        FileExistsError: The target exists and ``overwrite`` is not set.
        MissingDependencyError: A library of the extra ``onnx`` is missing.
        NetworkExportError: The network cannot be exported, or the file disagrees with torch.
    """
    written = Path(target)
    require_target(written, suffixes=(_ONNX, _PROGRAM), overwrite=overwrite)
    if not isinstance(model, TrainedModel):
        model = load_model(model, device="cpu")
    if isinstance(model.network, ExportedNetwork):
        raise InvalidArgumentError(f"model is {model.file}, an exported network; export the weights that it came from")
    network = copy.deepcopy(model.network).cpu().eval()
    batches = _Batches(model.samples_of(log), network)

    whole = batches.of(_TRACED)
    with torch.no_grad():
        network(dict(whole))  # errors of network or samples are reported as usual
        taken = inputs_that_count(network, whole)
        # Try other numbers of agents than that of the samples. A size of 1 could be confused with other sizes of 1.
        num_agents = _num_agents(taken)
        has_free_agents = num_agents > 1
        if has_free_agents:
            try:
                network(_with_agents(taken, num_agents - 1))
                network(_with_agents(taken, num_agents + 1))
            except (RuntimeError, IndexError, ValueError):
                has_free_agents = False
    facts = ExportFacts(
        version=EXPORT_FORMAT,
        l5kit=__version__,
        workflow=model.config.params.workflow,
        network=class_path_of(network),
        licence=licence or licence_of(model.file),
        weights_sha256=file_digest(model.file),
        opset=0,
        inputs=(),
        outputs=(),
        checked={},
        config=json.loads(json.dumps(model.config.mapping, default=str)),
        draws=_draws_of(network),
    )
    sizes = batches.sizes(taken, has_free_agents=has_free_agents)
    return export_module(network, written, taken, sizes=sizes, facts=facts, has_free_agents=has_free_agents)


def export_module(
    network: nn.Module,
    target: Path,
    taken: Mapping[str, torch.Tensor],
    *,
    sizes: Iterator[tuple[str, dict[str, torch.Tensor]]],
    facts: ExportFacts,
    has_free_agents: bool = False,
) -> NetworkExport:
    """Write a network as ONNX or as a program, and publish the file if it agrees with torch.

    Args:
        network: Takes and returns a dictionary of tensors; in eval mode, on the CPU.
        target: The file, which ends in ``.onnx`` or ``.pt2``.
        taken: A batch to trace with, of at least two samples.
        sizes: Batches to check the file with, and their names.
        facts: Facts of the file; inputs, outputs, opset and results of the check are filled in here.
        has_free_agents: Whether the number of agents is free.

    Raises:
        MissingDependencyError: A library of the extra ``onnx`` is missing.
        NetworkExportError: The network cannot be exported, or the file disagrees with torch.
    """
    program = trace(network, taken, has_free_agents=has_free_agents)
    with torch.no_grad():
        outputs = network(dict(taken))
    with replaced_when_complete(target, argument="target") as temporary:
        proto, given = None, dict(taken)
        if target.suffix == _ONNX:
            proto = onnx_of(network, program, list(taken), list(outputs))
            given = {each.name: taken[each.name] for each in proto.graph.input}

        # inputs with the names of their free sizes
        keys = {key.name: key for of_dataset in KEYS_BY_DATASET.values() for key in of_dataset}
        inputs = []
        for name, value in given.items():
            shape: list[int | str] = ["B", *value.shape[1:]]
            if has_free_agents and name.startswith(AGENT_KEYS):
                shape[agent_axis(name)] = "A"
            unit, text = (keys[name].unit, keys[name].text) if name in keys else ("", "")
            if name == UNIFORMS_KEY:
                text = (
                    "Uniform numbers from 0 to below 1, which decide what is sampled: of each rollout, agent and token."
                )
            inputs.append(ExportedArray(name, tuple(shape), _dtype_of(value), unit, text))

        # outputs, whose sizes may depend on the number of agents: the trace has them as symbolic expressions
        (end,) = (node for node in program.graph.nodes if node.op == "output")
        described = []
        for (name, value), node in zip(outputs.items(), end.args[0], strict=True):
            traced = node.meta["val"].shape[1:]
            free = [size if isinstance(size, int) else _SYMBOL.sub("A", str(size)) for size in traced]
            unit = next((unit for ending, unit in _UNITS if name.endswith(ending)), "")
            described.append(ExportedArray(name, ("B", *free), _dtype_of(value), unit))

        opset = 0 if proto is None else OPSET
        facts = dataclasses.replace(facts, opset=opset, inputs=tuple(inputs), outputs=tuple(described))
        # written twice: the file is checked after reading it back, and then stores the result
        _write(temporary, proto or program, facts)
        run = torch.export.load(temporary).module() if proto is None else ExportedNetwork(temporary)
        facts = dataclasses.replace(facts, checked=_compare(network, run, sizes))
        _write(temporary, proto or program, facts)
    return NetworkExport(target, facts)


class _Batches:
    """Batches of samples, spread over a log."""

    def __init__(self, samples: BaseEgoDataset, network: nn.Module) -> None:
        if len(samples) == 0:
            raise InvalidArgumentError("log has no samples that this network takes; pass one that has")
        self._samples, self._draws = samples, _draws_of(network)

    def of(self, num_samples: int) -> dict[str, torch.Tensor]:
        """Return a batch, repeating samples if the log has fewer."""
        rows = np.linspace(0, len(self._samples) - 1, num_samples + 2)[1:-1].round().astype(int)
        made = collate([self._samples[row] for row in rows.tolist()])
        batch = network_inputs(tensors_on(torch.device("cpu"), made))
        if self._draws is not None:
            counts = {"num_rollouts": self._draws.num_rollouts, "num_tokens": self._draws.num_tokens}
            batch[UNIFORMS_KEY] = draw_uniforms(batch, self._draws.seed, **counts)
        return batch

    def sizes(
        self, keys: Mapping[str, torch.Tensor], *, has_free_agents: bool
    ) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
        """Yield batches of several sizes with their names, with the keys that a network takes."""
        for num_samples in _BATCHES:
            batch = {key: value for key, value in self.of(num_samples).items() if key in keys}
            yield f"{num_samples} samples", batch
            if not has_free_agents:
                continue
            num_agents = _num_agents(batch)
            for wanted in (2, num_agents + 3):
                yield f"{num_samples} samples of {wanted} agents", _with_agents(batch, wanted)


def _num_agents(batch: Mapping[str, torch.Tensor]) -> int:
    """Return the number of agents of a batch; 0 if it has no agent rows."""
    return next((value.shape[agent_axis(key)] for key, value in batch.items() if key.startswith(AGENT_KEYS)), 0)


def _with_agents(batch: Mapping[str, torch.Tensor], num_agents: int) -> dict[str, torch.Tensor]:
    """Return a batch with a given number of agents, by repeating the first ones or dropping the last ones.

    Successive rows are of different agents, so that repeated ones are present, too.
    """
    taken = torch.arange(num_agents) % max(_num_agents(batch), 1)
    return {
        key: value.index_select(agent_axis(key), taken) if key.startswith(AGENT_KEYS) else value
        for key, value in batch.items()
    }


def _draws_of(network: nn.Module) -> TokenDraws | None:
    if not isinstance(network, MotionTokenModel):
        return None
    return TokenDraws(network.seed, network.num_rollouts, network.times.num_future_tokens)


def licence_of(weights: Path) -> str:
    """Return the licence on the card next to weights."""
    card_file = weights.parent / CARD_FILE
    card = parse_json(read_text(card_file, called="card"), called=f"card {card_file}") if card_file.is_file() else None
    is_theirs = isinstance(card, dict) and card.get("weights") == weights.name
    return str(card.get("licence", _UNSTATED)) if is_theirs and isinstance(card, dict) else _UNSTATED


def _dtype_of(value: torch.Tensor) -> str:
    return str(value.numpy(force=True).dtype)


def _write(file: Path, content: "ModelProto | torch.export.ExportedProgram", facts: ExportFacts) -> None:
    """Write a model or a program with its facts."""
    metadata = facts.as_metadata()
    if isinstance(content, torch.export.ExportedProgram):
        torch.export.save(content, file, extra_files={_FACTS_IN_PROGRAM: json.dumps(metadata)})
        return
    from onnx import helper

    helper.set_model_props(content, metadata)
    helper.set_model_props(content, {**metadata, CHECKSUM_KEY: checksum_of_model(content)})
    file.write_bytes(content.SerializeToString(deterministic=True))


@torch.no_grad()
def _compare(network: nn.Module, run: _Run, batches: Iterator[tuple[str, dict[str, torch.Tensor]]]) -> JsonObject:
    """Compare a file with its network, and return their largest difference.

    Raises:
        NetworkExportError: The values differ; the message names the output and the size of the batch.
    """
    sizes, largest, by_rounding = [], 0.0, 0.0
    for name, batch in batches:
        wanted = network(dict(batch))
        try:
            outputs = run(batch)
        except Exception as error:  # errors of the runtime, which has its own classes
            raise NetworkExportError(
                f"{type(network).__name__} does not export: for {name} it fails: {error}"
            ) from error
        for key, value in wanted.items():
            difference = _difference(outputs[key], value)
            # only if needed, measure the rounding of torch itself, which takes four more runs
            if difference > _TOLERANCE:
                moved = _moved(network, batch, wanted)[key]
                by_rounding = max(by_rounding, moved)
                if difference > min(_TOLERANCE + _OF_SUMS * moved, _MOST_BY_ROUNDING):
                    raise NetworkExportError(
                        f"{type(network).__name__} does not export: for {name} {key!r} differs by {difference:.3g} "
                        f"from torch, and {_TOLERANCE:g} is allowed (torch's own moves by {moved:.3g} by rounding)"
                    )
            largest = max(largest, difference)
        sizes.append(name)
    return {"batches": sizes, "largest_difference": largest, "of_torch_by_rounding": by_rounding}


def _difference(actual: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference, relative for values above 1; infinite if only one of them is NaN."""
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return np.inf
    if torch.equal(actual, wanted):
        return 0.0
    away = ((actual - wanted).abs() / wanted.abs().clamp(min=1.0)).nan_to_num(nan=np.inf)
    away = torch.where((actual == wanted) | (actual.isnan() & wanted.isnan()), 0.0, away)
    return float(away.max())


def _moved(
    network: nn.Module, batch: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> dict[str, float]:
    """Return how much the outputs of a network vary by rounding, in torch alone.

    This is measured with samples one by one, for which torch uses other convolutions, and with the last bit of inputs
    and weights changed up and down.
    """
    num_samples = len(next(iter(batch.values())))
    singles = [network({key: value[row : row + 1] for key, value in batch.items()}) for row in range(num_samples)]
    moved = {key: _difference(torch.cat([each[key] for each in singles]), value) for key, value in wanted.items()}
    for first in (1, -1):
        other = copy.deepcopy(network)
        for weight in other.parameters():
            weight.copy_(_changed(weight, first))
        given = {key: _changed(value, first) if value.is_floating_point() else value for key, value in batch.items()}
        for key, value in other(given).items():
            moved[key] = max(moved[key], _difference(value, wanted[key]))
    return moved


def _changed(values: torch.Tensor, first: int) -> torch.Tensor:
    """Return values with their last bit changed, alternately up and down, starting with up for 1 and down for -1."""
    signs = first * (1 - 2 * (torch.arange(values.numel()) % 2)).reshape(values.shape)
    return torch.nextafter(values, signs.to(values.dtype) * torch.inf)
