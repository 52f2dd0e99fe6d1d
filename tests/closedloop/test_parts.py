"""Parts of a simulation: those that are damaged are dropped, and their scenes driven again."""

import json
import os
import shutil
import warnings

import pytest

from l5kit.closedloop import ClosedLoopOptions, simulate
from l5kit.closedloop.parts import FinishedScene, drop_damaged, find_parts, write_part
from l5kit.data.log_facts import LogFacts
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from support.simulated_folders import digests_of

OPTIONS = ClosedLoopOptions(num_frames=6, scenes=[0, 1], batch_size=1, show_bar=False)


def run(city, folder):
    return simulate(city, folder, planner="constant-velocity", options=OPTIONS)


@pytest.fixture(scope="module")
def done(city, tmp_path_factory):
    """A complete simulation, never written to."""
    return run(city, tmp_path_factory.mktemp("done") / "out").folder


@pytest.fixture
def begun(city, tmp_path, monkeypatch):
    """A simulation that has all parts, but not its files."""
    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("l5kit.closedloop.run.assemble", None)
        with pytest.raises(TypeError):
            run(city, folder)
    assert sorted(path.name for path in (folder / "parts").glob("[0-9]*")) == ["00000000", "00000001"]
    return folder


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def with_another_score(path):
    content = json.loads(path.read_text())
    content["rows"][0]["score"] = 0.123
    path.write_text(json.dumps(content))


DAMAGES = {
    "rows cut": ("scenes.json", lambda path: os.truncate(path, 20)),
    "rows empty": ("scenes.json", lambda path: path.write_text("")),
    "rows zero": ("scenes.json", lambda path: path.write_bytes(b"\0" * 100)),
    "rows gone": ("scenes.json", os.unlink),
    "rows no object": ("scenes.json", lambda path: path.write_text("[1]")),
    "rows changed": ("scenes.json", with_another_score),
    "frames cut": ("frames.npy", lambda path: os.truncate(path, 500)),
    "frames gone": ("frames.npy", os.unlink),
    "frames changed": ("frames.npy", flipped),
    "plans gone": ("plans.npy", os.unlink),
    "log gone": ("scenes.zarr", shutil.rmtree),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_driven_again(city, done, begun, damage):
    name, change = DAMAGES[damage]
    change(begun / "parts" / "00000001" / name)
    with pytest.warns(RuntimeWarning, match=r"00000001 is damaged: .* its scenes are simulated again"):
        run(city, begun)
    assert digests_of(begun) == digests_of(done)


def test_a_changed_chunk_of_a_driven_log_is_seen(city, done, begun):
    log = begun / "parts" / "00000001" / "scenes.zarr"
    assert len(ChunkedDataset(str(log)).open().scenes) == 1
    flipped(next(path for path in sorted((log / "frames").rglob("*")) if path.is_file() and path.name[0].isdigit()))
    with pytest.warns(RuntimeWarning, match="00000001 is damaged: scenes.zarr/frames/.* is not what was written"):
        run(city, begun)
    assert digests_of(begun) == digests_of(done)


def made_parts(folder, *firsts):
    """Parts of two scenes that failed each, whole."""
    for first in firsts:
        failed = [FinishedScene({"scene": scene, "message": "it failed"}) for scene in (first, first + 1)]
        write_part(folder, failed, facts=LogFacts(), run="this one")


def scenes_after_dropping(folder):
    drop_damaged(folder, "this one")
    return [part.scenes for part in find_parts(folder)]


def test_a_whole_part_under_the_name_of_another_one_is_dropped(tmp_path):
    """Its scenes would count twice, or those of the other one never be driven."""
    made_parts(tmp_path, 0, 2)
    shutil.rmtree(tmp_path / "00000002")
    shutil.copytree(tmp_path / "00000000", tmp_path / "00000002")
    told = r"00000002 is damaged: it starts with scenes \[0\] .* it is removed and its scenes are simulated again"
    with pytest.warns(RuntimeWarning, match=told) as caught:
        assert scenes_after_dropping(tmp_path) == [[0, 1]]
    assert len(caught) == 1
    assert not (tmp_path / "00000002").exists()


def test_a_whole_part_that_was_renamed_is_dropped(tmp_path):
    made_parts(tmp_path, 0, 2)
    (tmp_path / "00000002").rename(tmp_path / "00000001")
    with pytest.warns(
        RuntimeWarning, match=r"00000001 is damaged: it starts with scenes \[2\] and so belongs to another part"
    ):
        assert scenes_after_dropping(tmp_path) == [[0, 1]]


def test_a_whole_part_of_another_simulation_is_driven_again(city, done, begun, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("l5kit.closedloop.run.assemble", None)
        with pytest.raises(TypeError):
            simulate(city, tmp_path / "other", planner="idm", options=OPTIONS)
    shutil.rmtree(begun / "parts" / "00000001")
    shutil.copytree(tmp_path / "other" / "parts" / "00000001", begun / "parts" / "00000001")
    told = r"00000001 is damaged: it is of another simulation, or of an earlier l5kit; .* simulated again"
    with pytest.warns(RuntimeWarning, match=told):
        run(city, begun)
    assert digests_of(begun) == digests_of(done)


def test_whole_parts_under_their_own_names_stay(tmp_path):
    made_parts(tmp_path, 0, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scenes_after_dropping(tmp_path) == [[0, 1], [2, 3]]


def test_an_empty_folder_that_is_no_part_is_dropped(city, done, begun):
    (begun / "parts" / "1abc").mkdir()
    with pytest.warns(RuntimeWarning, match=r"is damaged: there is no scenes\.json"):
        run(city, begun)
    assert digests_of(begun) == digests_of(done)


@pytest.mark.parametrize("place", ["00000099", "2024-holiday/beach.png", "00000001/notes.txt"])
def test_a_file_of_somebody_else_among_the_parts_stays_and_is_named(city, begun, place):
    (begun / "parts" / place).parent.mkdir(exist_ok=True)
    (begun / "parts" / place).write_text("x")
    before = digests_of(begun)
    with pytest.raises(InvalidArgumentError, match=f"it holds 'parts/{place}'; move that away"):
        run(city, begun)
    assert digests_of(begun) == before


def test_whole_parts_are_not_driven_again(city, done, begun):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(city, begun).scenes_per_s is None
    assert digests_of(begun) == digests_of(done)
