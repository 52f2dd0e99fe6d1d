"""Whatever goes over a log gives the same bits for any number of workers, of any kind."""

import hashlib
import warnings

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.checks.checksums import compute_checksums
from l5kit.data.checks.path_validation import validate_path
from l5kit.data.jobs.worker_processes import WorkerProcesses
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_table import read_scene_table
from l5kit.dataset.select_agents import select_agents
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask, compute_readable_mask
from l5kit.errors import CorruptedDataError
from l5kit.evaluation.chop_dataset import create_chopped_dataset
from l5kit.evaluation.extract_ground_truth import export_zarr_to_csv
from l5kit.synthetic import make_city
from support.logs import write_with_chunks
from support.random_logs import random_dataset

NUM_SCENES = 9
THRESHOLDS = MaskThresholds(0.5)


@pytest.fixture(scope="module")
def processes():
    with WorkerProcesses(2) as workers:
        yield workers


@pytest.fixture(params=["two threads", "three threads", pytest.param("processes", marks=pytest.mark.process)])
def workers(request):
    if request.param == "processes":
        return request.getfixturevalue("processes")
    return 2 if request.param == "two threads" else 3


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of several scenes in many chunks, which end anywhere in scenes and frames."""
    path, log = (
        tmp_path_factory.mktemp("same") / "log.zarr",
        random_dataset(np.random.default_rng(5), NUM_SCENES, min_frames=4, max_frames=12),
    )
    frames_of_rows = np.repeat(np.arange(len(log.frames)), np.diff(log.frames["agent_index_interval"])[:, 0])
    log.agents["centroid"] = log.frames["ego_translation"][frames_of_rows, :2] + 5.0
    log.agents["yaw"], log.agents["extent"] = 0.3, 2.0
    log.agents["label_probabilities"] = np.eye(17)[PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]]
    write_with_chunks(log, path)
    return path


@pytest.fixture(scope="module")
def damaged(log, tmp_path_factory):
    """The same with records that are wrong, also across chunks, and with files that are."""
    path = tmp_path_factory.mktemp("same") / "damaged.zarr"
    source = ChunkedDataset(str(log)).open()
    arrays = {name: np.array(getattr(source, name)[:]) for name in ("scenes", "frames", "agents", "tl_faces")}
    arrays["agents"]["track_id"][5:60] = 7
    arrays["agents"]["yaw"][::3] = np.nan
    arrays["frames"]["timestamp"][10:30:4] -= 10**9
    arrays["frames"]["ego_translation"][20:24] += 1e5
    arrays["frames"]["agent_index_interval"][31] += 2
    write_with_chunks(ChunkedDataset.in_memory(**arrays), path)
    (path / "agents" / "1").write_bytes(b"no chunk")
    (path / "frames" / "0").unlink()
    return path


def files_of(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_agents_mask(log, workers):
    told = []
    one, counts = compute_agents_mask(ChunkedDataset(str(log)).open(), THRESHOLDS)
    several, other_counts = compute_agents_mask(
        ChunkedDataset(str(log)).open(), THRESHOLDS, workers=workers, progress=lambda *done: told.append(done)
    )
    assert one.any()
    assert several.tobytes() == one.tobytes()
    assert (dict(counts), list(counts)) == (dict(other_counts), list(other_counts))
    assert told[-1] == (NUM_SCENES, NUM_SCENES)
    assert told == sorted(set(told))


def test_agents_mask_of_a_damaged_log(damaged, workers):
    one, counts, errors = compute_readable_mask(ChunkedDataset(str(damaged)).open(), THRESHOLDS)
    several, other_counts, other_errors = compute_readable_mask(
        ChunkedDataset(str(damaged)).open(), THRESHOLDS, workers=workers
    )
    assert 0 < len(errors) < NUM_SCENES
    assert several.tobytes() == one.tobytes()
    assert counts == other_counts
    assert [(scene, str(error)) for scene, error in other_errors.items()] == [
        (scene, str(error)) for scene, error in errors.items()
    ]
    with pytest.raises(CorruptedDataError) as caught:
        compute_agents_mask(ChunkedDataset(str(damaged)).open(), THRESHOLDS, workers=workers)
    assert str(caught.value) == str(next(iter(errors.values())))


def test_stored_agents_mask(log, tmp_path, workers, capsys):
    stored = []
    for number in (1, workers):
        path = tmp_path / f"{len(stored)}.zarr"
        ChunkedDataset(str(log)).open().save(path)
        select_agents(ChunkedDataset(str(path)).open(), 0.5, 30, 1.1, 50, workers=number)
        stored.append(files_of(path / "agents_mask"))
    assert stored[0] == stored[1]
    assert len(stored[0]) >= 4
    first, second = capsys.readouterr().out.split("computing the agents mask of ")[1:]
    assert first.replace("0.zarr", "") == second.replace("1.zarr", "")


@pytest.mark.parametrize("which", ["log", "damaged"])
def test_findings(which, request, workers):
    path, steps, other_steps = request.getfixturevalue(which), [], []
    digests = compute_checksums(ChunkedDataset(str(path)).open())
    digests[next(key for key in digests if key.startswith("agents/2"))] = "0" * 64
    one = validate_path(path, checksums=digests, progress=lambda *done: steps.append(done))
    several = validate_path(path, checksums=digests, progress=lambda *done: other_steps.append(done), workers=workers)
    assert several == one
    assert len(one) > (20 if which == "damaged" else 0)
    assert other_steps[-1] == steps[-1]
    assert other_steps == sorted(set(other_steps))


def test_digests(log, workers):
    one = compute_checksums(ChunkedDataset(str(log)).open())
    assert list(compute_checksums(ChunkedDataset(str(log)).open(), workers=workers).items()) == list(one.items())


@pytest.mark.parametrize("which", ["log", "damaged"])
def test_scene_table(which, request, workers, monkeypatch):
    monkeypatch.setattr("l5kit.data.scene_table.ROWS_PER_BLOCK", 7)
    log = ChunkedDataset(str(request.getfixturevalue(which))).open()
    one, several = read_scene_table(log), read_scene_table(log, workers=workers)
    for name, values in vars(one).items():
        np.testing.assert_array_equal(getattr(several, name), values)
    assert bool(one.errors) == (which == "damaged")


def test_true_positions(log, tmp_path, workers, monkeypatch):
    monkeypatch.setattr("l5kit.evaluation.extract_ground_truth._BATCH_SIZE", 5)
    mask = np.ones(len(ChunkedDataset(str(log)).open().agents), bool)
    for name, number in (("one", 1), ("several", workers)):
        opened = ChunkedDataset(str(log)).open()
        export_zarr_to_csv(opened, tmp_path / name, 4, 0.5, agents_mask=mask, workers=number)
    assert (tmp_path / "several").read_bytes() == (tmp_path / "one").read_bytes()
    assert (tmp_path / "one").read_bytes().count(b"\n") > 10


@pytest.mark.parametrize("name", ["copy.zarr", "copy.zarr.zip"])
def test_saved_log(log, tmp_path, workers, name):
    for part, number in (("one", 1), ("several", workers)):
        (tmp_path / part).mkdir()
        ChunkedDataset(str(log)).open().save(tmp_path / part / name, workers=number)
    if name.endswith(".zip"):
        one, several = (ChunkedDataset(str(tmp_path / part / name)).open() for part in ("one", "several"))
        assert compute_checksums(several) == compute_checksums(one)
    else:
        assert files_of(tmp_path / "several") == files_of(tmp_path / "one")


def test_test_set(log, tmp_path, workers):
    for name, number in (("one", 1), ("several", workers)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            create_chopped_dataset(log, 0.5, 2, 2, 1, output_folder=tmp_path / name, verbose=False, workers=number)
    one, several = files_of(tmp_path / "one"), files_of(tmp_path / "several")
    assert one.keys() == several.keys()
    assert {name for name in one if one[name] != several[name]} <= {"mask.npz"}  # a zip file with the time of day
    with np.load(tmp_path / "one" / "mask.npz") as first, np.load(tmp_path / "several" / "mask.npz") as second:
        assert {name: first[name].tobytes() for name in first} == {name: second[name].tobytes() for name in second}
        assert first["arr_0"].any()


def test_city(tmp_path, workers):
    small = {"seed": 5, "num_scenes": 3, "num_train_scenes": 2, "num_frames": 12, "town_size": 250.0}
    told = []
    one = make_city(tmp_path / "one", **small)
    several = make_city(tmp_path / "several", **small, workers=workers, progress=lambda *done: told.append(done))
    assert files_of(several.path) == files_of(one.path)
    assert told == [(done, 5) for done in range(1, 6)]
