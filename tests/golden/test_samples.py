"""Samples equal those recorded from L5Kit 1.5: images to the bit, floats to 1e-6, keys, dtypes and shapes exactly."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import AgentDataset, EgoDataset
from l5kit.errors import SampleError
from l5kit.rasterization import build_rasterizer
from support.tolerances import FLOAT32

FLOAT_TOLERANCE = FLOAT32

DATASETS = {"EgoDataset": EgoDataset, "AgentDataset": AgentDataset}
RECORDINGS = ("scene", "street_map")
GROUPS = [
    ("scene", "py_semantic_h10/ego"),
    ("scene", "py_semantic_h10/agent"),
    ("scene", "py_satellite_h10/ego"),
    ("scene", "box_debug_h10/agent"),
    ("scene", "stub_debug_h10/agent"),
    ("street_map", "syn_py_semantic_h10/ego"),
    ("street_map", "syn_py_semantic_h10/agent"),
    ("street_map", "syn_py_semantic_rect/ego"),
    ("street_map", "syn_py_satellite_h10/ego"),
]


@pytest.fixture(scope="module")
def recordings(shared_golden: Path) -> dict[str, tuple[dict[str, Any], Any]]:
    return {
        name: (
            json.loads((shared_golden / f"{name}.json").read_text())["groups"],
            np.load(shared_golden / f"{name}.npz"),
        )
        for name in RECORDINGS
    }


@pytest.fixture(scope="module")
def dataset(shared_data: Path) -> ChunkedDataset:
    return ChunkedDataset(str(shared_data / "single_scene.zarr")).open()


def make_dataset(group: dict[str, Any], dataset: ChunkedDataset, shared_data: Path) -> EgoDataset:
    cfg = group["cfg"]
    rasterizer = build_rasterizer(cfg, LocalDataManager(str(shared_data)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return DATASETS[group["dataset"]](cfg, dataset, rasterizer)


def type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


@pytest.mark.parametrize(("recording", "name"), GROUPS, ids=[f"{r}-{g}" for r, g in GROUPS])
def test_group_is_reproduced(
    recording: str, name: str, recordings: dict[str, Any], dataset: ChunkedDataset, shared_data: Path
) -> None:
    groups, arrays = recordings[recording]
    group = groups[name]
    samples = make_dataset(group, dataset, shared_data)
    assert len(samples) == group["length"]
    for index in group["indices"]:
        recorded = group["samples"][str(index)]
        if "raises" in recorded:
            with pytest.raises(SampleError):
                samples[index]
            continue
        sample = samples[index]
        assert set(sample) == set(recorded)
        for key, facts in recorded.items():
            check_value(sample[key], arrays[f"{name}/{index}/{key}"], facts, key)


def check_value(value: Any, expected: Any, facts: dict[str, Any], key: str) -> None:
    found = np.asarray(value)
    assert type_name(value) == facts["pytype"], key
    assert found.dtype.str == facts["dtype"], key
    assert list(found.shape) == list(facts["shape"]), key
    if key == "image":
        expected_image = expected.astype(np.float32) / np.float32(255) if expected.dtype == np.uint8 else expected
        np.testing.assert_array_equal(found, expected_image, err_msg=key)
    elif found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE, err_msg=key)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=key)


def test_every_raster_group_is_listed(recordings: dict[str, Any]) -> None:
    recorded = {(r, name) for r, (groups, _) in recordings.items() for name in groups if "vec" not in name}
    assert recorded == set(GROUPS)


def test_agents_mask_and_indices(recordings: dict[str, Any], dataset: ChunkedDataset, shared_data: Path) -> None:
    groups, arrays = recordings["scene"]
    agents = make_dataset(groups["box_debug_h10/agent"], dataset, shared_data)
    assert isinstance(agents, AgentDataset)
    mask = agents.load_agents_mask()
    assert mask.dtype == np.uint32
    np.testing.assert_array_equal(mask, arrays["agents_mask/0.5"])
    np.testing.assert_array_equal(agents.agents_indices, arrays["agents_indices"])
    np.testing.assert_array_equal(agents.mask_indices, arrays["mask_indices"])
    np.testing.assert_array_equal(agents.get_scene_indices(0), arrays["agent_scene_indices/0"])
    np.testing.assert_array_equal(agents.get_frame_indices(100), arrays["agent_frame_indices/100"])
