"""Memory of the index of a large log: no page of its files stays in a process, nor is any whole array held."""

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from l5kit.data import ChunkedDataset, user_cache
from l5kit.dataset import AgentDataset, masked_agents
from l5kit.dataset.mask_cache import mask_and_whether_kept
from l5kit.dataset.rank_sampler import SceneChoice

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "index_memory.py"
SMAPS = Path("/proc/self/smaps")

NUM_SCENES = 5_000
NUM_AGENTS = 1 << 23
INDEX_MB = 8 * NUM_AGENTS / 1e6

pytestmark = [
    pytest.mark.skipif(not SCRIPT.is_file(), reason="benchmarks are not part of the source distribution"),
    pytest.mark.skipif(not SMAPS.exists(), reason="only Linux tells what is mapped"),
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("index_memory", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def log(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of 8 million agent rows, which keeps its index and decodes its mask in files below ``tmp_path``."""
    monkeypatch.setenv(user_cache.CACHE_DIR_ENV_KEY, str(tmp_path / "cache"))
    monkeypatch.setattr(user_cache, "LARGE_NUM_BYTES", 1 << 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        script.make_log(tmp_path / "made.zarr", num_scenes=NUM_SCENES, num_agents=NUM_AGENTS)
    return tmp_path / "made.zarr"


def open_agents(script: ModuleType, log: Path, kind: type[AgentDataset] = AgentDataset) -> AgentDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return kind(script.CFG, ChunkedDataset(str(log)).open(), None)


def megabytes_of_files_below(folder: Path) -> float:
    """Return how much of files below a folder, those without a name too, lies in this process."""
    resident, file = 0, ""
    for line in SMAPS.read_text("utf-8").splitlines():
        words = line.split(maxsplit=5)
        if not words[0].endswith(":"):
            file = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:" and file.startswith(str(folder)):
            resident += int(words[1])
    return resident * 1024 / 1e6


def test_who_makes_the_files_holds_a_block_of_them(
    script: ModuleType, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = []

    def load(*args: Any) -> Any:
        loaded = mask_and_whether_kept(*args)
        mapped.append(megabytes_of_files_below(tmp_path))
        return loaded

    monkeypatch.setattr(masked_agents, "mask_and_whether_kept", load)

    class Watched(AgentDataset):
        def _mask_of_counts(self, counts: Any, first_row: int) -> Any:
            mapped.append(megabytes_of_files_below(tmp_path))
            return super()._mask_of_counts(counts, first_row)

    dataset = open_agents(script, log, Watched)
    assert len(mapped) == 9
    assert max(mapped) < 1
    assert megabytes_of_files_below(tmp_path) < 1
    assert_array_equal(dataset.agents_indices, np.flatnonzero(dataset.agents_mask))
    assert megabytes_of_files_below(tmp_path) > INDEX_MB * 0.9  # with a warning


def test_looking_samples_up_takes_no_page_of_a_file(script: ModuleType, log: Path, tmp_path: Path) -> None:
    open_agents(script, log)
    dataset = open_agents(script, log)
    sampler = SceneChoice(shuffle_by="scenes").sampler_of(dataset, shuffle=True, seed=0, drop_last=True)
    indices = iter(sampler)
    batches = np.array([next(indices) for _ in range(64 * 100)]).reshape(100, 64)
    places = [dataset.locate(batch) for batch in batches]
    large = dataset.locate(np.random.default_rng(0).integers(0, len(dataset), 20_000))
    single = [dataset.locate(np.array([index])) for index in batches[0]]
    of_scene = [dataset.get_scene_indices(scene) for scene in range(0, NUM_SCENES, 500)]
    assert megabytes_of_files_below(tmp_path) < 1
    rows = np.flatnonzero(dataset.agents_mask)
    assert_array_equal(np.concatenate([each.agent_rows for each in places]), rows[batches.reshape(-1)])
    assert len(large) == 20_000
    assert [int(each.agent_rows[0]) for each in single] == rows[batches[0]].tolist()
    ends = dataset.cumulative_sizes_agents
    for scene, of_one in zip(range(0, NUM_SCENES, 500), of_scene, strict=True):
        first = 0 if scene == 0 else ends[dataset.cumulative_sizes[scene - 1] - 1]
        bounds = np.searchsorted(rows, [first, ends[dataset.cumulative_sizes[scene] - 1]])
        assert_array_equal(of_one, np.arange(*bounds))


@pytest.mark.process
@pytest.mark.slow
def test_a_process_has_little_memory_of_its_own(script: ModuleType, log: Path) -> None:
    open_agents(script, log)
    command = [sys.executable, SCRIPT, "--open", log, "--processes", "1", "--indices", str(64 * 100)]
    told = json.loads(subprocess.check_output(command, env=os.environ))
    assert told["dirty MB in use"] < INDEX_MB
    assert told["clean MB in use"] < 3
