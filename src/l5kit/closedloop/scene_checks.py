"""Checks of logged scenes before they are driven: what would break in the middle is found first, and named."""

from l5kit._types import Int64Array
from l5kit.closedloop.failed_scene import FailedScene
from l5kit.closedloop.options import with_option
from l5kit.data.records import FRAME_INTERVAL
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.evaluation.driving.record_faults import find_record_fault


def require_start(log: ChunkedDataset, scenes: Int64Array, start: int) -> None:
    """Refuse a first frame that no scene has; what cannot be read is left to the scenes, which fail by name.

    Args:
        log: An opened log.
        scenes: The scenes that are simulated, (S,).
        start: The first frame to be simulated.

    Raises:
        InvalidArgumentError: All scenes are shorter.
    """
    if start == 0:
        return
    try:
        intervals = log.scenes[scenes][FRAME_INTERVAL]
    except CorruptedDataError:
        return
    longest = int((intervals[:, 1] - intervals[:, 0]).max())
    if longest <= start:
        raise InvalidArgumentError(
            f"{with_option('start_frame')} is {start}, but the longest scene has {longest} frames, counted from 0; "
            "name an earlier one"
        )


def read_scene(log: ChunkedDataset, scene: int, *, start: int) -> SceneRecords | FailedScene:
    """Return a scene of a log, or why it cannot be read or driven; ``start`` is the first frame to be simulated."""
    try:
        recorded = SceneRecords.read(log, scene)
        return find_fault(recorded, scene, start=start) or recorded
    except Exception as error:  # whatever is broken in a file must not end the other scenes
        return FailedScene(scene, None, None, f"the scene cannot be read: {error or type(error).__name__}")


def find_fault(recorded: SceneRecords, scene: int, *, start: int) -> FailedScene | None:
    """Return why a scene cannot be driven, or None.

    Args:
        recorded: The scene.
        scene: Its number, for the fault.
        start: First frame that is to be simulated.
    """
    num_frames = len(recorded.frames)
    if num_frames <= start:
        return FailedScene(scene, None, None, f"the scene has {num_frames} frames, none of them frame {start}")
    fault = find_record_fault(recorded)
    return None if fault is None else FailedScene(scene, fault.frame, fault.track_id, fault.message)
