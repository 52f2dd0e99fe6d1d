"""Damage to checkpoints, as ``tests/support/checkpoint_damage.py`` does it."""

import itertools
from pathlib import Path
from random import Random
from typing import Any

from attack.target import Kinds, Target

CHECKPOINTS = Kinds("checkpoint")
_NAME_FILE = "checkpoint.txt"
_ABOUT = 600
"""How many damaged files there are, one after the other."""


def checkpoint_of(root: Path) -> Path:
    """Return the damaged checkpoint of a set."""
    return Path((root / _NAME_FILE).read_text("utf-8"))


def small_network() -> Any:
    """Return the network whose weights the checkpoints hold."""
    from support.checkpoint_damage import small_network as network  # needs torch, which the other attacks do without

    return network()


@CHECKPOINTS("checkpoint", weight=20)
def checkpoint(target: Target) -> str:
    from support.checkpoint_damage import damaged_checkpoints

    number = target.integer(0, _ABOUT - 1)
    made = damaged_checkpoints(Random(target.integer(0, 2**32)), target.root / "checkpoint")
    said, path = next(itertools.islice(made, number, None))
    (target.root / _NAME_FILE).write_text(str(path), "utf-8")
    return f"checkpoint {path.name}: {said}"
