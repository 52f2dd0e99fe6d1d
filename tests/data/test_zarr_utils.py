import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, zarr_concat
from l5kit.data.zarr_utils import GIGABYTE, zarr_scenes_chop, zarr_split
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.logs import write_with_chunks
from support.random_logs import ARRAYS, assert_same_records, random_dataset, write_three_arrays

pytestmark = pytest.mark.filterwarnings("ignore:dataset path .* does not exist:RuntimeWarning")


def open_at(path):
    return ChunkedDataset(str(path)).open()


def assert_scenes_equal(dataset, originals):
    """Check that a dataset holds these scenes, each a dataset, one after the other."""
    assert len(dataset.scenes) == len(originals)
    for index, original in enumerate(originals):
        assert_same_records(dataset.get_scene_dataset(index), original)
    assert dataset.validate() == []


@pytest.fixture
def inputs(tmp_path):
    datasets = [random_dataset(np.random.default_rng(seed), 3 + seed) for seed in range(3)]
    return [write_with_chunks(dataset, tmp_path / f"{seed}.zarr") for seed, dataset in enumerate(datasets)]


def scenes_of(path):
    dataset = open_at(path)
    return [dataset.get_scene_dataset(index) for index in range(len(dataset.scenes))]


@pytest.fixture
def damaged(tmp_path):
    """A dataset whose second chunk of agents is garbage."""
    path = write_with_chunks(random_dataset(np.random.default_rng(3), 4), tmp_path / "damaged.zarr")
    (tmp_path / "damaged.zarr" / "agents" / "1").write_bytes(b"garbage")
    return path


def test_concat(inputs, tmp_path, capfd):
    zarr_concat(inputs, str(tmp_path / "joined.zarr"))
    assert_scenes_equal(open_at(tmp_path / "joined.zarr"), [scene for path in inputs for scene in scenes_of(path)])
    assert capfd.readouterr() == ("", "")
    metadata = json.loads((tmp_path / "joined.zarr" / "agents" / ".zarray").read_text())
    assert metadata["chunks"] == [20_000]


def test_concat_of_one_and_of_none(inputs, tmp_path):
    zarr_concat(inputs[:1], str(tmp_path / "one.zarr"), verbose=False)
    assert_same_records(open_at(tmp_path / "one.zarr"), open_at(inputs[0]))
    zarr_concat([], str(tmp_path / "none.zarr"))
    assert [len(getattr(open_at(tmp_path / "none.zarr"), name)) for name in ARRAYS] == [0, 0, 0, 0]


def test_concat_leaves_out_rows_that_no_scene_uses(tmp_path):
    dataset = random_dataset(np.random.default_rng(8), 3)
    frames, agents = np.concatenate([dataset.frames, dataset.frames[:2]]), np.concatenate([dataset.agents] * 2)
    longer = ChunkedDataset.in_memory(scenes=dataset.scenes, frames=frames, agents=agents, tl_faces=dataset.tl_faces)
    path = write_with_chunks(longer, tmp_path / "longer.zarr")
    zarr_concat([path, path], str(tmp_path / "joined.zarr"))
    assert_scenes_equal(open_at(tmp_path / "joined.zarr"), scenes_of(path) * 2)


def test_b12_concat_skips_empty_inputs_and_takes_three_array_ones(inputs, tmp_path):
    empty = write_with_chunks(ChunkedDataset(""), tmp_path / "empty.zarr")
    old = write_three_arrays(random_dataset(np.random.default_rng(4), 2), tmp_path / "old.zarr")
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        zarr_concat([empty, inputs[0], old, empty, inputs[1]], str(tmp_path / "joined.zarr"))
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        middle = scenes_of(old)
    joined = open_at(tmp_path / "joined.zarr")
    assert_scenes_equal(joined, scenes_of(inputs[0]) + middle + scenes_of(inputs[1]))


def test_b12_concat_opens_each_input_once(inputs, tmp_path, monkeypatch):
    opened, open_dataset = [], ChunkedDataset.open
    monkeypatch.setattr(
        ChunkedDataset, "open", lambda self, **options: (opened.append(self.path), open_dataset(self, **options))[1]
    )
    zarr_concat(inputs, str(tmp_path / "joined.zarr"))
    assert opened == inputs


def test_concat_leaves_out_what_cannot_be_opened(inputs, tmp_path):
    (tmp_path / "broken.zarr").mkdir()
    with pytest.warns(RuntimeWarning, match="left out") as warned:
        zarr_concat([str(tmp_path / "none.zarr"), inputs[0], str(tmp_path / "broken.zarr")], str(tmp_path / "j.zarr"))
    assert sum("left out" in str(warning.message) for warning in warned) == 2
    assert_same_records(open_at(tmp_path / "j.zarr"), open_at(inputs[0]))


def test_concat_never_replaces(inputs, tmp_path):
    for builtin in (AssertionError, InvalidArgumentError):
        with pytest.raises(builtin, match="exists"):
            zarr_concat(inputs[1:], inputs[0])
    (tmp_path / "file.zarr").write_text("x")
    with pytest.raises(AssertionError):
        zarr_concat(inputs, str(tmp_path / "file.zarr"))


@pytest.mark.process
def test_a5_checks_of_arguments_are_not_optimized_away(inputs):
    script = (
        "from l5kit.data import zarr_concat\n"
        "try:\n"
        f"    zarr_concat([], {inputs[0]!r})\n"
        "except AssertionError as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "InvalidArgumentError\n"


def test_concat_of_damaged_files_writes_nothing(inputs, damaged, tmp_path):
    with pytest.raises(CorruptedDataError, match="agents/1"):
        zarr_concat([inputs[0], damaged], str(tmp_path / "joined.zarr"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.zarr", "1.zarr", "2.zarr", "damaged.zarr"]


def size_gb(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / GIGABYTE


@pytest.mark.parametrize("shares", [(0.5,), (0.25, 0.25), (0.1, 0.6, 0.1), ()], ids=str)
def test_split(tmp_path, shares):
    source = random_dataset(np.random.default_rng(12), 20)
    path = write_with_chunks(source, tmp_path / "whole.zarr")
    total = size_gb(tmp_path / "whole.zarr")
    sizes = [share * total * 1.0001 for share in shares]
    infos = [{"name": f"{index}.zarr", "split_size_GB": size} for index, size in enumerate([*sizes, -1])]
    cuts = zarr_split(path, str(tmp_path / "parts"), infos)
    ends = np.cumsum([round(20 * share) for share in shares]).astype(int).tolist()
    assert cuts == list(zip([0, *ends], [*ends, 20], strict=True))
    for info, (start, end) in zip(infos, cuts, strict=True):
        part = open_at(tmp_path / "parts" / info["name"])
        assert_scenes_equal(part, [source.get_scene_dataset(index) for index in range(start, end)])


@pytest.mark.parametrize(
    "sizes", [[], [0.1], [1e9, -1], [1e-9, -1], [0.5, 0.5]], ids=["none", "no rest", "too large", "no scene", "no -1"]
)
def test_b13_split_refuses_parts_without_scenes_and_a_last_that_is_not_the_rest(inputs, tmp_path, sizes):
    infos = [{"name": f"{index}.zarr", "split_size_GB": size} for index, size in enumerate(sizes)]
    for builtin in (AssertionError, InvalidArgumentError):
        with pytest.raises(builtin, match="split_size_GB"):
            zarr_split(inputs[0], str(tmp_path / "parts"), infos)
    assert not (tmp_path / "parts").exists()


def test_split_never_replaces_its_input(inputs, tmp_path):
    infos = [{"name": "a.zarr", "split_size_GB": 1e-6}, {"name": os.path.basename(inputs[0]), "split_size_GB": -1}]
    with pytest.raises(InvalidArgumentError, match="names"):
        zarr_split(inputs[0], os.path.dirname(inputs[0]), infos)


def test_split_of_a_zip_file(tmp_path):
    source = random_dataset(np.random.default_rng(12), 4)
    source.save(tmp_path / "whole.zarr.zip")
    half = os.path.getsize(tmp_path / "whole.zarr.zip") / GIGABYTE / 2
    infos = [{"name": "a.zarr", "split_size_GB": half}, {"name": "b.zarr", "split_size_GB": -1}]
    assert zarr_split(str(tmp_path / "whole.zarr.zip"), str(tmp_path), infos) == [(0, 2), (2, 4)]
    assert_scenes_equal(open_at(tmp_path / "b.zarr"), [source.get_scene_dataset(index) for index in (2, 3)])


def test_b14_chop_takes_as_many_frames_as_the_shortest_scene_has(tmp_path):
    source = random_dataset(np.random.default_rng(13), 5, min_frames=4)
    path = write_with_chunks(source, tmp_path / "whole.zarr")
    shortest = int(np.diff(source.scenes["frame_index_interval"], axis=1).min())
    for num_frames in (1, shortest):
        zarr_scenes_chop(path, str(tmp_path / "short.zarr"), num_frames)
        chopped = open_at(tmp_path / "short.zarr")
        assert np.diff(chopped.scenes["frame_index_interval"], axis=1)[:, 0].tolist() == [num_frames] * 5
        assert chopped.validate() == []
        for index in range(5):
            whole, short = source.get_scene_dataset(index), chopped.get_scene_dataset(index)
            assert short.frames.tobytes() == whole.frames[:num_frames].tobytes()
            assert short.agents.tobytes() == whole.agents[: len(short.agents)].tobytes()
            assert short.tl_faces.tobytes() == whole.tl_faces[: len(short.tl_faces)].tobytes()
    for builtin in (AssertionError, InvalidArgumentError):
        with pytest.raises(builtin, match=f"has only {shortest} frames"):
            zarr_scenes_chop(path, str(tmp_path / "short.zarr"), shortest + 1)
    assert len(open_at(tmp_path / "short.zarr").frames) == 5 * shortest
    with pytest.raises(AssertionError, match="at least 1"):
        zarr_scenes_chop(path, str(tmp_path / "short.zarr"), 0)


def test_b15_chop_keeps_host_and_times(inputs, tmp_path):
    zarr_scenes_chop(inputs[1], str(tmp_path / "short.zarr"), 1)
    before, after = open_at(inputs[1]).scenes[:], open_at(tmp_path / "short.zarr").scenes[:]
    for field in ("host", "start_time", "end_time"):
        assert after[field].tolist() == before[field].tolist()


def test_chop_of_three_arrays(tmp_path):
    path = write_three_arrays(random_dataset(np.random.default_rng(4), 3), tmp_path / "old.zarr")
    with pytest.warns(RuntimeWarning, match="without traffic lights"):
        zarr_scenes_chop(path, str(tmp_path / "short.zarr"), 1)
    chopped = open_at(tmp_path / "short.zarr")
    assert [len(getattr(chopped, name)) for name in ("scenes", "frames", "tl_faces")] == [3, 3, 0]
    assert chopped.validate() == []


def test_outputs_have_the_record_types_of_the_format(tmp_path):
    source = random_dataset(np.random.default_rng(4), 3)
    source.agents = source.agents.astype(
        [("centroid", "<f4", (2,)), *[(n, source.agents.dtype[n]) for n in source.agents.dtype.names[1:]]]
    )
    source.save(tmp_path / "narrow.zarr")
    zarr_concat([str(tmp_path / "narrow.zarr")], str(tmp_path / "joined.zarr"))
    joined = open_at(tmp_path / "joined.zarr").agents
    assert joined.dtype["centroid"].base == np.float64
    assert joined["centroid"].tolist() == source.agents["centroid"].tolist()


def make_with_colours(path, *, seed=4):
    log = random_dataset(np.random.default_rng(seed), 3)
    agents = np.zeros(len(log.agents), [*log.agents.dtype.descr, ("colour", "<i4")])
    for name in log.agents.dtype.names:
        agents[name] = log.agents[name]
    agents["colour"] = 1 + np.arange(len(agents))
    log.agents = agents
    log.save(path)
    return str(path), agents["colour"]


def test_fields_beyond_the_format_are_kept(tmp_path):
    path, colours = make_with_colours(tmp_path / "a.zarr")
    zarr_scenes_chop(path, str(tmp_path / "short.zarr"), 1)
    short = open_at(tmp_path / "short.zarr")
    source = open_at(path)
    firsts = source.scenes["frame_index_interval"][:, 0]
    expected = [source.agents["colour"][slice(*source.frames["agent_index_interval"][row])] for row in firsts]
    assert short.agents["colour"].tolist() == np.concatenate(expected).tolist()
    zarr_concat([path, path], str(tmp_path / "joined.zarr"))
    assert open_at(tmp_path / "joined.zarr").agents["colour"].tolist() == [*colours, *colours]


def test_fields_that_not_all_inputs_have_are_refused(tmp_path):
    path, _ = make_with_colours(tmp_path / "a.zarr")
    random_dataset(np.random.default_rng(5), 2).save(tmp_path / "b.zarr")
    with pytest.raises(InvalidArgumentError, match=r"b\.zarr' lack 'colour'"):
        zarr_concat([path, str(tmp_path / "b.zarr")], str(tmp_path / "joined.zarr"))
    assert not (tmp_path / "joined.zarr").exists()


def test_the_real_scene(shared_data, tmp_path):
    real = str(shared_data / "single_scene.zarr")
    zarr_concat([real] * 3, str(tmp_path / "joined.zarr"))
    assert_scenes_equal(open_at(tmp_path / "joined.zarr"), [open_at(real)] * 3)
    for num_frames in (1, 10, 50, 248):
        zarr_scenes_chop(str(tmp_path / "joined.zarr"), str(tmp_path / "short.zarr"), num_frames)
        assert len(open_at(tmp_path / "short.zarr").frames) == 3 * num_frames
    with pytest.raises(AssertionError):
        zarr_scenes_chop(str(tmp_path / "joined.zarr"), str(tmp_path / "short.zarr"), 500)
    assert_scenes_equal(open_at(tmp_path / "short.zarr"), [open_at(real)] * 3)


def overlapping(path, where):
    """A path that is the dataset, reaches it by a link, lies inside it or holds it."""
    if where == "link":
        link = path.with_name("link.zarr")
        link.symlink_to(path, target_is_directory=True)
        return link
    return {"same": path, "dots": path / ".." / path.name, "inside": path / "part.zarr", "around": path.parent}[where]


PLACES = pytest.mark.parametrize("where", ["same", "dots", "link", "inside", "around"])


@PLACES
def test_chop_never_destroys_its_input(tmp_path, where):
    source = random_dataset(np.random.default_rng(21), 3, min_frames=3)
    path = write_with_chunks(source, tmp_path / "data" / "whole.zarr")
    with pytest.raises(InvalidArgumentError, match=r"output_zarr is .*outside the input"):
        zarr_scenes_chop(path, str(overlapping(tmp_path / "data" / "whole.zarr", where)), 1)
    assert_same_records(open_at(path), source)
    assert not (tmp_path / "data" / "whole.zarr" / "part.zarr").exists()


@PLACES
def test_concat_never_writes_over_its_inputs(tmp_path, where):
    source = random_dataset(np.random.default_rng(22), 3)
    path = write_with_chunks(source, tmp_path / "data" / "whole.zarr")
    with pytest.raises(InvalidArgumentError, match=r"output_zarr is .*outside the input"):
        zarr_concat([path], str(overlapping(tmp_path / "data" / "whole.zarr", where)))
    assert_same_records(open_at(path), source)


def test_split_sees_its_input_through_a_link(inputs, tmp_path):
    (tmp_path / "parts").symlink_to(tmp_path, target_is_directory=True)
    infos = [{"name": os.path.basename(inputs[0]), "split_size_GB": -1}]
    with pytest.raises(InvalidArgumentError, match="outside the input"):
        zarr_split(inputs[0], str(tmp_path / "parts"), infos)


@pytest.mark.parametrize("names", [("a.zarr", "a.zarr"), ("a.zarr", "a.zarr/b.zarr"), ("a.zarr", "./a.zarr")])
def test_split_refuses_parts_inside_each_other(inputs, tmp_path, names):
    infos = [{"name": names[0], "split_size_GB": 1e-6}, {"name": names[1], "split_size_GB": -1}]
    with pytest.raises(InvalidArgumentError, match="differ and are not nested"):
        zarr_split(inputs[0], str(tmp_path / "parts"), infos)


@pytest.mark.parametrize("kind", [str, Path, os.fsencode, ChunkedDataset])
def test_concat_of_a_single_path_is_refused(inputs, tmp_path, kind):
    with pytest.raises(InvalidArgumentError, match="input_zarrs must be a list of paths"):
        zarr_concat(kind(inputs[0]), str(tmp_path / "joined.zarr"))
    assert not (tmp_path / "joined.zarr").exists()


def test_concat_takes_any_iterable_of_paths(inputs, tmp_path):
    zarr_concat((Path(path) for path in inputs), str(tmp_path / "joined.zarr"))
    assert_scenes_equal(open_at(tmp_path / "joined.zarr"), [scene for path in inputs for scene in scenes_of(path)])
