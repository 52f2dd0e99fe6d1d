"""What every perturbation of the AV's path offers."""

from abc import ABC, abstractmethod

from l5kit._types import RecordArray


class Perturbation(ABC):
    """Base of the perturbations: an object that replaces the recorded path of the AV by another one."""

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
        """Go on with the random stream that belongs to ``seed``; nothing happens in perturbations that draw no numbers.

        Each worker of a DataLoader calls this with a seed of its own, so that workers draw differently and
        reproducibly.

        Args:
            seed: At least 0.
        """
