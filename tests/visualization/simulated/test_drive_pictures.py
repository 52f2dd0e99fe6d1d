"""Films and failures of drives."""

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.scene_arrays import read_scene_arrays
from l5kit.simulation.folder.simulation_folder import SimulationFolder
from l5kit.visualization.birdseye.tones import EGO_RGB, tones_of
from l5kit.visualization.demo_folder import draw_drive, draw_failure
from l5kit.visualization.simulated.scene_drive import DriveReader


def count(picture, color):
    return int((picture == color).all(axis=-1).sum())


def test_the_film_shows_the_av_and_the_outlines_of_the_log(driven_city):
    film = draw_drive(SimulationFolder(driven_city[1]), num_frames=30)
    assert len(film.pictures) == 30
    assert film.frames_per_s == 10
    assert f"scene {film.scene_index}, frames" in film.title
    for picture in film.pictures:
        assert picture.shape == (400, 600, 3)
        assert count(picture, EGO_RGB) > 20
    ghost = np.array(tones_of("light").ghost)
    is_ghost = [(np.abs(picture.astype(int) - ghost).max(axis=-1) < 30).sum() for picture in film.pictures]
    assert max(is_ghost) > 20


def test_the_failure_is_the_first_frame_of_the_worst_one_of_the_lowest_score(driven_city):
    folder = SimulationFolder(driven_city[1])
    failure = draw_failure(folder)
    driven = ChunkedDataset(folder.driven).open()
    at_fault = []
    for result in folder.scenes:
        if result.position is not None:
            drive = DriveReader(folder).read(result.position, read_scene_arrays(driven, result.position))
            collisions = [each for each in drive.failures if each.kind == "collision_at_fault"]
            at_fault += [(result.score, result.scene, each.first_frame) for each in collisions]
    assert at_fault
    _, scene, frame = min(at_fault)
    assert failure.title == f"Collision, at fault: scene {scene}, frame {frame}"
    assert count(failure.picture, EGO_RGB) + count(failure.picture, tones_of("light").plan) > 20
    assert np.ptp(failure.picture) > 200
