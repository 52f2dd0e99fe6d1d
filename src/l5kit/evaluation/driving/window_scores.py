"""Scores of windows: some seconds from frames of scenes on, each scored by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from l5kit._types import Float64Array, Int64Array
from l5kit.data.array_shapes import ReadOnlyArrays, require_shapes


@dataclass(frozen=True, eq=False)
class WindowScores(ReadOnlyArrays):
    """W windows of some scenes, and how well each was driven.

    Attributes:
        scenes: The scene of each, (W,).
        frames: Its first frame, counted in the frames that the scene is scored in, (W,).
        planned: Which part of it was planned: 1 for a plan of the whole window, less for one that ends before and goes
            on with the speed and turn of its end, 0 for what was driven, (W,).
        scores: 0 to 1, (W,).
        terms: By name what the scores are made of, 0 to 1, NaN where a term does not apply, (W,) each.

    Raises:
        InvalidArgumentError: The shapes do not fit.
    """

    scenes: Int64Array
    frames: Int64Array
    planned: Float64Array
    scores: Float64Array
    terms: Mapping[str, Float64Array]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.scenes.shape
        require_shapes(self, frames=shape, planned=shape, scores=shape)
