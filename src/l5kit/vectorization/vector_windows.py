"""The parts of a log that a batch of vector samples shows."""

from dataclasses import dataclass

from l5kit._types import BoolArray, Float32Array, Float64Array, NumericArray
from l5kit.data.window_rows import WindowRows
from l5kit.errors import InvalidArgumentError


@dataclass(frozen=True)
class VectorWindows:
    """B windows of a log, each seen by its target.

    Attributes:
        agents: Agents of the H history frames, newest first, and behind them of the future frames, (B, H + F).
        num_history: H, the current frame included.
        tl_faces: Traffic light faces of at least the newest frame; (B, 0) for none at all.
        track_ids: The targets, (B,), in the type of the agents' field; None when it is the AV in all windows.
        centroids_m: World positions of the targets in the newest frame, (B, 2).
        yaws_rad: Their world headings, (B,).
        agent_from_world: Their frames, (B, 3, 3).
        history_positions_m: The past of the targets in their frames, (B, H, 2).
        history_yaws_rad: Headings likewise, (B, H, 1).
        history_availabilities: Where their past is known, (B, H).

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    agents: WindowRows
    num_history: int
    tl_faces: WindowRows
    track_ids: NumericArray | None
    centroids_m: Float64Array
    yaws_rad: Float64Array
    agent_from_world: Float64Array
    history_positions_m: Float32Array
    history_yaws_rad: Float32Array
    history_availabilities: BoolArray

    def __post_init__(self) -> None:
        num_windows = len(self)
        past = num_windows, *self.history_positions_m.shape[1:2]
        expected = {
            "centroids_m": (num_windows, 2),
            "yaws_rad": (num_windows,),
            "agent_from_world": (num_windows, 3, 3),
            "history_positions_m": (*past, 2),
            "history_yaws_rad": (*past, 1),
            "history_availabilities": past,
        }
        found = {name: getattr(self, name).shape for name in expected}
        if found != expected or self.agents.starts.shape[1] < self.num_history:
            raise InvalidArgumentError(
                f"shapes do not fit: {found}, agents {self.agents.starts.shape}, {self.num_history} history frames"
            )

    def __len__(self) -> int:
        return len(self.agents.starts)

    @property
    def num_future(self) -> int:
        """Future frames."""
        num_frames: int = self.agents.starts.shape[1]
        return num_frames - self.num_history
