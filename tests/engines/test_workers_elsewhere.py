"""Workers with another working directory, and such that do not see the folder that is written to."""

import json
import os
import pickle
import shutil
from concurrent.futures import Executor, Future
from pathlib import Path

import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.data import ChunkedDataset
from l5kit.data.digests.manifest import Manifest
from l5kit.data.interop import export_columns, export_parquet, export_py123d
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import EngineError
from l5kit.readers.formats import open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.resampling import resample_dataset


class Elsewhere(Executor):
    """Carries out what it is sent as another process would, in another folder.

    Args:
        folder: The folder.
        hidden: Names of what is out of its sight.
    """

    _max_workers = 2

    def __init__(self, folder, hidden=""):
        self._folder, self._hidden = folder, hidden

    def submit(self, fn, /, *args, **kwargs):
        sent, here, done = pickle.dumps((fn, args, kwargs)), Path.cwd(), Future()
        hidden = [path.rename(here / f"hidden-{path.name}") for path in here.glob(self._hidden or "none")]
        os.chdir(self._folder)
        try:
            fn, args, kwargs = pickle.loads(sent)
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        finally:
            os.chdir(here)
            for path in hidden:
                path.rename(here / path.name.removeprefix("hidden-"))
        return done


@pytest.fixture
def source(city, tmp_path, monkeypatch):
    """A dataset in the working directory, by its name; workers are in another one."""
    shutil.copytree(city, tmp_path / "here" / "city")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return "city/scenes/sample.zarr"


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_mask_of_a_log_that_is_named_from_here(source, tmp_path):
    log, thresholds = ChunkedDataset(source).open(), MaskThresholds(0.5)
    wanted, _ = compute_agents_mask(log, thresholds)
    found, _ = compute_agents_mask(log, thresholds, workers=Elsewhere(tmp_path / "elsewhere"))
    assert (found == wanted).all()
    assert wanted.any()


def test_the_manifest_of_a_folder_that_is_named_from_here(source, tmp_path):
    assert Manifest.of("city", workers=Elsewhere(tmp_path / "elsewhere")) == Manifest.of("city")


OWN_PLANNER = """
from l5kit.simulation.drivers.simple import ConstantVelocity


class Own(ConstantVelocity):
    pass
"""


@pytest.mark.parametrize("planner", ["own.py:Own", "idm", "vector_planner.safetensors"])
def test_a_simulation_by_a_planner_that_is_named_from_here(source, tmp_path, planner):
    Path("own.py").write_text(OWN_PLANNER)
    if planner.endswith(".safetensors"):
        pytest.importorskip("torch")
        from support.networks import save_network

        save_network("vector_planner", Path("city"), Path())
    told = []
    for folder, workers in (("plain", 1), ("sent", Elsewhere(tmp_path / "elsewhere"))):
        options = ClosedLoopOptions(scenes=[0, 1], num_frames=5, batch_size=1, workers=workers, show_bar=False)
        simulate("city", folder, planner=planner, options=options)
        told.append({name: content for name, content in files_in(Path(folder)).items() if name != Path("run.json")})
        assert json.loads(Path(folder, "run.json").read_text())["planner"] == planner
    assert told[0] == told[1]


EXPORTS = {
    "columns": lambda log, out, **how: export_columns(log, out, **how),
    "parquet": lambda log, out, **how: export_parquet(log, out, **how),
    "py123d": lambda log, out, **how: export_py123d(log, out, **how),
    "resample": lambda log, out, **how: resample_dataset(log.path, out, step_time_s=0.5, **how),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_files_that_workers_write(source, tmp_path, kind):
    if kind in ("parquet", "py123d"):
        pytest.importorskip("pyarrow")
    log = ChunkedDataset(source).open()
    EXPORTS[kind](log, "plain")
    EXPORTS[kind](log, "sent", workers=Elsewhere(tmp_path / "elsewhere"))
    assert files_in(tmp_path / "here" / "sent") == files_in(tmp_path / "here" / "plain")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("kind", ["columns", "parquet", "py123d"])
def test_a_folder_that_workers_do_not_see_is_named_and_not_made(source, tmp_path, kind):
    if kind != "columns":
        pytest.importorskip("pyarrow")
    before = sorted(path.name for path in Path().iterdir())
    with pytest.raises(EngineError, match=r"a worker cannot find the folder '.*out.*' for its output"):
        EXPORTS[kind](ChunkedDataset(source).open(), "out", workers=Elsewhere(tmp_path / "elsewhere", ".out.*"))
    assert sorted(path.name for path in Path().iterdir()) == before


def test_an_import_is_told_that_workers_do_not_see_its_folder(source, tmp_path):
    pytest.importorskip("pyarrow")
    from support import argoverse2_files

    for number in range(3):
        argoverse2_files.write_scenario(Path("av2") / "val", f"0000000{number}-0000-4000-8000-000000000000")
    import_dataset(open_reader("argoverse2", "av2"), "plain")
    import_dataset(open_reader("argoverse2", "av2"), "sent", workers=Elsewhere(tmp_path / "elsewhere"))
    assert files_in(Path("sent")) == files_in(Path("plain"))
    with pytest.raises(EngineError, match=r"out\.parts' for its output; name a folder"):
        import_dataset(open_reader("argoverse2", "av2"), "out", workers=Elsewhere(tmp_path / "elsewhere", "out.parts"))
    assert not Path("out").exists()
