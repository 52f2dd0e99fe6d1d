"""Dataset summary: counts and times of a dataset, and the table that shows them."""

import warnings
from dataclasses import dataclass

import numpy as np

from l5kit._types import Float64Array, Records
from l5kit.data.record_sequence import rows_of
from l5kit.data.records import FRAME_INTERVAL

_FRAMES_FOR_FREQUENCY = 50
_STEP_TOLERANCE = 1.25


@dataclass(frozen=True)
class DatasetSummary:
    """Counts and frame rate of a dataset.

    Attributes:
        num_scenes: Number of scenes.
        num_frames: Number of frames.
        num_agents: Number of agent rows.
        num_tl_faces: Number of traffic light face rows.
        frequency_hz: Median frame rate inside scenes.
    """

    num_scenes: int
    num_frames: int
    num_agents: int
    num_tl_faces: int
    frequency_hz: float

    @property
    def total_time_h(self) -> float:
        """Recorded hours."""
        return self.num_frames / max(self.frequency_hz, 1) / 3600

    @property
    def frames_per_scene(self) -> float:
        """Mean number of frames per scene."""
        return self.num_frames / max(self.num_scenes, 1)

    @property
    def agents_per_frame(self) -> float:
        """Mean number of agent rows per frame."""
        return self.num_agents / max(self.num_frames, 1)

    @property
    def scene_time_s(self) -> float:
        """Mean duration of a scene."""
        return self.frames_per_scene / self.frequency_hz

    def as_columns(self) -> dict[str, int | float]:
        """Return title and value of each table column."""
        return {
            "Num Scenes": self.num_scenes,
            "Num Frames": self.num_frames,
            "Num Agents": self.num_agents,
            "Num TR lights": self.num_tl_faces,
            "Total Time (hr)": self.total_time_h,
            "Avg Frames per Scene": self.frames_per_scene,
            "Avg Agents per Frame": self.agents_per_frame,
            "Avg Scene Time (sec)": self.scene_time_s,
            "Avg Frame frequency": self.frequency_hz,
        }


def summarize_frames(
    scenes: Records, frames: Records, num_agents: int, num_tl_faces: int, *, step_time_s: float = 0.1
) -> DatasetSummary:
    """Return the summary of a dataset with these scenes and frames.

    The frame rate is the median over the first frames, except steps across scene borders. If there are too few frames,
    the rate of ``step_time_s`` (seconds between two frames) is assumed, with a ``RuntimeWarning``.
    """
    steps_ns = _steps_inside_scenes(scenes, frames)
    if len(steps_ns) == 0:
        frequency_hz = 1.0 / step_time_s
        message = f"too few frames to measure the frame rate; {frequency_hz:g} Hz is assumed"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    else:
        frequency_hz = float(1e9 / np.median(steps_ns))
    return DatasetSummary(len(scenes), len(frames), num_agents, num_tl_faces, frequency_hz)


def find_other_step_time(scenes: Records, frames: Records, *, step_time_s: float) -> str | None:
    """Return a text if timestamps contradict the step time in the facts of a log; None if they agree.

    The median over the first frames may be up to a quarter longer or shorter, as vehicle clocks are inexact.

    Args:
        scenes: Scenes of the log.
        frames: Frames of the log.
        step_time_s: Step time from the facts, or that of L5Kit 1.5 for logs without facts.
    """
    steps_ns = _steps_inside_scenes(scenes, frames)
    measured_s = float(np.median(steps_ns)) * 1e-9 if len(steps_ns) else step_time_s
    if step_time_s / _STEP_TOLERANCE <= measured_s <= step_time_s * _STEP_TOLERANCE:
        return None
    return (
        f"frames are {measured_s:.3g} s apart by their timestamps, but taken for {step_time_s:g} s apart, so that "
        f"speeds are wrong; give the log its facts (the attribute step_time_s, {measured_s:.3g}; LogFacts in Python)"
    )


def _steps_inside_scenes(scenes: Records, frames: Records) -> Float64Array:
    """Return the positive time steps (ns) between the first frames, except across scene borders."""
    timestamps_ns = rows_of(frames, slice(0, min(_FRAMES_FOR_FREQUENCY, len(frames))))["timestamp"].astype(np.float64)
    steps_ns = np.diff(timestamps_ns)
    first_scenes = rows_of(scenes, slice(0, min(_FRAMES_FOR_FREQUENCY, len(scenes))))
    scene_ends = first_scenes[FRAME_INTERVAL][:, 1]
    inside = ~np.isin(np.arange(1, len(timestamps_ns)), scene_ends)
    return steps_ns[inside & (steps_ns > 0)]


def text_table(columns: dict[str, int | float]) -> str:
    """Return a bordered table with one row; floats have two decimals."""
    values = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in columns.values()]
    widths = [max(len(title), len(value)) for title, value in zip(columns, values, strict=True)]
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = []
    for texts in (list(columns), values):
        # centre each cell; an odd blank goes after odd texts and before others, as in PrettyTable
        cells = []
        for text, width in zip(texts, widths, strict=True):
            before = (width - len(text) + (len(text) + 1) % 2) // 2
            cells.append(f" {' ' * before}{text}".ljust(width + 1) + " ")
        lines.append(f"|{'|'.join(cells)}|")
    return "\n".join([border, lines[0], border, lines[1], border])
