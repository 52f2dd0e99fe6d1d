"""``l5kit artifact``: versions of datasets in a store, and the trainings that used them."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from l5kit.cli.options import JsonOption, ReadersOption
from l5kit.cli.output import print_facts, print_json, print_line, print_texts, remark
from l5kit.data.artifact import DatasetArtifact, DatasetContent, describe_dataset
from l5kit.data.progress import show_progress
from l5kit.data.texts import duration_text
from l5kit.errors import L5KitError

if TYPE_CHECKING:
    from l5kit.artifacts.lineage import DatasetInUse

ProjectOption = Annotated[
    str,
    typer.Option(
        metavar="P",
        help="Project at W&B (or ENTITY/PROJECT), experiment at MLflow, user or organization at the Hugging Face hub.",
    ),
]
StoreOption = Annotated[
    Literal["wandb", "mlflow", "hub"],
    typer.Option(help="Weights & Biases, MLflow, or the Hugging Face hub; each needs the extra of that name."),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME:ALIAS", help="Name and alias or version; without :ALIAS the latest.")
]

_DIGITS_SHOWN = 12


def log(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Data folder, or one .zarr folder, on this machine.")],
    project: ProjectOption,
    name: Annotated[str, typer.Option(metavar="N", help="Name of the artifact, such as l5-data.")],
    store: StoreOption = "wandb",
    alias: Annotated[
        list[str] | None, typer.Option(metavar="A", help="Alias besides latest; may be given several times.")
    ] = None,
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="Description. Default: a sentence with the counts.")
    ] = "",
    reference: Annotated[
        str, typer.Option(metavar="URL", help="URL of the same files; the store then gets the manifest only.")
    ] = "",
    by_reference: Annotated[
        bool, typer.Option("--by-reference", help="Like --reference, with PATH as a file:// URL.")
    ] = False,
    workers: ReadersOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Log a dataset as a version of an artifact, with manifest, digest and counts.

    With WANDB_MODE=offline nothing is sent until `wandb sync`; do not change the files before that.

    Examples:
        l5kit artifact log city --project driving --name l5-data --alias train
        l5kit artifact log city --project driving --name l5-data --reference s3://bucket/city
        l5kit artifact log city --project driving --name l5-data --store mlflow --by-reference
    """
    from l5kit.artifacts.opening import open_store

    if by_reference and reference:
        raise typer.BadParameter("--reference and --by-reference exclude each other; give one of them")
    opened, content = open_store(store, project), _describe(path, workers)
    url = content.path.as_uri() if by_reference else reference
    artifact = opened.log(content, name, aliases=alias or [], description=description, reference=url)
    if as_json:
        print_json(asdict(artifact))
        return
    print_facts(f"Logged {artifact}", _facts_of(artifact))


def show_list(
    project: ProjectOption,
    store: StoreOption = "wandb",
    name: Annotated[
        str | None, typer.Option(metavar="N", help="Name of an artifact. Default: all in the project.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the versions of datasets in a project, the newest first.

    Examples:
        l5kit artifact list --project driving
        l5kit artifact list --project driving --store mlflow --json
    """
    from l5kit.artifacts.opening import open_store

    artifacts = open_store(store, project).list(name)
    if as_json:
        print_json([asdict(artifact) for artifact in artifacts])
        return
    if not artifacts:
        print_line(f"No datasets in {project}" + (f" named {name}" if name else ""))
        return
    columns = ("Version", "Aliases", "Digest", "Scenes", "Recorded", "Size", "Created", "Description")
    rows = [
        [
            f"{artifact.name}:{artifact.version[:_DIGITS_SHOWN]}",
            ", ".join(artifact.aliases),
            artifact.digest[:_DIGITS_SHOWN],
            f"{artifact.num_scenes:,}",
            duration_text(3600 * artifact.hours),
            f"{artifact.num_bytes / 1e6:,.1f} MB",
            artifact.created[:19],
            artifact.description,
        ]
        for artifact in artifacts
    ]
    print_texts(f"Datasets of {project}", columns, rows)


def get(
    name: NameArgument,
    project: ProjectOption,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the dataset; new or empty.")],
    store: StoreOption = "wandb",
    as_json: JsonOption = False,
) -> None:
    """Fetch a version of a dataset into a folder.

    All files are verified against the manifest before the folder appears.

    Examples:
        l5kit artifact get l5-data:v3 --project driving --out city
    """
    from l5kit.artifacts.opening import open_store

    with show_progress("Fetching", visible=True) as progress:
        artifact = open_store(store, project).get(name, out, progress=progress)
    if as_json:
        print_json(asdict(artifact) | {"folder": out})
        return
    print_facts(f"Fetched {artifact}", {"Folder": out} | _facts_of(artifact))


def use(
    name: NameArgument,
    project: ProjectOption,
    store: StoreOption = "wandb",
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to use after checking that it has the digest of the version."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the path of a folder with a version of a dataset, downloaded into the user's cache if needed.

    Examples:
        l5kit train planner.yaml --data $(l5kit artifact use l5-data:v3 --project driving)
        l5kit artifact use l5-data:v3 --project driving --folder city
    """
    from l5kit.artifacts.opening import open_store

    used = open_store(store, project).use(name, folder)
    if as_json:
        print_json({"artifact": name, "folder": used})
        return
    print_line(str(used))


def link(
    run_folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of l5kit train or l5kit train-rl.")],
    name: NameArgument,
    project: ProjectOption,
    store: StoreOption = "wandb",
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Training data, to verify that the version in the store is the same."),
    ] = None,
    workers: ReadersOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Record that a training used a version of a dataset, and log its weights.

    An offline W&B run needs --data to be linked with the dataset when it is synced.

    Examples:
        l5kit artifact link planner l5-data:v3 --project driving --data city
    """
    from l5kit.artifacts.lineage import link_training
    from l5kit.artifacts.opening import open_store

    content = None if data is None else _describe(data, workers)
    address = link_training(run_folder, open_store(store, project), name, data=content)
    if as_json:
        print_json({"artifact": name, "training": run_folder, "place": address})
        return
    print_line(address)


def parse_used_artifact(text: str | None) -> "DatasetInUse | None":
    """Return the dataset that ``--artifact`` names, after checking that it exists; None without the option."""
    if text is None:
        return None
    from l5kit.artifacts.lineage import DatasetInUse

    return DatasetInUse.parse(text)


def link_used_artifact(in_use: "DatasetInUse | None", run_folder: Path) -> None:
    """Link a training with the dataset of ``--artifact``; a failure gets a note how to do it later."""
    if in_use is None:
        return
    try:
        remark(f"linked with {in_use.dataset}: {in_use.link(run_folder)}")
    except L5KitError as error:
        options = f"--project {in_use.project} --store {in_use.service}"
        error.add_note(
            f"the training is complete; `l5kit artifact link {run_folder} {in_use.dataset} {options}` links it later"
        )
        raise


def _describe(path: Path, workers: int) -> DatasetContent:
    with show_progress("Digests", visible=True) as progress:
        return describe_dataset(path, workers=workers, progress=progress)


def _facts_of(artifact: DatasetArtifact) -> dict[str, object]:
    """Return the facts of an artifact for display."""
    return {
        "Version": artifact.version or "given when the run is synced",
        "Aliases": ", ".join(artifact.aliases),
        "Digest": artifact.digest,
        "Files": f"{artifact.num_files:,}, {artifact.num_bytes / 1e6:,.1f} MB",
        "Scenes": f"{artifact.num_scenes:,}",
        "Frames": f"{artifact.num_frames:,}",
        "Agents": f"{artifact.num_agents:,}",
        "Recorded time": duration_text(3600 * artifact.hours),
        "By reference" if artifact.is_reference else "Place": artifact.location,
    }


artifact = {
    "help": """Keep datasets as versioned artifacts at Weights & Biases, MLflow or the Hugging Face hub.

    Examples:
        l5kit artifact log city --project driving --name l5-data --alias train
        l5kit artifact log city --project driving --name l5-data --reference s3://bucket/city
        l5kit artifact log city --project driving --name l5-data --store mlflow --by-reference
    """,
    "commands": {"log": log, "list": show_list, "get": get, "use": use, "link": link},
}
"""The command and its subcommands."""
