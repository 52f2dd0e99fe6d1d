"""Test sets as the competition made them."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.dataset.select_agents.thresholds import MaskThresholds
from l5kit.dataset.select_agents.valid_agents import compute_agents_mask
from l5kit.errors import CorruptedDataError, DatasetNotFoundError, InvalidArgumentError
from l5kit.evaluation import (
    compute_metrics_csv,
    create_chopped_dataset,
    read_gt_csv,
    world_displacements,
    write_pred_csv,
)
from l5kit.evaluation.chop_dataset import MIN_FUTURE_STEPS
from l5kit.evaluation.chop_dataset import __main__ as command
from l5kit.evaluation.metrics import average_displacement_error_oracle, neg_multi_log_likelihood
from support.cities import small_city
from support.logs import make_log
from support.samples import make_agent_dataset, make_cfg
from support.tolerances import FLOAT32

SAMPLE_TOLERANCE_M = 2e-5


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A synthetic city of three scenes of 100 frames, never written to."""
    return Path(small_city(tmp_path_factory.mktemp("chop") / "city").scenes["sample"])


def chop(zarr, *arguments, **options):
    """Chop without the warnings about the selection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return Path(create_chopped_dataset(str(zarr), *arguments, **options))


def mask_of(folder):
    return np.load(folder / "mask.npz")["arr_0"]


def files_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def lone_scene(tmp_path):
    """20 frames: track 1 all along, 2 until frame 12, 3 from frame 9 on, and 4 that is no road user for sure."""
    frames = [
        [{"track_id": 1, "centroid": (0.5 * k, 3.0)}]
        + [{"track_id": 2, "centroid": (1.0, 8.0)}] * (k <= 12)
        + [{"track_id": 3, "centroid": (5.0, -0.25 * k)}] * (k >= 9)
        + [{"track_id": 4, "centroid": (9.0, 9.0), "probability": 0.3}]
        for k in range(20)
    ]
    path = tmp_path / "lone.zarr"
    make_log([frames]).save(path)
    return path


def test_the_folder_holds_the_three_parts(lone_scene):
    folder = chop(lone_scene, 0.5, 10, 4, 3)
    assert folder == lone_scene.with_name("lone_chopped_10")
    assert sorted(os.listdir(folder)) == ["gt.csv", "lone.zarr", "mask.npz"]


@pytest.mark.parametrize(
    ("min_frame_future", "expected"),
    [
        pytest.param(3, [1, 2, 3], id="as long as the shortest"),
        pytest.param(4, [1, 3], id="longer than the shortest"),
        pytest.param(10, [1, 3], id="to the end of the scene"),
        pytest.param(11, [], id="beyond the end of the scene"),
        pytest.param(0, [1, 2, 3], id="none asked for: still no unlikely agents"),
    ],
)
def test_test_agents_are_those_of_the_last_frame_that_stay(lone_scene, min_frame_future, expected):
    folder = chop(lone_scene, 0.5, 10, 4, min_frame_future)
    chopped = ChunkedDataset(str(folder / "lone.zarr")).open()
    mask = mask_of(folder)
    assert (mask.dtype, mask.shape) == (np.dtype(bool), (len(chopped.agents),))
    rows = np.flatnonzero(mask)
    assert (rows >= chopped.frames[9]["agent_index_interval"][0]).all()
    assert chopped.agents[:]["track_id"][rows].tolist() == expected
    assert [int(row["track_id"]) for row in read_gt_csv(folder / "gt.csv")] == expected


def test_the_truth_goes_beyond_the_frames_that_are_kept(lone_scene):
    folder = chop(lone_scene, 0.5, 10, 12, 3)
    rows = {row["track_id"]: row for row in read_gt_csv(folder / "gt.csv")}
    assert len(ChunkedDataset(str(folder / "lone.zarr")).open().frames) == 10
    np.testing.assert_array_equal(rows["1"]["avail"], [1] * 10 + [0] * 2)
    np.testing.assert_array_equal(rows["2"]["avail"], [1] * 3 + [0] * 9)
    np.testing.assert_allclose(rows["1"]["coord"][:10, 0], 0.5 * np.arange(1, 11), atol=SAMPLE_TOLERANCE_M)
    np.testing.assert_allclose(rows["3"]["coord"][:10, 1], -0.25 * np.arange(1, 11), atol=SAMPLE_TOLERANCE_M)


@pytest.fixture(scope="module")
def chopped_city(city, tmp_path_factory):
    return chop(city, 0.5, 60, 30, 10, output_folder=tmp_path_factory.mktemp("sets") / "set")


def test_a_made_city_is_chopped_scene_by_scene(city, chopped_city):
    source, short = ChunkedDataset(str(city)).open(), ChunkedDataset(str(chopped_city / city.name)).open()
    assert short.validate() == []
    counts, _ = compute_agents_mask(source, MaskThresholds(0.5))
    expected_rows, mask = [], mask_of(chopped_city)
    for scene in range(len(source.scenes)):
        first, _ = source.scenes[scene]["frame_index_interval"]
        start, stop = source.frames[first + 59]["agent_index_interval"]
        expected_rows += [row for row in range(start, stop) if counts[row, 1] >= 10]
    chosen = np.flatnonzero(mask)
    assert len(chosen) == len(expected_rows) > 10
    np.testing.assert_array_equal(short.agents[:][chosen], source.agents[:][expected_rows])
    last_frames = [short.scenes[scene]["frame_index_interval"][1] - 1 for scene in range(3)]
    times = {str(short.frames[frame]["timestamp"]) for frame in last_frames}
    assert {row["timestamp"] for row in read_gt_csv(chopped_city / "gt.csv")} == times


def test_predictions_on_the_chopped_dataset_fit_the_truth(city, chopped_city, tmp_path):
    """The whole way of the competition, with the truth itself, then standing still, as predictions."""
    log = ChunkedDataset(str(chopped_city / city.name)).open()
    dataset = make_agent_dataset(make_cfg(future_num_frames=30), log, agents_mask=mask_of(chopped_city))
    samples = [dataset[index] for index in range(len(dataset))]
    times, tracks, poses, centroids = (
        np.stack([sample[key] for sample in samples])
        for key in ("timestamp", "track_id", "world_from_agent", "centroid")
    )
    still = world_displacements(np.zeros((len(samples), 30, 2), np.float32), poses, centroids)
    truth = list(read_gt_csv(chopped_city / "gt.csv"))
    files = chopped_city / "gt.csv", tmp_path / "pred.csv"
    write_pred_csv(files[1], times, tracks, still, max_modes=1)
    found = compute_metrics_csv(*files, [average_displacement_error_oracle], 1)
    expected = np.mean([(np.linalg.norm(row["coord"], axis=-1) * row["avail"]).mean() for row in truth])
    assert found["average_displacement_error_oracle"] == pytest.approx(expected, abs=FLOAT32) != 0
    write_pred_csv(files[1], times, tracks, np.stack([row["coord"] for row in truth]))
    assert compute_metrics_csv(*files, [neg_multi_log_likelihood]) == {"neg_multi_log_likelihood": 0.0}


def test_predictions_for_other_agents_are_told_apart(city, chopped_city, tmp_path):
    log = ChunkedDataset(str(chopped_city / city.name)).open()
    dataset = make_agent_dataset(make_cfg(future_num_frames=30), log)  # its usual minima, not the mask of the test set
    samples = [dataset[index] for index in range(0, len(dataset), 50)]
    write_pred_csv(
        tmp_path / "pred.csv",
        [sample["timestamp"] for sample in samples],
        [sample["track_id"] for sample in samples],
        np.zeros((len(samples), 30, 2)),
    )
    with pytest.raises(InvalidArgumentError, match="agents_mask=mask"):
        compute_metrics_csv(chopped_city / "gt.csv", tmp_path / "pred.csv", [neg_multi_log_likelihood])


def test_the_real_scene_is_chopped_as_in_the_competition(shared_data, shared_golden, tmp_path):
    folder = chop(shared_data / "single_scene.zarr", 0.5, 100, 50, MIN_FUTURE_STEPS, output_folder=tmp_path / "set")
    counts = np.load(shared_golden / "scene.npz")["agents_mask/0.5"]  # as 1.5 computed it
    source = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    start, stop = source.frames[99]["agent_index_interval"]
    expected = np.zeros(stop, bool)
    expected[start:stop] = counts[start:stop, 1] >= 10
    np.testing.assert_array_equal(mask_of(folder), expected)
    rows = list(read_gt_csv(folder / "gt.csv"))
    assert [int(row["track_id"]) for row in rows] == source.agents[:]["track_id"][:stop][expected].tolist()
    assert all(row["avail"][:10].all() and row["coord"].shape == (50, 2) for row in rows)


def test_e6_the_source_is_only_read(lone_scene):
    before = files_of(lone_scene)
    chop(lone_scene, 0.5, 10, 4, 3)
    assert files_of(lone_scene) == before


def test_e6_a_mask_that_the_source_holds_is_used(lone_scene):
    from l5kit.dataset.select_agents.stored_mask import write_mask

    source = ChunkedDataset(str(lone_scene)).open()
    counts = np.zeros((len(source.agents), 2), np.uint32)
    row = source.frames[9]["agent_index_interval"][0]
    counts[row] = (0, 99)
    write_mask(source, MaskThresholds(0.5), counts)
    assert np.flatnonzero(mask_of(chop(lone_scene, 0.5, 10, 4, 3))).tolist() == [row]


def test_e6_a_test_set_of_ones_own_is_replaced_unless_that_is_refused(lone_scene):
    """A notebook that is run again works, as with 1.5."""
    folder = chop(lone_scene, 0.5, 10, 4, 3)
    before = files_of(folder)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 11, overwrite=False)
    assert files_of(folder) == before
    assert chop(lone_scene, 0.5, 10, 4, 3) == folder
    assert files_of(folder) == before
    assert chop(lone_scene, 0.5, 10, 4, 11) == folder
    assert not mask_of(folder).any()
    assert sorted(os.listdir(folder.parent)) == ["lone.zarr", "lone_chopped_10"]


def test_e6_a_test_set_of_1_5_is_replaced_only_when_asked_for(lone_scene):
    folder = chop(lone_scene, 0.5, 10, 4, 3)
    np.savez(folder / "mask.npz", mask_of(folder))
    before = files_of(folder)
    with pytest.raises(FileExistsError, match=r"does not say how agents were selected.*overwrite=True"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 11)
    assert files_of(folder) == before
    chop(lone_scene, 0.5, 10, 4, 11, overwrite=True)
    assert not mask_of(folder).any()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_e6_a_test_set_with_other_files_is_kept(lone_scene, monkeypatch, when):
    from l5kit.evaluation.chop_dataset import chopping

    folder = chop(lone_scene, 0.5, 10, 4, 3)
    export = chopping.export_zarr_to_csv

    def note(*arguments, **options):
        export(*arguments, **options)
        (folder / "notes.txt").write_text("precious")

    if when == "before":
        (folder / "notes.txt").write_text("precious")
    else:
        monkeypatch.setattr(chopping, "export_zarr_to_csv", note)
    before = files_of(folder) | {"notes.txt": b"precious"}
    with pytest.raises(InvalidArgumentError, match=r"not replaced.*notes\.txt"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 11)
    assert files_of(folder) == before
    assert sorted(os.listdir(folder.parent)) == ["lone.zarr", "lone_chopped_10"]


def test_e6_a_failure_leaves_the_test_set_that_is_there(lone_scene, monkeypatch):
    from l5kit.evaluation.chop_dataset import chopping

    folder = chop(lone_scene, 0.5, 10, 4, 3)
    before = files_of(folder)
    monkeypatch.delattr(chopping, "export_zarr_to_csv")
    with pytest.raises(NameError):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 11)
    assert files_of(folder) == before


@pytest.mark.parametrize("kind", ["other files", "a file", "a link"])
@pytest.mark.parametrize("overwrite", [None, True])
def test_e6_only_test_sets_are_replaced(lone_scene, tmp_path, kind, overwrite):
    target = tmp_path / "lone_chopped_10"
    if kind == "other files":
        target.mkdir()
        (target / "thesis.txt").write_text("precious")
    elif kind == "a file":
        target.write_text("precious")
    else:
        (tmp_path / "elsewhere").mkdir()
        target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="not replaced"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 3, overwrite=overwrite)
    assert target.is_symlink() or "precious" in [
        file.read_text() for file in [target, *target.rglob("*")] if file.is_file()
    ]


def test_e6_a_failure_leaves_nothing_behind(lone_scene, monkeypatch):
    from l5kit.evaluation.chop_dataset import chopping

    def fail(*arguments, **options):
        raise OSError("no space left")

    monkeypatch.setattr(chopping, "export_zarr_to_csv", fail)
    with pytest.raises(OSError, match="no space left"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 3)
    assert os.listdir(lone_scene.parent) == [lone_scene.name]


def test_e7_past_length_is_not_checked_but_told(lone_scene):
    """KEEP: track 3 has no past at all, while training asks for 10 frames by default."""
    with pytest.warns(RuntimeWarning, match=r"3 of 3 test agents \(100 %\) have fewer than 10 past frames") as told:
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 3)
    (message,) = [str(warning.message) for warning in told]
    assert "min_frame_history=0" in message
    assert "min_frame_future=3" in message


def test_a_set_without_agents_is_told(lone_scene):
    with pytest.warns(RuntimeWarning, match="has no test agents"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 11)


def test_every_scene_must_be_longer_and_those_that_are_not_are_listed(tmp_path):
    scenes = [[[{"track_id": 1}]] * length for length in (12, 10, 11, 0)]
    make_log(scenes).save(tmp_path / "x.zarr")
    with pytest.raises(AssertionError, match=r"2 scenes .*scene 1 has 10; scene 3 has 0"):
        create_chopped_dataset(str(tmp_path / "x.zarr"), 0.5, 10, 4, 1)
    assert os.listdir(tmp_path) == ["x.zarr"]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        pytest.param((0, 4, 1), "num_frames_to_copy must be at least 1, got 0", id="frames"),
        pytest.param((10, 0, 1), "num_frames_gt must be at least 1, got 0", id="steps"),
        pytest.param((10, 4, -1), "min_frame_future must be at least 0, got -1", id="future"),
    ],
)
def test_numbers_that_make_no_sense_are_named(lone_scene, numbers, message):
    with pytest.raises(InvalidArgumentError, match=message):
        create_chopped_dataset(str(lone_scene), 0.5, *numbers)


def test_a_missing_dataset_is_named(tmp_path):
    with pytest.warns(RuntimeWarning, match="does not exist"), pytest.raises(DatasetNotFoundError, match=r"none\.zarr"):
        create_chopped_dataset(str(tmp_path / "none.zarr"), 0.5, 10, 4, 1)


def test_a_url_needs_a_folder():
    with pytest.raises(InvalidArgumentError, match="pass output_folder"):
        create_chopped_dataset("memory://x.zarr", 0.5, 10, 4, 1)


def test_a_zip_file_is_chopped_to_a_zip_file(lone_scene, tmp_path):
    zipped = tmp_path / "packed.zarr.zip"
    ChunkedDataset(str(lone_scene)).open().save(zipped)
    folder = chop(zipped, 0.5, 10, 4, 3)
    assert folder.name == "packed_chopped_10"
    assert len(ChunkedDataset(str(folder / "packed.zarr.zip")).open().frames) == 10
    np.testing.assert_array_equal(mask_of(folder), mask_of(chop(lone_scene, 0.5, 10, 4, 3)))


def test_the_test_set_does_not_go_inside_the_source(lone_scene):
    before = files_of(lone_scene)
    with pytest.raises(InvalidArgumentError, match=r"output_folder is .* a path outside the input"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 3, output_folder=lone_scene / "set")
    with pytest.raises(InvalidArgumentError, match="output_folder is"):
        create_chopped_dataset(str(lone_scene), 0.5, 10, 4, 3, output_folder=lone_scene.parent, overwrite=True)
    assert files_of(lone_scene) == before


def test_agents_that_do_not_lie_one_after_the_other_are_an_error(tmp_path):
    log = make_log([[[{"track_id": 1}], [{"track_id": 1}]] * 3])
    log.frames["agent_index_interval"][1] = (2, 3)
    log.save(tmp_path / "x.zarr")
    with pytest.raises(CorruptedDataError):
        create_chopped_dataset(str(tmp_path / "x.zarr"), 0.5, 3, 4, 1)
    assert os.listdir(tmp_path) == ["x.zarr"]


def test_the_module_runs_with_the_options_of_1_5(lone_scene, tmp_path, capsys):
    other = shutil.copytree(lone_scene, tmp_path / "other.zarr")
    options = ["--th_agent_prob", "0.5", "--num_frames_to_copy", "9", "--future_steps", "4"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert command.main(["--zarr_paths", str(lone_scene), str(other), *options]) == 0
        assert command.main(["--zarr_paths", str(lone_scene), *options]) == 0  # and runs again
        (tmp_path / "other_chopped_9" / "notes.txt").touch()
        assert command.main(["--zarr_paths", str(other), *options]) == 1
    assert "error: " in capsys.readouterr().err
    for name in ("lone", "other"):
        (row,) = read_gt_csv(tmp_path / f"{name}_chopped_9" / "gt.csv")  # of the three only track 1 stays for 10 more
        assert row["track_id"] == "1"


@pytest.mark.process
def test_n1_the_module_runs_in_a_process_of_its_own_on_current_numpy(lone_scene):
    arguments = ["--zarr_paths", str(lone_scene), "--th_agent_prob", "0.5"]
    arguments += ["--num_frames_to_copy", "9", "--future_steps", "4"]
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-m", "l5kit.evaluation.chop_dataset", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "runpy" not in done.stderr
    assert mask_of(lone_scene.with_name("lone_chopped_9")).any()
