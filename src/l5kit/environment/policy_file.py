"""Policy file: weights and options of a policy from ``l5kit train-rl``, read without unpickling."""

import io
import json
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from l5kit._types import Float32Array
from l5kit.configs.config import load_config_data
from l5kit.configs.texts import require_regular_file
from l5kit.data.jobs.receipts import find_loss
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.environment.observations.compact_layout import MOST_NORMALISED, SET_PARTS, CompactLayout
from l5kit.environment.policy_arrays import read_arrays
from l5kit.environment.policy_options import POLICY_OPTIONS, PolicyOptions
from l5kit.errors import InvalidArgumentError
from l5kit.planning.weights_file import checkpoint_path

if TYPE_CHECKING:
    import torch

_DRIVER: Final = "driver.zip"
_ENTRIES: Final = ("data", "policy.pth")
_LAYER: Final = re.compile(r"mlp_extractor\.policy_net\.(\d+)\.weight")
_KNOWN_SHAPE: Final = {"net_arch", "log_std_init"}
_FEATURES: Final = "features_extractor."
_BROKEN_ENCODER: Final = (
    "{file} is broken (the layers for road users do not fit: {what}); take another file of the training"
)

_DAMAGES: Final = (
    *(zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError),
    *(LookupError, TypeError, AttributeError, struct.error, OverflowError, MemoryError),
)
"""Errors that readers of zip files, JSON and weights raise for damaged bytes."""

Layer: TypeAlias = tuple[Float32Array, Float32Array]
"""Weights (outputs, inputs) and biases (outputs,), float32."""


@dataclass(frozen=True, eq=False)
class SetLayers:
    """Layers for an unordered set of rows; a :class:`~l5kit.environment.models.SetFeatures` without torch.

    Attributes:
        first: First layer of each row.
        second: Second layer of each row, with W outputs.
        mix: Weights of the pooled features, (F, W), or of the attention of all heads, (F, heads x W).
        query: Layer of the queries of all heads, (R, heads x W), from the AV and its route; None for maximum pooling.
    """

    first: Layer
    second: Layer
    mix: Float32Array
    query: Layer | None = None

    def mixed(self, rows: Float32Array, is_there: Float32Array, own: Float32Array) -> Float32Array:
        """Return features (R, F), as :meth:`SetFeatures.forward <l5kit.environment.models.SetFeatures.forward>` does.

        Args:
            rows: The rows, (R, K, columns).
            is_there: 1 for used rows, 0 for padding, (R, K, 1).
            own: Values of the AV and its route, (R, C).
        """
        # two layers for each row
        num_rows, count, num_columns = rows.shape
        flat = rows.reshape(num_rows * count, num_columns)
        for weights, offsets in (self.first, self.second):
            flat = np.maximum(_times(weights, flat) + offsets, 0)
        width = flat.shape[1]
        values = flat.reshape(num_rows, count, width)
        if self.query is None:
            # maximum of each feature, with zeros for padding
            return _times(self.mix, (values * is_there).max(axis=1))
        # softmax over the scores of used rows and of an extra row of zeros, whose score is 0
        weights, offsets = self.query
        queries = (_times(weights, own) + offsets).reshape(num_rows, len(offsets) // width, width)
        scores = np.matmul(queries, values.transpose(0, 2, 1)) / np.float32(np.sqrt(width))
        scores = np.where(is_there.transpose(0, 2, 1) > 0, scores, np.float32(-np.inf))
        largest = np.maximum(scores.max(axis=2, keepdims=True), 0)
        shares = np.exp(scores - largest)
        shares /= shares.sum(axis=2, keepdims=True) + np.exp(-largest)
        return _times(self.mix, np.matmul(shares, values).reshape(num_rows, len(offsets)))


@dataclass(frozen=True, eq=False)
class CompactEncoder:
    """Encoder of compact observations; a :class:`~l5kit.reinforcement.compact_features.CompactFeatures` without torch.

    Attributes:
        layout: Layout of the observations.
        scales: Means and standard deviations of all columns, float32 (2, D).
        own: Layer of the AV and its route.
        sets: Layers of each part that is a set.
    """

    layout: CompactLayout
    scales: Float32Array
    own: Layer
    sets: Mapping[str, SetLayers]

    def encode(self, seen: Float32Array) -> Float32Array:
        """Return the features (R, F) of observations (R, D)."""
        # normalised columns, and the layer of the AV and its route
        means, deviations = self.scales
        values = np.clip((seen - means) / deviations, -MOST_NORMALISED, MOST_NORMALISED)
        weights, offsets = self.own
        own = values[:, : weights.shape[1]]
        mixed = _times(weights, own) + offsets
        # the contribution of a set does not depend on the order of its rows
        for name, layers in self.sets.items():
            columns, shape = self.layout.parts[name]
            is_there = seen[:, columns].reshape(-1, *shape)[..., -1:]
            mixed += layers.mixed(values[:, columns].reshape(-1, *shape), is_there, own)
        features: Float32Array = np.tanh(mixed)
        return features


@dataclass(frozen=True, eq=False)
class PolicyNetwork:
    """Actor network of stable-baselines3 in NumPy: layers of weights with tanh between them.

    Attributes:
        layers: Weights (outputs, inputs) and biases (outputs,) of each layer, float32.
        encoder: Encoder of observations before the layers; None if there is none.
    """

    layers: tuple[Layer, ...]
    encoder: CompactEncoder | None = None

    @property
    def num_inputs(self) -> int:
        """Values of an observation."""
        return int(self.layers[0][0].shape[1]) if self.encoder is None else self.encoder.scales.shape[1]

    @property
    def num_outputs(self) -> int:
        """Values of an action, or the number of discrete actions."""
        return int(self.layers[-1][0].shape[0])

    def act(self, seen: Float32Array) -> Float32Array:
        """Return means of actions, or a logit of each discrete action, (R, outputs), for observations (R, inputs).

        Each row is bit-identical whatever the other rows are.
        """
        values = seen if self.encoder is None else self.encoder.encode(seen)
        for index, (weights, offsets) in enumerate(self.layers):
            values = _times(weights, values if index == 0 else np.tanh(values)) + offsets
        return values


def _times(weights: Float32Array, rows: Float32Array) -> Float32Array:
    """Return weights (O, I) times rows (R, I), (R, O), row by row, so that rows do not affect each other."""
    product: Float32Array = np.matmul(weights, rows[:, :, None])[:, :, 0]
    return product


def find_policy_file(policy: str | os.PathLike[str]) -> Path:
    """Return the file of a policy.

    Args:
        policy: The file, the folder of a training, for its ``driver.zip``, or the name of a policy shipped with l5kit.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidArgumentError: The folder was changed after its training.
    """
    path = checkpoint_path(policy)
    file = path / _DRIVER if path.is_dir() else path
    if not file.is_file():
        names = sorted(other.name for other in path.glob("*.zip"))
        hint = (
            f"its training has not ended: name the {(names or ['best.zip'])[-1]} in it"
            if path.is_dir()
            else ("check the spelling")
        )
        raise FileNotFoundError(f"there is no {str(file)!r}; {hint}")
    # running trainings, and those of older versions, have no receipt
    loss = find_loss(path, needs_receipt=False)
    if loss is not None:
        raise InvalidArgumentError(
            f"{path} is not as its training left it: {loss}; copy it again, or name {file} to drive with that file"
        )
    return file


def read_weights(file: Path) -> tuple[Mapping[str, "torch.Tensor"], PolicyOptions]:
    """Return all weights of a policy and its options; pickled objects in the file are never loaded.

    Raises:
        InvalidArgumentError: The file is broken, or not a policy of ``l5kit train-rl``.
    """
    import torch  # imported here, as policies drive without torch

    def load(content: bytes) -> object:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)

    content, weights = _entries_of(file, load)
    return weights, _options_of(file, content)


def read_policy(file: Path) -> tuple[PolicyNetwork, PolicyOptions]:
    """Return the network and the options of a policy; options missing in the file come from ``config.yaml`` next to it.

    Raises:
        InvalidArgumentError: The file is broken, not a policy of ``l5kit train-rl``, or lacks its options.
        UnsupportedValueError: Its observations or actions are not supported in simulations.
        ConfigError: The configuration next to it is wrong.
    """
    content, weights = _entries_of(file, read_arrays)
    options = _options_of(file, content)
    options.require_simulated()
    shape, encoder = content.get("policy_kwargs"), _encoder_of(file, weights, options)
    # layers of the actor only, without those of the critic
    indices = sorted(int(match[1]) for name in weights if (match := _LAYER.fullmatch(name)))
    names = [*(f"mlp_extractor.policy_net.{number}" for number in indices), "action_net"]
    is_known = encoder is not None or (isinstance(shape, dict) and shape.keys() <= _KNOWN_SHAPE)
    if not is_known or any(f"{name}.{part}" not in weights for name in names for part in ("weight", "bias")):
        raise InvalidArgumentError(
            f"{file} has another network than those of l5kit train-rl for compact observations, a few linear layers"
        )
    layers = tuple((_array_of(weights[f"{name}.weight"]), _array_of(weights[f"{name}.bias"])) for name in names)

    # raise for layers that do not fit together, or that are not finite numbers
    num_inputs: int | None = None
    for number, (weights_of_layer, offsets) in enumerate(layers):
        is_fitting = weights_of_layer.ndim == 2 and offsets.shape == weights_of_layer.shape[:1]
        if not is_fitting or num_inputs not in (None, weights_of_layer.shape[1]):
            raise InvalidArgumentError(
                f"{file} is broken (layer {number} has weights {weights_of_layer.shape} and offsets {offsets.shape}); "
                "take another file of the training"
            )
        if not (np.isfinite(weights_of_layer).all() and np.isfinite(offsets).all()):
            raise InvalidArgumentError(
                f"{file} is broken (layer {number} has weights that are not finite float32 numbers); take another file "
                "of the training"
            )
        num_inputs = weights_of_layer.shape[0]
    if encoder is not None and layers[0][0].shape[1] != len(encoder.own[1]):
        raise InvalidArgumentError(f"{file} is broken (layers do not fit together); take another file of the training")
    return PolicyNetwork(layers, encoder), options


def _encoder_of(file: Path, weights: Mapping[str, object], options: PolicyOptions) -> CompactEncoder | None:
    """Return the encoder of observations; None if the weights have none."""
    if f"{_FEATURES}means" not in weights:
        return None
    layout = options.layout

    def layer_of(name: str) -> Layer:
        return tuple(_array_of(weights.get(f"{_FEATURES}{name}.{part}")) for part in ("weight", "bias"))  # type: ignore[return-value]

    sets: dict[str, SetLayers] = {}
    for name in (name for name in SET_PARTS if layout.parts[name][1][0]):
        first, second = (layer_of(f"sets.{name}.each.{number}") for number in (0, 2))
        mix, query = _array_of(weights.get(f"{_FEATURES}sets.{name}.mix.weight")), f"sets.{name}.query"
        has_query = any(key.startswith(f"{_FEATURES}{query}.") for key in weights)
        sets[name] = SetLayers(first, second, mix, layer_of(query) if has_query else None)
    scales = [_array_of(weights.get(f"{_FEATURES}{name}")) for name in ("means", "deviations")]
    if any(scale.shape != (layout.size,) for scale in scales):
        raise InvalidArgumentError(_BROKEN_ENCODER.format(file=file, what="scales"))
    encoder = CompactEncoder(layout, np.stack(scales), layer_of("own"), sets)
    _require_encoder(file, encoder)
    return encoder


def _require_encoder(file: Path, encoder: CompactEncoder) -> None:
    """Raise if weights of an encoder do not fit together or to the layout, or are not finite."""
    layout, (own_weights, own_offsets) = encoder.layout, encoder.own
    num_own, num_features = layout.parts[SET_PARTS[0]][0].start, own_offsets.size
    # the widths of layers are those of their biases
    expected = {
        "own.weight": (own_weights, (num_features, num_own)),
        "own.bias": (own_offsets, (num_features,)),
    }
    for name, layers in encoder.sets.items():
        (first, first_offsets), (second, second_offsets) = layers.first, layers.second
        width, num_mixed = first_offsets.size, second_offsets.size
        expected[f"{name}.first"] = (first, (width, layout.parts[name][1][1]))
        expected[f"{name}.first.bias"] = (first_offsets, (width,))
        expected[f"{name}.second"] = (second, (num_mixed, width))
        expected[f"{name}.second.bias"] = (second_offsets, (num_mixed,))
        if layers.query is not None:
            query, query_offsets = layers.query
            num_mixed *= max(query_offsets.size // max(num_mixed, 1), 1)  # of all heads, one or more
            expected[f"{name}.query"] = (query, (num_mixed, num_own))
            expected[f"{name}.query.bias"] = (query_offsets, (num_mixed,))
        expected[f"{name}.mix"] = (layers.mix, (num_features, num_mixed))
    wrong = next((name for name, (array, shape) in expected.items() if array.shape != shape or not array.size), None)
    is_finite = all(np.isfinite(array).all() for array in (encoder.scales, *(array for array, _ in expected.values())))
    if wrong is not None or not is_finite or not (encoder.scales[1] > 0).all():
        raise InvalidArgumentError(_BROKEN_ENCODER.format(file=file, what=wrong or "numbers"))


def _entries_of(file: Path, load: Callable[[bytes], object]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the JSON content of a file, and its weights, which ``load`` reads."""
    require_regular_file(file, called="policy file")
    try:
        with zipfile.ZipFile(file) as archive:
            USUAL_LIMITS.require_readable(archive)
            damaged = archive.testzip()
            if damaged is not None:
                raise zipfile.BadZipFile(damaged)
            is_whole = set(_ENTRIES) <= set(archive.namelist())
            texts = [archive.read(name) for name in _ENTRIES] if is_whole else []
        if is_whole:
            with zipfile.ZipFile(io.BytesIO(texts[1])) as archive:  # this member is an archive, too
                USUAL_LIMITS.require_readable(archive)
        content = json.loads(texts[0]) if is_whole else None
        weights = load(texts[1]) if is_whole else None
    except _DAMAGES as error:
        raise InvalidArgumentError(f"{file} is broken ({error}); take another file of the training") from error
    if (
        not isinstance(content, dict)
        or not isinstance(weights, dict)
        or any(not isinstance(name, str) for name in weights)
    ):
        raise InvalidArgumentError(f"{file} is not a policy of l5kit train-rl, which holds {' and '.join(_ENTRIES)}")
    return content, weights


def _options_of(file: Path, content: Mapping[str, Any]) -> PolicyOptions:
    if POLICY_OPTIONS in content:
        return PolicyOptions.of_json(content[POLICY_OPTIONS])
    config = file.parent / "config.yaml"
    if not config.is_file():
        raise InvalidArgumentError(
            f"{file} does not say what it was trained with, and there is no {config.name} next to it; name the file "
            "in the folder of its training"
        )
    return PolicyOptions.of_cfg(load_config_data(str(config)))


def _array_of(values: object) -> Float32Array:
    """Return weights as an array; NaN for other objects."""
    none: Float32Array = np.full((1, 1), np.nan, np.float32)
    return values if isinstance(values, np.ndarray) else none
