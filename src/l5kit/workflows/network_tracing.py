"""Tracing of networks: their computation for a batch, as a torch program or an ONNX model."""

import contextlib
import logging
import re
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import torch
from torch import nn

from l5kit.errors import L5KitError, MissingDependencyError, install_command

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET: Final = 20
"""The set of operators of ONNX that exports use."""

AGENT_KEYS: Final = ("all_other_agents_", "other_agents_polyline", "token_uniforms")
"""Prefixes of keys with a row for each agent: the third axis for uniform numbers of tokens, otherwise the second."""

_LOGGERS: Final = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")


class NetworkExportError(L5KitError, RuntimeError):
    """A network cannot be exported, or the export disagrees; the message names the layer or the output."""


class _OfBatch(nn.Module):
    """A network with a single argument for all inputs, whose tensors get the names of their keys."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        outputs: dict[str, torch.Tensor] = self.network(batch)
        return outputs


def inputs_that_count(network: nn.Module, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the part of a batch that a network uses: keys of its computation, and keys that it only requires.

    Raises:
        NetworkExportError: The network cannot be traced.
    """
    with _explained(network), _quiet():
        program = torch.export.export(_OfBatch(network), (dict(batch),))
    inputs = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    used = [key for key in batch if f"batch_{key}" in inputs]
    while True:  # a network may require a key without using its value
        try:
            network({key: batch[key] for key in used})
        except KeyError as error:
            if not error.args or error.args[0] not in batch or error.args[0] in used:
                raise
            used.append(error.args[0])
        else:
            return {key: value for key, value in batch.items() if key in used}


def trace(
    network: nn.Module, batch: Mapping[str, torch.Tensor], *, has_free_agents: bool
) -> torch.export.ExportedProgram:
    """Return the computation of a network for any number of samples.

    Args:
        network: In eval mode, on the CPU.
        batch: Its inputs, of at least two samples.
        has_free_agents: Whether the number of agents is free, too.

    Raises:
        NetworkExportError: The network cannot be traced; the message names the layer, if known.
    """
    free = torch.export.Dim.DYNAMIC
    axes = {key: {0: free} for key in batch}
    if has_free_agents:
        axes |= {key: {0: free, agent_axis(key): free} for key in batch if key.startswith(AGENT_KEYS)}
    with _explained(network), _quiet():
        return torch.export.export(_OfBatch(network), (dict(batch),), dynamic_shapes=(axes,))


def agent_axis(key: str) -> int:
    """Return the axis of agents in one of :data:`AGENT_KEYS` of a batch."""
    return 2 if key == "token_uniforms" else 1


def onnx_of(
    network: nn.Module, program: torch.export.ExportedProgram, keys: list[str], names: list[str]
) -> "ModelProto":
    """Return a traced network as an ONNX model, without metadata of the machine that made it.

    Args:
        network: The network, for the names of layers in errors.
        program: Result of :func:`trace`.
        keys: Names of its inputs.
        names: Names of its outputs.

    Raises:
        MissingDependencyError: onnx or onnxscript is missing.
        NetworkExportError: An operation has no counterpart in ONNX; the message names it and its layer.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"export as .onnx needs onnx and onnxscript: {install_command('onnx')}") from error

    with _explained(network, program), _quiet():
        if any(node.target is torch.ops.aten.cummin.default for node in program.graph.nodes):
            table = torch.export.default_decompositions()
            table[torch.ops.aten.cummin.default] = _cummin
            program = program.run_decompositions(table)
        exported = torch.onnx.export(
            program, dynamo=True, verbose=False, opset_version=OPSET, input_names=keys, output_names=names
        )
        assert exported is not None
        model: ModelProto = exported.model_proto
    # operations and weights store the lines of the files that made them
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for weight in model.graph.initializer:
        del weight.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    # unused inputs would still be required
    used = {name for node in model.graph.node for name in node.input} | {each.name for each in model.graph.output}
    kept = [each for each in model.graph.input if each.name in used]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.producer_name, model.producer_version = "l5kit", ""
    return model


def _cummin(values: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cumulative minima and their indices with operations that ONNX has: one reduction per row over its past."""
    rows = values.movedim(dim, -1).unsqueeze(-2)
    is_later = torch.ones(rows.shape[-1], rows.shape[-1], dtype=torch.bool, device=values.device).triu(1)
    least, indices = torch.where(is_later, torch.inf, rows).min(dim=-1)
    return least.movedim(-1, dim), indices.movedim(-1, dim)


@contextlib.contextmanager
def _explained(network: nn.Module, program: torch.export.ExportedProgram | None = None) -> Iterator[None]:
    """Turn errors of torch into an error that names the layer of a network."""
    try:
        yield
    except L5KitError:
        raise
    except Exception as error:  # torch raises errors of many kinds, and user networks any kind
        # the innermost layer of the error, from the operation in its text or from the stack frames
        layer, match = "", re.search(r"translating node %(\w+)", str(error))
        if match and program is not None:
            stacks = [node.meta.get("nn_module_stack") or {} for node in program.graph.nodes if node.name == match[1]]
            inner = [str(path).removeprefix("network.") for stack in stacks for path, _ in stack.values() if path]
            layer = f"{match[1]}, a step of {inner[-1] or type(network).__name__}" if inner else match[1]
        else:
            names = {id(module): name or type(network).__name__ for name, module in network.named_modules()}
            for frame, line in traceback.walk_tb(error.__traceback__):
                code = frame.f_code
                if id(frame.f_locals.get("self")) in names and code.co_name not in ("_call_impl", "_wrapped_call_impl"):
                    file = code.co_filename.rsplit("/", 1)[-1]
                    layer = f"{names[id(frame.f_locals['self'])]} (line {line} of {file})"
        # the first error is the most informative; the errors around it name the part of the exporter
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        reason = next((line for line in str(first).splitlines() if line.strip()), type(error).__name__)
        raise NetworkExportError(
            f"{type(network).__name__} does not export{f' because of {layer}' if layer else ''}: {reason.strip()}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress notes of exporters about unneeded libraries and future versions."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)
