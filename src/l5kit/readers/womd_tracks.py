"""Tracks of a scenario of the Waymo Open Motion Dataset: the AV and the other road users, as arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import require_shapes
from l5kit.errors import CorruptedDataError
from l5kit.readers.motion import filled_poses, steps_seen
from l5kit.readers.source_bounds import (
    FURTHEST_FROM_AV_M,
    FURTHEST_M,
    GREATEST_ANGLE_RAD,
    GREATEST_SIZE_M,
    GREATEST_SPEED_MPS,
)
from l5kit.readers.source_scene import SourceEgo, SourceTracks
from l5kit.readers.womd_rows import BOOL, DOUBLE, FLOAT, RowSchema, read_rows
from l5kit.readers.womd_scenario_pb2 import Scenario, Track

CLASSES = ("unset", "vehicle", "pedestrian", "cyclist", "other")
"""Name of each number of ``object_type``."""

_FLOAT_NUMBERS = range(5, 11)
_STATES = RowSchema(3, ((2, DOUBLE), (3, DOUBLE), (4, DOUBLE), *zip(_FLOAT_NUMBERS, repeat(FLOAT)), (11, BOOL)))
_X, _Z, _LENGTH, _HEADING, _VELOCITY, _VALID = 0, 2, 3, 6, 7, 9
_NAMES = ("center_x", "center_y", "center_z", "length", "width", "height", "heading", "velocity_x", "velocity_y")
_GREATEST = np.array([*[FURTHEST_FROM_AV_M] * 3, *[GREATEST_SIZE_M] * 3, GREATEST_ANGLE_RAD, *[GREATEST_SPEED_MPS] * 2])
"""How great a value of a state may be; places are counted from the AV."""
_GREATEST.setflags(write=False)


@dataclass(frozen=True)
class ScenarioTracks:
    """All K tracks of a scenario through its T steps, the AV among them.

    Attributes:
        ids: Number of each, (K,).
        types: Its ``object_type``, (K,).
        states: Centre x, y, z, length, width, height, heading, velocity x, y, whether it is seen, float64, (K, T, 10).
        ego_row: Row of the AV.
        is_target: Whether its future is to be predicted, bool, (K,).
    """

    ids: Int64Array
    types: Int64Array
    states: Float64Array
    ego_row: int
    is_target: BoolArray

    def __post_init__(self) -> None:
        size = len(self.ids)
        require_shapes(self, types=(size,), states=(size, *self.states.shape[1:2], _VALID + 1), is_target=(size,))

    @property
    def is_valid(self) -> BoolArray:
        """Whether each is seen in each step, (K, T)."""
        is_valid: BoolArray = self.states[..., _VALID] > 0
        return is_valid

    @property
    def first_position_m(self) -> Float64Array:
        """Where the AV is when it is first seen, x, y and z of the middle of its box, (3,).

        Raises:
            CorruptedDataError: It is never seen.
        """
        return self.states[self.ego_row, self.ego_steps().start, : _Z + 1]

    def ego_steps(self) -> slice:
        """Return the steps from the first to the last one in which the AV is seen.

        Raises:
            CorruptedDataError: It is seen in none.
        """
        return steps_seen(self.is_valid[self.ego_row], f"the AV, track {self.ids[self.ego_row]},")

    def to_ego(self, steps: slice, times_s: Float64Array) -> SourceEgo:
        """Return the AV in some steps; where it is not seen, its pose lies between those around.

        Args:
            steps: From :meth:`ego_steps`.
            times_s: Time of each of these steps.
        """
        states = self.states[self.ego_row, steps]
        seen = states[:, _VALID] > 0
        sizes_m = states[seen, _LENGTH:_HEADING]
        poses = np.column_stack([states[:, _X : _Z + 1], states[:, _HEADING]])
        poses[:, _Z] -= states[:, _HEADING - 1] / 2.0  # from the middle of the box to the ground
        whole = filled_poses(poses, seen, np.rint(1e9 * times_s).astype(np.int64))
        return SourceEgo(whole[:, :3], whole[:, 3], np.median(sizes_m, axis=0))

    def to_source(self, steps: slice) -> SourceTracks:
        """Return the others in some steps, those that are seen in one of them."""
        others = np.flatnonzero(self.is_valid[:, steps].any(axis=1))
        others = others[others != self.ego_row]
        states = self.states[others, steps]
        return SourceTracks(
            ids=tuple(map(str, self.ids[others].tolist())),
            classes=tuple(CLASSES[n] if 0 <= n < len(CLASSES) else CLASSES[0] for n in self.types[others].tolist()),
            is_valid=self.is_valid[others, steps],
            positions_m=states[..., :_Z],
            yaws_rad=states[..., _HEADING],
            velocities_mps=states[..., _VELOCITY:_VALID],
            sizes_m=states[..., _LENGTH:_HEADING],
            is_target=self.is_target[others],
        )

    def remarks(self, steps: slice) -> Iterator[str]:
        """Yield what is left out or made up in the scene of some steps, one sentence each."""
        num_steps, seen = self.states.shape[1], self.is_valid[self.ego_row]
        if steps.stop - steps.start < num_steps:
            yield f"steps {steps.start} to {steps.stop - 1} of {num_steps} were taken: the AV is not seen in the others"
        if holes := (np.flatnonzero(~seen[steps]) + steps.start).tolist():
            yield f"poses of the AV were made up in steps {', '.join(map(str, holes))}, in which it is not seen"
        if unknown := sorted({*self.types.tolist()} - {*range(len(CLASSES))}):
            yield f"tracks of unknown object_type {', '.join(map(str, unknown))} were taken for unset ones"


def read_tracks(scenario: Scenario) -> ScenarioTracks:
    """Read the tracks of a scenario.

    Raises:
        CorruptedDataError: A track is damaged, has another number of states than there are times or a state that cannot
            be, or there is no AV, or it is never seen.
        google.protobuf.message.DecodeError: A track is no message.
    """
    serialized = list(scenario.tracks)
    num_tracks, num_steps = len(serialized), len(scenario.timestamps_seconds)
    rows = read_rows(serialized, _STATES, what="track")
    if (wrong := np.flatnonzero(rows.counts != num_steps)).size:
        raise CorruptedDataError(
            f"track {wrong[0]} has {rows.counts[wrong[0]]} states for {num_steps} times; each needs one for each time"
        )
    if not scenario.HasField("sdc_track_index") or not 0 <= scenario.sdc_track_index < num_tracks:
        raise CorruptedDataError(
            f"sdc_track_index, the track of the AV, must be from 0 to {num_tracks - 1}, got "
            f"{scenario.sdc_track_index if scenario.HasField('sdc_track_index') else 'none'}"
        )
    targets = np.array([wanted.track_index for wanted in scenario.tracks_to_predict], np.int64)
    is_wrong = (targets < 0) | (targets >= num_tracks)
    if is_wrong.any():
        raise CorruptedDataError(
            f"tracks_to_predict has track {targets[is_wrong][0]}; there are tracks 0 to {num_tracks - 1}"
        )
    is_target = np.zeros(num_tracks, np.bool_)
    is_target[targets] = True
    heads = [Track.FromString(track) for track in serialized]
    tracks = ScenarioTracks(
        ids=np.array([head.id for head in heads], np.int64),
        types=np.array([head.object_type for head in heads], np.int64),
        states=rows.values.reshape(num_tracks, num_steps, _VALID + 1),
        ego_row=scenario.sdc_track_index,
        is_target=is_target,
    )
    _require_possible(tracks)
    return tracks


def _require_possible(tracks: ScenarioTracks) -> None:
    """Refuse places, sizes and velocities that are not finite or beyond all measure, where tracks are seen.

    Raises:
        CorruptedDataError: There is one.
    """
    states, centre = tracks.states[..., :_VALID], np.zeros(_VALID)
    centre[: _Z + 1] = tracks.first_position_m
    if not (np.abs(centre) <= FURTHEST_M).all():
        raise CorruptedDataError(f"the AV must be within {FURTHEST_M:g} m, got {centre[: _Z + 1].tolist()}")
    is_wrong = tracks.is_valid[..., None] & ~(np.abs(states - centre) <= _GREATEST)
    if is_wrong.any():
        row, step, column = np.argwhere(is_wrong)[0].tolist()
        from_av = " of that of the AV" if column <= _Z else ""
        raise CorruptedDataError(
            f"{_NAMES[column]} of track {tracks.ids[row]} must be within {_GREATEST[column]:g}{from_av}, got "
            f"{states[row, step, column]} in step {step}"
        )
