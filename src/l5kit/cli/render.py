"""``l5kit render``: pictures and films of a scene."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from l5kit.cli.options import AerialOption, MapOption, MetaOption, SceneOption, ScenesArgument, parse_slice
from l5kit.cli.output import print_line, remark, remark_cut, remark_notes, require_writable
from l5kit.configs.texts import did_you_mean
from l5kit.data.progress import show_progress
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import find_scene_files
from l5kit.visualization.birdseye.tones import Style, Theme
from l5kit.visualization.gif import write_gif
from l5kit.visualization.images import write_png
from l5kit.visualization.sample_config import MAP_KINDS, available_map_kinds
from l5kit.visualization.video import BROWSER_CODEC, write_video

_STILL, _GIF, _MP4 = ".png", ".gif", ".mp4"
_MAX_SIDE_PX = 4096
_FPS = (0.1, 100)  # short, as the help shows them next to the longest option names


class _Size(NamedTuple):
    """Width and height of a picture in pixels."""

    width: int
    height: int


def _parse_size(text: str) -> _Size:
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text)
    if match is None or min(map(int, match.groups())) < 1:
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT in pixels, such as 640x480")
    if max(map(int, match.groups())) > _MAX_SIDE_PX:
        raise typer.BadParameter(
            f"{text!r} is more than {_MAX_SIDE_PX} pixels wide or high, the limit of video players; a larger "
            "--pixel-size shows more of the scene in the same number of pixels"
        )
    return _Size(int(match[1]), int(match[2]))


def _check_map_kind(kind: str | None) -> str | None:
    if kind is not None and kind not in MAP_KINDS:
        raise typer.BadParameter(f"{kind!r}{did_you_mean(kind, MAP_KINDS)} is not one of {', '.join(MAP_KINDS)}")
    return kind


def _check_out(out: Path) -> Path:
    if out.suffix.lower() not in (_STILL, _GIF, _MP4):
        raise typer.BadParameter(f"{str(out)!r} must end in {_STILL} (one frame), {_GIF} or {_MP4} (several)")
    return out


def render(
    path: ScenesArgument,
    out: Annotated[
        Path, typer.Option(metavar="FILE", callback=_check_out, help="Picture (.png) or film (.gif, .mp4) to write.")
    ],
    scene: SceneOption = 0,
    frame: Annotated[int | None, typer.Option(help="Frame of a .png, counted within the scene. Default: 0.")] = None,
    frames: Annotated[
        slice | None,
        typer.Option(metavar="A:B[:STEP]", parser=parse_slice, help="Frames of a film, B excluded. Default: all."),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(
            min=_FPS[0],
            max=_FPS[1],
            help="Frames per second of a film. Default: real time, 10 / STEP for a log at 10 Hz.",
        ),
    ] = None,
    map_type: Annotated[
        str | None,
        typer.Option(
            callback=_check_map_kind,
            help=f"Background of the boxes: {', '.join(MAP_KINDS)}. Default: the first, or box without a map.",
        ),
    ] = None,
    agent: Annotated[
        int | None,
        typer.Option(metavar="TRACK", help="Agent to follow instead of the AV; a film shows only its frames."),
    ] = None,
    size: Annotated[
        _Size | None, typer.Option(metavar="WxH", parser=_parse_size, help="Size in pixels. Default: 640x480.")
    ] = None,
    pixel_size: Annotated[float, typer.Option(help="Metres per pixel.")] = 0.15,
    style: Annotated[
        Style, typer.Option(help="Look of l5kit view, or the colours of rasters for networks.")
    ] = "viewer",
    theme: Annotated[Theme, typer.Option(help="Colours of --style viewer.")] = "light",
    trajectories: Annotated[bool, typer.Option(help="Draw past and future positions.")] = True,
    ghosts: Annotated[
        bool, typer.Option(help="For a simulation: outline the log (AV red, other agents grey).")
    ] = False,
    plans: Annotated[bool, typer.Option(help="For a simulation: draw the plans (teal).")] = False,
    caption: Annotated[bool, typer.Option(help="Write scene, frame, track and speed into the picture.")] = True,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Draw a frame of a scene as a picture, or several as a film, centred on the AV or an agent.

    Examples:
        l5kit render city --scene 1 --frame 50 --out frame.png
        l5kit render city --scene 0 --frames 20:120:2 --out scene.gif --map-type satellite
        l5kit render city --scene 0 --out scene.mp4
        l5kit render city --agent 12 --out agent.mp4 --fps 5
    """
    is_still = out.suffix.lower() == _STILL
    of_others = {"--frames": frames, "--fps": fps} if is_still else {"--frame": frame}
    wrong = next((option for option, value in of_others.items() if value is not None), None)
    if wrong is not None:
        raise typer.BadParameter(
            f"not for a {out.suffix}: a {_STILL} shows one --frame, a {_GIF} or {_MP4} several --frames at --fps",
            param_hint=wrong,
        )
    require_writable(out, option="--out")
    files, simulation = find_scene_files(path, map_path=map_path, meta_path=meta, aerial_path=aerial)
    from l5kit.visualization.scene_pictures import PICTURE_FORM, ScenePainter, frames_to_draw, num_frames_of
    from l5kit.visualization.simulated.drive_overlay import DriveOverlay

    # a requested map must exist; a default map that is missing is skipped with a note
    kind = map_type or "semantic"
    if map_type is None and map_path is None and "semantic" not in available_map_kinds(files):
        missing = [name for name, file in (("semantic map", files.semantic_map), ("meta.json", files.meta)) if not file]
        remark(f"note: no {' and no '.join(missing)} in or near {path}; drawn without a map, as with --map-type box")
        kind = "box"
    dataset = ChunkedDataset(files.dataset).open()
    form = replace(PICTURE_FORM, pixel_size_m=pixel_size, raster_size_px=size or PICTURE_FORM.raster_size_px)
    overlay = None
    wanted = [option for option, is_wanted in (("--ghosts", ghosts), ("--plans", plans)) if is_wanted]
    if wanted:
        if simulation is None:
            raise typer.BadParameter("only simulations have these; PATH is a dataset", param_hint=" and ".join(wanted))
        overlay = DriveOverlay(simulation, dataset, with_ghosts=ghosts, with_plans=plans)
        remark_notes(overlay.notes)
    painter = ScenePainter(files, dataset, map_kind=kind, form=form, overlay=overlay, style=style, theme=theme)
    drawn = {"with_trajectories": trajectories, "with_caption": caption}
    if is_still:
        write_png(out, painter.picture(scene, frame or 0, agent, **drawn))
    else:
        chosen = frames_to_draw(dataset, scene, frames or slice(None), track_id=agent, form=form)
        num_taken = len(range(*frames.indices(num_frames_of(dataset, scene)))) if frames else len(chosen)
        remark_cut("--frames", frames, num_taken, owner=f"scene {scene}")
        if len(chosen) < num_taken:
            remark(f"note: the film shows {len(chosen)} of the {num_taken} frames, those with track {agent}")
        step = (frames.step if frames else None) or 1
        fps = fps or min(max(1.0 / (dataset.facts.step_time_s * step), _FPS[0]), _FPS[1])  # real time, within limits
        with show_progress("Drawing", visible=True) as progress:
            pictures = painter.film(scene, chosen, agent, progress=progress, **drawn)
            if out.suffix.lower() == _GIF:
                write_gif(out, pictures, form.raster_size_px, fps=fps)
            else:
                write_video(out, pictures, form.raster_size_px, fps=fps, codec=BROWSER_CODEC)
    print_line(str(out))
