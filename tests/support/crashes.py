"""Scene made by hand in which the AV drives into a parked car, for tests of simulations."""

import numpy as np

from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.data.scene_arrays import FaceRows, SceneArrays
from l5kit.data.tracks import Tracks, label_probabilities_of

NUM_FRAMES = 40
PARKED = 7


def drive_into(parked_x_m, num_frames=NUM_FRAMES):
    """The AV, 5 m long, at 10 m/s along x from 0 on, and a parked car of 4 m ahead."""
    x_m = np.stack([np.arange(num_frames), np.zeros(num_frames), np.zeros(num_frames)], axis=-1)
    car = Tracks(
        track_ids=np.array([PARKED]),
        is_valid=np.ones((1, num_frames), np.bool_),
        positions_m=np.tile((parked_x_m, 0.0), (1, num_frames, 1)),
        headings_rad=np.zeros((1, num_frames)),
        velocities_mps=np.zeros((1, num_frames, 2)),
        sizes_m=np.array([[4.0, 2.0, 1.5]]),
        label_probabilities=label_probabilities_of([PERCEPTION_LABEL_TO_INDEX["PERCEPTION_LABEL_CAR"]]),
    )
    return SceneArrays(
        host="car",
        timestamps_ns=1_000_000_000 + np.arange(num_frames) * 100_000_000,
        ego_positions_m=x_m.astype(np.float64),
        ego_rotations=np.broadcast_to(np.eye(3), (num_frames, 3, 3)).copy(),
        agents=car.to_agent_rows(),
        tl_faces=FaceRows.none(num_frames),
    )
