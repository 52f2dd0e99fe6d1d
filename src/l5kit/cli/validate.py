"""``l5kit validate``: faults of a dataset."""

import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from l5kit._types import Float64Array
from l5kit.cli.logs import for_each_log, require_one_log
from l5kit.cli.options import AddressOption, DatasetArgument, Engine, EngineOption, JobOption, JsonOption, WorkersOption
from l5kit.cli.output import print_json, print_line, print_texts
from l5kit.cli.workers import RequestedWorkers
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.texts import parse_json, read_text
from l5kit.data.checks.finding import Finding
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.dataset_files import DatasetFiles, find_all_logs
from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.map.opened import maps_at
from l5kit.data.progress import show_progress
from l5kit.data.remote_dataset_files import local_file
from l5kit.data.stores.store import path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import ConfigError, CorruptedDataError, L5KitError
from l5kit.simulation.folder.simulation_folder import find_scene_files


def validate(
    path: DatasetArgument,
    as_json: JsonOption = False,
    checksums: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Digests, written by `l5kit info PATH --checksums FILE`.")
    ] = None,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
) -> None:
    """Check every file and record of a dataset, all its logs, and its maps; exit status 1 if anything is wrong.

    Examples:
        l5kit validate city
        l5kit validate city/scenes/sample.zarr --checksums digests.json
    """
    logs = find_all_logs(path, takes_towns=True)
    digests: dict[str, str] | None = None
    if checksums is not None:
        require_one_log(logs, option="--checksums")
        listed = parse_json(read_text(checksums, called="--checksums"), called=f"--checksums {checksums}")
        if not isinstance(listed, dict) or not all(isinstance(digest, str) for digest in listed.values()):
            raise ConfigError(
                f"--checksums {checksums}: the file must map names of files to their digests; "
                "write one with `l5kit info PATH --checksums FILE`"
            )
        digests = listed
    # find maps and meta.json of all logs first, so that a wrong folder fails before any log is checked
    all_files = [find_scene_files(log)[0] for log in logs]
    with RequestedWorkers(engine, address, workers, job).opened("validate", logs, checksums=digests) as carriers:
        all_findings = [check_files(files, checksums=digests, workers=carriers) for files in all_files]
    if as_json:
        print_json(for_each_log(list(map(findings_as_json, all_files, all_findings))))
    else:
        for files, findings in zip(all_files, all_findings, strict=True):
            print_findings(files, findings)
    if any(all_findings):
        raise typer.Exit(1)


def check_files(files: DatasetFiles, *, checksums: dict[str, str] | None = None, workers: Workers = 1) -> list[Finding]:
    """Return the faults of a log and of its map, meta.json and aerial picture, as far as these exist."""
    from l5kit.evaluation.driving.map_checks import check_maps
    from l5kit.rasterization.satellite_image import read_aerial_pixels

    with show_progress("Checking", visible=True) as progress:
        findings = validate_path(files.dataset, checksums=checksums, progress=progress, workers=workers)
    # the positions of the AV are compared with the map, which needs an undamaged log
    is_sound = not any(finding.severity == "error" for finding in findings)
    world_to_ecef: Float64Array | None = None

    def read_meta(path: str) -> None:
        nonlocal world_to_ecef
        metadata = load_metadata(path)
        world_to_ecef = load_matrix(metadata, "world_to_ecef", path=path)
        if files.aerial is not None:
            load_matrix(metadata, "ecef_to_aerial", path=path)

    def read_map(path: str) -> None:
        if os.path.getsize(path) == 0:  # protobuf reads it as a map without elements
            raise CorruptedDataError(f"map file {path} is empty, it has 0 bytes; copy it again")
        maps = maps_at(path, np.eye(4) if world_to_ecef is None else world_to_ecef)
        if world_to_ecef is None:
            maps.map_of([0]).bounds_info  # noqa: B018 - reads the map, in any frame
        else:
            findings.extend(check_maps(maps, ChunkedDataset(files.dataset).open() if is_sound else None))

    # meta.json comes first, as it locates the map; each file is checked even if others are damaged
    checks = {
        "meta": (files.meta, read_meta),
        "map": (files.semantic_map, read_map),
        "aerial": (files.aerial, read_aerial_pixels),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (file, read) in checks.items():
            try:
                if file is not None:
                    read(str(local_file(file)))
            except (L5KitError, OSError) as error:
                findings.append(
                    Finding(severity="error", check=name, message=str(error), file=str(file and path_of(file)))
                )
    return findings


def findings_as_json(files: DatasetFiles, findings: list[Finding]) -> dict[str, object]:
    """Return the findings as JSON."""
    return {"dataset": files.dataset, "findings": [asdict(finding) for finding in findings]}


def print_findings(files: DatasetFiles, findings: list[Finding]) -> None:
    """Print the findings as a table."""
    # location of a fault: in the log, or in a file unless the message already names it
    rows = []
    for finding in findings:
        indices = {"scene": finding.scene, "frame": finding.frame, "row": finding.row}
        where = " ".join(f"{name} {index}" for name, index in indices.items() if index is not None)
        file = "" if finding.file is None or finding.file in finding.message else f" ({finding.file})"
        rows.append([finding.severity, finding.check, where, f"{finding.message}{file}"])
    if rows:
        print_texts(path_of(files.dataset), ("", "Check", "Where", "What"), rows)
    else:
        print_line(f"{path_of(files.dataset)}: nothing wrong found")
