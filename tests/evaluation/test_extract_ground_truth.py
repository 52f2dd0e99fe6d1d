"""True positions of agents, written to a file."""

import json
import warnings

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation import export_zarr_to_csv, read_gt_csv, world_displacements
from l5kit.geometry import transform_points
from support.fixture_s import make_fixture_s
from support.logs import make_log
from support.samples import make_agent_dataset, make_cfg
from support.tolerances import FLOAT64_LONG

CSV_TOLERANCE_M = 1e-5  # five decimals
SAMPLE_TOLERANCE_M = 2e-5  # sample positions are float32


def read(path):
    return list(read_gt_csv(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gt.csv"


def export(log, path, *arguments, **options):
    """Export without the warnings about the agents mask."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        export_zarr_to_csv(log, path, *arguments, **options)
    return read(path)


def test_an_agent_that_drives_along_x_goes_along_x_whatever_its_heading(path):
    frames = [[{"track_id": 4, "centroid": (100.0 + 2 * k, -50.0), "yaw": 1.2}] for k in range(5)]
    mask = np.arange(5) == 1
    (row,) = export(make_log([frames]), path, 4, 0.5, agents_mask=mask)
    assert (row["track_id"], row["timestamp"]) == ("4", "100000000")
    np.testing.assert_allclose(row["coord"][:3], [[2, 0], [4, 0], [6, 0]], atol=SAMPLE_TOLERANCE_M)
    np.testing.assert_array_equal(row["avail"], [1, 1, 1, 0])


def test_rows_are_those_of_an_agent_dataset_in_its_order(path):
    log = make_fixture_s()
    samples = make_agent_dataset(make_cfg(future_num_frames=5), log)
    rows = export(log, path, 5, 0.5)
    assert len(rows) == len(samples) > 10
    for row, sample in zip(rows, samples, strict=True):
        assert (row["track_id"], row["timestamp"]) == (str(sample["track_id"]), str(sample["timestamp"]))
        expected = transform_points(sample["target_positions"], sample["world_from_agent"]) - sample["centroid"]
        np.testing.assert_allclose(row["coord"], expected, rtol=0, atol=CSV_TOLERANCE_M)
        np.testing.assert_array_equal(row["avail"], sample["target_availabilities"])


def test_a_mask_chooses_the_rows_and_gives_no_warning(path, recwarn):
    log = make_fixture_s()
    mask = np.zeros(len(log.agents), bool)
    mask[[0, 40]] = True
    export_zarr_to_csv(log, path, 3, 0.5, agents_mask=mask)
    assert [row["track_id"] for row in read(path)] == [str(log.agents[row]["track_id"]) for row in (0, 40)]
    assert len(recwarn) == 0


def test_no_agents_give_a_file_without_rows(path):
    log = make_fixture_s()
    assert export(log, path, 3, 0.5, agents_mask=np.zeros(len(log.agents), bool)) == []
    assert path.read_text().splitlines()[0].endswith("coord_x02,coord_y02")


def test_progress_ends_with_all_agents(path):
    log, told = make_fixture_s(), []
    rows = export(log, path, 3, 0.5, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(rows), len(rows))


def test_a_mask_that_does_not_fit_is_named(path):
    with pytest.raises(InvalidArgumentError, match="agents_mask must be a bool array"):
        export_zarr_to_csv(make_fixture_s(), path, 3, 0.5, agents_mask=np.ones(3, bool))
    assert not path.exists()


def test_s11_predictions_of_many_modes_turn_into_the_axes_of_the_world():
    """Predictions in each agent's own axes, as a notebook of 1.5 wrote them, are not what the files hold."""
    rng = np.random.default_rng(0)
    yaws, centroids = rng.uniform(-3, 3, 4), rng.uniform(-100, 100, (4, 2))
    poses = np.array(
        [
            [[np.cos(a), -np.sin(a), x], [np.sin(a), np.cos(a), y], [0, 0, 1]]
            for a, (x, y) in zip(yaws, centroids, strict=True)
        ]
    )
    modes = rng.normal(size=(4, 3, 5, 2)).astype(np.float32)
    found = world_displacements(modes, poses, centroids)
    assert (found.shape, found.dtype) == (modes.shape, np.float64)
    np.testing.assert_allclose(found[2, 1], modes[2, 1] @ poses[2, :2, :2].T, atol=FLOAT64_LONG)
    np.testing.assert_allclose(world_displacements(modes[:, 0], poses, centroids), found[:, 0], atol=FLOAT64_LONG)
    assert world_displacements(modes[:0], poses[:0], centroids[:0]).shape == (0, 3, 5, 2)


def test_the_real_scene_gives_the_positions_that_1_5_recorded(shared_data, shared_golden, path):
    group = json.loads((shared_golden / "scene.json").read_text())["groups"]["stub_debug_h10/agent"]
    recorded = np.load(shared_golden / "scene.npz")
    log = ChunkedDataset(str(shared_data / "single_scene.zarr")).open()
    rows = export(log, path, group["cfg"]["model_params"]["future_num_frames"], 0.5)
    assert len(rows) == group["length"]
    for index in group["indices"]:
        sample = {
            key: recorded[f"stub_debug_h10/agent/{index}/{key}"]
            for key in group["samples"][str(index)]
            if key != "image"
        }
        assert rows[index]["track_id"] == str(sample["track_id"])
        assert rows[index]["timestamp"] == str(sample["timestamp"])
        expected = transform_points(sample["target_positions"], sample["world_from_agent"]) - sample["centroid"]
        np.testing.assert_allclose(rows[index]["coord"], expected, rtol=0, atol=SAMPLE_TOLERANCE_M)
        np.testing.assert_array_equal(rows[index]["avail"], sample["target_availabilities"])
