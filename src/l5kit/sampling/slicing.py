"""Slices of the frames before and after a frame."""

import operator

from l5kit.data.index.windows import StepSizeError, as_step_size


def get_history_slice(
    frame_index: int, history_num_states: int, history_step_size: int, include_current_state: bool = False
) -> slice:
    """Return the slice of past frames, newest first, truncated at the first frame.

    Args:
        frame_index: The current frame.
        history_num_states: Number of past steps.
        history_step_size: Frames per step.
        include_current_state: Whether the slice starts with the current frame.

    Raises:
        IndexError: The step size is not positive.
    """
    frame_index, history_num_states = operator.index(frame_index), operator.index(history_num_states)
    history_step_size = as_step_size("history_step_size", history_step_size)
    latest = frame_index if include_current_state else frame_index - history_step_size
    if latest < 0:
        return slice(0, 0, -history_step_size)
    stop: int | None = frame_index - history_num_states * history_step_size - 1
    if stop is not None and stop < 0:
        stop = None if frame_index % history_step_size == 0 else 0
    return slice(latest, stop, -history_step_size)


def get_future_slice(frame_index: int, future_num_states: int, future_step_size: int) -> slice:
    """Return the slice of future frames, nearest first; it may reach beyond the last frame.

    Args:
        frame_index: The current frame.
        future_num_states: Number of future steps.
        future_step_size: Frames per step.

    Raises:
        IndexError: The step size is not positive.
    """
    frame_index, future_num_states = operator.index(frame_index), operator.index(future_num_states)
    future_step_size = as_step_size("future_step_size", future_step_size)
    first = frame_index + future_step_size
    return slice(first, frame_index + future_num_states * future_step_size + 1, future_step_size)


__all__ = ["StepSizeError", "get_future_slice", "get_history_slice"]
