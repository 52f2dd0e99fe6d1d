"""Arguments and options that several commands share."""

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
    typer.Option("--log", metavar="NAME", help="Log of a folder with several, such as train; by default sample."),
]
MapOption = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="Semantic map; by default the one found beside the dataset."),
]
MetaOption = Annotated[
    Path | None, typer.Option("--meta", metavar="FILE", help="meta.json; by default the one found beside the dataset.")
]
AerialOption = Annotated[
    Path | None,
    typer.Option("--aerial", metavar="FILE", help="Aerial picture; by default the one found beside the dataset."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else; paths in it are absolute.")
]

DataFolderOption = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Data folder, or its URL. Default: the environment's L5KIT_DATA_FOLDER."),
]

ReadersOption = Annotated[
    int, typer.Option(min=0, help="Threads that read; 0 for one on each core. The result is the same for any number.")
]

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        show_default=False,
        help="Number of parallel workers; 0 for one per core. Default: 1, for a cluster all. Does not change "
        "the result.",
    ),
]


class Engine(StrEnum):
    """What carries out a job over scenes."""

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
        help="Version of the dataset in use (SERVICE:PROJECT/NAME:ALIAS), such as "
        "wandb:team/driving/l5-data:v3. The training is linked to it at the end, and its weights are "
        "logged there.",
    ),
]

PickleOption = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Also read pickled modules, which can run any code. Without it, classes named by class_path in a "
        "configuration still run code: use files that you trust.",
    ),
]

ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Resume the training in the folder from its last checkpoint.")
]

WorkflowOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Workflow of the training, if the configuration does not name it.")
]

ProbabilityOption = Annotated[
    float, typer.Option(min=0, max=1, help="Least summed probability of the classes that are road users.")
]

OutArgument = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")]

SceneOption = Annotated[int, typer.Option(help="The scene.")]

BrowserOption = Annotated[bool, typer.Option(help="Open the page in the browser.")]

ChangesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key; may be given several times."),
]


def parse_slice(text: str) -> slice:
    """Return what ``A:B`` or ``A:B:STEP`` stands for."""
    match = re.fullmatch(r"(\d{0,18}):(\d{0,18})(?::([1-9]\d{0,17}))?", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not START:END or START:END:STEP, such as 20:120:2")
    return slice(*(int(part) if part else None for part in match.groups()))


ScenesOption = Annotated[
    slice | None,
    typer.Option(metavar="A:B[:STEP]", parser=parse_slice, help="Scenes, B excluded; by default all."),
]
