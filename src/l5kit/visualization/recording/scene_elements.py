"""Elements of a recording as arrays in the frame of the scene, with the past and future rows of each agent row."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from l5kit._types import Float32Array, Float64Array, Int64Array, NumericArray
from l5kit.data.array_shapes import require_shapes
from l5kit.data.frame_rows import parts_of_rows
from l5kit.data.map.api import MapAPI
from l5kit.data.scene_arrays import AgentRows
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from l5kit.visualization.recording.nearby_map import NearbyMap, find_nearby_map
from l5kit.visualization.scene_content import SceneContent

WORLD_FRAME, SCENE_FRAME, EGO_FRAME = "world", "scene", "ego"
"""Names of the coordinate frames.

The world frame is that of the dataset. The scene frame has the axes of the world and its origin at the first position
of the AV, so that coordinates are small. The AV faces the x direction of its own frame.
"""

CROSSWALK_HEIGHT_M, LIGHT_HEIGHT_M, TRAJECTORY_HEIGHT_M = 0.02, 0.04, 0.1
"""Heights above the lanes, which prevent flicker between layers."""

_MARK_HEIGHT_M = 0.05


@dataclass(frozen=True)
class RecordingForm:
    """Extent of a recording.

    Attributes:
        map_radius_m: Lanes and crosswalks whose bounds are within this distance of a position of the AV, along x and y,
            are recorded; infinity for the whole map.
        ego_trajectory_s: Duration of the past and of the future of the AV in each frame.
        agent_trajectory_s: Duration of the past and of the future of agents.

    Raises:
        InvalidArgumentError: A value is negative or not a number, or a duration is infinite.
    """

    map_radius_m: float = 150.0
    ego_trajectory_s: float = 10.0
    agent_trajectory_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.map_radius_m >= 0:
            raise InvalidArgumentError(f"map_radius_m is {self.map_radius_m}; allowed are 0 or more metres")
        for name in ("ego_trajectory_s", "agent_trajectory_s"):
            seconds = getattr(self, name)
            if not 0 <= seconds < math.inf:
                raise InvalidArgumentError(f"{name} is {seconds}; allowed is a finite number of seconds, at least 0")


USUAL_FORM = RecordingForm()


@dataclass(frozen=True)
class TrackWindows:
    """Rows of the same track before and after each of N rows.

    Attributes:
        order: Rows sorted by track and frame, int64, shape (N,).
        order_indices: Index of each row in ``order``, shape (N,).
        starts: First index in ``order`` of its past, shape (N,).
        stops: End index in ``order`` of its future, shape (N,).
    """

    order: Int64Array
    order_indices: Int64Array
    starts: Int64Array
    stops: Int64Array

    def __post_init__(self) -> None:
        shape = (len(self.order),)
        require_shapes(self, order=shape, order_indices=shape, starts=shape, stops=shape)

    def past(self, row: int) -> Int64Array:
        """Return the past rows, ending with this row."""
        return self.order[self.starts[row] : self.order_indices[row] + 1]

    def future(self, row: int) -> Int64Array:
        """Return the future rows, starting with this row."""
        return self.order[self.order_indices[row] : self.stops[row]]


def frames_within(timestamps_ns: Int64Array, horizon_s: float) -> tuple[Int64Array, Int64Array]:
    """Return the first and the end of the frames within a time of each of F frames, int64, shape (F,) each.

    Args:
        timestamps_ns: Ascending times, shape (F,).
        horizon_s: The time, inclusive.
    """
    longest_ns = int(timestamps_ns[-1] - timestamps_ns[0])
    horizon_ns = min(round(horizon_s * 1e9), longest_ns)
    firsts = np.searchsorted(timestamps_ns, timestamps_ns - horizon_ns, side="left")
    stops = np.searchsorted(timestamps_ns, timestamps_ns + horizon_ns, side="right")
    return firsts, stops


def track_windows(
    track_ids: NumericArray, frame_indices: Int64Array, within: tuple[Int64Array, Int64Array]
) -> TrackWindows:
    """Return the past and future rows of the track of each row.

    Args:
        track_ids: Track ids of N rows, shape (N,).
        frame_indices: Frames of the rows, shape (N,).
        within: First and end of the frames around each of F frames, see :func:`frames_within`.
    """
    # Sort rows by the key track * (F + 1) + frame. The window of a row is the range between the keys of its track with
    # the first and the end frame.
    firsts, stops = within
    _, tracks = np.unique(track_ids, return_inverse=True)
    base = tracks.reshape(-1).astype(np.int64) * (len(firsts) + 1)
    keys = base + frame_indices
    order = np.argsort(keys, kind="stable")
    order_indices = np.empty(len(order), np.int64)
    order_indices[order] = np.arange(len(order))
    return TrackWindows(
        order=order,
        order_indices=order_indices,
        starts=np.searchsorted(keys[order], base + firsts[frame_indices], side="left"),
        stops=np.searchsorted(keys[order], base + stops[frame_indices], side="left"),
    )


@dataclass(frozen=True)
class Boxes:
    """N boxes on the ground of the scene.

    Attributes:
        centers_m: x, y and z, float64, shape (N, 3).
        quaternions: Headings as x, y, z and w, float64, shape (N, 4).
        sizes_m: Length, width and height, float64, shape (N, 3).
    """

    centers_m: Float64Array
    quaternions: Float64Array
    sizes_m: Float64Array

    def __post_init__(self) -> None:
        size = len(self.centers_m)
        require_shapes(self, centers_m=(size, 3), quaternions=(size, 4), sizes_m=(size, 3))

    @classmethod
    def standing(cls, positions_m: NumericArray, yaws_rad: NumericArray, sizes_m: NumericArray) -> "Boxes":
        """Return boxes from x and y (N, 2), headings (N,) and sizes (N, 3)."""
        sizes_m = np.asarray(sizes_m, dtype=np.float64)
        half_yaws = 0.5 * np.asarray(yaws_rad, dtype=np.float64)
        nothing = np.zeros_like(half_yaws)
        return cls(
            centers_m=np.column_stack([positions_m, 0.5 * sizes_m[:, 2]]),
            quaternions=np.column_stack([nothing, nothing, np.sin(half_yaws), np.cos(half_yaws)]),
            sizes_m=sizes_m,
        )

    @cached_property
    def heading_marks_m(self) -> Float64Array:
        """A line on the roof of each box from its centre to its front, float64, shape (N, 2, 3)."""
        # the double-angle formulas turn (0, 0, sin, cos) of half the heading into cosine and sine of the heading
        _, _, sin_half, cos_half = self.quaternions.T
        cos, sin = cos_half**2 - sin_half**2, 2 * sin_half * cos_half
        starts_m = self.centers_m + [0, 0, _MARK_HEIGHT_M]
        starts_m[:, 2] += 0.5 * self.sizes_m[:, 2]
        ahead_m = 0.5 * self.sizes_m[:, :1] * np.column_stack([cos, sin, np.zeros_like(cos)])
        return np.stack([starts_m, starts_m + ahead_m], axis=1)


@dataclass(frozen=True)
class AgentFacts:
    """Class and speed of each of N agent rows.

    Attributes:
        labels: Index of the most probable class in ``PERCEPTION_LABELS``, int64, shape (N,).
        probabilities: Probability of this class, float32, shape (N,).
        speeds_mps: Speed, float32, shape (N,).
    """

    labels: Int64Array
    probabilities: Float32Array
    speeds_mps: Float32Array

    def __post_init__(self) -> None:
        size = len(self.labels)
        require_shapes(self, labels=(size,), probabilities=(size,), speeds_mps=(size,))

    @classmethod
    def of(cls, agents: AgentRows) -> "AgentFacts":
        """Return the facts of agents."""
        labels, probabilities = agents.labels, agents.label_probabilities
        return cls(
            labels=labels,
            probabilities=np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0],
            speeds_mps=np.linalg.norm(agents.velocities_mps, axis=1),
        )


@dataclass(frozen=True)
class SceneElements:
    """Contents of a recording of F frames with N agent rows, in the frame of the scene.

    The ground is flat: the log has no heights of agents, and heights of the map are not comparable to those of the AV.

    Attributes:
        scene: The scene.
        origin_m: World x and y of the origin of the scene, float64, shape (2,).
        ego: F boxes of the AV.
        agents: N boxes of agents.
        agent_facts: Classes and speeds of the agents.
        agent_windows: Past and future rows of each agent row.
        ego_windows: First frame of the past and end of the future of each frame, shape (F,) each.
        nearby_map: Lanes and crosswalks; None without a map.
    """

    scene: SceneContent
    origin_m: Float64Array
    ego: Boxes
    agents: Boxes
    agent_facts: AgentFacts
    agent_windows: TrackWindows
    ego_windows: tuple[Int64Array, Int64Array]
    nearby_map: NearbyMap | None


def collect_elements(scene: SceneContent, map_api: MapAPI | None, form: RecordingForm) -> SceneElements:
    """Return the contents of the recording of a scene.

    Args:
        scene: The scene.
        map_api: The map; None for no lanes, lights and crosswalks.
        form: Extent of the recording.

    Raises:
        CorruptedDataError: The times of the frames are not ascending from 0 on, or the map cannot be read.
    """
    steps_ns = np.diff(scene.timestamps_ns, prepend=-1)
    if (wrong := np.flatnonzero(steps_ns <= 0)).size:
        frame_index = int(wrong[0])
        raise CorruptedDataError(
            f"scene {scene.scene_index} cannot be put on a timeline: frame {frame_index} is at "
            f"{scene.timestamps_ns[frame_index]} ns, but times must ascend from 0 on; "
            "l5kit validate lists all defects"
        )
    positions_m, agents = scene.ego_positions_m[:, :2], scene.agents
    origin_m = positions_m[0].copy()
    around = frames_within(scene.timestamps_ns, form.agent_trajectory_s)
    ego_sizes_m = np.tile(scene.facts.ego_extent_m, (scene.num_frames, 1))
    nearby_map = None
    if map_api is not None:
        nearby_map = find_nearby_map(map_api.arrays, positions_m, form.map_radius_m, origin_m=origin_m)
    return SceneElements(
        scene=scene,
        origin_m=origin_m,
        ego=Boxes.standing(positions_m - origin_m, scene.ego_yaws_rad, ego_sizes_m),
        agents=Boxes.standing(agents.centroids_m - origin_m, agents.yaws_rad, agents.extents_m),
        agent_facts=AgentFacts.of(agents),
        agent_windows=track_windows(agents.track_ids, parts_of_rows(agents.starts), around),
        ego_windows=frames_within(scene.timestamps_ns, form.ego_trajectory_s),
        nearby_map=nearby_map,
    )
