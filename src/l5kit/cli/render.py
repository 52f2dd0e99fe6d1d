"""``l5kit render``: pictures and films of a scene."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from l5kit.cli.options import AerialOption, DatasetArgument, MapOption, MetaOption
from l5kit.cli.output import print_line
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.visualization.gif import write_gif
from l5kit.visualization.png import write_png
from l5kit.visualization.sample_config import MAP_KINDS

_FRAMES_PER_SECOND = 10


class _Size(NamedTuple):
    """Width and height of a picture in pixels."""

    width: int
    height: int


def _parse_size(text: str) -> _Size:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if found is None or min(map(int, found.groups())) < 1:
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 640x480")
    return _Size(int(found[1]), int(found[2]))


def _parse_frames(text: str) -> slice:
    found = re.fullmatch(r"(\d*):(\d*)(?::([1-9]\d*))?", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not START:END or START:END:STEP, such as 20:120:2")
    return slice(*(int(part) if part else None for part in found.groups()))


def _check_map_kind(kind: str) -> str:
    if kind not in MAP_KINDS:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(MAP_KINDS)}")
    return kind


def _check_out(out: Path) -> Path:
    if out.suffix.lower() not in (".png", ".gif"):
        raise typer.BadParameter(f"{str(out)!r} must end in .png (one frame) or .gif (several)")
    return out


def render(
    path: DatasetArgument,
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=_check_out, help="Picture (.png) or animation (.gif) to write.")
    ],
    scene: Annotated[int, typer.Option(help="The scene.")] = 0,
    frame: Annotated[int | None, typer.Option(help="Frame of a .png, counted in the scene; else 0.")] = None,
    frames: Annotated[
        slice | None,
        typer.Option(metavar="A:B[:STEP]", parser=_parse_frames, help="Frames of a .gif, B left out; by default all."),
    ] = None,
    map_type: Annotated[
        str, typer.Option(callback=_check_map_kind, help=f"What boxes are drawn over: {', '.join(MAP_KINDS)}.")
    ] = "semantic",
    agent: Annotated[
        int | None, typer.Option(metavar="TRACK", help="Agent to follow in place of the AV; a .gif shows its frames.")
    ] = None,
    size: Annotated[
        _Size | None, typer.Option(metavar="WxH", parser=_parse_size, help="Pixels; by default 640x480.")
    ] = None,
    pixel_size: Annotated[float, typer.Option(help="Metres per pixel.")] = 0.15,
    trajectories: Annotated[bool, typer.Option(help="Draw past (orange) and future (magenta) positions.")] = True,
    caption: Annotated[bool, typer.Option(help="Write scene, frame, track and speed into the picture.")] = True,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Draw a frame of a scene as a picture, or several as an animation, seen from the AV or from an agent."""
    from l5kit.visualization.scene_pictures import PICTURE_FORM, ScenePainter, frames_to_draw

    is_still = out.suffix.lower() == ".png"
    if (frames if is_still else frame) is not None:
        raise typer.BadParameter(
            "a .png shows one --frame, a .gif several --frames", param_hint="--frames" if is_still else "--frame"
        )
    files = find_dataset_files(path, map_path=map_path, meta_path=meta, aerial_path=aerial)
    dataset = ChunkedDataset(files.dataset).open()
    form = replace(PICTURE_FORM, pixel_size_m=pixel_size, raster_size_px=size or PICTURE_FORM.raster_size_px)
    painter = ScenePainter(files, dataset, map_kind=map_type, form=form)
    style = {"with_trajectories": trajectories, "with_caption": caption}
    if is_still:
        write_png(out, painter.picture(scene, frame or 0, agent, **style))
    else:
        chosen = frames_to_draw(dataset, scene, frames or slice(None), track_id=agent, form=form)
        rate = _FRAMES_PER_SECOND / ((frames.step if frames else None) or 1)
        with show_progress("Drawing", visible=True) as progress:
            pictures = painter.film(scene, chosen, agent, progress=progress, **style)
            write_gif(out, pictures, form.raster_size_px, fps=rate)
    print_line(str(out))
