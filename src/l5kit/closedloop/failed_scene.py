"""Failed scenes: what cannot be read, driven or scored, and why."""

from dataclasses import asdict, dataclass

from l5kit._types import JsonObject
from l5kit.data.scene_records import SceneRecords
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.evaluation.driving.record_faults import find_record_fault
from l5kit.simulation.engine.driven_scenes import SceneFault


def as_unicode(text: str) -> str:
    """Return a text as files can hold it: bytes of names that are no text, lone surrogates, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class FailedScene:
    """Why a scene could not be driven to its end, or not be scored.

    Attributes:
        scene: The scene, counted in its log.
        frame: The frame that was the current one, counted in the scene of the log; None where it is about none.
        track: The agent that it is about; None for the AV, or for none.
        message: What is wrong, a text that UTF-8 can hold.
    """

    scene: int
    frame: int | None
    track: int | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", as_unicode(self.message))

    @classmethod
    def of_fault(cls, fault: SceneFault) -> "FailedScene":
        """Return what the engine has told of."""
        return cls(fault.scene_index, fault.frame_index, fault.track_id, fault.message)

    def as_json(self) -> JsonObject:
        """Return it as JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        location = {"scene": self.scene, "frame": self.frame, "track": self.track}
        where = ", ".join(f"{name} {number}" for name, number in location.items() if number is not None)
        return f"{where}: {self.message}"


def read_scene(log: ChunkedDataset, scene: int, *, start: int) -> SceneRecords | FailedScene:
    """Return a scene of a log, or why it cannot be read or driven; ``start`` is the first frame to be simulated."""
    try:
        recorded = SceneRecords.read(log, scene)
        # what would break in the middle of a drive is found first, and named
        num_frames = len(recorded.frames)
        if num_frames <= start:
            return FailedScene(scene, None, None, f"the scene has {num_frames} frames, none of them frame {start}")
        fault = find_record_fault(recorded)
    except Exception as error:  # whatever is broken in a file must not end the other scenes
        return FailedScene(scene, None, None, f"the scene cannot be read: {error or type(error).__name__}")
    return recorded if fault is None else FailedScene(scene, fault.frame, fault.track_id, fault.message)
