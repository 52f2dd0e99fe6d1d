"""Arguments and options shared by several commands."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DatasetArgument = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Dataset folder, or one .zarr (folder or zip file) in it; may be a URL."),
]
ScenesArgument = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="Dataset folder, or one .zarr in it, also by URL; or a simulation's folder."),
]
LogOption = Annotated[
    str | None,
    typer.Option("--log", metavar="NAME", help="Log of a folder with several, such as train. Default: sample."),
]
MapOption = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="Semantic map. Default: the one next to the dataset."),
]
MetaOption = Annotated[
    Path | None, typer.Option("--meta", metavar="FILE", help="meta.json. Default: the one next to the dataset.")
]
AerialOption = Annotated[
    Path | None,
    typer.Option("--aerial", metavar="FILE", help="Aerial picture. Default: the one next to the dataset."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output, with absolute paths.")]

DataFolderOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Data folder, or its URL. Default: the environment's L5KIT_DATA_FOLDER."),
]

ReadersOption = Annotated[
    int, typer.Option(min=0, help="Threads that read; 0 for one per core. Does not change the result.")
]

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default=False,
        help="Number of parallel workers; 0 for one per core. Default: 1, or all of a cluster. Does not change the "
        "result.",
    ),
]


class Engine(StrEnum):
    """Kind of the workers of a job over scenes."""

    THREADS = "threads"
    PROCESSES = "processes"
    RAY = "ray"
    DASK = "dask"


EngineOption = Annotated[
    Engine,
    typer.Option(metavar="KIND", help="Kind of workers: threads, processes, or those of a cluster: ray, dask."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        show_default=False,
        help="Address of the cluster, such as auto (Ray) or tcp://head:8786 (Dask). Default: one on this machine.",
    ),
]

JobOption = Annotated[
    Path | None,
    typer.Option(
        "--job",
        metavar="FOLDER",
        show_default=False,
        help="Folder shared by all workers that keeps finished blocks; a killed command continues there.",
    ),
]

UsedArtifactOption = Annotated[
    str | None,
    typer.Option(
        "--artifact",
        metavar="VERSION",
        help="Version of the dataset in use (SERVICE:PROJECT/NAME:ALIAS), such as wandb:team/driving/l5-data:v3. At "
        "the end, the training is linked to it and its weights are logged there.",
    ),
]

PickleOption = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Also read pickled modules, which can run any code. Even without it, classes named by class_path in a "
        "configuration run code: use files that you trust.",
    ),
]

ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Resume the training in the folder from its last checkpoint.")
]

WorkflowOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Workflow of the training, if the configuration does not name it.")
]

ProbabilityOption = Annotated[
    float, typer.Option(min=0, max=1, help="Minimum summed probability of the classes of road users.")
]

OutArgument = Annotated[Path, typer.Argument(metavar="OUT", help="Output folder.")]

SceneOption = Annotated[int, typer.Option(help="Index of the scene.")]

BrowserOption = Annotated[bool, typer.Option(help="Open the page in the browser.")]

ChangesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the configuration; may be given several times."),
]


def parse_slice(text: str) -> slice:
    """Return the slice that ``A:B`` or ``A:B:STEP`` denotes."""
    match = re.fullmatch(r"(\d{0,18}):(\d{0,18})(?::([1-9]\d{0,17}))?", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not START:END or START:END:STEP, such as 20:120:2")
    return slice(*(int(part) if part else None for part in match.groups()))


ScenesOption = Annotated[
    slice | None,
    typer.Option(metavar="A:B[:STEP]", parser=parse_slice, help="Scenes, B excluded. Default: all."),
]
