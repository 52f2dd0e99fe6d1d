"""The policy whose plan the page of ``l5kit drive`` shows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PagePolicy:
    """A policy as the page takes it.

    Attributes:
        name: What it is called.
        step_time_s: Seconds of a step; scenes with other steps are shown without its plan.
        content: Facts and weights, packed by :func:`~l5kit.visualization.viewer.packed_arrays.pack_arrays`.
    """

    name: str
    step_time_s: float
    content: bytes
