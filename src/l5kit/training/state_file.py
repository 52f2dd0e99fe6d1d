"""The state of a training on disk: what Lightning takes a training up from, written whole and read without its code."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from l5kit._files import replaced_when_complete
from l5kit.planning.checkpoint_files import CheckpointError, read_plain_objects, write_plain_objects
from l5kit.training.lightning_parts import CheckpointIO

__all__ = [
    "LAST_CHECKPOINT",
    "LightningState",
    "ResumePoint",
    "StateFiles",
    "read_resume_point",
    "replace_writer_state",
]

LAST_CHECKPOINT = "last.ckpt"
"""File of Lightning that a training is taken up from."""

LightningState: TypeAlias = dict[str, Any]
"""The state of a training, or of a part of it, as Lightning keeps it: plain values and tensors by name."""

_WRITER = "CheckpointWriter"
"""Under which name :class:`~l5kit.training.checkpoint_writer.CheckpointWriter` keeps its part of the state."""

_ADVICE = (
    "The training cannot go on from it: take another copy of the file, or start a new training in another folder; "
    "weights that were saved as safetensors can still be used"
)


@dataclass(frozen=True)
class ResumePoint:
    """The step at which a training goes on.

    Attributes:
        step: Steps that are done.
        evaluated_step: Steps that were done at the last evaluation in the state; None for a state without evaluations.
        minutes: Minutes that the training had taken.
    """

    step: int = 0
    evaluated_step: int | None = None
    minutes: float = 0.0


def read_resume_point(path: Path) -> ResumePoint:
    """Return where the training of a state goes on.

    Raises:
        CheckpointError: The file is broken, or no state of a training.
    """
    state = StateFiles().load_checkpoint(path)
    step = state["global_step"]
    written = state["callbacks"].get(_WRITER)
    if not isinstance(written, dict):
        return ResumePoint(step)
    minutes = written.get("minutes")
    return ResumePoint(step, written.get("evaluated_step"), minutes if isinstance(minutes, float) else 0.0)


def replace_writer_state(path: Path, written: LightningState) -> None:
    """Write a state again, with another part of :class:`~l5kit.training.checkpoint_writer.CheckpointWriter` in it."""
    files = StateFiles()
    state = files.load_checkpoint(path)
    files.save_checkpoint({**state, "callbacks": {**state["callbacks"], _WRITER: written}}, path)


class StateFiles(CheckpointIO):
    """Writes states so that a file appears whole or not at all, and reads them without running code in them."""

    def save_checkpoint(self, checkpoint: LightningState, path: str | Path, storage_options: object = None) -> None:  # noqa: ARG002
        """Write a state, replacing the file."""
        with replaced_when_complete(path, argument="path") as temporary:
            write_plain_objects(checkpoint, temporary)

    def load_checkpoint(  # type: ignore[override]  # its parameters differ between versions of Lightning
        self,
        path: str | Path,
        map_location: object = None,  # noqa: ARG002
        **_: object,
    ) -> LightningState:
        """Return a state, on the CPU.

        Raises:
            CheckpointError: The file is broken, or no state of a training.
        """
        file = Path(path)
        try:
            state: LightningState = read_plain_objects(file)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {_ADVICE}") from error
        is_state = isinstance(state, dict) and isinstance(state.get("global_step"), int)
        wanted = ("state_dict", "loops", "callbacks", "optimizer_states", "lr_schedulers")
        missing = [key for key in wanted if not isinstance(state, dict) or key not in state]
        if not is_state or missing or not isinstance(state["callbacks"], dict):
            raise CheckpointError(
                f"{file} is no state of a training: it lacks {', '.join(missing) or 'its step'}. {_ADVICE}"
            )
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a state."""
        Path(path).unlink(missing_ok=True)
