"""Exported networks: ONNX files written by ``l5kit checkpoint export``, with their facts, and their execution."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
import numpy as np
import torch
from torch import nn

from l5kit._types import JsonObject, NumericArray
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.planning.torch_files import CheckpointError
from l5kit.planning.weights_file import EXPORT_FORMAT
from l5kit.prediction.vectorized.motion_tokens_sampling import UNIFORMS_KEY, draw_uniforms

if TYPE_CHECKING:
    from onnx import ModelProto

POLICY: Final = "policy"
"""Workflow name of a policy of ``l5kit train-rl``."""

CHECKSUM_KEY: Final = "l5kit.checksum"
"""Metadata key of a SHA-256 of everything else."""

_PREFIX: Final = "l5kit."


@dataclass(frozen=True)
class ExportedArray:
    """An input or output of an exported network.

    Attributes:
        name: The key of samples, or of predictions.
        shape: Sizes, with names for free ones: ``B`` samples, ``A`` agents.
        dtype: NumPy's name of the dtype.
        unit: Unit of the values; empty if they have none.
        text: Description of the value; empty for keys that are not of samples.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    unit: str = ""
    text: str = ""


@dataclass(frozen=True)
class TokenDraws:
    """Source of the uniform numbers of a network that samples motion tokens, for batches without them.

    Attributes:
        seed: At least 0.
        num_rollouts: K.
        num_tokens: N.
    """

    seed: int
    num_rollouts: int
    num_tokens: int


@dataclass(frozen=True)
class ExportFacts:
    """Facts of an exported network.

    Attributes:
        version: Format of these facts.
        l5kit: Version of l5kit that wrote it.
        workflow: Workflow of its training.
        network: Class of the network.
        licence: Licence of the weights.
        weights_sha256: Digest of the file of weights.
        opset: ONNX opset; 0 for a torch program.
        inputs: Its inputs.
        outputs: Its outputs.
        checked: Results of the comparison with torch before the file was written.
        config: The configuration of the training.
        draws: Random numbers of a network that samples; None for others.
    """

    version: int
    l5kit: str
    workflow: str
    network: str
    licence: str
    weights_sha256: str
    opset: int
    inputs: tuple[ExportedArray, ...]
    outputs: tuple[ExportedArray, ...]
    checked: JsonObject
    config: JsonObject = field(repr=False)
    draws: TokenDraws | None = None

    def as_metadata(self) -> dict[str, str]:
        """Return the facts as JSON texts, under keys that begin with ``l5kit.``."""
        return {
            f"{_PREFIX}{each.name}": msgspec.json.encode(getattr(self, each.name)).decode() for each in fields(self)
        }

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], file: Path) -> Self:
        """Return the facts among metadata.

        Raises:
            CheckpointError: There are none, or they have a newer format.
        """
        if f"{_PREFIX}version" not in metadata:
            raise CheckpointError(
                f"{file} is an ONNX file, but not one of l5kit checkpoint export: it does not state which samples it "
                "takes. Export a network of l5kit, or pass your own torch.nn.Module that runs it"
            )
        version = metadata[f"{_PREFIX}version"]
        if version != str(EXPORT_FORMAT):
            raise CheckpointError(
                f"{file} is an exported network of format {version}; this l5kit reads {EXPORT_FORMAT}. Export it again"
            )
        texts = {key.removeprefix(_PREFIX): text for key, text in metadata.items() if key.startswith(_PREFIX)}
        try:
            return msgspec.convert({name: json.loads(text) for name, text in texts.items() if name != "checksum"}, cls)
        except (ValueError, msgspec.ValidationError) as error:
            raise CheckpointError(f"{file} is broken: its metadata do not fit: {error}") from error


class ExportedNetwork(nn.Module):
    """A network of an ONNX file, run by onnxruntime on the CPU, with as many threads as torch.

    It has the inputs and outputs of the exported network as tensors, but no torch weights.

    Args:
        file: The file.

    Attributes:
        file: The file.
        facts: Its facts.

    Raises:
        MissingDependencyError: onnxruntime is missing.
        CheckpointError: The file is broken, or not from l5kit.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        content = file.read_bytes()
        self._open(content)
        # identity of the weights, which distinguishes networks with the same name
        digest = np.frombuffer(hashlib.sha256(content).digest(), np.uint8).copy()
        self.register_buffer("digest", torch.from_numpy(digest))
        self.eval()

    def _open(self, content: bytes) -> None:
        self.facts = read_facts(content, self.file)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # log errors only, without the notes of its optimizer
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def forward(self, data_batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs of the network for a batch, on the device of the batch.

        Raises:
            InvalidArgumentError: A key is missing, or a value has another shape or dtype; the message names it.
        """
        batch = dict(data_batch)
        # random numbers of the sampling are an input of the file, drawn here unless they are given
        draws = self.facts.draws
        if draws is not None and UNIFORMS_KEY not in batch and "all_other_agents_history_availability" in batch:
            counts = {"num_rollouts": draws.num_rollouts, "num_tokens": draws.num_tokens}
            batch[UNIFORMS_KEY] = draw_uniforms(batch, draws.seed, **counts)
        arrays, sizes = {}, dict[str, tuple[int, str]]()
        for wanted in self.facts.inputs:
            if wanted.name not in batch:
                raise InvalidArgumentError(
                    f"the batch has no {wanted.name!r}, which {self.file.name} takes, but {sorted(batch) or 'nothing'};"
                    " make the samples with the configuration in the file (samples_of of l5kit.load_model does)"
                )
            arrays[wanted.name] = _array_of(batch[wanted.name], wanted, sizes)
        device = batch[self.facts.inputs[0].name].device
        names = [each.name for each in self.facts.outputs]
        given = self._session.run(names, arrays)
        return {name: torch.from_numpy(value).to(device) for name, value in zip(names, given, strict=True)}

    def extra_repr(self) -> str:
        """Return the text between the brackets of the representation."""
        return f"{self.facts.network}, weights {self.facts.weights_sha256[:12]}"

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._open(self.file.read_bytes())


def read_facts(content: bytes, file: Path) -> ExportFacts:
    """Return the facts of a file; raises as :class:`ExportedNetwork`.

    Args:
        content: Its bytes.
        file: Its path, for errors.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"{file} needs onnx and onnxruntime: {install_command('onnx')}") from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's error class has two possible import paths
        raise CheckpointError(f"{file} is not an ONNX file, or is truncated: {error}") from error
    metadata = {each.key: each.value for each in model.metadata_props}
    facts = ExportFacts.from_metadata(metadata, file)
    if metadata.get(CHECKSUM_KEY) != checksum_of_model(model):
        raise CheckpointError(f"{file} is broken or was changed: its checksum does not match; export it again")
    return facts


def checksum_of_model(model: "ModelProto") -> str:
    """Return the SHA-256 of the metadata, steps and weights of a model, in hex digits."""
    entries = sorted((each.key, each.value) for each in model.metadata_props if each.key != CHECKSUM_KEY)
    sha256 = hashlib.sha256(json.dumps(entries).encode())
    for part in (*model.graph.node, *model.graph.input, *model.graph.output):
        sha256.update(part.SerializeToString(deterministic=True))
    for weight in model.graph.initializer:
        sha256.update(json.dumps([weight.name, weight.data_type, list(weight.dims)]).encode())
        sha256.update(weight.raw_data or weight.SerializeToString(deterministic=True))
    return sha256.hexdigest()


def _array_of(value: torch.Tensor, wanted: ExportedArray, sizes: dict[str, tuple[int, str]]) -> NumericArray:
    """Return an input as an array; named sizes are checked against the inputs before, and recorded."""
    actual = tuple(value.shape)
    fits = len(actual) == len(wanted.shape)
    for size, name in zip(actual, wanted.shape, strict=False):
        first, _ = sizes.setdefault(name, (size, wanted.name)) if isinstance(name, str) else (name, "")
        fits = fits and size == first
    if not fits:
        known = ", ".join(f"{name} = {size} as in {first!r}" for name, (size, first) in sizes.items())
        shape = ", ".join(map(str, wanted.shape))
        raise InvalidArgumentError(
            f"{wanted.name!r} has shape {actual}; it must be ({shape}){f' with {known}' if known else ''}"
        )
    array = value.numpy(force=True)
    dtype = np.dtype(wanted.dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise InvalidArgumentError(f"{wanted.name!r} is {array.dtype}; this network takes {dtype}")
    return np.ascontiguousarray(array, dtype)
