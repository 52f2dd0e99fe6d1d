"""Weight files: lookup of trained and shipped weights, and explanations for other paths, without torch.

Weights that ship with l5kit are in ``l5kit/weights``, in one folder for each name, and are found by their names.
"""

import os
import warnings
import zipfile
from pathlib import Path
from typing import Final

from l5kit import __version__
from l5kit.configs.config import load_config_data
from l5kit.configs.runs import WeightsName
from l5kit.configs.texts import did_you_mean, parse_json, read_text
from l5kit.configs.training import read_workflow
from l5kit.errors import UnsupportedValueError

CONFIG_FILE: Final = "config.yaml"
"""The configuration in the folder of a training."""

CARD_FILE: Final = "card.json"
"""Card of shipped weights, next to them: licence, data, scores, and format."""

CARD_FORMAT: Final = 1
"""Newest format of weights that this version reads; it grows when older versions would misread newer weights."""

EXPORT_FORMAT: Final = 1
"""Format of exported networks; it grows when older versions would misread newer files."""

_POLICIES: Final = ("driver.zip", "best.zip", "first.zip", "step_*.zip")
"""Files that identify the folder of a reinforcement training or its checkpoints."""

POLICY_PARTS: Final = frozenset({"policy.pth", "_stable_baselines3_version"})
"""Entry that every policy file has, a zip archive of stable-baselines3."""

_SHIPPED: Final = Path(__file__).resolve().parents[1] / "weights"

_SIMULATION: Final = ("run.json", "scores.json")
_EVALUATION: Final = ("scores.json", "samples.csv")
_POLICY: Final = "a policy of l5kit train-rl, which l5kit simulate --planner {} takes and scores"
_ADVICE: Final = "name a file of weights, or a folder of l5kit train"


def shipped_weights() -> tuple[str, ...]:
    """Return the names of the networks that ship with l5kit; they are accepted wherever a checkpoint is named."""
    return tuple(name for name in _shipped() if name not in shipped_policies())


def shipped_policies() -> tuple[str, ...]:
    """Return the names of the policies that ship with l5kit; they are accepted wherever a planner is named."""
    return tuple(name for name in _shipped() if (_SHIPPED / name / _POLICIES[0]).is_file())


def _shipped() -> list[str]:
    return sorted(card.parent.name for card in _SHIPPED.glob(f"*/{CARD_FILE}"))


def checkpoint_path(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint: the folder of shipped weights for their name, otherwise the given path.

    Args:
        checkpoint: A name of :func:`shipped_weights` or :func:`shipped_policies`, or a path, which need not exist. To
            refer to a file of such a name in the working directory, use ``./route_planner`` or a
            :class:`~pathlib.Path`.
    """
    is_name = isinstance(checkpoint, str) and checkpoint in (*shipped_weights(), *shipped_policies())
    return _SHIPPED / checkpoint if is_name else Path(checkpoint)


def is_shipped(file: Path) -> bool:
    """Return whether a file belongs to weights that ship with l5kit."""
    return file.resolve().is_relative_to(_SHIPPED)


def is_policy(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a policy, by names only: a ``.zip`` file, or the folder of its training."""
    checkpoint = checkpoint_path(path)
    if checkpoint.is_dir():
        return any(any(checkpoint.glob(name)) for name in _POLICIES)
    return checkpoint.suffix == ".zip" and checkpoint.is_file()


def is_onnx(file: Path) -> bool:
    """Return whether a file is an ONNX network of ``l5kit checkpoint export``, by its name only."""
    return file.suffix == ".onnx"


def network_of(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the file with the weights of a network; see :func:`weights_of`.

    Raises:
        FileNotFoundError: As for :func:`weights_of`, or the file is a policy; the message names the command for it.
    """
    file = weights_of(checkpoint)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            is_of_policy = set(archive.namelist()) >= POLICY_PARTS
        if is_of_policy:
            raise FileNotFoundError(f"checkpoint {str(file)!r} is {_POLICY.format(file)}; {_ADVICE}")
    return file


def weights_of(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the file with the weights: the given one, those of a shipped name, or the final ones of a training.

    A name means the shipped weights even if the working directory has a file or folder of that name, which gives a
    ``UserWarning``; callers that need the file more than once keep it, so that it warns once.

    Raises:
        FileNotFoundError: The path does not exist, or the folder has no final weights or is not of a training; the
            message names the kind of the folder and the command for it, or lists the available weights.
        UnsupportedValueError: The card next to the weights requires a newer l5kit.
    """
    path, named = checkpoint_path(checkpoint), os.fspath(checkpoint)
    if path != Path(named) and os.path.exists(named):
        warnings.warn(
            f"{named!r} is the network that ships with l5kit; for the path of this name, write './{named}'",
            UserWarning,
            stacklevel=2,
        )
    if not path.exists():
        shipped = shipped_weights()
        raise FileNotFoundError(
            f"checkpoint {named!r} does not exist{did_you_mean(named, shipped)}; name a file of weights, a "
            f"training, or a network that ships with l5kit ({', '.join(shipped)})"
        )
    if path.is_file():
        _require_known_format(path)
        return path
    # describe a folder that is not of a network training, and the command for it
    other = None
    if is_policy(path):
        other = _POLICY.format(path.name if is_shipped(path) else path)
    elif all((path / name).is_file() for name in _SIMULATION):
        other = (
            f"a folder of l5kit simulate, which has its scores in scores.json already (l5kit view {path} shows them)"
        )
    elif all((path / name).is_file() for name in _EVALUATION):
        other = "a folder of l5kit evaluate, which has its scores in scores.json already"
    elif path.suffix == ".zarr" or (path / "scenes").is_dir():
        other = f"a dataset, which l5kit info {path} takes"
    elif not (path / CONFIG_FILE).is_file():
        other = f"no folder of l5kit train: it has no {CONFIG_FILE}"
    if other is not None:
        raise FileNotFoundError(f"checkpoint {named!r} is {other}; {_ADVICE}")
    cfg = load_config_data(str(path / CONFIG_FILE))
    read_workflow(cfg)  # the default name of the files
    file = path / f"{WeightsName.from_cfg(cfg).output_name}.safetensors"
    if not file.is_file():
        weights = ", ".join(sorted(str(other) for other in path.glob("*.safetensors"))) or "none"
        raise FileNotFoundError(
            f"the training in {str(path)!r} is not finished: there is no {file.name}; weights in it: {weights}"
        )
    _require_known_format(file)
    return file


def _require_known_format(file: Path) -> None:
    """Refuse weights of a newer format, by the card next to them; those of trainings have no card.

    Raises:
        UnsupportedValueError: The weights have a newer format.
        ConfigError: The card is not JSON.
    """
    card_file = file.parent / CARD_FILE
    card = parse_json(read_text(card_file, called="card"), called=f"card {card_file}") if card_file.is_file() else None
    if not isinstance(card, dict) or card.get("weights") != file.name:
        return
    written = card.get("format")
    if not isinstance(written, int) or written > CARD_FORMAT:
        raise UnsupportedValueError(
            f"{file} has weights of format {written}, written for l5kit {card.get('l5kit')}; this is l5kit "
            f"{__version__}, which reads formats up to {CARD_FORMAT}. Update it (pip install --upgrade l5kit2), or "
            f"take the weights that ship with it: {', '.join(shipped_weights())}"
        )
