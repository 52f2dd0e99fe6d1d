"""Made cities to drive in: one as it is, and one whose scenes differ in length, one of them without agents."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.data.log_writer import write_log
from l5kit.data.records import AGENT_DTYPE, AGENT_INTERVAL
from l5kit.data.scene_records import SceneRecords


@pytest.fixture(scope="session")
def scenes(city):
    """The scenes of the city."""
    log = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    return [SceneRecords.read(log, scene) for scene in range(len(log.scenes))]


def without_agents(scene):
    """A scene in which the AV is alone."""
    frames = scene.frames.copy()
    frames[AGENT_INTERVAL] = 0
    return replace(scene, frames=frames, agents=np.zeros(0, AGENT_DTYPE))


@pytest.fixture(scope="session")
def mixed_city(city, scenes, tmp_path_factory):
    """The city with five scenes of 60, 1, 35, 60 and 20 frames, the last but one of them without agents."""
    folder = tmp_path_factory.mktemp("mixed") / "city"
    shutil.copytree(city, folder, ignore=shutil.ignore_patterns("*.zarr"))
    with write_log(folder / "scenes" / "mixed.zarr") as writer:
        writer.append(scenes[0].cut(0, 60))
        writer.append(scenes[1].cut(10, 11))
        writer.append(scenes[1].cut(30, 65))
        writer.append(without_agents(scenes[2].cut(0, 60)))
        writer.append(scenes[2].cut(0, 20))
    return folder
