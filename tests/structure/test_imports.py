"""Imports of l5kit have no side effects: nothing is printed, warned, set or loaded without need.

Each case runs in a fresh interpreter, in which every warning is an error, and imports some modules one after another.
"""

import json
import os
import subprocess
import sys

import pytest

from l5kit.errors import install_command

pytestmark = [pytest.mark.timeout(300), pytest.mark.process]

# Packages that opening a dataset must not load, or even need.
PLOTTING = ("PIL", "av", "bokeh", "imageio", "matplotlib")
LATE = ("torch", "gymnasium", "shapely", "rich", "typer", *PLOTTING)

# Libraries that set warning filters on import, which is not the fault of l5kit.
ALLOWED = ("numba", "scipy.optimize", "zarr")

PROBE = """
import importlib, json, os, sys

for blocked in {blocked!r}:
    sys.modules[blocked] = None
import cv2, multiprocessing, numpy, warnings

def state():
    return {{
        "environment": dict(os.environ),
        "cv2 threads": cv2.getNumThreads(),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "numpy errors": numpy.geterr(),
        "random state": str(numpy.random.get_state()[1][:4]),
        "warning filters": [str(entry) for entry in warnings.filters],
        "working folder": os.getcwd(),
    }}

for library in {before!r}:
    importlib.import_module(library)
changed = []
for module in {modules!r}:
    before = state()
    importlib.import_module(module)
    after = state()
    changed += [(module, key) for key in before if before[key] != after[key]]
print(json.dumps({{"changed": changed, "loaded": sorted(sys.modules)}}))
"""


def probe(*modules, blocked=(), before=ALLOWED):
    """Import the modules in a new process and return what it changed and loaded."""
    source = PROBE.format(modules=modules, blocked=tuple(blocked), before=tuple(before))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHONWARNINGS"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_import_loads_no_torch_and_no_plotting_and_changes_nothing():
    seen = probe("l5kit", "l5kit.geometry", "l5kit.data", "l5kit.rasterization", "l5kit.sampling")
    assert seen["changed"] == []
    assert [name for name in LATE if name in seen["loaded"]] == []


def test_load_model_is_there_without_loading_anything_before():
    source = (
        "import sys, l5kit\nassert 'torch' not in sys.modules\nload = l5kit.load_model\nassert 'torch' in sys.modules\n"
        "from l5kit import load_model\nassert load is load_model and not hasattr(l5kit, 'load_models')"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


def test_import_of_the_datasets_loads_torch_and_changes_nothing():
    """Row A6 of the defects: 1.5 set an environment variable and on macOS the start method."""
    pytest.importorskip("torch")
    seen = probe("l5kit.dataset", "l5kit.dataset.select_agents", before=[*ALLOWED, "torch"])
    assert seen["changed"] == []
    assert "torch" in seen["loaded"]
    assert [name for name in PLOTTING if name in seen["loaded"]] == []


def test_import_of_the_pictures_changes_nothing():
    visualizer = "l5kit.visualization.visualizer"
    seen = probe("l5kit.visualization", f"{visualizer}.zarr_utils", f"{visualizer}.visualizer")
    assert seen["changed"] == []
    assert [name for name in ("torch", "av", "bokeh", "imageio", "matplotlib") if name in seen["loaded"]] == []


def test_a4_packages_below_the_datasets_work_without_optional_libraries():
    """Row A4 of the defects: 1.5 needed vision, environment, plotting and notebook libraries to read data."""
    packages = ["configs", "geometry", "random", "data", "kinematic", "rasterization", "sampling"]
    probe(
        *(f"l5kit.{package}" for package in packages),
        blocked=[*LATE, "torchvision", "gym", "stable_baselines3", "jupyter", "IPython"],
    )


def test_training_without_lightning_names_the_extra():
    source = "import sys; sys.modules['lightning'] = None\nimport l5kit.training"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"training needs Lightning: {install_command('train')}")


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        pytest.param("import os; os.environ['L5KIT_PROBE'] = '1'", "environment", id="environment"),
        pytest.param("import cv2; cv2.setNumThreads(1 + cv2.getNumThreads())", "cv2 threads", id="threads"),
        pytest.param(
            "import multiprocessing; multiprocessing.set_start_method('spawn')", "start method", id="start method"
        ),
        pytest.param("import numpy; numpy.random.seed(1)", "random state", id="random state"),
        pytest.param("import warnings; warnings.simplefilter('ignore')", "warning filters", id="filters"),
    ],
)
def test_the_probe_finds_a_change(source, changed, tmp_path, monkeypatch):
    (tmp_path / "probed_module.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert probe("json", "probed_module", before=())["changed"] == [["probed_module", changed]]


@pytest.mark.parametrize(
    "source",
    [
        "print('hello')",
        "import sys; sys.stderr.write('hello')",
        "import warnings; warnings.warn('hello')",
        "import torch",
    ],
    ids=["prints", "prints an error", "warns", "needs torch"],
)
def test_the_probe_finds_noise(source, tmp_path, monkeypatch):
    (tmp_path / "probed_module.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises((AssertionError, ValueError)):
        probe("probed_module", blocked=["torch"], before=())
