"""Vector samples per second of an imported log, compared with the same log in the native format.

PYTHONPATH=src python benchmarks/imported_samples.py [--passes 7]

A synthetic city is exported as py123d and imported again, which gives equal frames and agents. Passes alternate, so
drift of the machine cancels; seconds are processor seconds.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from l5kit.configs import load_training_config
from l5kit.data import ChunkedDataset, LocalDataManager, find_dataset_files
from l5kit.data.interop import export_py123d
from l5kit.dataset import EgoDatasetVectorized
from l5kit.readers.formats import open_reader
from l5kit.readers.importing import import_dataset
from l5kit.synthetic import make_city
from l5kit.vectorization import build_vectorizer

BATCH_SIZE = 32


def main() -> None:
    """Write both datasets, measure them in alternating passes, and print a table."""
    parser = argparse.ArgumentParser(description="Vector samples of an imported log.")
    parser.add_argument("--scenes", type=int, default=4)
    parser.add_argument("--passes", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="l5kit-imported-") as scratch:
        native, source, imported = (Path(scratch) / name for name in ("native", "source", "imported"))
        make_city(native, num_scenes=options.scenes)
        files = find_dataset_files(native)
        export_py123d(ChunkedDataset(str(files.dataset)).open(), source, files=files)
        import_dataset(open_reader("py123d", source), imported)
        samples = {"native": open_samples(native), "imported": open_samples(imported)}
        rates: dict[str, list[float]] = {name: [] for name in samples}
        for passed in range(-1, options.passes):  # warm-up pass, which compiles and reads
            for name in samples if passed % 2 else reversed(samples):
                rate = draw_all(samples[name])
                if passed >= 0:
                    rates[name].append(rate)
    print("| log | samples | batches of 32, samples a second of processor time | in single passes |\n|---|---|---|---|")
    for name, of_name in rates.items():
        cells = f"{statistics.median(of_name):,.0f} | {min(of_name):,.0f} to {max(of_name):,.0f}"
        print(f"| {name} | {len(samples[name]):,} | {cells} |")
    ratios = [new / old for new, old in zip(rates["imported"], rates["native"], strict=True)]
    print(f"\nimported / native: {statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})")


def open_samples(folder: Path) -> EgoDatasetVectorized:
    """Return the samples of the AV on which `vector_planner` trains."""
    cfg, files = load_training_config("vector_planner"), find_dataset_files(folder)
    assert files.semantic_map is not None
    assert files.meta is not None
    keys = {"semantic_map_key": files.semantic_map, "dataset_meta_key": files.meta}
    cfg["raster_params"] |= {name: str(Path(file).relative_to(folder)) for name, file in keys.items()}
    log = ChunkedDataset(str(files.dataset)).open()
    return EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(folder)))


def draw_all(samples: EgoDatasetVectorized) -> float:
    """Draw all samples in random order, and return samples per processor second."""
    order = np.random.default_rng(0).permutation(len(samples))
    start_s = time.process_time()
    for first in range(0, len(order), BATCH_SIZE):
        samples.make_columns(order[first : first + BATCH_SIZE].tolist())
    return len(samples) / (time.process_time() - start_s)


if __name__ == "__main__":
    main()
