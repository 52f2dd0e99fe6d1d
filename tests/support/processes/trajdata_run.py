"""Process in which the real trajdata reads a synthetic city through l5kit; it writes the result as .npz.

Usage: ``python trajdata_run.py ZARR CACHE OUT``.
"""

import sys
from pathlib import Path

import numpy as np

vars(np)["string_"] = np.bytes_  # trajdata 1.4.0 has the name that NumPy 2 took away

from torch.utils.data import DataLoader  # noqa: E402
from trajdata import UnifiedDataset  # noqa: E402
from trajdata.caching.df_cache import DataFrameCache  # noqa: E402
from trajdata.maps import MapAPI  # noqa: E402


def main(zarr: str, cache: str, out: str) -> None:
    """Cache a city, take a batch, and write one scene and the map."""
    import l5kit

    dataset = UnifiedDataset(
        desired_data=["lyft_sample-mini_val-palo_alto"],
        data_dirs={"lyft_sample": zarr},
        cache_location=cache,
        num_workers=0,
        verbose=True,
        incl_vector_map=True,
        history_sec=(0.5, 0.5),
        future_sec=(0.5, 0.5),
        desired_dt=0.1,
    )
    batch = next(iter(DataLoader(dataset, batch_size=4, collate_fn=dataset.get_collate_fn())))
    scene = next(iter(dataset.scenes()))
    rows = DataFrameCache(Path(cache), scene).scene_data_df.reset_index()
    vector_map = MapAPI(Path(cache)).get_map("lyft_sample:palo_alto", incl_ped_crosswalks=True)
    lanes = {lane.id: lane for lane in vector_map.lanes}
    np.savez(
        out,
        l5kit=l5kit.__file__,
        num_scenes=dataset.num_scenes(),
        num_samples=len(dataset),
        scene_index=scene.raw_data_idx,
        agent_ids=rows["agent_id"].to_numpy(str),
        frame_numbers=rows["scene_ts"].to_numpy(int),
        states=rows[["x", "y", "vx", "vy", "heading", "length", "width", "height"]].to_numpy(float),
        future_shape=batch.agent_fut.shape,
        lane_ids=np.array(list(lanes)),
        left_0=next(iter(lanes.values())).left_edge.points[:, :3],
        num_next=sum(len(lane.next_lanes) for lane in lanes.values()),
        num_crosswalks=sum(1 for element in vector_map.iter_elems() if type(element).__name__ == "PedCrosswalk"),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
