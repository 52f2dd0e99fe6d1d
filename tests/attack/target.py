"""Targets and registry of all kinds of damage."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attack.clean_sets import LOG_NAME, CleanSet
from attack.record_files import ArrayFiles


@dataclass(frozen=True)
class Target:
    """An undamaged copy of a set, to be damaged in place.

    Attributes:
        root: The folder of the set.
        clean: Which set it is.
        rng: Decides everything that is left open.
    """

    root: Path
    clean: CleanSet
    rng: np.random.Generator

    @property
    def log(self) -> Path:
        """The folder of the log, also where it is to become a zip file afterwards."""
        return self.root / "scenes" / LOG_NAME

    @property
    def zip_file(self) -> Path:
        return self.log.with_name(f"{LOG_NAME}.zip")

    @property
    def array_keys(self) -> list[str]:
        """Return the names of the arrays of the log."""
        return sorted(path.parent.name for path in self.log.glob("*/.zarray"))

    def array(self, key: str) -> ArrayFiles:
        return ArrayFiles(self.log, key)

    def pick(self, options: Any) -> Any:
        """Return one of some options."""
        listed = list(options)
        return listed[int(self.rng.integers(len(listed)))]

    def key(self, *among: str) -> str:
        """Return the name of an array that has rows."""
        keys = [key for key in self.array_keys if self.array(key).length and (not among or key in among)]
        return str(self.pick(keys))

    def integer(self, low: int, high: int) -> int:
        """Return a number of ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))


Damage = Callable[[Target], str]
"""Damages a set and returns a sentence about what was done."""


@dataclass(frozen=True)
class Kind:
    """One kind of damage.

    Attributes:
        family: Damaged part of a set; decides what is read of it.
        name: Its name in reports.
        apply: Applies it.
        weight: Its relative frequency.
        needs: ``zip``, ``even`` or ``faces`` if only some sets qualify; else empty.
    """

    family: str
    name: str
    apply: Damage
    weight: int = 1
    needs: str = ""


class Kinds:
    """Kinds of damage of one family, collected by a decorator."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.all: list[Kind] = []

    def __call__(self, name: str, *, weight: int = 1, needs: str = "") -> Callable[[Damage], Damage]:
        def add(apply: Damage) -> Damage:
            self.all.append(Kind(self.family, name, apply, weight, needs))
            return apply

        return add


def flip_bits(content: bytes, rng: np.random.Generator, count: int, *, first: int = 0) -> bytes:
    """Return bytes with some bits turned, none of them before ``first``."""
    changed = np.frombuffer(content, np.uint8).copy()
    if len(changed) > first:
        places = rng.integers(first, len(changed), count)
        np.bitwise_xor.at(changed, places, (1 << rng.integers(0, 8, count)).astype(np.uint8))
    return changed.tobytes()


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the start of some bytes, at times none of them or all but one."""
    return content[: int(rng.choice([0, 1, len(content) - 1, int(rng.integers(0, max(1, len(content))))]))]
