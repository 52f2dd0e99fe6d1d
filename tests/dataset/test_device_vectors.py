"""The AV among the agents, by tensors of any device: what ``EgoAgentDatasetVectorized`` makes of arrays."""

from typing import Any

import numpy as np
import pytest
import torch

from l5kit.data.map.api import MapAPI
from l5kit.dataset import EgoAgentDatasetVectorized, EgoDatasetVectorized
from l5kit.dataset.ego_vectorized import with_av_as_agent
from l5kit.sampling.sample_keys import ROWS_OF_AV
from l5kit.vectorization.vectorizer import Vectorizer
from support.logs import make_several_scenes_log
from support.maps import WORLD_TO_ECEF, save_street_map
from support.vectors import make_vector_cfg

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def columns_of(cls: Any, vectorizer: Vectorizer, cfg: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of all samples of a small log as arrays."""
    dataset = cls(cfg, make_several_scenes_log(), vectorizer)
    samples = dataset.__getitems__(list(range(len(dataset))))
    return {
        key: np.stack([sample[key] for sample in samples])
        for key in samples[0].keys() & {*ROWS_OF_AV, *ROWS_OF_AV.values()}
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("num_others", [0, 3])
def test_agents_with_the_av_are_those_of_the_dataset(num_others: int, device: str, tmp_path: Any) -> None:
    cfg = make_vector_cfg(
        history_num_frames_ego=11, history_num_frames_agents=11, order_agents_by_distance=True, other_agents_num=3
    )
    vectorizer = Vectorizer(cfg, MapAPI(save_street_map(tmp_path), WORLD_TO_ECEF))
    vectorizer.other_agents_num = num_others
    given = {
        key: torch.from_numpy(column).to(device)
        for key, column in columns_of(EgoDatasetVectorized, vectorizer, cfg).items()
    }
    before = {key: column.clone() for key, column in given.items()}
    vectorizer.other_agents_num = num_others + 1
    expected = columns_of(EgoAgentDatasetVectorized, vectorizer, cfg)
    found = with_av_as_agent(given, torch)
    assert set(found) == ROWS_OF_AV.keys() & given.keys()
    for key, column in found.items():
        array = column.cpu().numpy()
        assert column.device == given[key].device
        assert array.dtype == expected[key].dtype, key
        np.testing.assert_array_equal(array, expected[key], err_msg=key)
    assert all(torch.equal(given[key], column) for key, column in before.items())
    cleared = given["target_availabilities"].cpu() & ~found["all_other_agents_future_availability"][:, 0].cpu()
    assert cleared.any()
    assert found["all_other_agents_future_availability"].any()
