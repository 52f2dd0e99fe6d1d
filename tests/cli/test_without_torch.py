"""Looking at a log where torch is not installed, which a process plays that cannot import it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

TESTS = Path(__file__).resolve().parents[1]

COMMANDS = {
    "info": ["info", "CITY", "--json"],
    "validate": ["validate", "CITY"],
    "mask": ["mask", "CITY"],
    "chop": ["chop", "CITY", "--frames", "30", "--future", "10", "--out", "chopped"],
    "a picture": ["render", "CITY", "--frame", "12", "--out", "frame.png"],
    "the view of an agent": ["render", "CITY", "--frame", "12", "--out", "aerial.png", "--map-type", "satellite"],
    "a film": ["render", "CITY", "--frames", "3:6", "--out", "scene.gif"],
    "a page": ["view", "CITY", "--export", "scene.html"],
    "cache": ["cache", "CITY"],
    "simulate": ["simulate", "CITY", "--frames", "5", "--out", "driven"],
    "the policy that ships": ["simulate", "CITY", "--frames", "5", "--planner", "route_policy", "--out", "policy"],
    "another planner": ["simulate", "CITY", "--frames", "5", "--planner", "constant-velocity", "--out", "other"],
    "compare": ["compare", "driven", "other", "--draws", "100", "--out", "compared"],
    "demo": ["demo", "--data", "CITY", "--out", "demo"],
}
"""Commands that work; CITY is a placeholder for the path of the city."""

ON_SAMPLE = [word for name in ("train", "val") for word in ("--set", f"{name}_data_loader.key=scenes/sample.zarr")]
NEEDS_TORCH = {
    "train": ["train", "raster_planner", "--data", "CITY", *ON_SAMPLE, "--out", "planner"],
    "evaluate": ["evaluate", "planner.safetensors", "--data", "CITY"],
}

SCRIPT = """
import json, sys
sys.modules |= dict.fromkeys(["torch", "gymnasium", "stable_baselines3"])
from typer.testing import CliRunner
from l5kit.cli.main import make_app

outcomes = {}
for name, arguments in json.load(sys.stdin).items():
    done = CliRunner().invoke(make_app(), arguments, prog_name="l5kit")
    outcomes[name] = [done.exit_code, done.stdout, done.stderr]
print(json.dumps(outcomes))
"""


def run_without_torch(script, *, stdin="", cwd=None):
    """Run a script in a separate process, and return the JSON in its last line."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    call = [sys.executable, "-c", script]
    done = subprocess.run(
        call, input=stdin, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def outcomes(city, tmp_path_factory):
    """Exit code, stdout and stderr of each command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L5KIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        calls = {
            name: [str(city) if word == "CITY" else word for word in words]
            for name, words in (COMMANDS | NEEDS_TORCH).items()
        }
        folder = tmp_path_factory.mktemp("without-torch")
        (folder / "planner.safetensors").touch()  # arguments are checked before torch is looked for
        return run_without_torch(SCRIPT, stdin=json.dumps(calls), cwd=folder)


@pytest.mark.process
@pytest.mark.parametrize("name", COMMANDS)
def test_looking_works(outcomes, name):
    exit_code, _, stderr = outcomes[name]
    assert exit_code == 0, stderr
    assert "error" not in stderr


@pytest.mark.process
@pytest.mark.parametrize("name", NEEDS_TORCH)
def test_what_needs_torch_says_so_in_one_line(outcomes, name):
    exit_code, stdout, stderr = outcomes[name]
    assert (exit_code, stdout) == (1, "")
    (line,) = stderr.splitlines()
    assert line.startswith(f"error: l5kit {name} needs torch, which is not installed: pip install torch")


DRAWING = """
import hashlib, json, sys, warnings
{block}
warnings.simplefilter("ignore")
from l5kit.warmup.workloads import AGENT_STUB, SAFEPATHNET
from l5kit.warmup.workloads import config_with_files, make_samples
from l5kit.data import find_dataset_files
from l5kit.data import ChunkedDataset
from pathlib import Path
files = find_dataset_files(Path({city!r}))
log = ChunkedDataset(str(files.dataset)).open()
drawn = []
for workload in (AGENT_STUB, SAFEPATHNET):
    samples = make_samples(workload, config_with_files(workload, files), log)
    digest = hashlib.sha256()
    for sample in (samples[7], *samples.__getitems__([3, 7])):
        for key, value in sorted(sample.items()):
            digest.update(key.encode() + value.tobytes() if hasattr(value, "tobytes") else repr(value).encode())
    drawn.append([len(samples), digest.hexdigest()])
print(json.dumps(drawn))
"""


@pytest.mark.process
def test_samples_are_the_same_without_torch(city):
    pytest.importorskip("torch")
    without = run_without_torch(DRAWING.format(block='sys.modules["torch"] = None', city=str(city)))
    with_torch = run_without_torch(DRAWING.format(block="", city=str(city)))
    assert without == with_torch


TENSORS = """
import json, sys
sys.modules["torch"] = None
from l5kit.dataset import RankSampler, collate, loader, rank_generator
from l5kit.dataset.sample_batch import allocate_pinned
from l5kit.dataset.utils import convert_str_to_fixed_length_tensor
from l5kit.errors import MissingDependencyError

assert list(RankSampler(5, rank=1, world_size=2)) == [1, 3]
assert list(RankSampler(2)) == [0, 1]
texts = []
for call in (
    lambda: loader([1, 2, 3], 2),
    lambda: collate([{"a": 1}]),
    lambda: rank_generator(1),
    lambda: allocate_pinned((2,), "uint8"),
    lambda: convert_str_to_fixed_length_tensor("host"),
):
    try:
        call()
    except MissingDependencyError as error:
        texts.append(str(error))
print(json.dumps(texts))
"""


@pytest.mark.process
def test_tensors_and_loaders_say_what_to_install():
    texts = run_without_torch(TENSORS)
    assert len(texts) == 5
    assert all("needs torch, which is not installed: pip install torch" in text for text in texts)
    assert texts[0].startswith("a loader of batches")


@pytest.mark.process
def test_a_broken_torch_is_not_taken_for_a_missing_one(tmp_path):
    """Its own error says what is wrong with it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch_library_that_is_gone")
    script = f"""
import json, sys
sys.path.insert(0, {str(tmp_path)!r})
try:
    import l5kit.dataset
except ModuleNotFoundError as error:
    print(json.dumps(error.name))
"""
    assert run_without_torch(script) == "torch_library_that_is_gone"
