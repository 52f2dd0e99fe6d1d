"""``l5kit edit``: put what planners are tested with into the scenes of a log."""

from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import JsonOption, MapOption, MetaOption, parse_slice
from l5kit.cli.output import print_facts, print_json, remark, remark_cut, require_writable_folder
from l5kit.data.progress import show_progress

_MOST_LISTED = 5
"""Scenes that were left out of which the reason is printed; all are in edits.json."""


def edit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Dataset folder, or one .zarr in it; may be a URL.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    edits: Annotated[
        list[str],
        typer.Option(
            "--edit",
            metavar="EDIT",
            help="What to put into each scene: NAME or NAME,PARAM=VALUE,..., as in cones,count=8; may be given several "
            "times. Names: parked_vehicle, cones, pedestrian_steps_out, slow_leader, braking_leader, cut_in, "
            "denser_traffic, fewer_agents, another_goal, red_light, or FILE.py:NAME for your own.",
        ),
    ],
    scenes: Annotated[
        slice | None,
        typer.Option(metavar="A:B[:STEP]", parser=parse_slice, help="Scenes, B excluded; by default all."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what edits draw.")] = 0,
    map_path: MapOption = None,
    meta_path: MetaOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing edited dataset.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the scenes of a log with a parked bus, a pedestrian who steps out, another goal and more, as a dataset.

    Map, meta.json, aerial picture and facts come along. edits.json has the source with its digest, the edits, and which
    scene came of which. Scenes that an edit does not fit are left out and listed.
    """
    require_writable_folder(out, option="OUT")
    from l5kit.editing.edit_texts import parse_edit
    from l5kit.editing.edited_dataset import edit_dataset

    chosen = [parse_edit(text) for text in edits]
    with show_progress("Editing", visible=True) as progress:
        edited = edit_dataset(
            path,
            out,
            chosen,
            scenes=scenes,
            seed=seed,
            map_path=map_path,
            meta_path=meta_path,
            overwrite=overwrite,
            progress=progress,
        )
    remark_cut("--scenes", scenes, len(edited.scenes) + len(edited.left_out), owner="the log")
    if as_json:
        left_out = [{"scene": scene, "reason": reason} for scene, reason in edited.left_out.items()]
        print_json({"folder": edited.path, "log": edited.log, "scenes": edited.scenes.tolist(), "left_out": left_out})
        return
    for scene, reason in list(edited.left_out.items())[:_MOST_LISTED]:
        remark(f"left out: scene {scene}: {' '.join(reason.split())}")
    if len(edited.left_out) > _MOST_LISTED:
        remark(f"left out: {len(edited.left_out) - _MOST_LISTED} more, listed in {edited.path / 'edits.json'}")
    counts = f"{len(edited.scenes):,} edited, {len(edited.left_out):,} left out"
    print_facts(f"Edited {path}", {"log": edited.log, "scenes": counts, "edits": ", ".join(map(repr, chosen))})
