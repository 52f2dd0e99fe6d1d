"""Base class of perturbations of the AV's path."""

from abc import ABC, abstractmethod

from l5kit._types import RecordArray


class Perturbation(ABC):
    """Base of the perturbations: objects that replace the recorded path of the AV by another path."""

    @abstractmethod
    def perturb(self, history_frames: RecordArray, future_frames: RecordArray) -> tuple[RecordArray, RecordArray]:
        """Return history and future frames with another path of the AV.

        Args:
            history_frames: Frames, newest (the current one) first.
            future_frames: Frames, nearest first.

        Returns:
            History and future frames in the order and with the lengths of the arguments.
        """

    def reseed(self, seed: int) -> None:  # noqa: B027 - perturbations that draw nothing have nothing to reseed
        """Restart the random stream from ``seed``; no effect on perturbations that draw no random numbers.

        Each worker of a DataLoader calls this with its own seed, so that workers draw different, reproducible numbers.

        Args:
            seed: At least 0.
        """
