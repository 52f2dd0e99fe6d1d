"""``python -m attack``: read damaged sets and print what became of them, or make the set of a seed to look at it.

Run it from the root of the repository with ``PYTHONPATH=src:tests``::

    python -m attack --seeds 0:500          # a table of outcomes, and every cause with its first seed
    python -m attack --make 123 some/folder # the damaged set of seed 123
    python -m attack --one 123              # every reading of seed 123 that is not right
"""

import argparse
import tempfile
import time
from pathlib import Path

from attack.damage import make_damaged_set
from attack.report import causes, table
from attack.runner import Plan, SetResult, attack


def main() -> None:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(prog="python -m attack", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:300", help="first and end seed, or seeds with commas")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--one-way", action="store_true", help="open each set in one of the ways")
    parser.add_argument("--limit", type=float, default=Plan().reading_s, help="seconds for one reader")
    parser.add_argument("--report", type=Path, help="file for the report; printed in any case")
    parser.add_argument("--make", nargs=2, metavar=("SEED", "FOLDER"))
    parser.add_argument("--one", type=int, metavar="SEED")
    options = parser.parse_args()
    if options.make is not None:
        with tempfile.TemporaryDirectory() as clean:
            made = make_damaged_set(int(options.make[0]), Path(options.make[1]), clean_folder=Path(clean))
        print(f"seed {made.seed}, {made.kind.family}, {made.kind.name}: {made.description}\n{made.log}")
        return
    seeds = [options.one] if options.one is not None else _seeds_of(options.seeds)
    started, results = time.perf_counter(), []

    def take(result: SetResult) -> None:
        results.append(result)
        if len(results) % 100 == 0:
            print(f"... {len(results)} sets, {time.perf_counter() - started:.0f} s", flush=True)

    done = attack(
        seeds,
        processes=options.processes,
        plan=Plan(all_ways=not options.one_way, reading_s=options.limit, keeps_all=options.one is not None),
        done=take,
    )
    text = "\n".join([f"{len(done)} sets in {time.perf_counter() - started:.0f} s", table(done), causes(done)])
    print(text)
    if options.one is not None:
        for reading in done[0].readings:
            if reading.outcome:
                place = f"{reading.outcome.name:10} {reading.way:8} {reading.reader}, {reading.what}"
                print(f"{place}: {reading.cause} | {reading.detail}")
    if options.report is not None:
        options.report.write_text(text + "\n", "utf-8")


def _seeds_of(text: str) -> list[int]:
    first, colon, end = text.partition(":")
    return list(range(int(first), int(end))) if colon else [int(seed) for seed in text.split(",")]


if __name__ == "__main__":
    main()
