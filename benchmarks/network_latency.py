"""Latency of networks for 1 and 64 samples on one thread: torch, torch.compile and onnxruntime.

    OMP_NUM_THREADS=1 python benchmarks/network_latency.py city/scenes/sample.zarr route_planner [more weights ...]

Prints the table of docs/models.md in Markdown: median milliseconds of thread time, which does not depend on other load.
torch.compile needs a C++ compiler; without one, its column is empty.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import l5kit
from l5kit.dataset import collate
from l5kit.planning.network_inputs import network_inputs
from l5kit.workflows import export_network

SIZES = (1, 64)


def median_ms(network: Callable[[object], object], batch: object, *, seconds: float = 2.0) -> float:
    """Return the median time of a call, after a warm-up call."""
    network(batch)
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 5:
        start = time.thread_time()
        network(batch)
        taken.append(time.thread_time() - start)
    return 1e3 * float(np.median(taken))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("weights", nargs="+")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| network | samples | torch | torch.compile | onnxruntime |\n|---|---|---|---|---|")
    for weights in asked.weights:
        model = l5kit.load_model(weights, device="cpu")
        samples = model.samples_of(asked.log)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            export_network(model, Path(folder) / "network.onnx", log=asked.log)
            exported = l5kit.load_model(Path(folder) / "network.onnx").network
            for size in SIZES:
                batch = network_inputs(collate([samples[row % len(samples)] for row in range(size)]))
                found = [f"{median_ms(run, batch):.2f} ms" for run in (model.network, exported)]
                try:
                    ms = f"{median_ms(torch.compile(model.network), batch):.2f} ms"
                except Exception as error:  # errors of compilers, which may be missing
                    print(f"torch.compile: {error}", file=sys.stderr)
                    ms = "none"
                print(f"| `{Path(weights).stem}` | {size} | {found[0]} | {ms} | {found[1]} |", flush=True)


if __name__ == "__main__":
    main()
