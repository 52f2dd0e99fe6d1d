"""Folders of ``l5kit simulate`` as tests look at them, and planners of users that fail or kill."""

import csv
import hashlib
from pathlib import Path

FAULTY = '''
import os
import signal
from dataclasses import dataclass

import numpy as np

from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.actions import Actions

FAULTS = {faults!r}


class Faulty:
    """Goes straight on, but where it is told to fail, by scene and frame."""

    def drive(self, state):
        plan = ConstantVelocity(5).drive(state)
        for actor, scene in enumerate(state.batch.scene_indices[state.scenes].tolist()):
            fault = FAULTS.get((scene, int(state.frame_indices[actor])))
            if fault == "nan":
                plan.values[actor] = np.nan
            if fault == "infinite":
                plan.values[actor, 0, 0] = np.inf
            if fault == "raises":
                raise KeyError("speed")
            if fault == "shape":
                return Actions(plan.values[1:])
            if fault == "nothing":
                return None
            if fault == "killed" and not os.path.exists({mark!r}):
                open({mark!r}, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return plan


MADE = Faulty()


def make():
    return Faulty()


NO_DRIVER = 3
'''


def write_planner(folder: Path, faults: dict[tuple[int, int], str], mark: Path | None = None) -> str:
    """Write a file with a planner that fails in some frames of some scenes; return what ``--planner`` takes.

    Faults are nan, infinite, raises, shape, nothing and, once for a mark, killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "planner.py"
    file.write_text(FAULTY.format(faults=faults, mark=str(mark)))
    return f"{file}:Faulty"


def digests_of(folder: Path) -> dict[str, str]:
    """Return the digest of each file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows_of(table: Path) -> list[dict[str, str]]:
    """Return the rows of a table as texts."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))
