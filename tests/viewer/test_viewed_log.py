"""A dataset as the page asks for it."""

import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")

from l5kit.data import ChunkedDataset
from l5kit.errors import L5KitError
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.cities import NUM_SCENES
from support.logs import make_agent, make_agents, make_scene


def test_the_row_of_a_scene_is_that_of_the_table(city_files):
    log = ViewedLog(city_files)
    columns = log.scene_columns
    for index in range(NUM_SCENES):
        row = log.scene_row(index)
        assert row.pop("error") == row.pop("doubt") == {}
        assert row == {name: [columns[name][index]] for name in row}


def test_reading_the_table_ends_when_the_log_is_closed(city_files):
    log = ViewedLog(city_files)
    log.close()
    with pytest.raises(L5KitError, match="the viewer has been closed"):
        log.scene_columns  # noqa: B018


def test_a_map_that_cannot_be_read_is_not_offered_for_samples(city_files, tmp_path):
    damaged = tmp_path / "semantic_map.pb"
    shutil.copy(city_files.semantic_map, damaged)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    log = ViewedLog(replace(city_files, semantic_map=damaged))
    assert not log.facts()["has_map"]
    assert "semantic" not in log.sample_kinds
    assert any("the map is not shown" in note for note in log.notes)
    assert ViewedLog(city_files).sample_kinds[0] == "semantic"


READ_ALL = """
import sys
from pathlib import Path
from numba.core.registry import CPUDispatcher
from l5kit.data.dataset_files import DatasetFiles
from l5kit.visualization.viewer.viewed_log import ViewedLog

def num_types():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("l5kit.")]
    kernels = {kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, CPUDispatcher)}
    return {kernel.__name__: len(kernel.signatures) for kernel in kernels if kernel.signatures}

dataset, semantic_map, meta = map(Path, sys.argv[1:])
log = ViewedLog(DatasetFiles(dataset, semantic_map, meta, None, ()))
log.prepare_reading()
prepared = num_types()
for scene_index in range(log.num_scenes):
    log.scene_bytes(scene_index)
log.scene_columns, log.map_bytes
read = num_types()
assert "_mark_rows_kernel" in read, read
assert read == prepared, (prepared, read)
"""


@pytest.mark.process
def test_reading_needs_no_kernel_that_is_not_there_after_the_preparation(city, city_log, tmp_path):
    """Whatever the size of a scene: one that had to be compiled would wait for those of samples."""
    agents = [make_agent(track, (5 * track, 4)) for track in range(3)]
    sizes = [(1, 0), (1, 1), (1, 3), (2, 0), (5, 1), (5, 3)]
    odd = [make_scene([make_agents(*agents[:num_agents])] * num_frames) for num_frames, num_agents in sizes]
    path = tmp_path / "a.zarr"
    ChunkedDataset.concatenate([city_log, *odd]).save(path)
    files = [path, city / "semantic_map" / "semantic_map.pb", city / "meta.json"]
    done = subprocess.run([sys.executable, "-c", READ_ALL, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_log_is_closed_with_its_server(city_files, monkeypatch):
    log, closed = ViewedLog(city_files), []
    monkeypatch.setattr(log, "close", lambda: closed.append(True))
    with ViewerServer(log):
        assert closed == []
    assert closed == [True]
