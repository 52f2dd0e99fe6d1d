"""The process that reads damaged sets: orders come in as lines of JSON, readings go out as such.

It may hang, die or fill the memory; :mod:`attack.runner` watches it from outside.
"""

import argparse
import faulthandler
import importlib
import json
import os
import resource
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

WARM_UP_LIMIT_S = 600


def main() -> None:
    """Read orders until there are none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="folder for the sets")
    parser.add_argument("--limit", type=float, required=True, help="seconds for one reading")
    parser.add_argument("--memory-gib", type=float, required=True, help="memory beyond what the start takes")
    parser.add_argument("--warm-up", choices=("whole", "short", "none"), required=True, help="undamaged sets first")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is kept apart from the readings
    os.environ["L5KIT_CACHE_DIR"] = str(options.work / "cache")
    faulthandler.enable()
    _Worker(options, out).run(sys.stdin)


class _Worker:
    def __init__(self, options: argparse.Namespace, out: TextIO) -> None:
        self._options = options
        self._out = out
        self._attackers: dict[str, Any] = {}

    def run(self, orders: TextIO) -> None:
        importlib.import_module("attack.attacker")  # what it takes is no part of the memory that is bounded
        if self._options.warm_up != "none":
            self._warm_up()
        self._bound_memory()
        self._say(ready=True)
        for line in orders:
            order = json.loads(line)
            if order["sabotage"]:
                getattr(importlib.import_module("attack.sabotage"), order["sabotage"])()
            self._carry_out(order["seed"], order["ways"], {tuple(done) for done in order["done"]}, order["only"])
            self._say(finished=order["seed"])

    def _say(self, **message: Any) -> None:
        self._out.write(json.dumps(message) + "\n")

    def _warm_up(self) -> None:
        """Read an undamaged set with every reader, which compiles what they need."""
        from attack.attacker import Attacker
        from attack.clean_sets import SETS
        from attack.readers import WAYS

        faulthandler.dump_traceback_later(WARM_UP_LIMIT_S, exit=True)
        attacker = Attacker(SETS[1], self._options.work / "clean", self._options.work)
        attacker.read_undamaged(WAYS if self._options.warm_up == "whole" else ("uncached",))
        self._attackers[SETS[1].name] = attacker
        faulthandler.cancel_dump_traceback_later()

    def _bound_memory(self) -> None:
        with open("/proc/self/statm", encoding="ascii") as file:
            in_use = int(file.read().split()[0]) * resource.getpagesize()
        limit = in_use + int(self._options.memory_gib * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def _carry_out(self, seed: int, ways: list[str], done: set[tuple[str, str]], only: list[str]) -> None:
        from attack.attacker import Attacker
        from attack.damage import make_damaged_set

        root = self._options.work / f"set-{os.getpid()}-{seed}"
        damaged = make_damaged_set(seed, root, clean_folder=self._options.work / "clean")
        self._say(seed=seed, family=damaged.kind.family, kind=damaged.kind.name, said=damaged.description)
        attacker = self._attackers.get(damaged.clean.name)
        if attacker is None:
            faulthandler.dump_traceback_later(WARM_UP_LIMIT_S, exit=True)
            attacker = self._attackers[damaged.clean.name] = Attacker(
                damaged.clean, self._options.work / "clean", self._options.work
            )
            if self._options.warm_up != "none":
                attacker.read_undamaged(("uncached",))
            faulthandler.cancel_dump_traceback_later()
        try:
            attacker.read_damaged(damaged, ways, done, only=only, begin=self._begin, report=self._report)
        finally:
            faulthandler.cancel_dump_traceback_later()
            shutil.rmtree(root, ignore_errors=True)
            shutil.rmtree(self._options.work / "cache", ignore_errors=True)

    def _begin(self, way: str, reader: str) -> None:
        faulthandler.cancel_dump_traceback_later()
        faulthandler.dump_traceback_later(self._options.limit, exit=True)
        self._say(begin=[way, reader], at=time.time())

    def _report(self, reading: Any) -> None:
        self._say(reading=asdict(reading))


if __name__ == "__main__":
    main()
