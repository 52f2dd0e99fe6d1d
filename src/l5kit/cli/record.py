"""``l5kit record``: a scene as a file for Foxglove or Rerun."""

from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import MapOption, MetaOption, SceneOption, ScenesArgument
from l5kit.cli.output import print_line, remark, require_writable
from l5kit.data.map.opened import open_maps
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import find_scene_files


def _check_out(out: Path) -> Path:
    if out.suffix.lower() not in (".mcap", ".rrd"):
        raise typer.BadParameter(f"{str(out)!r} must end in .mcap (Foxglove) or .rrd (Rerun)")
    return out


def record(
    path: ScenesArgument,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", callback=_check_out, help="File to write: .mcap for Foxglove, .rrd for Rerun."),
    ],
    scene: SceneOption = 0,
    map_radius: Annotated[
        float, typer.Option(metavar="M", help="Lanes and crosswalks within this many metres of the AV; inf for all.")
    ] = 150.0,
    map_path: MapOption = None,
    meta: MetaOption = None,
) -> None:
    """Write a scene as a file to play in Foxglove (extra mcap) or Rerun (extra rerun).

    The file contains the map with its lights, the AV, agents with their class, trajectories, transforms and the speed
    of the AV.

    Examples:
        l5kit record city --scene 1 --out scene.mcap
        l5kit record city --scene 1 --out scene.rrd --map-radius 300
    """
    require_writable(out, option="--out")
    files, _ = find_scene_files(path, map_path=map_path, meta_path=meta)
    from l5kit.visualization.recording import RecordingForm, write_mcap, write_rerun
    from l5kit.visualization.scene_content import read_scene_content

    form = RecordingForm(map_radius_m=map_radius)
    log, maps = ChunkedDataset(files.dataset).open(), open_maps(files)
    map_api = None if maps is None else maps.of_scenes(log, [scene])
    if map_api is None:
        remark("note: recorded without lanes and lights; they need a semantic map and a meta.json (--map, --meta)")
    content = read_scene_content(log, scene, map_api=map_api)
    write = write_mcap if out.suffix.lower() == ".mcap" else write_rerun
    with show_progress("Recording", visible=True) as progress:
        write(out, content, map_api, form=form, progress=progress)
    print_line(str(out))
