"""``l5kit demo``: a tour of l5kit on a synthetic city, or on your own data."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import AerialOption, MapOption, MetaOption
from l5kit.cli.output import print_facts, print_line, print_texts, remark_notes
from l5kit.data.jobs.owned_outputs import require_own_file
from l5kit.data.progress import show_progress
from l5kit.data.stores.store import path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import SimulationFolder, find_scene_files
from l5kit.synthetic.city import make_city
from l5kit.visualization.facts import map_facts, summary_facts

_CITY_FOLDER = "made-city"
_PLANNERS = ("route_policy", "constant-velocity")
_WITHOUT_MAP = ("constant-velocity", "full-throttle")
_START_FRAME = 10
_PICTURE_SUFFIXES = (".png", ".gif", ".jpg", ".jpeg", ".mp4", ".html")


def _check_folder(out: Path) -> Path:
    if out.is_file() or out.suffix.lower() in _PICTURE_SUFFIXES:
        raise typer.BadParameter(f"{str(out)!r} is a file or looks like one; give a folder for the output files")
    return out


def demo(
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Dataset folder or .zarr, or a URL; by default a synthetic city."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", callback=_check_folder, help="Folder for pictures and page.")
    ] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the synthetic city and of the order of samples.")] = 0,
    scenes: Annotated[int, typer.Option(min=1, help="Number of scenes to generate and to drive.")] = 4,
    samples: Annotated[int, typer.Option(min=1, help="Maximum number of samples of each kind.")] = 300,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Show what l5kit does: a planner drives a log and is scored, another fails, and sampling is timed.

    FOLDER gets drive.gif, failure.png, drive.html, which plays the drive, and index.html with the numbers.

    Examples:
        l5kit demo
        l5kit demo --data prediction-dataset --out pictures
    """
    if data is not None:
        find_scene_files(data, map_path=map_path, meta_path=meta, aerial_path=aerial)  # before anything is written
    from l5kit.closedloop import ClosedLoopOptions, simulate
    from l5kit.visualization.demo_folder import DEMO_FILES, SCORE_COLUMNS, score_rows, score_text, write_demo_folder
    from l5kit.visualization.tour import SPEED_COLUMNS, measure_sampling, speed_rows

    out.mkdir(parents=True, exist_ok=True)
    for name in DEMO_FILES:
        require_own_file(out / name, argument="--out")
    if data is None:
        with show_progress("Making a city", visible=True) as progress:
            make_city(out / _CITY_FOLDER, seed=seed, num_scenes=scenes, overwrite=True, progress=progress)
    path = out / _CITY_FOLDER if data is None else data
    files, _ = find_scene_files(path, map_path=map_path, meta_path=meta, aerial_path=aerial)
    remark_notes(files.notes)
    dataset = ChunkedDataset(files.dataset).open()
    facts = summary_facts(dataset.summary(), dataset.facts) | map_facts(files)
    print_facts(path_of(files.dataset), facts)

    # a planner that reacts to others, and one that ignores them, in the same scenes; routes and IDM need a map
    has_map = files.semantic_map is not None and files.meta is not None
    planners = _PLANNERS if has_map else _WITHOUT_MAP
    options = ClosedLoopOptions(scenes=slice(scenes), start_frame=_START_FRAME, overwrite=True, workers=0)
    folders = []
    for planner, name in zip(planners, ("drives", "failing"), strict=True):
        simulate(
            path,
            out / name,
            planner=planner,
            agents="idm" if has_map else "replay",
            map_path=map_path,
            meta_path=meta,
            fallback="rules" if planner == _PLANNERS[0] else None,
            options=options,
        )
        folders.append(SimulationFolder(out / name))
        title = f"{planner} drives: score {score_text(folders[-1])}"
        print_texts(title, SCORE_COLUMNS, score_rows(folders[-1]))

    warnings.filterwarnings("ignore", message="the agents mask of", category=RuntimeWarning)
    with show_progress("Sampling", visible=True) as progress:
        speeds = measure_sampling(files, dataset, num_samples=samples, seed=seed, progress=progress)
    with show_progress("Pictures", visible=True) as progress:
        written = write_demo_folder(
            out,
            drives=folders[0],
            failing=folders[1],
            facts=facts,
            speeds=speeds,
            footer=files.notes,
            progress=progress,
        )
    print_texts("Samples per second", SPEED_COLUMNS, speed_rows(speeds))
    for file in (written.film, written.failure, written.drive, written.page):
        if file is not None:
            print_line(str(file))
