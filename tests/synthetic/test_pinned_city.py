"""A synthetic city that never changes, as scores in tables refer to cities by seed.

Counts and ids are compared exactly; positions and speeds as sums, whose last bits depend on processors.
"""

import hashlib

import numpy as np
import pytest

from l5kit.data.zarr_dataset import ChunkedDataset
from support.cities import small_city


@pytest.fixture(scope="module")
def pinned(tmp_path_factory):
    return small_city(tmp_path_factory.mktemp("pinned") / "city")


def test_times_tracks_classes_lights_and_map_are_those_of_the_seed(pinned):
    log = ChunkedDataset(str(pinned.scenes["sample"])).open()
    frames, agents, faces = log.frames[:], log.agents[:], log.tl_faces[:]
    digest = hashlib.sha256()
    for column in (
        *(frames[name] for name in ("timestamp", "agent_index_interval", "traffic_light_faces_index_interval")),
        agents["track_id"],
        agents["label_probabilities"].argmax(axis=1),
        faces["face_id"].astype("S"),
        faces["traffic_light_face_status"].argmax(axis=1),
    ):
        digest.update(np.ascontiguousarray(column).tobytes())
    assert digest.hexdigest() == "eaa050dcb2491ea1d3531dba2333dfc3dd9315d72a1b143f4e6707fe9bfeab85"
    map_digest = hashlib.sha256(pinned.semantic_map.read_bytes()).hexdigest()
    assert map_digest == "7d59bb4890a82cdf6da62570e60522871e07258f6e5791481f9b44c67dc310e3"


def test_positions_and_speeds_are_those_of_the_seed(pinned):
    log = ChunkedDataset(str(pinned.scenes["sample"])).open()
    frames, agents = log.frames[:], log.agents[:]
    assert frames["ego_translation"].sum() == pytest.approx(78280.00647624978, rel=1e-9)
    assert agents["centroid"].sum() == pytest.approx(-272382.857336431, rel=1e-9)
    for name, total in (("extent", 108711.8331604302), ("yaw", 28579.56349785678), ("velocity", 24609.507526905978)):
        assert np.abs(agents[name]).sum(dtype=float) == pytest.approx(total, rel=1e-6), name
