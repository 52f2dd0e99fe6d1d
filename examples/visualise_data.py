"""Look at a dataset: its contents, samples of the AV and of an agent as pictures, and a scene as a GIF.

Run ``python examples/visualise_data.py`` with a synthetic city, or with ``--data FOLDER`` for your own data.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from l5kit.configs import load_config_data
from l5kit.data import PERCEPTION_LABELS, ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.geometry import transform_points
from l5kit.rasterization import build_rasterizer
from l5kit.synthetic import make_city
from l5kit.visualization import TARGET_POINTS_COLOR, draw_trajectory, write_gif, write_png

CONFIG = Path(__file__).with_name("visualisation_config.yaml")
GIF_FRAMES = 60


def main() -> None:
    """Write pictures of a dataset to a folder."""
    parser = argparse.ArgumentParser(description="Look at a dataset.")
    parser.add_argument("--data", type=Path, help="dataset folder or .zarr; default: generate a city")
    parser.add_argument("--out", type=Path, default=Path("visualise-out"), help="folder for the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    data = options.data or make_city(options.out / "city", num_scenes=2, overwrite=True).path
    files = find_dataset_files(data)
    dataset = ChunkedDataset(files.dataset).open()
    print(dataset)
    print_classes(dataset)

    cfg = load_config_data(str(CONFIG))
    cfg["raster_params"] |= {
        "semantic_map_key": str(files.semantic_map),
        "satellite_map_key": str(files.aerial),
        "dataset_meta_key": str(files.meta),
    }
    for map_type in ("py_semantic", "py_satellite"):
        cfg["raster_params"]["map_type"] = map_type
        rasterizer = build_rasterizer(cfg, LocalDataManager(""))
        ego, agents = EgoDataset(cfg, dataset, rasterizer), AgentDataset(cfg, dataset, rasterizer)
        write_png(options.out / f"ego-{map_type}.png", sample_as_rgb(ego, 50))
        write_png(options.out / f"agent-{map_type}.png", sample_as_rgb(agents, 0))
        scene = [sample_as_rgb(ego, int(index)) for index in ego.get_scene_indices(0)[:GIF_FRAMES]]
        write_gif(options.out / f"scene-{map_type}.gif", scene, cfg["raster_params"]["raster_size"], fps=10)
    print(f"pictures written to {options.out}")


def print_classes(dataset: ChunkedDataset) -> None:
    """Print the number of agent rows by most likely class."""
    likeliest = np.argmax(dataset.agents["label_probabilities"], axis=1)
    for label, count in Counter(likeliest.tolist()).most_common():
        print(f"{PERCEPTION_LABELS[label]:<36}{count:>9,}")


def sample_as_rgb(samples: EgoDataset, index: int) -> np.ndarray:
    """Return a sample as a picture with arrows along the target trajectory."""
    sample = samples[index]
    picture = samples.rasterizer.to_rgb(sample["image"].transpose(1, 2, 0))
    known = sample["target_availabilities"] > 0
    positions_px = transform_points(sample["target_positions"][known], sample["raster_from_agent"])
    draw_trajectory(
        picture,
        positions_px,
        TARGET_POINTS_COLOR,
        yaws=sample["target_yaws"][known],
        raster_from_agent=sample["raster_from_agent"],
    )
    return picture


if __name__ == "__main__":
    main()
