"""Several processes build the agents mask of one dataset at once, and one of them is killed."""

import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from l5kit.data.user_cache import cache_folder
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from support.logs import make_several_scenes_log
from support.processes.agents_mask import compute_slowly, stop_in_the_middle

NUM_PROCESSES = 3
PATIENCE_S = 120
"""Far more than anything takes; whoever hangs fails the test."""


@pytest.mark.long
@pytest.mark.process
def test_c2_nobody_hangs_or_reads_half_a_mask_when_a_process_is_killed(tmp_path: Path) -> None:
    log = make_several_scenes_log()
    path, results = str(tmp_path / "log.zarr"), [tmp_path / f"{k}.npz" for k in range(NUM_PROCESSES)]
    log.save(path)
    spawn = multiprocessing.get_context("spawn")

    is_computing = spawn.Event()
    killed = spawn.Process(target=stop_in_the_middle, args=(path, is_computing), daemon=True)
    killed.start()
    assert is_computing.wait(PATIENCE_S)

    are_ready = [spawn.Event() for _ in results]
    others = [
        spawn.Process(target=compute_slowly, args=(path, is_ready, str(result)), daemon=True)
        for is_ready, result in zip(are_ready, results, strict=True)
    ]
    for process in others:
        process.start()
    assert all(is_ready.wait(PATIENCE_S) for is_ready in are_ready)
    time.sleep(0.5)
    assert not any(result.exists() for result in results), "they wait while the first one computes"

    killed.kill()
    for process in [killed, *others]:
        process.join(PATIENCE_S)
    assert killed.exitcode != 0
    assert [process.exitcode for process in others] == [0] * NUM_PROCESSES

    expected, _ = compute_agents_mask(ChunkedDataset(path).open(), MaskThresholds(0.5))
    computed_scenes = []
    for result in results:
        with np.load(result) as found:
            np.testing.assert_array_equal(found["mask"], expected)
            computed_scenes.append(int(found["computed_scenes"]))
    assert sorted(computed_scenes) == [0, 0, len(log.scenes)], "one computes all scenes, the others read its mask"
    assert len(list((cache_folder() / "agents_mask").glob("*.npy"))) == 1
    assert not list((cache_folder() / "agents_mask").glob(".*.npy"))
