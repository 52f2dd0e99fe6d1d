"""The agents mask and the speed of sampling as lines of cells, for tables and pages."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from l5kit._types import UInt32Array
from l5kit.dataset.select_agents.selection import TABLE_STEPS, mask_table
from l5kit.dataset.utils import AGENT_MIN_FRAME_FUTURE, AGENT_MIN_FRAME_HISTORY
from l5kit.visualization.tour import SamplingSpeed

MASK_TITLE: Final = "Agent rows by past and future frames of their track (0 / 0 counts everything)"
MASK_COLUMNS: Final = ("Past frames", *(f"{step} future" for step in TABLE_STEPS))
SPEED_COLUMNS: Final = ("Dataset", "Map", "Samples in it", "Image", "Made", "Samples per second")


def mask_facts(mask: UInt32Array) -> dict[str, int]:
    """Return how many agent rows a mask has, and how many of them ``AgentDataset`` takes by default."""
    taken = (mask[:, 0] >= AGENT_MIN_FRAME_HISTORY) & (mask[:, 1] >= AGENT_MIN_FRAME_FUTURE)
    return {"agent_rows": len(mask), "agent_rows_taken_by_default": int(np.count_nonzero(taken))}


def mask_rows(mask: UInt32Array) -> list[list[str]]:
    """Return, for 0, 10, 30 and 50 past frames, how many agent rows have at least 0, 10, 30 and 50 future ones too."""
    table = mask_table(mask).tolist()
    return [
        [f"at least {step}", *(f"{count:,}" for count in counts)]
        for step, counts in zip(TABLE_STEPS, table, strict=True)
    ]


def speed_rows(speeds: Sequence[SamplingSpeed]) -> list[list[str]]:
    """Return a line of cells for each class and kind of map."""
    return [
        [
            speed.dataset,
            speed.map_kind,
            f"{speed.num_available:,}",
            " x ".join(map(str, speed.image_shape)) or "-",
            f"{speed.num_samples:,}",
            f"{speed.samples_per_s:,.0f}",
        ]
        for speed in speeds
    ]
