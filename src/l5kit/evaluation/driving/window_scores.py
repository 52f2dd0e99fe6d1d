"""Scores of windows: some seconds from frames of scenes on, each scored by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes

__all__ = ["WindowScores"]


@dataclass(frozen=True, eq=False)
class WindowScores(ReadOnlyArrays):
    """W windows of some scenes, and how well each was driven.

    Attributes:
        scenes: The scene of each, (W,).
        frames: Its first frame, counted in the frames that the scene is scored in, (W,).
        is_planned: Whether it is a plan that was rolled out; else it is what was driven, (W,).
        scores: 0 to 1, (W,).
        terms: By name what the scores are made of, 0 to 1, NaN where a term does not apply, (W,) each.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    frames: Int64Array
    is_planned: BoolArray
    scores: Float64Array
    terms: Mapping[str, Float64Array]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.scenes.shape
        require_shapes(self, frames=shape, is_planned=shape, scores=shape)
