"""Vector samples equal those recorded from L5Kit 1.5: keys, dtypes and shapes exactly, floats to 1e-6."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.tolerances import FLOAT32

FLOAT_TOLERANCE = FLOAT32

DATASETS = {
    "EgoDatasetVectorized": EgoDatasetVectorized,
    "EgoAgentDatasetVectorized": EgoAgentDatasetVectorized,
}
GROUPS = [
    ("scene", "vec/ego"),
    ("scene", "vec_sp/egoagent"),
    ("street_map", "syn_vec/ego"),
    ("street_map", "syn_vec_sp/egoagent"),
]


def recorded_groups(shared_golden: Path, recording: str) -> dict[str, Any]:
    groups: dict[str, Any] = json.loads((shared_golden / f"{recording}.json").read_text())["groups"]
    return groups


def test_every_vector_group_is_listed(shared_golden: Path) -> None:
    recordings = ("scene", "street_map")
    recorded = {(r, name) for r in recordings for name in recorded_groups(shared_golden, r) if "vec" in name}
    assert recorded == set(GROUPS)


@pytest.mark.parametrize("is_batch", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize(("recording", "name"), GROUPS, ids=[f"{r}-{g}" for r, g in GROUPS])
def test_group_is_reproduced(recording: str, name: str, is_batch: bool, shared_golden: Path, shared_data: Path) -> None:
    group = recorded_groups(shared_golden, recording)[name]
    arrays = np.load(shared_golden / f"{recording}.npz")
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    vectorizer = build_vectorizer(group["cfg"], LocalDataManager(str(shared_data)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        samples = DATASETS[group["dataset"]](group["cfg"], log, vectorizer)
    assert len(samples) == group["length"]
    indices = group["indices"]
    found = samples.__getitems__(indices) if is_batch else [samples[index] for index in indices]
    for index, sample in zip(indices, found, strict=True):
        recorded = group["samples"][str(index)]
        assert set(sample) == set(recorded)
        for key, facts in recorded.items():
            check_value(sample[key], arrays[f"{name}/{index}/{key}"], facts, key)


def check_value(value: Any, expected: Any, facts: dict[str, Any], key: str) -> None:
    found = np.asarray(value)
    assert f"{type(value).__module__}.{type(value).__name__}" == facts["pytype"], key
    assert (found.dtype.str, list(found.shape)) == (facts["dtype"], list(facts["shape"])), key
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=FLOAT_TOLERANCE, atol=FLOAT_TOLERANCE, err_msg=key)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=key)
