"""Kernels are compiled once: not again in workers, nor for batches after single samples, nor for other stores."""

import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoAgentDatasetVectorized, EgoDataset, EgoDatasetVectorized
from l5kit.dataset.select_agents import valid_agents
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.rasterization.combined_rasterizer import SemBoxRasterizer
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_several_scenes_log
from support.maps import FIXTURE_S_MAP, WORLD_TO_ECEF
from support.samples import make_cfg, make_stub
from support.vectors import make_vector_cfg

OPENINGS: list[dict[str, Any]] = [{}, {"cached": False}, {"cached": "mmap"}]


def kernels() -> dict[str, Any]:
    """Return the kernels of all modules of the package that are imported."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("l5kit.")]
    return {
        f"{kernel.__module__}.{kernel.__name__}": kernel
        for module in modules
        for kernel in vars(module).values()
        if isinstance(kernel, CPUDispatcher)
    }


def datasets(folder: Path) -> Iterator[Any]:
    cfg = make_cfg(raster_size=[32, 16])
    context = make_stub(cfg).render_context
    for opening in OPENINGS:
        log = ChunkedDataset(str(folder / "log.zarr")).open(**opening)
        rasterizer = SemBoxRasterizer(context, 0.5, 3, str(folder / "map.pb"), WORLD_TO_ECEF)
        yield EgoDataset(cfg, log, rasterizer)
        yield AgentDataset(cfg, log, rasterizer, min_frame_history=0, min_frame_future=0)
        vectorizer = Vectorizer(make_vector_cfg(), rasterizer.sem_rast.mapAPI)
        yield EgoDatasetVectorized(make_vector_cfg(), log, vectorizer)
        yield EgoAgentDatasetVectorized(make_vector_cfg(), log, vectorizer)


def draw(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many types each kernel has been compiled or loaded for: after single samples, after batches."""
    made = list(datasets(folder))
    for dataset in made:
        for index in (0, 5, len(dataset) - 1):
            dataset[index]
    single = {name: len(kernel.signatures) for name, kernel in kernels().items()}
    for dataset in made:
        for indices in ([0], [3, 9, 2], [len(dataset) - 1, 0]):
            dataset.__getitems__(indices)
    return single, {name: len(kernel.signatures) for name, kernel in kernels().items()}


def draw_in_process(folder: Path, found: Any) -> None:
    warnings.simplefilter("ignore")
    single, batches = draw(folder)
    missed = {name: sum(kernel.stats.cache_misses.values()) for name, kernel in kernels().items()}
    found.put((single, batches, missed))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Report of a spawned process about its kernels, after this one has drawn the same."""
    folder = tmp_path_factory.mktemp("kernels")
    make_several_scenes_log().save(folder / "log.zarr")
    (folder / "map.pb").write_bytes(FIXTURE_S_MAP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw(folder)
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=draw_in_process, args=(folder, answers))
    process.start()
    process.join()
    assert process.exitcode == 0, "run `python -m pytest`, whose folder the process can import from, too"
    return answers.get()


@pytest.mark.process
def test_a_worker_compiles_nothing_that_its_parent_has_compiled(found: Any) -> None:
    _, _, missed = found
    assert len(missed) > 20
    assert {name: count for name, count in missed.items() if count} == {}


@pytest.mark.process
def test_batches_need_no_types_that_single_samples_do_not(found: Any) -> None:
    single, batches, _ = found
    assert sum(single.values()) > 20
    assert {name: count for name, count in batches.items() if count > single.get(name, 0)} == {}


def test_kernels_of_a_sample_are_handed_what_they_fill(tmp_path: Path) -> None:
    """Each array that a kernel returns takes the time of a call of Python."""
    make_several_scenes_log().save(tmp_path / "log.zarr")
    (tmp_path / "map.pb").write_bytes(FIXTURE_S_MAP)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dataset in datasets(tmp_path):
            dataset[5]
    used = {name: kernel.nopython_signatures for name, kernel in kernels().items() if kernel.signatures}
    of_samples = (
        "data.index.windows",
        "sampling.tracks",
        "rasterization.box_rasterizer",
        "rasterization.semantic_rasterizer",
    )
    returned = {
        name: signature.return_type
        for name, signatures in used.items()
        for signature in signatures
        if name.removeprefix("l5kit.").rpartition(".")[0] in of_samples
    }
    assert len(returned) > 10
    assert [name for name, kind in returned.items() if "array" in str(kind).lower()] == []


def test_arrays_of_the_log_have_one_type_in_all_stores(tmp_path: Path) -> None:
    make_several_scenes_log().save(tmp_path / "log.zarr")
    types = set()
    for opening in OPENINGS:
        agents = ChunkedDataset(str(tmp_path / "log.zarr")).open(**opening).agents
        rows = agents.rows(3, 9)
        types.add((rows.dtype, rows.flags.writeable, rows.flags.c_contiguous, type(rows) is np.ndarray))
    assert len(types) == 1


@pytest.mark.process
def test_the_mask_needs_no_other_types_for_few_rows(tmp_path: Path) -> None:
    """Columns of one row or none are contiguous, those of more are not."""
    log = make_several_scenes_log()
    for number, (num_frames, num_agents) in enumerate([(4, 6), (4, 1), (4, 0), (1, 6), (1, 1), (1, 0)]):
        frames, agents = np.array(log.frames[:num_frames]), np.array(log.agents[:num_agents])
        ends = np.minimum(2 * np.arange(1, num_frames + 1), num_agents)
        ends[-1] = num_agents
        frames["agent_index_interval"] = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        frames["traffic_light_faces_index_interval"] = 0
        some = ChunkedDataset.in_memory(scenes=np.array(log.scenes[:1]), frames=frames, agents=agents)
        some.save(tmp_path / f"{number}.zarr")
        for dataset in (some, ChunkedDataset(str(tmp_path / f"{number}.zarr")).open()):
            found = valid_agents.find_valid_agents(dataset, 0, num_frames, thresholds=MaskThresholds(0.5))
            assert len(found.counts) == len(found.verdicts) == num_agents
        if number == 0:
            types = len(valid_agents._mark_rows_kernel.signatures)
    assert len(valid_agents._mark_rows_kernel.signatures) == types
