"""The folder that a demo leaves behind: a contact sheet, a film, and a page that shows both with the numbers."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from l5kit import __version__
from l5kit._types import UInt32Array
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import without_secrets
from l5kit.visualization.gif import write_gif
from l5kit.visualization.png import write_png
from l5kit.visualization.report_page import PageFigure, PageTable, write_page
from l5kit.visualization.sample_config import available_map_kinds
from l5kit.visualization.showcase import draw_contact_sheet, draw_film
from l5kit.visualization.tour import SamplingSpeed
from l5kit.visualization.tour_tables import MASK_COLUMNS, MASK_TITLE, SPEED_COLUMNS, mask_rows, speed_rows

_COLOURS = (
    "The AV or agent of the sample is green, others are blue, and their trails show one second of their past. "
    "Orange dots are its past positions, magenta dots those of the next five seconds: the target to predict."
)
_COLOURS_OF_KIND = {
    "semantic": " Lanes are yellow, or red or green where a traffic light rules them; crosswalks are orange outlines.",
    "satellite": " The aerial picture is turned with the sample, and black where it ends.",
    "box": "",
}


DEMO_FILES = ("contact-sheet.png", "scene.gif", "index.html")
"""Names of the files of a demo, as the fields of :class:`DemoFolder`."""


@dataclass(frozen=True)
class DemoFolder:
    """The files of a demo.

    Attributes:
        contact_sheet: PNG of eventful samples.
        film: GIF of some seconds of a scene.
        page: HTML that shows both with the numbers.
    """

    contact_sheet: Path
    film: Path
    page: Path


def write_demo_folder(
    folder: Path,
    *,
    files: DatasetFiles,
    dataset: ChunkedDataset,
    facts: Mapping[str, str],
    agents_mask: UInt32Array,
    speeds: Sequence[SamplingSpeed],
    progress: Callable[[int, int], None] | None = None,
) -> DemoFolder:
    """Draw the pictures of a dataset and write them with the page into a folder; older ones are replaced.

    Args:
        folder: An existing folder.
        files: Where the map, the aerial picture and meta.json lie.
        dataset: The opened dataset, with at least one frame.
        facts: What it holds, names and values.
        agents_mask: Its agents mask, (N, 2).
        speeds: How fast it samples.
        progress: Called with the number of pictures of the film done and of all.

    Raises:
        InvalidArgumentError: The dataset has no frame.
        SampleError: A sample cannot be made.
    """
    written = DemoFolder(*(folder / name for name in DEMO_FILES))
    write_png(written.contact_sheet, draw_contact_sheet(files, dataset))
    film = draw_film(files, dataset, progress=progress)
    height, width = film.pictures[0].shape[:2]
    # in real time, as far as a GIF can
    write_gif(written.film, film.pictures, (width, height), fps=min(1 / dataset.facts.step_time_s, 100.0))
    kinds = available_map_kinds(files)
    caption = "Colours as in the film." + "".join(_COLOURS_OF_KIND[kind] for kind in kinds[1:])
    write_page(
        written.page,
        title="What l5kit sees",
        subtitle=without_secrets(str(dataset.path)),
        facts=dict(facts),
        figures=[
            PageFigure(written.film, f"Film of {film.title}", _COLOURS + _COLOURS_OF_KIND[kinds[0]]),
            PageFigure(written.contact_sheet, "Samples of EgoDataset and AgentDataset", caption),
        ],
        tables=[
            PageTable("Samples per second", SPEED_COLUMNS, speed_rows(speeds), _describe_machine()),
            PageTable(MASK_TITLE, MASK_COLUMNS, mask_rows(agents_mask)),
        ],
        footer=" ".join((f"Made by l5kit {__version__}.", *files.notes)),
    )
    return written


def _describe_machine() -> str:
    return (
        "One process, samples in random order, image included, "
        f"on Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    )
