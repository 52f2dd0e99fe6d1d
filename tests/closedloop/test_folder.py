"""Folder of a simulation: what is refused before anything is removed, and what is made again."""

import json
import os
import shutil

import pytest

from l5kit.closedloop import ClosedLoopOptions, read_result, simulate
from l5kit.errors import CorruptedDataError, InvalidArgumentError
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
    with pytest.raises(InvalidArgumentError, match="would overwrite the input"):
        run(log, folder, overwrite=True)
    assert digests_of(folder) == before


@pytest.mark.parametrize("place", ["", "scenes/sample.zarr", "scenes/sample.zarr/frames/new"])
def test_nothing_is_written_into_a_dataset(city, tmp_path, place):
    city_copy = shutil.copytree(city, tmp_path / "city")
    before = digests_of(city_copy)
    with pytest.raises(InvalidArgumentError, match="a dataset or part of one"):
        run(city_copy, city_copy / place, overwrite=True)
    assert digests_of(city_copy) == before


def test_tables_of_others_are_not_overwritten(city, tmp_path):
    (tmp_path / "scenes.csv").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds 'scenes\.csv', but no simulation"):
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
    (folder / "receipt.json").unlink()
    assert read_result(folder).num_scenes == 1
    assert run(city, folder).scenes_per_s is not None  # nothing shows that its files are whole
    assert json.loads((folder / "run.json").read_text())["data"]["num_scenes"] > 1


def test_a_result_tells_what_came_of_it(folder):
    result = read_result(folder)
    assert repr(result) == f"<ClosedLoopResult {str(folder)!r}: score {result.score:.3f}, 1 scenes, 0 failed>"


def test_a_result_without_scores_is_refused(folder):
    (folder / "scores.json").write_text("{}")
    with pytest.raises(CorruptedDataError, match=r"scores\.json has 2 bytes"):
        read_result(folder)
    (folder / "receipt.json").unlink()
    with pytest.raises(InvalidArgumentError, match="is not from a simulation"):
        read_result(folder)


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def empty_files(file):
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"files": {}}))


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("plans.npz", cut, r"plans\.npz has .* bytes, but .* were written"),
        ("simulated.zarr/agents", shutil.rmtree, r"simulated\.zarr/agents/\S+ is missing"),
        ("simulated.zarr/frames/0", cut, r"simulated\.zarr/frames/0 has .* bytes"),
        ("frames.csv", os.unlink, r"frames\.csv is missing"),
        ("scenes.csv", lambda file: file.write_text(file.read_text()[::-1]), r"scenes\.csv is not what was written"),
        ("scores.json", empty_files, r"scores\.json has .* bytes"),
        ("receipt.json", cut, r"receipt\.json cannot be read"),
    ],
)
def test_a_complete_simulation_that_was_damaged_is_told_and_made_again(city, done, folder, name, damage, told):
    damage(folder / name)
    with pytest.raises(CorruptedDataError, match=told):
        read_result(folder)
    assert run(city, folder).scenes_per_s is not None
    assert digests_of(folder) == digests_of(done)


def test_one_bit_of_a_large_file_is_found_where_all_is_read(folder):
    file = folder / "simulated.zarr" / "agents" / "0"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert read_result(folder).num_scenes == 1
    with pytest.raises(CorruptedDataError, match="agents/0 is not what was written"):
        read_result(folder, reads_all=True)


def test_scores_without_the_files_of_their_log_are_none(folder):
    (folder / "receipt.json").unlink()
    empty_files(folder / "scores.json")
    with pytest.raises(InvalidArgumentError, match="is not from a simulation"):
        read_result(folder)


def test_more_workers_than_any_machine_has_are_refused():
    with pytest.raises(InvalidArgumentError, match="workers must be at most 1024, got 100000000000"):
        ClosedLoopOptions(workers=100_000_000_000)


def test_a_name_with_bytes_that_are_no_text_is_refused(city, tmp_path):
    with pytest.raises(InvalidArgumentError, match="not valid text"):
        run(city, tmp_path / "out\udcfe")
    assert os.listdir(tmp_path) == []
