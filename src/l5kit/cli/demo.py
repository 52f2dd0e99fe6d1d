"""``l5kit demo``: everything once, on a synthetic city or on one's own data."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import AerialOption, MapOption, MetaOption
from l5kit.cli.output import print_facts, print_line, print_table, print_texts, remark
from l5kit.data.owned_outputs import require_own_file
from l5kit.data.progress import show_progress
from l5kit.data.stores.store import path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import find_scene_files
from l5kit.synthetic.city import make_city
from l5kit.visualization.facts import map_counts, summary_facts

_CITY_FOLDER = "made-city"
_PROBABILITY = 0.5
_PICTURE_SUFFIXES = (".png", ".gif", ".jpg", ".jpeg", ".mp4", ".html")


def _check_folder(out: Path) -> Path:
    if out.is_file() or out.suffix.lower() in _PICTURE_SUFFIXES:
        raise typer.BadParameter(f"{str(out)!r} is a file or the name of one; give a folder, which gets several files")
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
    scenes: Annotated[int, typer.Option(min=1, help="Scenes of the synthetic city.")] = 4,
    samples: Annotated[int, typer.Option(min=1, help="Largest number of samples of each kind.")] = 300,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Show what l5kit does: open a dataset, find its agents, sample from it and draw it.

    FOLDER gets contact-sheet.png, scene.gif and index.html, which shows both with statistics.
    """
    if data is not None:
        find_scene_files(data, map_path=map_path, meta_path=meta, aerial_path=aerial)  # before torch is imported
    from l5kit.dataset.mask_cache import load_or_compute_mask
    from l5kit.dataset.select_agents.thresholds import MaskThresholds
    from l5kit.visualization.demo_folder import DEMO_FILES, write_demo_folder
    from l5kit.visualization.tour import measure_sampling
    from l5kit.visualization.tour_tables import MASK_COLUMNS, MASK_TITLE, SPEED_COLUMNS, mask_rows, speed_rows

    out.mkdir(parents=True, exist_ok=True)
    for name in DEMO_FILES:
        require_own_file(out / name, argument="--out")
    if data is None:
        with show_progress("Making a city", visible=True) as progress:
            make_city(out / _CITY_FOLDER, seed=seed, num_scenes=scenes, overwrite=True, progress=progress)
    files, _ = find_scene_files(
        out / _CITY_FOLDER if data is None else data, map_path=map_path, meta_path=meta, aerial_path=aerial
    )
    for note in files.notes:
        remark(f"note: {note}")
    dataset = ChunkedDataset(files.dataset).open()
    facts = summary_facts(dataset.summary(), dataset.facts) | {
        f"{kind.capitalize()} on the map": f"{count:,}" for kind, count in map_counts(files).items()
    }
    print_facts(path_of(files.dataset), facts)

    warnings.filterwarnings("ignore", message="the agents mask of", category=RuntimeWarning)
    with show_progress("Agents mask", visible=True) as progress:
        agents_mask = load_or_compute_mask(dataset, MaskThresholds(_PROBABILITY), progress=progress)
    print_table(MASK_TITLE, MASK_COLUMNS, mask_rows(agents_mask))

    with show_progress("Sampling", visible=True) as progress:
        speeds = measure_sampling(files, dataset, num_samples=samples, seed=seed, progress=progress)
    print_texts("Samples per second", SPEED_COLUMNS, speed_rows(speeds))

    with show_progress("Pictures", visible=True) as progress:
        written = write_demo_folder(
            out,
            files=files,
            dataset=dataset,
            facts=facts,
            agents_mask=agents_mask,
            speeds=speeds,
            progress=progress,
        )
    for path in (written.contact_sheet, written.film, written.page):
        print_line(str(path))
