"""``l5kit import`` and ``l5kit resample``: datasets from other formats, and logs at another rate."""

import math
import shlex
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from l5kit.cli.options import AddressOption, Engine, EngineOption, JsonOption, WorkersOption
from l5kit.cli.output import print_facts, print_json, remark, remark_notes, remark_some, require_writable_folder
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.own_code import is_own
from l5kit.configs.texts import did_you_mean
from l5kit.data.jobs.scene_jobs import Workers, count_workers
from l5kit.data.progress import show_progress
from l5kit.engines.opening import open_workers
from l5kit.errors import DatasetNotFoundError, InvalidArgumentError
from l5kit.readers.formats import MAP_FORMATS, MapLayout, SourceFormat

if TYPE_CHECKING:
    from l5kit.readers.importing import ImportResult

_USUAL_STEP_S = 0.1


def _parse_format(text: str) -> str:
    """Return a known format, or the name of a user's reader."""
    if is_own(text):
        return text
    known = [each.value for each in SourceFormat]
    if text not in known:
        raise typer.BadParameter(
            f"{text!r} is not a format{did_you_mean(text, known)}; allowed are {', '.join(known)}, or "
            "FILE.py:NAME for a reader of your own"
        )
    return SourceFormat(text)


_FormatArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FORMAT",
        parser=_parse_format,
        help=f"Format of the source: {', '.join(SourceFormat)}, or FILE.py:NAME for your own reader.",
    ),
]


def import_dataset(
    source_format: _FormatArgument,
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="Folder of the dataset as published; lanelet2, opendrive: the map file."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output dataset folder.")],
    max_scenes: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Import only the first scenes. Default: all.")
    ] = None,
    join: Annotated[
        bool, typer.Option("--join", help="scenarionet: join windows that were cut from the same log into one scene.")
    ] = False,
    columns: Annotated[
        Path | None,
        typer.Option(
            show_default=False, help="table: YAML file that maps the columns. Default: columns.yaml in SOURCE."
        ),
    ] = None,
    maps: Annotated[
        MapLayout,
        typer.Option(
            help="one: one semantic map. apart: a folder of maps, read when needed, for many scenes with a map each "
            "(womd, scenarionet)."
        ),
    ] = MapLayout.ONE,
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON",
            show_default=False,
            help="lanelet2, opendrive: position of x = y = 0, degrees. Default: that of the file, or its centre.",
        ),
    ] = None,
    meta: Annotated[
        Path | None,
        typer.Option(
            show_default=False,
            help="lanelet2, opendrive: meta.json with the world frame, such as that of the dataset the map is from.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first scene that cannot be read.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing import.")] = False,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.PROCESSES,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a dataset from another format; OUT appears when it is complete.

    The folder has a log for each split of the source (such as scenes/train.zarr), the semantic map, meta.json,
    areas.json with areas that the map cannot hold, a line on the origin of each scene, and import.json, which lists
    what is missing and what was filled in. All of l5kit works on it. The licence of the source applies to the result,
    and is written into the logs.

    Scenes that cannot be read are listed, and the rest is imported; the exit status is 1 if no scene can be read, or
    with --strict if any cannot. A stopped import continues from OUT.parts.

    lanelet2, opendrive: maps without scenes. OUT has the semantic map and meta.json; elements that could not be read
    are listed.

    Examples:
        l5kit import argoverse2 /data/av2/val av2 --workers 8
        l5kit import argoverse2 /data/av2 av2 --max-scenes 100 --json
    """
    require_writable_folder(out, option="OUT")
    if source_format in MAP_FORMATS:
        of_scenes = {
            "--max-scenes": max_scenes is not None,
            "--join": join,
            "--columns": columns is not None,
            "--maps": maps is not MapLayout.ONE,
            "--strict": strict,
            "--workers": workers is not None,
            "--engine": engine is not Engine.PROCESSES,
            "--address": address is not None,
        }
        if given := [option for option, is_given in of_scenes.items() if is_given]:
            raise InvalidArgumentError(
                f"{given[0]} is for datasets with scenes, but {source_format} is a single map; drop it (options of "
                "maps: --origin, --meta, --overwrite, --json)"
            )
        _import_map(
            SourceFormat(source_format), source, out, origin=origin, meta=meta, overwrite=overwrite, as_json=as_json
        )
        return
    for option, value in (("--origin", origin), ("--meta", meta)):
        if value is not None:
            raise InvalidArgumentError(f"{option} is {str(value)!r}, but it is for maps only: {', '.join(MAP_FORMATS)}")
    from l5kit.readers.formats import ReaderOptions, guess_format, open_reader
    from l5kit.readers.importing import import_dataset as import_source

    # if this format finds nothing in the folder, suggest the format that the folder looks like
    with (
        _requested_workers(engine, address, workers) as carriers,
        show_progress("Importing", visible=True) as progress,
    ):
        try:
            result = import_source(
                open_reader(source_format, source, ReaderOptions(joins_windows=join, columns=columns)),
                out,
                max_scenes=max_scenes,
                strict=strict,
                overwrite=overwrite,
                maps=maps,
                workers=carriers,
                progress=progress,
            )
        except DatasetNotFoundError as error:
            guessed = guess_format(source)
            if guessed is None or guessed is source_format:
                raise
            command = shlex.join(["l5kit", "import", guessed, str(source), str(out)])
            raise DatasetNotFoundError(f"{error}; it looks like {guessed}: {command}") from None
    _report(result, as_json=as_json)


def _import_map(
    map_format: SourceFormat,
    source: Path,
    out: Path,
    *,
    origin: str | None,
    meta: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Import a map without scenes, and report what could not be read."""
    from l5kit.readers.map_files import import_map

    # text that is not two numbers becomes NaN, which fails the comparison like numbers out of range
    matrix = None if meta is None else load_matrix(load_metadata(str(meta)), "world_to_ecef", path=str(meta))
    position_deg: tuple[float, float] | None = None
    if origin is not None:
        try:
            latitude_deg, longitude_deg = map(float, origin.split(","))
        except ValueError:
            latitude_deg = longitude_deg = math.nan
        if not (abs(latitude_deg) <= 90 and abs(longitude_deg) <= 360):
            raise InvalidArgumentError(
                f"--origin must be latitude and longitude in degrees, such as 48.1,11.6, got {origin!r}"
            )
        position_deg = latitude_deg, longitude_deg
    result = import_map(map_format, source, out, origin=position_deg, world_to_ecef=matrix, overwrite=overwrite)
    facts = {"folder": result.folder, "lanes": result.num_lanes, "lights": result.num_lights}
    facts |= {"crosswalks": result.num_crosswalks}
    if as_json:
        print_json({"format": map_format.value, **facts, "left_out": list(result.left_out)})
        return
    remark_notes(result.left_out)
    print_facts(f"Imported {source}", facts)


def resample(
    path: Annotated[Path, typer.Argument(metavar="IN", help="Dataset folder, or one .zarr in it.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Output folder; a .zarr if IN is one.")],
    step: Annotated[float, typer.Option(min=1e-3, help="Time between two frames, seconds.")] = _USUAL_STEP_S,
    workers: WorkersOption = None,
    engine: EngineOption = Engine.PROCESSES,
    address: AddressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a dataset at another rate, by default 10 frames per second like the published one.

    Positions, headings and sizes are interpolated between consecutive frames of a track; gaps remain. Classes and
    lights are those of the previous frame. Map, meta.json, aerial picture and sources are copied.

    Examples:
        l5kit resample nuscenes nuscenes-10hz
        l5kit resample nuscenes/scenes/sample.zarr sample.zarr
    """
    require_writable_folder(out, option="OUT")
    from l5kit.readers.resampling import resample_dataset

    with (
        _requested_workers(engine, address, workers) as carriers,
        show_progress("Resampling", visible=True) as progress,
    ):
        frames = resample_dataset(path, out, step_time_s=step, workers=carriers, progress=progress)
    if as_json:
        counts = {name: {"frames_before": before, "frames": after} for name, (before, after) in frames.items()}
        print_json({"out": out.absolute(), "step_time_s": step, "logs": counts})
        return
    print_facts(
        f"Resampled {path}", {name: f"{before:,} frames, now {after:,}" for name, (before, after) in frames.items()}
    )


def _requested_workers(engine: Engine, address: str | None, number: int | None) -> AbstractContextManager[Workers]:
    """Return the requested workers; a single process is replaced by this process."""
    # a separate process would take longer to start than it saves
    if engine is Engine.PROCESSES and address is None and count_workers(number) == 1:
        return open_workers(Engine.THREADS, num_workers=1)
    return open_workers(engine, address=address, num_workers=number)


def _report(result: "ImportResult", *, as_json: bool) -> None:
    """Report an unusual frame rate and the first failed scenes, and print the result."""
    info = result.info
    if abs(info.step_time_s - _USUAL_STEP_S) > 1e-6:
        remark(
            f"note: frames are {info.step_time_s:g} s apart, as in the source; l5kit resample converts the dataset to "
            "10 frames per second"
        )
    messages = [each.message for each in result.failed]
    remark_some("failed", messages, listed_in=f"{result.folder / 'import.json'} (failed)")
    if as_json:
        content = {
            "folder": result.folder,
            "dataset": info.dataset,
            "version": info.version,
            "licence": info.licence,
            "step_time_s": info.step_time_s,
            "logs": result.scenes,
            "scenes": result.num_scenes,
            "remarks": result.num_remarks,
            "failed": [each.as_json() for each in result.failed],
        }
        print_json(content)
        return
    listed = result.folder / "sources"
    facts = {
        "scenes": f"{result.num_scenes:,} read, {len(result.failed):,} failed",
        **{f"log {split}": str(path) for split, path in result.scenes.items()},
        "time between frames": f"{info.step_time_s:g} s",
        "licence": info.licence,
        "left out or mended": f"{result.num_remarks:,} things, listed in {listed}" if result.num_remarks else "nothing",
    }
    print_facts(f"Imported {info.dataset}", facts)
