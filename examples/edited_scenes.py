#!/usr/bin/env python3
"""Test planners on edited scenes: a table with the score and the collisions at fault of each planner by edit.

Usage: python examples/edited_scenes.py [--data FOLDER] [--planners idm,rules] [--out FOLDER]
"""

import argparse
from pathlib import Path

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.editing import (
    BrakingLeader,
    Cones,
    CutIn,
    DenserTraffic,
    ImpossibleEditError,
    ParkedVehicle,
    PedestrianStepsOut,
    RedLight,
    SlowLeader,
    edit_dataset,
)
from l5kit.synthetic import make_city

EDITS = {
    "a parked bus": [ParkedVehicle(ahead_m=30.0, kind="bus")],
    "cones": [Cones(ahead_m=25.0)],
    "a pedestrian": [PedestrianStepsOut(ahead_m=35.0)],
    "a pedestrian behind a van": [
        ParkedVehicle(ahead_m=27.0, left_m=-3.0, kind="van"),
        PedestrianStepsOut(ahead_m=35.0),
    ],
    "a slow car": [SlowLeader(ahead_m=20.0, speed_mps=2.0)],
    "a car that brakes": [BrakingLeader(ahead_m=12.0, brakes_at_s=3.0)],
    "a car that cuts in": [CutIn(at_s=3.0)],
    "denser traffic": [DenserTraffic(factor=2.0)],
    "a red light": [RedLight(until_s=8.0)],
}


def main() -> None:
    """Print the table, one row for each edit and one column for each planner."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="data folder with a map; default: generate a city in --out")
    parser.add_argument("--out", type=Path, default=Path("edited-out"), help="output folder")
    parser.add_argument("--planners", default="replay,idm,rules", help="planners, named as for l5kit simulate")
    parser.add_argument(
        "--agents", default="replay", help="driver of other agents, including added ones; default replay"
    )
    parser.add_argument("--frames", type=int, default=100, help="frames to drive, at 10 Hz; default 100")
    options = parser.parse_args()

    data, planners = options.data, options.planners.split(",")
    if data is None:
        data = make_city(options.out / "city", num_scenes=8, reuse=True).path
    print(f"{'':28}" + "".join(f"{planner:>18}" for planner in planners))
    for name, edits in {"as logged": [], **EDITS}.items():
        folder = options.out / name.replace(" ", "_")
        try:
            edited = edit_dataset(data, folder / "data", edits, overwrite=True).path if edits else data
        except ImpossibleEditError as error:
            print(f"{name:28}{str(error)[:80]}")
            continue
        chosen = ClosedLoopOptions(num_frames=options.frames, overwrite=True)
        cells = []
        for planner in planners:
            result = simulate(edited, folder / planner, planner=planner, agents=options.agents, options=chosen)
            at_fault = result.scores["scenes_failing"]["no_at_fault_collisions"]
            score = "-" if result.score is None else f"{result.score:.2f}"
            cells.append(f"{score}, {at_fault} of {result.num_scenes}")
        print(f"{name:28}" + "".join(f"{cell:>18}" for cell in cells))
    print("mean score (0 to 1), and scenes with a collision at fault, of the scenes that the edit fits")


if __name__ == "__main__":
    main()
