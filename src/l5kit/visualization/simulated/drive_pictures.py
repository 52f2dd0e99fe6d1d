"""What drives look like: a film of the most eventful one, and the moment in which one fails."""

from collections.abc import Callable
from dataclasses import dataclass

from l5kit._types import UInt8Array
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.simulation.folder.simulation_folder import SceneResult, SimulationFolder
from l5kit.visualization.sample_config import available_map_kinds
from l5kit.visualization.scene_pictures import ScenePainter
from l5kit.visualization.showcase import FILM_FORM, Film, draw_film
from l5kit.visualization.simulated.drive_overlay import DriveOverlay
from l5kit.visualization.simulated.failures import Failure
from l5kit.visualization.simulated.scene_drive import DriveReader


@dataclass(frozen=True)
class FailurePicture:
    """The first frame of a failure.

    Attributes:
        picture: RGB ``[H, W, 3]``.
        title: What fails, and where.
    """

    picture: UInt8Array
    title: str


def draw_drive(
    folder: SimulationFolder, *, num_frames: int = 100, progress: Callable[[int, int], None] | None = None
) -> Film:
    """Return pictures around the most eventful moment of the drives, with plans and the outlines of the log.

    Args:
        folder: The simulation, with at least one driven frame.
        num_frames: Number of pictures, or all frames of a shorter scene.
        progress: Called with the number of pictures done and of all.

    Raises:
        InvalidArgumentError: Nothing was driven.
    """
    files = folder.files()
    driven = ChunkedDataset(files.dataset).open()
    overlay = DriveOverlay(folder, driven, with_ghosts=True, with_plans=True)
    return draw_film(files, driven, num_frames=num_frames, overlay=overlay, progress=progress)


def draw_failure(folder: SimulationFolder) -> FailurePicture | None:
    """Return the first frame of the worst failure, a collision at fault if there is one; None where nothing fails."""
    files = folder.files()
    driven = ChunkedDataset(files.dataset).open()
    reader = DriveReader(folder)
    scored = [result for result in folder.scenes if result.position is not None and result.score is not None]
    failures: list[tuple[tuple[bool, bool, float, int, int], SceneResult, Failure]] = []
    for result in scored:
        assert result.position is not None
        drive = reader.read(result.position, read_scene_arrays(driven, result.position))
        for failure in drive.failures:
            # collisions at fault first, then other collisions, then the lowest score and what came first
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
