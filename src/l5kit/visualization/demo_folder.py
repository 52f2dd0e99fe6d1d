"""Output folder of a demo: a film, a failure, an interactive drive, and a page with the numbers."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from l5kit import __version__
from l5kit._types import UInt8Array
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import without_secrets
from l5kit.simulation.folder.simulation_folder import SceneResult, SimulationFolder
from l5kit.visualization.gif import write_gif
from l5kit.visualization.images import write_png
from l5kit.visualization.report_page import PageFigure, PageTable, write_page
from l5kit.visualization.sample_config import available_map_kinds
from l5kit.visualization.scene_pictures import ScenePainter
from l5kit.visualization.showcase import FILM_FORM, Film, draw_film
from l5kit.visualization.simulated.drive_overlay import DriveOverlay
from l5kit.visualization.simulated.scene_drive import DriveReader, Failure
from l5kit.visualization.tour import SPEED_COLUMNS, SamplingSpeed, speed_rows
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

_COLOURS = (
    "The AV is red, cars are blue, cyclists violet and pedestrians light blue; lines are their past and their future. "
    "The teal line is the plan; outlines are the positions of the AV and others in the recorded log."
)

DEMO_FILES: Final = ("drive.gif", "failure.png", "drive.html", "index.html")
"""Names of the files of a demo, in the order of the fields of :class:`DemoFolder`."""

SCORE_COLUMNS: Final = ("Metric", "Mean", "Scenes below 1")


@dataclass(frozen=True)
class DemoFolder:
    """The files of a demo.

    Attributes:
        film: GIF of a few seconds of a drive.
        failure: PNG of a failure; None if nothing fails.
        drive: HTML viewer page that plays the drive of the film.
        page: HTML page with film, failure and numbers.
    """

    film: Path
    failure: Path | None
    drive: Path
    page: Path


@dataclass(frozen=True)
class FailurePicture:
    """The first frame of a failure.

    Attributes:
        picture: RGB ``[H, W, 3]``.
        title: Kind of failure, scene and frame.
    """

    picture: UInt8Array
    title: str


def write_demo_folder(
    folder: Path,
    *,
    drives: SimulationFolder,
    failing: SimulationFolder,
    facts: Mapping[str, str],
    speeds: Sequence[SamplingSpeed],
    footer: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> DemoFolder:
    """Draw pictures of drives and write them and the pages into a folder, replacing older files.

    Args:
        folder: An existing folder.
        drives: Simulation of a planner.
        failing: Simulation of the same scenes with a planner that fails.
        facts: Names and values of the contents of the log.
        speeds: Sampling speeds.
        footer: Sentences at the end of the page.
        progress: Called with the numbers of finished and of all pictures of the film.

    Raises:
        InvalidArgumentError: Nothing was driven.
        SampleError: A sample cannot be made.
    """
    film_path, failure_path, drive_path, page_path = (folder / name for name in DEMO_FILES)
    film = draw_drive(drives, progress=progress)
    height, width = film.pictures[0].shape[:2]
    write_gif(film_path, film.pictures, (width, height), fps=min(film.frames_per_s, 100.0))  # upper limit of GIF
    figures = [PageFigure(film_path, f"{drives.scores['planner']} drives {film.title}", _COLOURS)]

    failure = draw_failure(failing)
    failure_path.unlink(missing_ok=True)
    if failure is not None:
        write_png(failure_path, failure.picture)
        caption = f"The same scenes, driven by {failing.scores['planner']}. Where boxes overlap, both are visible."
        figures.append(PageFigure(failure_path, failure.title, caption))

    # the drive of the film in the viewer, and a page with all numbers
    sampled = (
        "One process, samples in random order, image included, "
        f"on Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    )
    write_exported_page(drive_path, ViewedSimulation(drives), film.scene_index)
    write_page(
        page_path,
        title="What l5kit does",
        subtitle=without_secrets(str(drives.path)),
        facts=dict(facts),
        figures=figures,
        tables=[
            *(
                PageTable(f"Score of {each.scores['planner']} is {score_text(each)}", SCORE_COLUMNS, score_rows(each))
                for each in (drives, failing)
            ),
            PageTable("Samples per second", SPEED_COLUMNS, speed_rows(speeds), sampled),
        ],
        footer=" ".join((f"Made by l5kit {__version__}. {drive_path.name} plays the drive of the film.", *footer)),
    )
    return DemoFolder(film_path, None if failure is None else failure_path, drive_path, page_path)


def score_rows(drives: SimulationFolder) -> list[list[str]]:
    """Return a row of cells for each applicable metric of a simulation."""
    rows = []
    for metric in drives.metrics:
        values = [value for value in (result.metrics.get(metric.name) for result in drives.scenes) if value is not None]
        if values:
            below = sum(value < 1 for value in values)
            rows.append([metric.name.replace("_", " "), f"{sum(values) / len(values):.3f}", str(below)])
    return rows


def score_text(drives: SimulationFolder) -> str:
    """Return the score of a simulation for display."""
    score = drives.scores.get("score")
    return "not known" if score is None else f"{score:.3f} of 1"


def draw_drive(
    folder: SimulationFolder, *, num_frames: int = 100, progress: Callable[[int, int], None] | None = None
) -> Film:
    """Return pictures around the most eventful moment of the drives, with plans and the outlines of the log.

    Args:
        folder: The simulation, with at least one driven frame.
        num_frames: Number of pictures, or all frames of a shorter scene.
        progress: Called with the numbers of finished and of all pictures.

    Raises:
        InvalidArgumentError: Nothing was driven.
    """
    files = folder.files()
    driven = ChunkedDataset(files.dataset).open()
    overlay = DriveOverlay(folder, driven, with_ghosts=True, with_plans=True)
    return draw_film(files, driven, num_frames=num_frames, overlay=overlay, progress=progress)


def draw_failure(folder: SimulationFolder) -> FailurePicture | None:
    """Return the first frame of the worst failure, preferably a collision at fault; None if nothing fails."""
    files = folder.files()
    driven = ChunkedDataset(files.dataset).open()
    reader = DriveReader(folder)
    scored = [result for result in folder.scenes if result.position is not None and result.score is not None]
    failures: list[tuple[tuple[bool, bool, float, int, int], SceneResult, Failure]] = []
    for result in scored:
        assert result.position is not None
        drive = reader.read(result.position, read_scene_arrays(driven, result.position))
        for failure in drive.failures:
            # collisions at fault first, then other collisions, then the lowest score, then the earliest
            is_other = failure.kind != "collision_at_fault"
            rank = (is_other, failure.track_id is None, result.score or 0.0, result.scene, failure.first_frame)
            failures.append((rank, result, failure))
    if not failures:
        return None
    _, result, failure = min(failures, key=lambda each: each[0])
    assert result.position is not None
    overlay = DriveOverlay(folder, driven, with_ghosts=True, with_plans=True)
    painter = ScenePainter(files, driven, map_kind=available_map_kinds(files)[0], form=FILM_FORM, overlay=overlay)
    title = f"{failure.name}: scene {result.scene}, frame {failure.first_frame}"
    return FailurePicture(painter.picture(result.position, failure.first_frame), title)
