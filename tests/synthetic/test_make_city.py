"""Writing a synthetic city: layout, records, determinism, and what happens when it fails."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.synthetic import CityFolder, CityParams, make_city
from l5kit.synthetic.city import _MadeScenes
from l5kit.synthetic.scene import build_town
from support.cities import NUM_FRAMES, NUM_SCENES
from support.tolerances import FLOAT64

SMALL = {"seed": 5, "num_scenes": 2, "num_frames": 12, "town_size": 250.0}


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_folder_has_the_published_layout(city: CityFolder) -> None:
    assert sorted(path.name for path in city.path.iterdir()) == [
        *("aerial_map", "city.json", "meta.json", "scenes", "semantic_map")
    ]
    assert city.scenes == {"sample": city.path / "scenes" / "sample.zarr"}
    assert city.semantic_map == city.path / "semantic_map" / "semantic_map.pb"
    assert city.aerial_map == city.path / "aerial_map" / "aerial_map.png"
    assert all(path.exists() for path in (*city.scenes.values(), city.semantic_map, city.aerial_map, city.meta))
    assert set(json.loads(city.meta.read_text())) == {"world_to_ecef", "ecef_to_aerial"}


def test_dataset_is_valid(city: CityFolder) -> None:
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    assert dataset.validate() == []


def test_scenes_follow_each_other(city: CityFolder) -> None:
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    scenes, frames = dataset.scenes[:], dataset.frames[:]
    bounds = np.arange(NUM_SCENES + 1) * NUM_FRAMES
    assert scenes["frame_index_interval"].tolist() == np.stack([bounds[:-1], bounds[1:]], axis=1).tolist()
    assert (scenes["start_time"][1:] > scenes["end_time"][:-1]).all()
    for scene in scenes:
        times = frames["timestamp"][slice(*scene["frame_index_interval"])]
        assert (np.diff(times) == 100_000_000).all()
        assert (times[0], times[-1]) == (scene["start_time"], scene["end_time"])
    assert len(set(scenes["host"])) == NUM_SCENES


@pytest.mark.parametrize("name", ["agent_index_interval", "traffic_light_faces_index_interval"])
def test_intervals_are_absolute_and_without_holes(city: CityFolder, name: str) -> None:
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    intervals = dataset.frames[:][name]
    assert intervals[0, 0] == 0
    assert (intervals[1:, 0] == intervals[:-1, 1]).all()
    rows = dataset.agents if name.startswith("agent") else dataset.tl_faces
    assert intervals[-1, 1] == len(rows)


def test_av_pose_is_a_rotation_on_the_ground(city: CityFolder) -> None:
    frames = ChunkedDataset(str(city.scenes["sample"])).open().frames[:]
    rotation = frames["ego_rotation"]
    np.testing.assert_allclose(rotation @ rotation.transpose(0, 2, 1), np.broadcast_to(np.eye(3), rotation.shape),
                               atol=FLOAT64)  # fmt: skip
    np.testing.assert_allclose(np.linalg.det(rotation), 1.0)
    step = np.diff(frames["ego_translation"], axis=0)
    inside = np.ones(len(step), bool)
    inside[NUM_FRAMES - 1 :: NUM_FRAMES] = False
    assert np.abs(step[inside]).max() < 2.0
    assert set(frames["ego_translation"][:, 2]) == {271.0}


def test_same_arguments_same_bytes(tmp_path: Path) -> None:
    first, again = (make_city(tmp_path / name, **SMALL) for name in ("a", "b"))
    assert _digests(first.path) == _digests(again.path)


def test_other_seed_other_town(tmp_path: Path) -> None:
    first, other = (make_city(tmp_path / str(seed), **{**SMALL, "seed": seed}) for seed in (1, 2))
    assert first.semantic_map.read_bytes() != other.semantic_map.read_bytes()


def test_a_scene_does_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    two, one = (make_city(tmp_path / str(n), **{**SMALL, "num_scenes": n}) for n in (2, 1))
    long, short = (ChunkedDataset(str(c.scenes["sample"])).open() for c in (two, one))
    for name in ("frames", "agents", "tl_faces"):
        rows = getattr(short, name)[:]
        assert rows.tobytes() == getattr(long, name)[: len(rows)].tobytes()


def test_splits_hold_different_scenes(tmp_path: Path) -> None:
    city = make_city(tmp_path / "c", **SMALL, num_train_scenes=3, num_validate_scenes=1)
    assert list(city.scenes) == ["sample", "train", "validate"]
    datasets = [ChunkedDataset(str(path)).open() for path in city.scenes.values()]
    assert [len(dataset.scenes) for dataset in datasets] == [2, 3, 1]
    starts = {tuple(dataset.frames[0]["ego_translation"]) for dataset in datasets}
    assert len(starts) == 3


def test_scenes_past_one_write_join_without_holes(tmp_path: Path) -> None:
    city = make_city(tmp_path / "c", **{**SMALL, "num_scenes": 10, "num_frames": 3})
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    assert len(dataset.scenes) == 10
    assert dataset.validate() == []


def test_a_scene_that_is_made_alone_is_the_one_that_is_written(tmp_path: Path) -> None:
    city = make_city(tmp_path / "c", **SMALL)
    params = CityParams(**SMALL)
    town = build_town(params.town_size, seed=params.seed)
    ((arrays, _),) = _MadeScenes(params, town)(np.zeros(1, np.int64))
    assert ChunkedDataset(str(city.scenes["sample"])).open().frames[:12].tobytes() == arrays.frames.tobytes()


def test_one_frame_and_no_traffic(tmp_path: Path) -> None:
    city = make_city(tmp_path / "c", **{**SMALL, "num_frames": 1}, traffic_density=0.0)
    dataset = ChunkedDataset(str(city.scenes["sample"])).open()
    assert dataset.validate() == []
    assert (dataset.agents[:]["velocity"] == 0).all()


def test_progress_is_told_of_every_scene(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    make_city(tmp_path / "c", **SMALL, num_train_scenes=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_files_are_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"path must be a new or empty folder, got .*overwrite=True"):
        make_city(tmp_path, **SMALL)
    with pytest.raises(InvalidArgumentError, match="but no synthetic city"):
        make_city(tmp_path, **SMALL, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="got the file"):
        make_city(tmp_path / "file", **SMALL, overwrite=True)


def test_overwrite_replaces_a_dataset_folder(tmp_path: Path) -> None:
    make_city(tmp_path / "c", **SMALL)
    city = make_city(tmp_path / "c", **{**SMALL, "num_scenes": 1}, overwrite=True)
    assert len(ChunkedDataset(str(city.scenes["sample"])).open().scenes) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_city_of_the_same_arguments_is_taken_as_it_is(tmp_path: Path) -> None:
    made = make_city(tmp_path / "c", **SMALL)
    before = {path: path.stat().st_mtime_ns for path in made.path.rglob("*")}
    again = make_city(tmp_path / "c", **SMALL | {"town_size": np.float64(250.0), "seed": np.int64(5)}, reuse=True)
    assert again == made
    assert {path: path.stat().st_mtime_ns for path in made.path.rglob("*")} == before
    with pytest.raises(InvalidArgumentError, match=r"has another city: it has num_scenes 2 in place of 1; choose"):
        make_city(tmp_path / "c", **SMALL | {"num_scenes": 1}, reuse=True)
    other = make_city(tmp_path / "c", **SMALL | {"num_scenes": 1}, reuse=True, overwrite=True)
    assert len(ChunkedDataset(str(other.scenes["sample"])).open().scenes) == 1


def test_a_city_that_another_process_has_made_in_the_meantime_is_taken_or_refused(tmp_path: Path) -> None:
    def make_meanwhile(done: int, total: int) -> None:
        if done == total:
            make_city(tmp_path / "c", **others)

    others = SMALL
    city = make_city(tmp_path / "c", **SMALL, reuse=True, progress=make_meanwhile)
    assert ChunkedDataset(str(city.scenes["sample"])).open().validate() == []
    shutil.rmtree(city.path)
    for others, reuse in ((SMALL, False), (SMALL | {"num_frames": 3}, True)):
        with pytest.raises(FileExistsError, match="another process has just written it"):
            make_city(tmp_path / "c", **SMALL, reuse=reuse, progress=make_meanwhile)
        assert make_city(tmp_path / "c", **others, reuse=True).path == city.path
        shutil.rmtree(city.path)
    assert not any(tmp_path.iterdir())


def test_failure_leaves_nothing_and_loses_nothing(tmp_path: Path) -> None:
    make_city(tmp_path / "c", **SMALL)
    before = _digests(tmp_path)

    def fail(done: int, total: int) -> None:
        raise RuntimeError("stop")

    for name, overwrite in (("c", True), ("d", False)):
        with pytest.raises(RuntimeError, match="stop"):
            make_city(tmp_path / name, **SMALL, overwrite=overwrite, progress=fail)
    assert _digests(tmp_path) == before


def test_the_old_city_is_put_back_if_the_new_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_city(tmp_path / "c", **SMALL)
    before, replace = _digests(tmp_path), os.replace

    def fail_for_the_new(source: Path, target: Path) -> None:
        if Path(target) == tmp_path / "c" and Path(source).name == "c":
            raise PermissionError("in use")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_for_the_new)
    with pytest.raises(PermissionError, match="in use"):
        make_city(tmp_path / "c", **SMALL, overwrite=True)
    assert _digests(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("name", ["meta.json", "scenes"])
def test_half_a_dataset_folder_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    if name == "scenes":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("{}")
    with pytest.raises(InvalidArgumentError, match="but no synthetic city"):
        make_city(tmp_path, **SMALL, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_bad_parameters_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="num_scenes must be an integer from 1"):
        make_city(tmp_path / "c", num_scenes=0)
    assert not any(tmp_path.iterdir())
