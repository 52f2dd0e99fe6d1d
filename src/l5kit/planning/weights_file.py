"""Which file holds the weights of a training, and what a path is that holds none; found by names, without torch."""

import os
import zipfile
from pathlib import Path
from typing import Final

from l5kit.configs.config import load_config_data
from l5kit.configs.training import read_output_name

__all__ = ["CONFIG_FILE", "POLICY_PARTS", "is_policy", "network_of", "weights_of"]

CONFIG_FILE: Final = "config.yaml"
"""The configuration in the folder of a training."""

_POLICIES: Final = ("driver.zip", "best.zip", "first.zip", "step_*.zip")
"""Files of a training by reinforcement learning, or of its checkpoints, that tell its folder apart from others."""

POLICY_PARTS: Final = frozenset({"policy.pth", "_stable_baselines3_version"})
"""What the file of a policy has in any case, which is a zip archive of stable-baselines3."""

_SIMULATION: Final = ("run.json", "scores.json")
_EVALUATION: Final = ("scores.json", "samples.csv")
_POLICY: Final = "a policy of l5kit train-rl, which l5kit simulate --planner {} takes and scores"
_ADVICE: Final = "name a file of weights, or a folder of l5kit train"


def is_policy(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is that of a policy, by names only: a ``.zip``, or the folder of its training."""
    place = Path(path)
    if place.is_dir():
        return any(any(place.glob(name)) for name in _POLICIES)
    return place.suffix == ".zip" and place.is_file()


def network_of(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the file with the weights of a network; see :func:`weights_of`.

    Raises:
        FileNotFoundError: As there, and where the file is a policy; the message says which command takes it.
    """
    file = weights_of(checkpoint)
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            is_of_policy = set(archive.namelist()) >= POLICY_PARTS
        if is_of_policy:
            raise FileNotFoundError(f"checkpoint {str(file)!r} is {_POLICY.format(file)}; {_ADVICE}")
    return file


def weights_of(checkpoint: str | os.PathLike[str]) -> Path:
    """Return the file with the weights: what is given, or the final weights in the folder of a training.

    Raises:
        FileNotFoundError: There is nothing, no final weights in the folder, or the folder is another one; the message
            says what it is and which command takes it, or lists the weights that are there.
    """
    path = Path(checkpoint)
    if not path.exists():
        raise FileNotFoundError(f"checkpoint {str(path)!r} does not exist; name a file of weights or a training")
    if path.is_file():
        return path
    other = _what_else(path)
    if other:
        raise FileNotFoundError(f"checkpoint {str(path)!r} is {other}; {_ADVICE}")
    file = path / f"{read_output_name(load_config_data(str(path / CONFIG_FILE)))}.safetensors"
    if not file.is_file():
        found = ", ".join(sorted(str(other) for other in path.glob("*.safetensors"))) or "none"
        raise FileNotFoundError(
            f"the training in {str(path)!r} has not come to its end: there is no {file.name}; weights in it: {found}"
        )
    return file


def _what_else(path: Path) -> str:
    """Return what a folder is that is none of a training of a network, and what takes it; empty where it is one."""
    if is_policy(path):
        return _POLICY.format(path)
    if all((path / name).is_file() for name in _SIMULATION):
        return f"a folder of l5kit simulate, which has its scores in scores.json already (l5kit view {path} shows them)"
    if all((path / name).is_file() for name in _EVALUATION):
        return "a folder of l5kit evaluate, which has its scores in scores.json already"
    if path.suffix == ".zarr" or (path / "scenes").is_dir():
        return f"a dataset, which l5kit info {path} takes"
    return "" if (path / CONFIG_FILE).is_file() else f"no folder of l5kit train: it has no {CONFIG_FILE}"
