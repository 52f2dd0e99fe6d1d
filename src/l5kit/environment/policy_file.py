"""Policy file: weights and options of a policy that ``l5kit train-rl`` has written, read without its pickles."""

import io
import json
import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from l5kit._types import Float32Array
from l5kit.configs.config import load_config_data
from l5kit.configs.texts import require_regular_file
from l5kit.data.receipts import RECEIPT_FILE, find_loss
from l5kit.data.unpack_limits import USUAL_LIMITS
from l5kit.environment.policy_options import POLICY_OPTIONS, PolicyOptions
from l5kit.errors import InvalidArgumentError

__all__ = ["PolicyNetwork", "find_policy_file", "read_policy"]

_DRIVER: Final = "driver.zip"
_ENTRIES: Final = ("data", "policy.pth")
_LAYER: Final = re.compile(r"mlp_extractor\.policy_net\.(\d+)\.weight")
_KNOWN_SHAPE: Final = {"net_arch", "log_std_init"}


@dataclass(frozen=True, eq=False)
class PolicyNetwork:
    """The part of a network of stable-baselines3 that says what to do: layers of weights, tanh between them.

    Attributes:
        layers: Weights (outputs, inputs) and offsets (outputs,) of each layer, float32.
    """

    layers: tuple[tuple[Float32Array, Float32Array], ...]

    @property
    def num_inputs(self) -> int:
        """Values of an observation."""
        return int(self.layers[0][0].shape[1])

    @property
    def num_outputs(self) -> int:
        """Values of an action, or the number of actions that it chooses from."""
        return int(self.layers[-1][0].shape[0])

    def act(self, seen: Float32Array) -> Float32Array:
        """Return means of actions, or what each action is worth, (R, outputs), of observations (R, inputs).

        Each row has the same bits whatever the others are.
        """
        values = seen[:, :, None]
        for place, (weights, offsets) in enumerate(self.layers):
            values = np.matmul(weights, values if place == 0 else np.tanh(values)) + offsets[:, None]
        return values[:, :, 0]


def find_policy_file(path: Path) -> Path:
    """Return the file of a policy: itself, or the ``driver.zip`` of the folder of a training.

    Raises:
        FileNotFoundError: There is none.
        InvalidArgumentError: The folder is not what its training has left there.
    """
    file = path / _DRIVER if path.is_dir() else path
    if not file.is_file():
        names = sorted(other.name for other in path.glob("*.zip"))
        hint = (
            f"its training has not ended: name the {(names or ['best.zip'])[-1]} in it"
            if path.is_dir()
            else ("check it for spelling")
        )
        raise FileNotFoundError(f"there is no {str(file)!r}; {hint}")
    # trainings that go on, and those of older versions, have no receipt
    loss = find_loss(path) if (path / RECEIPT_FILE).is_file() else None
    if loss is not None:
        raise InvalidArgumentError(
            f"{path} is not as its training left it: {loss}; copy it anew, or name {file} to drive with that file"
        )
    return file


def read_policy(file: Path) -> tuple[PolicyNetwork, PolicyOptions]:
    """Return the network of a policy, and what it was trained with: what its file says, else ``config.yaml`` beside it.

    Raises:
        InvalidArgumentError: The file is broken, no policy of ``l5kit train-rl``, or does not say what it was trained
            with.
        UnsupportedValueError: It was trained with observations or actions that it cannot drive with in a simulation.
        ConfigError: The configuration beside it is wrong.
    """
    content, weights = _entries_of(file)
    options = _options_of(file, content)
    options.require_simulated()
    shape = content.get("policy_kwargs")
    numbers = sorted(int(match[1]) for name in weights if (match := _LAYER.fullmatch(name)))
    names = [*(f"mlp_extractor.policy_net.{number}" for number in numbers), "action_net"]
    is_known = isinstance(shape, dict) and shape.keys() <= _KNOWN_SHAPE
    if not is_known or any(f"{name}.{part}" not in weights for name in names for part in ("weight", "bias")):
        raise InvalidArgumentError(
            f"{file} has another network than l5kit train-rl makes for compact observations, which is a few layers"
        )
    layers = tuple((_array_of(weights[f"{name}.weight"]), _array_of(weights[f"{name}.bias"])) for name in names)
    _require_layers(file, layers)
    return PolicyNetwork(layers), options


def _entries_of(file: Path) -> tuple[dict[str, Any], Mapping[str, torch.Tensor]]:
    """Return what a file says in plain words, and its weights."""
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
            with zipfile.ZipFile(io.BytesIO(texts[1])) as archive:  # torch unpacks it, too
                USUAL_LIMITS.require_readable(archive)
        content = json.loads(texts[0]) if is_whole else None
        weights = torch.load(io.BytesIO(texts[1]), map_location="cpu", weights_only=True) if is_whole else None
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise InvalidArgumentError(f"{file} is broken ({error}); take another file of the training") from error
    if not isinstance(content, dict) or not isinstance(weights, dict):
        raise InvalidArgumentError(f"{file} is no policy of l5kit train-rl, which holds {' and '.join(_ENTRIES)}")
    return content, weights


def _options_of(file: Path, content: Mapping[str, Any]) -> PolicyOptions:
    if POLICY_OPTIONS in content:
        return PolicyOptions.of_json(content[POLICY_OPTIONS])
    config = file.parent / "config.yaml"
    if not config.is_file():
        raise InvalidArgumentError(
            f"{file} does not say what it was trained with, and there is no {config.name} beside it; name the file in "
            "the folder of its training"
        )
    return PolicyOptions.of_cfg(load_config_data(str(config)))


def _array_of(values: object) -> Float32Array:
    """Return weights as an array; NaN for what is none."""
    none: Float32Array = np.full((1, 1), np.nan, np.float32)
    if not isinstance(values, torch.Tensor) or values.layout != torch.strided or values.dtype != torch.float32:
        return none
    if values.numel() * values.element_size() > values.untyped_storage().nbytes():
        return none  # a few numbers that are said to be many
    array: Float32Array = values.detach().numpy()
    return array


def _require_layers(file: Path, layers: tuple[tuple[Float32Array, Float32Array], ...]) -> None:
    """Refuse weights that do not fit together, or that are no numbers."""
    num_inputs: int | None = None
    for number, (weights, offsets) in enumerate(layers):
        is_fitting = weights.ndim == 2 and offsets.shape == weights.shape[:1]
        if not is_fitting or num_inputs not in (None, weights.shape[1]):
            raise InvalidArgumentError(
                f"{file} is broken (layer {number} has weights {weights.shape} and offsets {offsets.shape}); take "
                "another file of the training"
            )
        if not (np.isfinite(weights).all() and np.isfinite(offsets).all()):
            raise InvalidArgumentError(
                f"{file} is broken (layer {number} has weights that are no finite float32 numbers); take another file "
                "of the training"
            )
        num_inputs = weights.shape[0]
