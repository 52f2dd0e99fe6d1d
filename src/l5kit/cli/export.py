"""``l5kit export``: datasets in formats of other tools."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import AddressOption, DatasetArgument, Engine, EngineOption, JobOption, JsonOption, WorkersOption
from l5kit.cli.output import print_facts, print_json, remark_notes
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.dataset_files import find_dataset, find_map_files
from l5kit.data.interop.columns import export_columns
from l5kit.data.interop.export_folder import require_export_target
from l5kit.data.interop.lanelet2_file import export_lanelet2
from l5kit.data.interop.opendrive_file import export_opendrive
from l5kit.data.interop.openscenario_files import export_openscenario
from l5kit.data.interop.parquet_files import export_parquet
from l5kit.data.interop.py123d_files import export_py123d, split_of_log
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.layout import ARRAYS
from l5kit.data.map.opened import open_map
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import DatasetNotFoundError
from l5kit.simulation.folder.simulation_folder import find_scene_files


class Layout(StrEnum):
    """Format of an export."""

    COLUMNS = "columns"
    PARQUET = "parquet"
    PY123D = "py123d"
    LANELET2 = "lanelet2"
    OPENDRIVE = "opendrive"
    OPENSCENARIO = "openscenario"


_MAPS = {Layout.LANELET2: export_lanelet2, Layout.OPENDRIVE: export_opendrive}
"""Formats of the map alone."""


def export(
    path: DatasetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder; for lanelet2 and opendrive a file.")],
    layout: Annotated[
        Layout,
        typer.Option(
            help="columns: a plain zarr 3 array for each field; parquet: tables; py123d: its logs and map; lanelet2, "
            "opendrive: the map alone; openscenario: scenes, and the map as opendrive."
        ),
    ] = Layout.COLUMNS,
    shards: Annotated[
        bool,
        typer.Option(help="columns: many chunks per file, which readers such as GDAL 3.12 do not support."),
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing export.")] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    split: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="py123d: the split of the logs, such as train, val or test. Default: from the name of PATH, or train.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Export a dataset, or its map, for other tools; OUT appears when it is complete.

    columns: for TensorStore, zarrita.js and other zarr 3 readers, and for l5kit itself, without loss.
    parquet: for DuckDB, Arrow, pandas and polars. Both contain the digest of the dataset, unless it is on a server.
    py123d: logs and map for that library, as Arrow files. A stopped export starts over, unless --job keeps its files.
    lanelet2, opendrive: the semantic map as one file (.osm, .xodr); what the format cannot hold is listed.
    openscenario: a file (.xosc) per scene with the trajectories of all road users, and map.xodr.

    Examples:
        l5kit export city columns.zarr --workers 2
        l5kit export city/scenes/sample.zarr tables --layout parquet --overwrite --json
    """
    if layout in _MAPS:
        _export_map(path, out, layout, overwrite=overwrite, as_json=as_json)
        return
    require_export_target(out, overwrite=overwrite)
    dataset = ChunkedDataset(find_dataset(path)).open(cached=False)
    with show_progress("Digesting", visible=True, in_bytes=True) as progress:
        digest = DataRecord.of(dataset.path, num_scenes=len(dataset.scenes), progress=progress).digest
    with (
        RequestedWorkers(engine, address, workers, job).opened(
            "export", [Path(dataset.path)], layout=layout
        ) as carriers,
        show_progress(f"Exporting {layout.value}", visible=True) as progress,
    ):
        if layout is Layout.COLUMNS:
            export_columns(
                dataset,
                out,
                sharded=shards,
                overwrite=overwrite,
                digest=digest or "",
                progress=progress,
                workers=carriers,
            )
        elif layout is Layout.PARQUET:
            export_parquet(dataset, out, overwrite=overwrite, digest=digest or "", progress=progress, workers=carriers)
        elif layout is Layout.OPENSCENARIO:
            semantic_map = open_map(find_scene_files(path)[0])
            export_openscenario(dataset, out, semantic_map=semantic_map, overwrite=overwrite, progress=progress)
        else:
            files, _ = find_scene_files(path)
            export_py123d(
                dataset,
                out,
                files=files,
                split=split or split_of_log(dataset.path),
                overwrite=overwrite,
                progress=progress,
                workers=carriers,
            )
    sizes = [os.path.getsize(file) for file in out.rglob("*") if file.is_file()]
    counts = {key: len(getattr(dataset, attribute)) for key, (attribute, _, _) in ARRAYS.items()}
    facts = {"out": out.absolute(), "layout": layout.value, "digest": digest, "files": len(sizes)}
    if as_json:
        print_json({"dataset": Path(dataset.path), **facts, "bytes": sum(sizes), "rows": counts})
        return
    rows = ", ".join(f"{key} {count:,}" for key, count in counts.items())
    print_facts(f"Export of {dataset.path}", facts | {"size": f"{sum(sizes) / 1e6:,.1f} MB", "rows": rows})


def _export_map(path: Path, out: Path, layout: Layout, *, overwrite: bool, as_json: bool) -> None:
    """Export the map of a dataset, or of a folder with only a map, and report what the format cannot hold."""
    semantic_map = open_map(find_map_files(path))
    if semantic_map is None:
        raise DatasetNotFoundError(
            f"{str(path)!r} has no semantic map with a meta.json, so no map can be exported; l5kit info lists its files"
        )
    result = _MAPS[layout](semantic_map, out, overwrite=overwrite)
    facts: dict[str, object] = {
        "out": out.absolute(),
        "layout": layout.value,
        "lanes": result.num_lanes,
        "lights": result.num_lights,
        "crosswalks": result.num_crosswalks,
        "largest_shift_m": round(result.largest_shift_m, 4),
    }
    if as_json:
        print_json({"dataset": path, **facts, "left_out": list(result.left_out)})
        return
    remark_notes(result.left_out)
    print_facts(f"Map of {path}", facts)
