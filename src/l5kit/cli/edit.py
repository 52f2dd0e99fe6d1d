"""``l5kit edit``: adds test situations to the scenes of a log."""

from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import JsonOption, MapOption, MetaOption, OutArgument, ScenesOption
from l5kit.cli.output import print_facts, print_json, remark_cut, remark_some, require_writable_folder
from l5kit.data.progress import show_progress


def edit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Dataset folder, or one .zarr in it; may be a URL.")],
    out: OutArgument,
    edits: Annotated[
        list[str],
        typer.Option(
            "--edit",
            metavar="EDIT",
            help="Edit of each scene: NAME or NAME,PARAM=VALUE,..., such as cones,count=8; may be given several "
            "times. Names: parked_vehicle, cones, pedestrian_steps_out, slow_leader, braking_leader, cut_in, "
            "denser_traffic, fewer_agents, another_goal, red_light, or FILE.py:NAME for your own.",
        ),
    ],
    scenes: ScenesOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choices of edits.")] = 0,
    map_path: MapOption = None,
    meta_path: MetaOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing edited dataset.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the scenes of a log, with a parked bus, a pedestrian who steps out, another goal and more, as a dataset.

    Map, meta.json, aerial picture and facts are copied. edits.json lists the source with its digest, the edits, and the
    source of each scene. Scenes that an edit does not fit are left out and listed.

    Examples:
        l5kit edit city parked --edit parked_vehicle
        l5kit edit city slow --edit slow_leader,speed_mps=2 --scenes 0:100
        l5kit edit city dense --edit denser_traffic --edit another_goal --seed 3
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
    reasons = [f"scene {scene}: {reason}" for scene, reason in edited.left_out.items()]
    remark_some("left out", reasons, listed_in=edited.path / "edits.json")
    counts = f"{len(edited.scenes):,} edited, {len(edited.left_out):,} left out"
    print_facts(f"Edited {path}", {"log": edited.log, "scenes": counts, "edits": ", ".join(map(repr, chosen))})
