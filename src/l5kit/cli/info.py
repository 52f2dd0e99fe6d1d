"""``l5kit info``: what a dataset holds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import (
    AddressOption,
    AerialOption,
    DatasetArgument,
    Engine,
    EngineOption,
    JobOption,
    JsonOption,
    MapOption,
    MetaOption,
    WorkersOption,
)
from l5kit.cli.output import print_facts, print_json, remark
from l5kit.cli.workers import AskedWorkers
from l5kit.data.checks.checksums import compute_checksums
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.progress import show_progress
from l5kit.data.scene_table import driving_statistics, read_scene_table
from l5kit.data.stores.store import path_of
from l5kit.data.texts import duration_text
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.visualization.facts import map_counts, summary_facts


def info(
    path: DatasetArgument,
    as_json: JsonOption = False,
    checksums: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the SHA-256 digests of the dataset's files as JSON.")
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Also read all frames: how long and how far the AV drives, and how.")
    ] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Show what a dataset holds, and where its map, aerial picture and meta.json are."""
    files = find_dataset_files(path, map_path=map_path, meta_path=meta, aerial_path=aerial)
    dataset = ChunkedDataset(files.dataset).open()
    if checksums is not None:
        with show_progress("Digests", visible=True):
            digests = compute_checksums(dataset)
        checksums.write_text(json.dumps(digests, indent=2) + "\n", "utf-8")
        remark(f"digests of {len(digests)} files written to {checksums}")
    driving = {}
    if statistics:
        with (
            AskedWorkers(engine, address, workers, job).opened("info", [files.dataset]) as carriers,
            show_progress("Statistics", visible=True) as progress,
        ):
            driving = driving_statistics(read_scene_table(dataset, progress=progress, workers=carriers))
    summary, on_map = dataset.summary(), map_counts(files)
    if as_json:
        content = {"files": asdict(files), "summary": asdict(summary), "facts": dataset.facts.as_attributes()}
        print_json(content | {"map": on_map or None} | ({"statistics": driving} if statistics else {}))
        return
    map_facts = {f"{kind.capitalize()} on the map": f"{count:,}" for kind, count in on_map.items()}
    print_facts(path_of(files.dataset), summary_facts(summary, dataset.facts) | map_facts)
    if statistics:
        hours, kilometres = driving.pop("hours"), driving.pop("kilometres")
        ways = {"recorded time": duration_text(3600 * hours), "distance": f"{kilometres:,.2f} km"}
        print_facts("Driving", {**ways, **driving})
    places = {"Semantic map": files.semantic_map, "meta.json": files.meta, "Aerial picture": files.aerial}
    print_facts("Files", {name: "not found" if place is None else path_of(place) for name, place in places.items()})
    for note in files.notes:
        remark(f"note: {note}")
