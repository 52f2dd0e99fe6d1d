"""Moments: validated input of a session at one time (AV, road users, lights), and their records of one frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from l5kit._types import Float64Array, NumericArray
from l5kit.configs.texts import did_you_mean
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX, PERCEPTION_LABELS, TL_FACE_LABEL_TO_INDEX, TL_FACE_LABELS
from l5kit.data.map.lane_lights import LIGHT_COLORS
from l5kit.data.scene_arrays import SceneArrays
from l5kit.data.scene_records import SceneRecords
from l5kit.data.tracks import Observations, faces_of_frames, label_probabilities_of
from l5kit.errors import InvalidArgumentError
from l5kit.geometry.transform import yaws_as_rotations33
from l5kit.simulation.engine.scene_batch import RoadMap

_PREFIX: Final = "PERCEPTION_LABEL_"
FURTHEST_M: Final = 1e7
"""Largest coordinate in the world frame."""

_GREATEST_ANGLE_RAD: Final = 1e6
_GREATEST_SIZE_M: Final = 100.0
_GREATEST_SPEED_MPS: Final = 1e3
_USUAL_HEIGHT_M: Final = 1.5
_HOST: Final = "session"


@dataclass(frozen=True, eq=False, kw_only=True)
class SeenObjects:
    """The N road users seen at one moment.

    Attributes:
        track_ids: Unique whole numbers from 0 on, (N,); a road user keeps its number over time.
        classes: Names such as ``CAR``, ``CYCLIST`` or ``PEDESTRIAN``, N of ``PERCEPTION_LABELS`` with or without
            their prefix; or the probability of each of these labels, (N, 17).
        positions_m: World x and y of the box centres, (N, 2).
        headings_rad: World headings, counter-clockwise from x, (N,).
        sizes_m: Length and width, (N, 2), or with height, (N, 3); above 0, up to 100 m.
        velocities_mps: World x and y, up to 1000 m/s, (N, 2).
        observations: The same as observations of one frame.

    Raises:
        InvalidArgumentError: An array has a wrong shape, a value is not finite or out of its range, a track id is not a
            whole number or appears twice, or there is no such class.
    """

    track_ids: ArrayLike
    classes: Sequence[str] | NumericArray
    positions_m: ArrayLike
    headings_rad: ArrayLike
    sizes_m: ArrayLike
    velocities_mps: ArrayLike
    observations: Observations = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids = np.asarray(self.track_ids)
        size = ids.size
        if len(self.classes) != size:
            raise InvalidArgumentError(
                f"classes has {len(self.classes)} entries, but track_ids {size}; each road user has one of each"
            )
        sizes_m = _as_columns(self.sizes_m, size)
        if sizes_m.ndim == 2 and sizes_m.shape[1] == 2:  # heights are not used by planners
            sizes_m = np.column_stack([sizes_m, np.full(len(sizes_m), _USUAL_HEIGHT_M)])
        has_probabilities = isinstance(self.classes, np.ndarray) and self.classes.ndim == 2
        observations = Observations(
            frame_indices=np.zeros(size, np.int64),
            track_ids=ids if size else np.zeros(0, np.int64),
            positions_m=_as_columns(self.positions_m, size),
            headings_rad=np.asarray(self.headings_rad, np.float64),
            velocities_mps=_as_columns(self.velocities_mps, size),
            sizes_m=sizes_m if size else np.zeros((0, 3)),
            label_probabilities=np.asarray(self.classes) if has_probabilities else _probabilities_of(self.classes),
        )
        for name, most in (
            ("positions_m", FURTHEST_M),
            ("headings_rad", _GREATEST_ANGLE_RAD),
            ("velocities_mps", _GREATEST_SPEED_MPS),
            ("sizes_m", _GREATEST_SIZE_M),
            ("label_probabilities", 1.0),
        ):
            values = getattr(observations, name)
            values = values[:, None] if values.ndim == 1 else values
            is_wrong = ~(np.abs(values) <= most).all(axis=1)
            if name == "sizes_m":
                is_wrong |= ~(values > 0).all(axis=1)
            if name == "label_probabilities":
                is_wrong |= (values < 0).any(axis=1)
            if is_wrong.any():
                row = int(np.argmax(is_wrong))
                lowest = {"sizes_m": "above 0 and", "label_probabilities": "at least 0 and"}.get(name, "finite and")
                raise InvalidArgumentError(
                    f"{name} of track {int(observations.track_ids[row])} is {values[row].tolist()}; values must be "
                    f"{lowest} at most {most:g}"
                )
        observations.to_agent_rows(1)  # refuses duplicate tracks
        object.__setattr__(self, "observations", observations)

    @classmethod
    def none(cls) -> "SeenObjects":
        """Return no road users."""
        empty = np.zeros((0, 2))
        return cls(track_ids=[], classes=[], positions_m=empty, headings_rad=[], sizes_m=empty, velocities_mps=empty)

    def __len__(self) -> int:
        return len(self.observations.track_ids)


@dataclass(frozen=True, eq=False, kw_only=True)
class Moment:
    """State of the world at one time as known to the AV, in the world frame of its map.

    Attributes:
        timestamp_ns: Time in nanoseconds, on any monotonic clock.
        position_m: World x and y, or x, y and z, of the centre of the AV.
        heading_rad: World heading, counter-clockwise from x.
        speed_mps: Speed along the heading, negative if reversing.
        acceleration_mps2: Acceleration along the heading; None to derive it from the speeds of the last step.
        steering_rad: Angle of the front wheels, left positive; None to derive it from the turn over the last step.
        objects: The road users that are seen.
        lights: Colour of the light of lanes, ``GREEN``, ``YELLOW`` or ``RED``, by the id of the lane on the map.
        active_faces: Ids of traffic light faces (bulbs) of the map that are on, if known.

    Raises:
        InvalidArgumentError: A value is not finite or out of its range; the message names it.
    """

    timestamp_ns: int
    position_m: ArrayLike
    heading_rad: float
    speed_mps: float
    acceleration_mps2: float | None = None
    steering_rad: float | None = None
    objects: SeenObjects = field(default_factory=SeenObjects.none)
    lights: Mapping[str, str] = field(default_factory=dict)
    active_faces: Sequence[str] = ()

    def __post_init__(self) -> None:
        is_whole = isinstance(self.timestamp_ns, int | np.integer) and not isinstance(self.timestamp_ns, bool)
        if not is_whole or not -(2**63) <= self.timestamp_ns < 2**63:
            raise InvalidArgumentError(
                f"timestamp_ns must be a whole number of nanoseconds in 64 bits, got {self.timestamp_ns!r}; for "
                "seconds pass round(seconds * 1e9)"
            )
        position_m = np.asarray(self.position_m, np.float64)
        if position_m.shape not in ((2,), (3,)) or not (np.abs(position_m) <= FURTHEST_M).all():
            raise InvalidArgumentError(
                f"position_m must be x and y, or x, y and z, finite and at most {FURTHEST_M:g} m, got "
                f"{self.position_m!r}"
            )
        object.__setattr__(self, "position_m", np.append(position_m, 0.0)[:3])
        for name, most in (
            ("heading_rad", _GREATEST_ANGLE_RAD),
            ("speed_mps", _GREATEST_SPEED_MPS),
            ("acceleration_mps2", _GREATEST_SPEED_MPS),
            ("steering_rad", np.pi),
        ):
            value = getattr(self, name)
            if value is None and name in ("acceleration_mps2", "steering_rad"):
                continue
            if not isinstance(value, int | float | np.integer | np.floating) or not abs(float(value)) <= most:
                raise InvalidArgumentError(f"{name} is {value!r}; it must be finite and at most {most:g}")
        if isinstance(self.active_faces, str):  # would be read as a list of single letters
            raise InvalidArgumentError(f"active_faces is {self.active_faces!r}; it must be a list of ids of faces")
        for lane, color in self.lights.items():
            if color not in LIGHT_COLORS:
                raise InvalidArgumentError(
                    f"lights has {color!r} for lane {lane!r}; allowed are {', '.join(LIGHT_COLORS)}"
                )

    def to_records(self, road: RoadMap | None) -> SceneRecords:
        """Return the moment as a scene of one frame, with agents sorted by track.

        Args:
            road: The map with the lanes of ``lights``.

        Raises:
            InvalidArgumentError: There is no such lane, or its lights lack the colour.
        """
        # faces that show the colours to the lanes; a face may serve several lanes
        known: Mapping[str, Mapping[str, list[str]]] = {} if road is None or not self.lights else road.faces_of_lanes
        lane_faces: list[str] = []
        for lane, color in self.lights.items():
            if lane not in known:
                raise InvalidArgumentError(
                    f"lights has lane {lane!r}{did_you_mean(lane, known)}, which is not on the map"
                )
            if color not in known[lane]:
                on_map = ", ".join(sorted(known[lane])) or "none"
                raise InvalidArgumentError(f"lights has {color} for lane {lane!r}; its lights on the map are: {on_map}")
            lane_faces += known[lane][color]
        faces = [*self.active_faces, *dict.fromkeys(lane_faces)]
        statuses = np.zeros((len(faces), len(TL_FACE_LABELS)), np.float32)
        statuses[:, TL_FACE_LABEL_TO_INDEX["ACTIVE"]] = 1.0
        scene = SceneArrays(
            host=_HOST,
            timestamps_ns=np.array([self.timestamp_ns], np.int64),
            ego_positions_m=np.asarray(self.position_m, np.float64)[None],
            ego_rotations=yaws_as_rotations33(np.array([self.heading_rad])),
            agents=self.objects.observations.to_agent_rows(1),
            tl_faces=faces_of_frames(
                1, np.zeros(len(faces), np.int64), face_ids=faces, light_ids=[""] * len(faces), statuses=statuses
            ),
        )
        return scene.to_records()


def _as_columns(values: ArrayLike, size: int) -> Float64Array:
    """Return rows as float64; an empty list becomes (0, 2)."""
    array = np.asarray(values, np.float64)
    return array if size or array.ndim == 2 else np.zeros((0, 2))


def _probabilities_of(classes: Sequence[str] | NumericArray) -> NumericArray:
    """Return the label probabilities, (N, 17), of class names."""
    labels = []
    for name in classes:
        label = f"{_PREFIX}{str(name).removeprefix(_PREFIX)}"
        if label not in PERCEPTION_LABEL_TO_INDEX:
            names = [each.removeprefix(_PREFIX) for each in PERCEPTION_LABELS]
            raise InvalidArgumentError(
                f"classes has {name!r}{did_you_mean(str(name), names)}; allowed are {', '.join(names)}"
            )
        labels.append(PERCEPTION_LABEL_TO_INDEX[label])
    return label_probabilities_of(labels)
