"""Recordings of the closed loop, whose models are networks, are not compared where torch is not installed."""

from importlib.util import find_spec

collect_ignore = (
    []
    if find_spec("torch")
    else [
        "test_closed_loop_metrics.py",
        "test_environment.py",
        "test_simulation.py",
    ]
)
