"""Functions for jobs on clusters: slow ones that report their worker, and one that exhausts memory."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tells:
    """Squares of scenes, after a while; a file for each time that a scene is begun, with the process that did so."""

    folder: str
    seconds: float = 0.3

    def __call__(self, scenes: Any) -> list[int]:
        for scene in scenes.tolist():
            (Path(self.folder) / f"{scene}-{os.getpid()}-{time.time_ns()}").touch()
        time.sleep(self.seconds)
        return [scene * scene for scene in scenes.tolist()]


@dataclass(frozen=True)
class TakesAllMemory:
    """The numbers of scenes; one of them takes memory until it is killed."""

    scene: int

    def __call__(self, scenes: Any) -> int:
        taken = []
        while self.scene in scenes and len(taken) < 200:
            taken.append(bytearray(os.urandom(1) * 10_000_000))
            time.sleep(0.02)
        return int(scenes[0])
