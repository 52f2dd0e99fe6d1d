"""BaseEgoDataset and EgoDataset."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.configs.parameters import RasterGeometry
from l5kit.data.index import log_index
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import BaseEgoDataset, EgoDataset
from l5kit.dataset.utils import convert_str_to_fixed_length_tensor
from l5kit.errors import ConfigError, TrackNotFoundError
from l5kit.rasterization import BoxRasterizer
from l5kit.rasterization.render_context import RenderContext
from l5kit.sampling import generate_agent_sample
from support.fixture_s import make_fixture_s, make_fixture_s_arrays, save_fixture_s
from support.logs import make_log, make_several_scenes_log
from support.samples import assert_samples_equal, make_agent_dataset, make_cfg, make_stub
from support.tolerances import FLOAT32

ADDED_KEYS = ["scene_index", "host_id", "timestamp", "track_id"]


def make_dataset(log: ChunkedDataset | None = None, **overrides: Any) -> EgoDataset:
    return EgoDataset(make_cfg(**overrides), make_fixture_s() if log is None else log, None)


class RowCounter(BaseEgoDataset):
    """A user's dataset whose samples report how many rows they were given."""

    def _get_sample_function(self) -> Any:
        def count(state_index: int, frames: Any, agents: Any, tl_faces: Any, selected_track_id: Any = None) -> Any:
            return {"counts": (state_index, len(frames), len(agents), len(tl_faces), selected_track_id)}

        return count


@pytest.mark.parametrize("text", ["é", "h" * 71, "a\0b"])
def test_texts_that_no_tensor_of_bytes_holds_are_refused(text):
    with pytest.raises(ValueError, match=r"ascii|at most 70 bytes"):
        convert_str_to_fixed_length_tensor(text)


def test_the_base_makes_no_samples() -> None:
    with pytest.raises(NotImplementedError, match="BaseEgoDataset makes no samples by itself"):
        BaseEgoDataset(make_cfg(), make_fixture_s())


def test_d1_scenes_of_an_own_dataset_are_of_its_class() -> None:
    scene = RowCounter(make_cfg(), make_several_scenes_log()).get_scene_dataset(3)
    assert type(scene) is RowCounter
    assert (len(scene), scene[9]["counts"][:2]) == (16, (9, 16))


def test_attributes() -> None:
    cfg, log = make_cfg(), make_several_scenes_log()
    rasterizer = make_stub(cfg)
    dataset = EgoDataset(cfg, log, rasterizer)
    assert (dataset.cfg, dataset.dataset, dataset.rasterizer) == (cfg, log, rasterizer)
    assert dataset.perturbation is None
    assert isinstance(dataset.cumulative_sizes, np.ndarray)
    assert dataset.cumulative_sizes.tolist() == [20, 20, 21, 37]
    assert callable(dataset.sample_function)
    assert len(dataset) == 37
    assert str(dataset) == str(log)


def test_an_item_is_the_sample_of_its_frame_with_where_it_comes_from() -> None:
    cfg, arrays = make_cfg(), make_fixture_s_arrays()[1:]
    context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
    rasterizer = BoxRasterizer(context, 0.5, 3)
    sample = EgoDataset(cfg, make_fixture_s(), rasterizer)[10]
    expected = generate_agent_sample(10, *arrays, None, context, 3, 5, 0.1, 0.5, rasterizer)
    assert list(sample) == [*expected, *ADDED_KEYS]
    np.testing.assert_array_equal(sample.pop("image"), expected.pop("image").transpose(2, 0, 1))
    assert_samples_equal({key: sample[key] for key in expected}, expected)
    assert (sample["scene_index"], type(sample["scene_index"])) == (0, int)
    np.testing.assert_array_equal(sample["host_id"], convert_str_to_fixed_length_tensor("host-x").numpy())
    assert (sample["timestamp"], type(sample["timestamp"])) == (2_000_000_000, np.int64)
    assert (sample["track_id"], type(sample["track_id"])) == (-1, np.int64)


@pytest.mark.parametrize("image_dtype", ["float32", "uint8"])
@pytest.mark.parametrize("set_origin_to_bottom", [True, False])
def test_d15_images_are_channel_first_and_contiguous(set_origin_to_bottom: bool, image_dtype: str) -> None:
    cfg = make_cfg(set_origin_to_bottom=set_origin_to_bottom, raster_size=[60, 40], image_dtype=image_dtype)
    context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
    sample = EgoDataset(cfg, make_fixture_s(), BoxRasterizer(context, 0.5, 3, image_dtype=image_dtype))[15]
    assert (sample["image"].shape, sample["image"].dtype.name) == ((8, 40, 60), image_dtype)
    assert sample["image"].flags.c_contiguous
    assert sample["image"].max() == (1 if image_dtype == "float32" else 255)


def test_bytes_are_the_floats_before_the_division() -> None:
    images = {}
    for image_dtype in ("float32", "uint8"):
        cfg = make_cfg(image_dtype=image_dtype)
        context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
        rasterizer = BoxRasterizer(context, 0.5, 3, image_dtype=image_dtype)
        images[image_dtype] = EgoDataset(cfg, make_fixture_s(), rasterizer)[15]["image"]
    np.testing.assert_array_equal(images["uint8"].astype(np.float32) / np.float32(255), images["float32"])


def test_indices_find_scene_and_frame_across_empty_and_short_scenes() -> None:
    dataset = make_dataset(make_several_scenes_log())
    found = [(sample["scene_index"], int(sample["frame_index"])) for sample in dataset]
    assert found == [(0, k) for k in range(20)] + [(2, 0)] + [(3, k) for k in range(16)]
    assert type(dataset[3]["frame_index"]) is int
    assert type(dataset[30]["frame_index"]) is np.int64


@pytest.mark.parametrize("index", [-1, -37, np.int64(-17)])
def test_negative_indices_count_from_the_end(index: int) -> None:
    dataset = make_dataset(make_several_scenes_log())
    assert_samples_equal(dataset[index], dataset[37 + index])


def test_get_frame_equals_the_item() -> None:
    dataset = make_dataset(make_several_scenes_log())
    for index, (scene, frame) in {3: (0, 3), 20: (2, 0), 30: (3, 9)}.items():
        assert_samples_equal(dataset.get_frame(scene, frame), dataset[index] | {"frame_index": frame})
    assert_samples_equal(dataset.get_frame(-1, 9), dataset.get_frame(3, 9) | {"scene_index": -1})


def test_get_frame_of_an_agent() -> None:
    sample = make_dataset().get_frame(0, 10, track_id=1)
    assert (sample["track_id"], type(sample["track_id"])) == (1, np.int64)
    assert sample["extent"].dtype == np.float32


@pytest.mark.parametrize(("scene", "frame"), [(1, 0), (-2, 0), (0, 30), (0, -1)])
def test_d11_get_frame_beyond_the_log_is_an_index_error(scene: int, frame: int) -> None:
    with pytest.raises(IndexError, match="is out of range for a"):
        make_dataset().get_frame(scene, frame)


@pytest.mark.parametrize("track_id", [999, 7], ids=["absent", "filtered"])
def test_get_frame_of_a_track_that_is_not_there(track_id: int) -> None:
    with pytest.raises(TrackNotFoundError, match=f"track {track_id}"):
        make_dataset().get_frame(0, 10, track_id=track_id)


@pytest.mark.parametrize("scene", range(-4, 4))
def test_a_scene_dataset_reproduces_the_samples_of_the_scene(scene: int) -> None:
    cfg = make_cfg()
    rasterizer = make_stub(cfg)
    dataset = EgoDataset(cfg, make_several_scenes_log(), rasterizer)
    part = dataset.get_scene_dataset(scene)
    indices = dataset.get_scene_indices(scene)
    assert type(part) is EgoDataset
    assert (part.cfg, part.rasterizer) == (cfg, rasterizer)
    assert len(part) == len(indices)
    for own, index in enumerate(indices):
        place = {"scene_index": 0, "frame_index": own}
        assert_samples_equal(part[own] | place, dataset[index] | place)


def test_scene_datasets_of_identical_scenes_hold_the_original_rows() -> None:
    original = make_fixture_s()
    dataset = make_dataset(ChunkedDataset.concatenate([original] * 3))
    for scene in range(3):
        part = dataset.get_scene_dataset(scene).dataset
        for name in ("scenes", "frames", "agents", "tl_faces"):
            np.testing.assert_array_equal(getattr(part, name), getattr(original, name))


@pytest.mark.parametrize("scene", [4, -5, 999])
def test_there_is_no_dataset_of_a_scene_beyond_the_end(scene: int) -> None:
    with pytest.raises(ValueError, match="4 scenes"):
        make_dataset(make_several_scenes_log()).get_scene_dataset(scene)


def test_scene_and_frame_indices() -> None:
    dataset = make_dataset(make_several_scenes_log())
    indices = [dataset.get_scene_indices(scene) for scene in range(4)]
    assert [found.tolist() for found in indices] == [list(range(20)), [], [20], list(range(21, 37))]
    assert {found.dtype for found in indices} == {np.dtype(np.int64)}
    assert dataset.get_frame_indices(25).tolist() == [25]
    assert dataset.get_frame_indices(25).dtype == np.int64


@pytest.mark.parametrize("method", ["get_scene_indices", "get_frame_indices"])
def test_indices_beyond_the_end_are_an_assertion_error(method: str) -> None:
    dataset = make_dataset(make_several_scenes_log())
    for index in (37, 999, -38):
        with pytest.raises(AssertionError, match=f"_idx {index} is out of range"):
            getattr(dataset, method)(index)


def test_traffic_lights_are_switched_off_and_on_between_samples() -> None:
    dataset = RowCounter(make_cfg(), make_fixture_s())
    counts = []
    for is_off in (False, True, 1, False):
        dataset.cfg["raster_params"]["disable_traffic_light_faces"] = is_off
        counts.append(dataset[3]["counts"][3])
    assert counts == [60, 0, 0, 60]


def test_a_switch_of_the_wrong_type_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"raster_params\.disable_traffic_light_faces"):
        make_dataset(disable_traffic_light_faces="no").get_frame(0, 3)


def test_d13_other_changes_of_the_configuration_have_no_effect() -> None:
    dataset = make_dataset()
    dataset.cfg["model_params"]["history_num_frames"] = 1
    assert dataset[10]["history_positions"].shape == (4, 2)


def test_a_subclass_that_overrides_get_frame_is_asked_by_items() -> None:
    class Annotated(EgoDataset):
        def get_frame(self, scene_index: int, state_index: int, track_id: int | None = None) -> dict[str, Any]:
            return super().get_frame(scene_index, state_index, track_id) | {"note": state_index}

    dataset = Annotated(make_cfg(), make_fixture_s(), None)
    assert (dataset[3]["note"], dataset.get_scene_dataset(0)[4]["note"]) == (3, 4)


def test_a_subclass_that_gives_its_own_sample_function() -> None:
    class Shorter(EgoDataset):
        def _get_sample_function(self) -> Any:
            full = super()._get_sample_function()
            return lambda *args: {"centroid": full(*args)["centroid"]}

    assert list(Shorter(make_cfg(), make_fixture_s(), None)[3]) == ["centroid", *ADDED_KEYS]


def test_the_scenes_are_read_once_and_their_ends_are_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    log, read = make_several_scenes_log(), []

    def passing_rows(array: Any, start: int, stop: int) -> Any:
        read.append(array)
        return array[start:stop]

    monkeypatch.setattr(log_index, "passing_rows", passing_rows)
    dataset = make_dataset(log)
    assert sum(array is log.scenes for array in read) == 1
    dataset.cumulative_sizes[:] = 0
    assert log.scenes["frame_index_interval"][:, 1].tolist() == [20, 20, 21, 37]


def test_dataset_and_cumulative_sizes_may_be_replaced_in_place() -> None:
    dataset, other = make_dataset(), make_several_scenes_log()
    dataset.dataset, dataset.cumulative_sizes = other, other.scenes["frame_index_interval"][:, 1]
    assert len(dataset) == 37
    assert_samples_equal(dataset[30], make_dataset(other)[30])


def test_arrays_of_an_opened_log_may_be_replaced_by_changed_copies(tmp_path: Path) -> None:
    log = ChunkedDataset(save_fixture_s(tmp_path)).open()
    frames = log.frames[:]
    frames["ego_translation"][10] += 1
    log.frames = frames
    np.testing.assert_allclose(make_dataset(log)[10]["centroid"], (-189, 1.2))


def test_a_log_on_disk_gives_the_samples_of_the_log_in_memory(tmp_path: Path) -> None:
    stored = make_dataset(ChunkedDataset(save_fixture_s(tmp_path)).open())
    for index in (0, 10, 29):
        assert_samples_equal(stored[index], make_dataset()[index])


def test_b4_a_log_without_traffic_lights_gives_samples(tmp_path: Path) -> None:
    path = save_fixture_s(tmp_path)
    for file in (Path(path) / "traffic_light_faces").iterdir():
        file.unlink()
    (Path(path) / "traffic_light_faces").rmdir()
    with pytest.warns(RuntimeWarning, match="traffic_light_faces"):
        log = ChunkedDataset(path).open()
    cfg = make_cfg()
    context = RenderContext.from_geometry(RasterGeometry.from_cfg(cfg))
    for found in (EgoDataset(cfg, log, BoxRasterizer(context, 0.5, 3)), make_agent_dataset(cfg, log)):
        assert len(list(found)) == len(found) > 0
        assert_samples_equal(found.get_scene_dataset(0)[3], found[3])
    assert_samples_equal(make_dataset(log)[10], make_dataset()[10])


def test_concatenated_logs_equal_their_parts(tmp_path: Path) -> None:
    parts = [ChunkedDataset(save_fixture_s(tmp_path)).open(), make_several_scenes_log(), make_fixture_s()]
    whole = make_dataset(ChunkedDataset.concatenate(parts))
    expected = [sample for part in parts for sample in make_dataset(part)]
    scenes = [0] * 30 + [1] * 20 + [3] + [4] * 16 + [5] * 30
    assert len(whole) == len(expected) == len(scenes)
    for index, scene in enumerate(scenes):
        place = {"scene_index": scene, "frame_index": 0}
        assert_samples_equal(whole[index] | place, expected[index] | place)


def test_empty_logs_have_length_0() -> None:
    for log in (ChunkedDataset.in_memory(), make_log([[], []])):
        dataset = make_dataset(log)
        assert (len(dataset), list(dataset)) == (0, [])
        with pytest.raises(IndexError):
            dataset[0]


def test_d14_a_rasterizer_with_another_geometry_gives_a_warning_at_the_constructor() -> None:
    cfg = make_cfg()
    with pytest.warns(RuntimeWarning, match="geometry of the rasterizer differs") as caught:
        EgoDataset(cfg, make_fixture_s(), make_stub(make_cfg(raster_size=[50, 50])))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EgoDataset(cfg, make_fixture_s(), make_stub(cfg))


def test_a_copy_shares_everything() -> None:
    dataset = make_dataset()
    copied = copy.copy(dataset)
    assert type(copied) is EgoDataset
    assert copied.cumulative_sizes is dataset.cumulative_sizes
    assert copied.dataset is dataset.dataset


@pytest.mark.parametrize(("history_step", "future_step"), [(2, 1), (1, 3)])
def test_step_sizes_of_the_configuration_reach_the_samples(history_step: int, future_step: int) -> None:
    strided = make_dataset(history_step_size=history_step, future_step_size=future_step)[12]
    dense = make_dataset(history_num_frames=3 * history_step, future_num_frames=5 * future_step)[12]
    for name in ("target_positions", "target_yaws"):
        np.testing.assert_allclose(strided[name], dense[name][future_step - 1 :: future_step], atol=FLOAT32)
    for name in ("history_positions", "history_yaws"):
        np.testing.assert_allclose(strided[name], dense[name][::history_step], atol=FLOAT32)
