"""Folder of a simulation: what is refused before anything is removed, and what is made again."""

import json
import os
import shutil

import pytest

from l5kit.closedloop import ClosedLoopOptions, read_result, simulate
from l5kit.errors import InvalidArgumentError
from support.simulated_folders import digests_of


def run(path, folder, **values):
    options = ClosedLoopOptions(num_frames=5, scenes=[0], show_bar=False, **values)
    return simulate(path, folder, planner="standing", options=options)


@pytest.fixture(scope="module")
def done(city, tmp_path_factory):
    """A complete simulation, never written to."""
    return run(city, tmp_path_factory.mktemp("done") / "out").folder


@pytest.fixture
def folder(done, tmp_path):
    return shutil.copytree(done, tmp_path / "out")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_linked", [False, True], ids=["itself", "by a link"])
def test_a_folder_whose_driven_log_is_read_is_not_overwritten(folder, tmp_path, is_linked):
    before = digests_of(folder)
    log = folder / "simulated.zarr"
    if is_linked:
        (tmp_path / "link").symlink_to(folder, target_is_directory=True)
        log = tmp_path / "link" / "simulated.zarr"
    with pytest.raises(InvalidArgumentError, match="would be replaced, which is read"):
        run(log, folder, overwrite=True)
    assert digests_of(folder) == before


@pytest.mark.parametrize("place", ["", "scenes/sample.zarr", "scenes/sample.zarr/frames/new"])
def test_nothing_is_written_into_a_dataset(city, tmp_path, place):
    city_copy = shutil.copytree(city, tmp_path / "city")
    before = digests_of(city_copy)
    with pytest.raises(InvalidArgumentError, match="is a dataset or a folder in one"):
        run(city_copy, city_copy / place, overwrite=True)
    assert digests_of(city_copy) == before


def test_tables_of_others_are_not_overwritten(city, tmp_path):
    (tmp_path / "scenes.csv").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds scenes\.csv, but no simulation"):
        run(city, tmp_path, overwrite=True)
    assert (tmp_path / "scenes.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["simulated.zarr", "plans.npz", "scenes.csv", "frames.csv"])
def test_a_file_that_is_gone_is_made_again(city, done, folder, name):
    (shutil.rmtree if (folder / name).is_dir() else os.unlink)(folder / name)
    run(city, folder)
    assert digests_of(folder) == digests_of(done)


@pytest.mark.parametrize("text", ["{}", '{"sco', "[]"])
def test_scores_that_are_none_are_made_again(city, done, folder, text):
    (folder / "scores.json").write_text(text)
    run(city, folder)
    assert digests_of(folder) == digests_of(done)


def test_a_folder_of_before_data_was_recorded_opens_and_is_taken_for_the_same(city, folder):
    for name in ("scores.json", "run.json"):
        content = json.loads((folder / name).read_text())
        del content["data"]
        (folder / name).write_text(json.dumps(content))
    assert read_result(folder).num_scenes == 1
    assert run(city, folder).scenes_per_s is None
    assert json.loads((folder / "run.json").read_text())["data"]["num_scenes"] > 1


def test_a_result_tells_what_came_of_it(folder):
    result = read_result(folder)
    assert repr(result) == f"<ClosedLoopResult {str(folder)!r}: score {result.score:.3f}, 1 scenes, 0 failed>"


def test_a_result_without_scores_is_refused(folder):
    (folder / "scores.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match="has no scores of a simulation"):
        read_result(folder)


def test_more_workers_than_any_machine_has_are_refused():
    with pytest.raises(InvalidArgumentError, match="workers must be at most 1024, got 100000000000"):
        ClosedLoopOptions(workers=100_000_000_000)


def test_a_name_with_bytes_that_are_no_text_is_refused(city, tmp_path):
    with pytest.raises(InvalidArgumentError, match="bytes that are no text"):
        run(city, tmp_path / "out\udcfe")
    assert os.listdir(tmp_path) == []
