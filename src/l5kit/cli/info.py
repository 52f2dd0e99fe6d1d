"""``l5kit info``: contents of a dataset."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.logs import for_each_log, require_one_log
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
from l5kit.cli.output import print_facts, print_json, remark, remark_notes
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.checks.checksums import compute_checksums
from l5kit.data.dataset_files import find_all_logs
from l5kit.data.progress import show_progress
from l5kit.data.scene_table import driving_statistics, read_scene_table
from l5kit.data.stores.store import path_of
from l5kit.data.texts import duration_text
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import find_scene_files
from l5kit.visualization.facts import map_counts, map_facts, summary_facts


def info(
    path: DatasetArgument,
    as_json: JsonOption = False,
    checksums: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the SHA-256 digests of the dataset's files as JSON.")
    ] = None,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Also read all frames: duration, distance and manoeuvres of the AV.")
    ] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Show what a dataset contains, log by log, and where its map, aerial picture and meta.json are.

    Examples:
        l5kit info city
        l5kit info city --json
        l5kit info city --checksums digests.json
    """
    logs = find_all_logs(path, takes_towns=True)
    all_files = [find_scene_files(log, map_path=map_path, meta_path=meta, aerial_path=aerial)[0] for log in logs]
    if checksums is not None:
        require_one_log(logs, option="--checksums")
        dataset = ChunkedDataset(logs[0]).open()
        with show_progress("Digests", visible=True):
            digests = compute_checksums(dataset)
        checksums.write_text(json.dumps(digests, indent=2) + "\n", "utf-8")
        remark(f"digests of {len(digests)} files written to {checksums}")
    driving: Sequence[Mapping[str, float]] = [{} for _ in logs]
    if statistics:
        with (
            RequestedWorkers(engine, address, workers, job).opened("info", logs) as carriers,
            show_progress("Statistics", visible=True) as progress,
        ):
            tables = (read_scene_table(ChunkedDataset(log).open(), progress=progress, workers=carriers) for log in logs)
            driving = [driving_statistics(table) for table in tables]
    # JSON is one object for all logs; tables are printed log by log
    contents: list[dict[str, object]] = []
    for files, statistics_of_log in zip(all_files, driving, strict=True):
        dataset = ChunkedDataset(files.dataset).open()
        if as_json:
            known = {"files": asdict(files), "summary": asdict(dataset.summary())}
            driven = {"statistics": statistics_of_log} if statistics_of_log else {}
            counts = map_counts(files) or None
            contents.append({**known, "facts": dataset.facts.as_attributes(), "map": counts, **driven})
            continue
        on_map = map_facts(files)
        print_facts(path_of(files.dataset), summary_facts(dataset.summary(), dataset.facts) | on_map)
        if statistics_of_log:
            totals: dict[str, object] = {
                "recorded time": duration_text(3600 * statistics_of_log["hours"]),
                "distance": f"{statistics_of_log['kilometres']:,.2f} km",
            }
            others = {key: value for key, value in statistics_of_log.items() if key not in ("hours", "kilometres")}
            print_facts("Driving", totals | others)
        by_title = {"Semantic map": files.semantic_map, "meta.json": files.meta, "Aerial picture": files.aerial}
        print_facts("Files", {name: "not found" if file is None else path_of(file) for name, file in by_title.items()})
        remark_notes(files.notes)
    if as_json:
        print_json(for_each_log(contents))
