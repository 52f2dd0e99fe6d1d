"""A drive with its log, plans, values and failures, and what is drawn of it."""

import json
import shutil

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.errors import CorruptedDataError
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.simulated.drive_overlay import AGENT_GHOST_COLOR, EGO_GHOST_COLOR, PLAN_COLOR, DriveOverlay
from l5kit.visualization.simulated.scene_drive import DriveReader

FIRST_FRAME = 5  # of the log that is simulated


@pytest.fixture
def copy(driven_city, tmp_path):
    """A simulation that a test may break."""
    return shutil.copytree(driven_city[1], tmp_path / "drives")


def read(path, scene_index):
    folder = SimulationFolder(path)
    simulated = read_scene_arrays(ChunkedDataset(folder.driven).open(), scene_index)
    return DriveReader(folder).read(scene_index, simulated), simulated


@pytest.mark.parametrize("scene_index", [0, 1])
def test_a_drive_stands_beside_the_frames_of_its_log(driven_city, scene_index):
    city, drives = driven_city
    drive, simulated = read(drives, scene_index)
    log = read_scene_arrays(ChunkedDataset(city / "scenes" / "sample.zarr").open(), drive.result.scene)
    np.testing.assert_array_equal(drive.ghosts.ego_positions_m, log.ego_positions_m[FIRST_FRAME:, :2])
    gaps_m = np.linalg.norm(simulated.ego_positions_m[:, :2] - drive.ghosts.ego_positions_m, axis=1)
    np.testing.assert_allclose(gaps_m, drive.columns["distance_to_log_m"], atol=1e-3)
    assert gaps_m[0] == 0
    assert gaps_m[-1] > 10
    assert len(drive.ghosts.track_ids) > 100


def test_the_worst_failure_is_found_where_the_table_has_it(driven_city):
    drive, _ = read(driven_city[1], 0)
    at_fault = [failure.first_frame for failure in drive.failures if failure.kind == "collision_at_fault"]
    assert at_fault == np.flatnonzero(drive.columns["collision_at_fault"] == 1).tolist() != []


def test_a_table_of_other_frames_gives_no_values(copy):
    lines = (copy / "frames.csv").read_text().splitlines(keepends=True)
    (copy / "frames.csv").write_text("".join(lines[:50]))
    drive, _ = read(copy, 0)
    assert (drive.columns, drive.failures) == ({}, [])


def test_plans_of_other_frames_are_an_error(copy):
    np.savez(copy / "plans.npz", times_s=np.ones(2), scene_0=np.zeros((94, 2, 3)))
    with pytest.raises(CorruptedDataError, match=r"shape \(94, 2, 3\), but must have \(95, 2, 3\)"):
        read(copy, 0)


@pytest.mark.parametrize(
    ("files", "note"),
    [
        ({}, "names no log"),
        ({"log": "/nowhere/sample.zarr"}, "no longer exists"),
        ({"log": "broken.zarr"}, "cannot be read"),
    ],
)
def test_a_log_that_is_not_there_leaves_the_drive_alone(copy, files, note):
    run = json.loads((copy / "run.json").read_text())
    (copy / "broken.zarr").mkdir()
    files = {name: str(copy / place) for name, place in files.items()}
    (copy / "run.json").write_text(json.dumps(run | {"files": files}))
    (told,) = DriveReader(SimulationFolder(copy)).notes
    assert note in told
    drive, _ = read(copy, 0)
    assert not drive.ghosts.has_log
    assert drive.failures


def test_an_overlay_outlines_the_log_and_dots_the_plan(driven_city):
    folder = SimulationFolder(driven_city[1])
    dataset = ChunkedDataset(folder.driven).open()
    drive, simulated = read(driven_city[1], 0)
    frame = 60
    center_m = drive.ghosts.ego_positions_m[frame]
    pixels = np.array([[4.0, 0, 400], [0, 4.0, 400], [0, 0, 1]]) @ np.array(
        [[1, 0, -center_m[0]], [0, 1, -center_m[1]], [0, 0, 1]]
    )
    black = np.zeros((800, 800, 3), np.uint8)

    def drawn(**what):
        overlay = DriveOverlay(folder, dataset, **what)
        assert overlay.notes == []
        picture = overlay.draw(black.copy(), overlay.marks(0, frame), raster_from_world=pixels)
        return {tuple(color) for color in np.unique(picture.reshape(-1, 3), axis=0).tolist()}, picture

    ghosts, picture = drawn(with_ghosts=True, with_plans=False)
    assert EGO_GHOST_COLOR in ghosts
    assert AGENT_GHOST_COLOR in ghosts
    assert PLAN_COLOR not in ghosts
    rows, columns = np.nonzero((picture == EGO_GHOST_COLOR).all(axis=-1))
    assert abs(rows.mean() - 400) < 3
    assert abs(columns.mean() - 400) < 3
    plans, picture = drawn(with_ghosts=False, with_plans=True)
    assert plans == {(0, 0, 0), PLAN_COLOR}
    ahead_px = (pixels @ np.append(simulated.ego_positions_m[frame + 1, :2], 1))[:2].astype(int)
    assert tuple(picture[ahead_px[1], ahead_px[0]].tolist()) == PLAN_COLOR
    assert drawn(with_ghosts=False, with_plans=False)[0] == {(0, 0, 0)}
