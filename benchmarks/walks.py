#!/usr/bin/env python3
"""Count the files of l5kit that one sample, a training and a step of a closed loop go through, as a reader would.

Usage: python benchmarks/walks.py [--data FOLDER] [--files]

Each walk is made twice, and the second time is counted, so that what is computed once for all is left out (but for
`train`, which is counted from its call to its first step). What counts is entered: functions of Python and kernels that
Python calls; kernels within kernels, and methods that dataclasses write, do not. With `--files` the functions that were
entered are listed, file by file. Without `--data` a synthetic city is made.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Final

import l5kit
from l5kit.configs import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager, SceneRecords
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.rasterization import build_rasterizer
from l5kit.simulation import AgentControl, AgentSeat, ConstantVelocity, EgoSeat, SceneBatch, SceneSimulation
from l5kit.synthetic import make_city
from l5kit.vectorization import build_vectorizer

SOURCE: Final = f"{Path(l5kit.__file__).parent}{os.sep}"
FIRST_STEP: Final = "TrainingModule.training_step"


class FirstStepError(Exception):
    """Exception that ends a training before its first step."""


def walk(action: Callable[[], object], *, ends_at: str | None = None) -> dict[str, list[str]]:
    """Return the functions of l5kit that a call enters, by file, in the order of the walk.

    Args:
        action: The call.
        ends_at: Name of the function that ends the walk when it is entered; None for the whole of it.
    """
    files: dict[str, list[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        # comprehensions and lambdas belong to the enclosing function
        name = code.co_qualname.partition(".<locals>")[0]
        names = files.setdefault(code.co_filename.removeprefix(SOURCE), [])
        if name not in names:
            names.append(name)
        if name == ends_at:
            sys.setprofile(None)
            raise FirstStepError

    sys.setprofile(note)
    try:
        action()
    except FirstStepError:
        pass
    finally:
        sys.setprofile(None)
    return files


def sample_walks(city: Path) -> dict[str, dict[str, list[str]]]:
    """Return the walks of samples, one and a batch of three, of pictures and of vectors."""
    log, files = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open(), LocalDataManager(str(city))
    raster_cfg, vector_cfg = load_training_config("raster_planner"), load_training_config("vector_planner")
    datasets = {
        "picture": EgoDataset(raster_cfg, log, build_rasterizer(raster_cfg, files)),
        "vector": EgoDatasetVectorized(vector_cfg, log, build_vectorizer(vector_cfg, files)),
    }
    walks = {}
    for name, dataset in datasets.items():
        actions = {
            "sample": lambda dataset=dataset: dataset[10],
            "batch": lambda dataset=dataset: dataset.__getitems__([3, 40, 7]),
        }
        for kind, action in actions.items():
            action()
            walks[f"{name} {kind}"] = walk(action)
    return walks


def training_walk(city: Path) -> dict[str, list[str]]:
    """Return the walk of `train` from a configuration to the first step."""
    from l5kit.training import train  # takes several seconds

    cfg = load_training_config("vector_planner")
    cfg["train_params"]["max_num_steps"] = 1
    for loader in ("train_data_loader", "val_data_loader"):
        cfg[loader]["key"] = "scenes/sample.zarr"
    cfg["train_data_loader"]["batch_size"] = 4
    cfg["val_data_loader"]["max_num_batches"] = 1
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        folder = Path(scratch) / "run"
        return walk(lambda: train(cfg, folder, data_folder=city, show_bar=False), ends_at=FIRST_STEP)


def step_walk(city: Path) -> dict[str, list[str]]:
    """Return the walk of one step of a simulation in which drivers move AVs and agents."""
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    scenes = [SceneRecords.read(log, index) for index in range(len(log.scenes))]
    simulation = SceneSimulation(
        SceneBatch.of_scenes(scenes, facts=log.facts),
        ego=EgoSeat(ConstantVelocity()),
        agents=AgentSeat(ConstantVelocity(), control=AgentControl.of_traffic()),
    )
    simulation.step()
    return walk(simulation.step)


def main() -> None:
    """Make the walks and print a table of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of a dataset with scenes/sample.zarr")
    parser.add_argument("--files", action="store_true", help="list the functions of each walk")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        city = arguments.data
        if city is None:
            city = Path(scratch) / "city"
            make_city(city, num_scenes=3)
        walks = sample_walks(city) | {"closed-loop step": step_walk(city), "train": training_walk(city)}
        # readers follow the training code itself, not how configurations, logs and batches are read
        walks["train, of training and workflows"] = {
            file: names for file, names in walks["train"].items() if file.startswith(("training", "workflows"))
        }
    if arguments.files:
        for title, files in walks.items():
            print(f"\n{title}")
            for file, names in files.items():
                print(f"  {file}: {', '.join(names)}")
    print("\n| walk | files | functions |\n| --- | ---: | ---: |")
    for title, files in walks.items():
        print(f"| {title} | {len(files)} | {sum(map(len, files.values()))} |")


if __name__ == "__main__":
    main()
