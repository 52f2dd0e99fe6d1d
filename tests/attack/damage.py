"""From a seed to a damaged set."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attack.clean_sets import SETS, CleanSet, pack
from attack.damage_checkpoints import CHECKPOINTS
from attack.damage_chunks import CHUNKS
from attack.damage_files import MAP, PICTURE
from attack.damage_metadata import METADATA
from attack.damage_records import RECORDS
from attack.damage_texts import META, YAML
from attack.damage_zip import ZIP
from attack.target import Kind, Target

KINDS: tuple[Kind, ...] = tuple(
    kind for family in (CHUNKS, RECORDS, METADATA, ZIP, MAP, PICTURE, META, YAML, CHECKPOINTS) for kind in family.all
)
FAMILIES = tuple(dict.fromkeys(kind.family for kind in KINDS))
"""Families of damage: the damaged part of a set."""

LOG_FAMILIES = ("chunks", "records", "metadata", "zip")
"""Families that damage the log; the others damage the files next to it."""

ROW_FAMILIES = ("chunks", "records")
"""Families that damage some rows of a log and leave the others unchanged."""

_TIMES = {"chunks": 2, "records": 2}


def _in_order() -> tuple[Kind, ...]:
    """Return all kinds once, and behind them each as often again as its weight says."""
    more = [kind for kind in KINDS for _ in range(kind.weight * _TIMES.get(kind.family, 1) - 1)]
    order = np.random.default_rng(3).permutation(len(more))
    return KINDS + tuple(more[i] for i in order)


_SLOTS = _in_order()


@dataclass(frozen=True)
class DamagedSet:
    """Result of a seed.

    Attributes:
        seed: The seed.
        root: The folder of the set.
        log: Its log, a folder or a zip file.
        clean: The undamaged set.
        kind: The kind of damage.
        description: A sentence about it.
    """

    seed: int
    root: Path
    log: Path
    clean: CleanSet
    kind: Kind
    description: str


def kind_of(seed: int) -> Kind:
    """Return the kind of damage of a seed; the first seeds have one kind each."""
    return _SLOTS[seed % len(_SLOTS)]


def make_damaged_set(seed: int, root: Path, *, clean_folder: Path) -> DamagedSet:
    """Make the damaged set of a seed in a folder that does not exist.

    Args:
        seed: Any number from 0 on.
        root: The folder.
        clean_folder: Where undamaged sets are kept to be copied; filled as they are needed.
    """
    kind, rng = kind_of(seed), np.random.default_rng([seed, 77])
    choices = [clean for clean in SETS if clean.is_zip or kind.needs != "zip"]
    clean = choices[int(rng.integers(len(choices)))]
    shutil.copytree(kept_clean_set(clean, clean_folder), root)
    target = Target(root, clean, rng)
    if kind.family == "zip":
        pack(root, clean)
    description = kind.apply(target)
    log = pack(root, clean)
    if clean.is_zip:
        shutil.rmtree(target.log)
    return DamagedSet(seed, root, log, clean, kind, f"{clean.name}: {description}")


def kept_clean_set(clean: CleanSet, folder: Path) -> Path:
    """Return the folder of an undamaged set (a zip not packed yet), which is made where it is not there."""
    root = folder / clean.name.replace(", ", "-").replace(" ", "_")
    if not root.exists():
        clean.write(root)
    return root
