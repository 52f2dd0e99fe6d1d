"""Training state on disk: the file that Lightning resumes from, written atomically and read without running code."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from l5kit._files import replaced_when_complete
from l5kit.planning.checkpoint_files import read_plain_objects
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.lightning_parts import CheckpointIO

LAST_CHECKPOINT = "last.ckpt"
"""Lightning file that a training resumes from."""

LightningState: TypeAlias = dict[str, Any]
"""State of a training, or of a part of it, in Lightning: plain values and tensors by name."""

_WRITER = "CheckpointWriter"
"""Key of the state of :class:`~l5kit.training.checkpoint_writer.CheckpointWriter`."""

_ADVICE = (
    "The training cannot be resumed from it: use another copy of the file, or start a new training in another folder; "
    "weights that were saved as safetensors can still be used"
)


@dataclass(frozen=True)
class ResumePoint:
    """Point at which a training resumes.

    Attributes:
        step: Steps done.
        evaluated_step: Step of the last evaluation; None for a state without evaluations.
        minutes: Minutes of training so far.
        training: Digest of the training; None in states of earlier versions.
        data: Record of its data; empty in states of earlier versions.
    """

    step: int = 0
    evaluated_step: int | None = None
    minutes: float = 0.0
    training: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)


def read_resume_point(path: Path) -> ResumePoint:
    """Return the point at which a training resumes from a state.

    Raises:
        CheckpointError: The file is broken, or not a training state.
    """
    state = StateFiles().load_checkpoint(path)
    step = state["global_step"]
    written = state["callbacks"].get(_WRITER)
    if not isinstance(written, dict):
        return ResumePoint(step)
    minutes, training, data = written.get("minutes"), written.get("training"), written.get("data")
    return ResumePoint(
        step,
        written.get("evaluated_step"),
        minutes if isinstance(minutes, float) else 0.0,
        training if isinstance(training, str) else None,
        data if isinstance(data, dict) else {},
    )


def _are_dicts(parts: object) -> bool:
    return isinstance(parts, list) and bool(parts) and all(isinstance(part, dict) for part in parts)


class StateFiles(CheckpointIO):
    """Lightning plugin that writes states atomically, and reads them without running code in them."""

    def save_checkpoint(self, checkpoint: LightningState, path: str | Path, storage_options: object = None) -> None:  # noqa: ARG002
        """Write a state, replacing the file; warn about objects that cannot be read without running code."""
        with replaced_when_complete(path, argument="path") as temporary:
            torch.save(checkpoint, temporary)
            find = getattr(torch.serialization, "get_unsafe_globals_in_checkpoint", None)  # from torch 2.6 on
            others = find(str(temporary)) if find is not None else ()
            if others:
                warnings.warn(
                    f"the state holds {', '.join(sorted(others))}, and could not be read again, since that could run "
                    "any code; use only dicts, lists, strings, numbers and tensors in the state of your callbacks",
                    UserWarning,
                    stacklevel=1,
                )

    def load_checkpoint(  # type: ignore[override]  # its parameters differ between versions of Lightning
        self,
        path: str | Path,
        map_location: object = None,  # noqa: ARG002
        **_: object,
    ) -> LightningState:
        """Return a state on the CPU.

        Raises:
            CheckpointError: The file is broken, or not a training state.
        """
        file = Path(path)
        try:
            state: LightningState = read_plain_objects(file)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {_ADVICE}") from error
        wrong = ["parts"]
        if isinstance(state, dict):
            loops, step = state.get("loops"), state.get("global_step")
            is_right = {
                "global_step": isinstance(step, int) and not isinstance(step, bool) and step >= 0,
                "state_dict": isinstance(state.get("state_dict"), dict),
                "loops": isinstance(loops, dict) and isinstance(loops.get("fit_loop"), dict),
                "callbacks": isinstance(state.get("callbacks"), dict),
                "optimizer_states": _are_dicts(state.get("optimizer_states")),
                "lr_schedulers": _are_dicts(state.get("lr_schedulers")),
            }
            wrong = [name for name, is_so in is_right.items() if not is_so]
        if wrong:
            raise CheckpointError(f"{file} is not a training state: invalid {', '.join(wrong)}. {_ADVICE}")
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        """Remove a state."""
        Path(path).unlink(missing_ok=True)
