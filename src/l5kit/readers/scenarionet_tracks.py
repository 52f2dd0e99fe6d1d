"""Tracks of a ScenarioNet scenario: the AV and the other road users, as arrays."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit._types import BoolArray, Float64Array, Int64Array
from l5kit.data.array_shapes import require_shapes
from l5kit.readers.motion import filled_poses, steps_seen, velocities_of
from l5kit.readers.source_bounds import require_few_states
from l5kit.readers.source_fields import SourceFields
from l5kit.readers.source_scene import SourceEgo, SourceTracks

CLASSES: Final = {
    "VEHICLE": "PERCEPTION_LABEL_CAR",
    "PEDESTRIAN": "PERCEPTION_LABEL_PEDESTRIAN",
    "CYCLIST": "PERCEPTION_LABEL_CYCLIST",
    "TRAFFIC_CONE": "PERCEPTION_LABEL_UNKNOWN",
    "TRAFFIC_BARRIER": "PERCEPTION_LABEL_UNKNOWN",
    "OTHER": "PERCEPTION_LABEL_UNKNOWN",
    "UNSET": "PERCEPTION_LABEL_UNKNOWN",
}
"""Label of each type of MetaDrive; others are taken for ``OTHER``."""

_USUAL_AV_M: Final = (4.87, 1.85, 1.48)
_SWAPPED: Final = "nuscenes"


@dataclass(frozen=True)
class ScenarioTracks:
    """All K tracks of a scenario through its T steps, the AV among them.

    Attributes:
        ids: What the set calls each, of length K.
        originals: What the dataset behind it calls each, of length K.
        types: Type of each, of length K.
        is_valid: Whether it is seen, bool, (K, T).
        positions_m: Middle of its box, x, y and z, (K, T, 3).
        yaws_rad: Heading, (K, T).
        velocities_mps: x and y, (K, T, 2).
        sizes_m: Length, width and height, (K, T, 3).
        ego_row: Row of the AV.
        is_target: Whether its future is to be predicted, bool, (K,); None where nothing is told.
        remarks: What was made up or mended.
    """

    ids: tuple[str, ...]
    originals: tuple[str, ...]
    types: tuple[str, ...]
    is_valid: BoolArray
    positions_m: Float64Array
    yaws_rad: Float64Array
    velocities_mps: Float64Array
    sizes_m: Float64Array
    ego_row: int
    is_target: BoolArray | None
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = len(self.ids), self.is_valid.shape[1]
        require_shapes(self, is_valid=shape, positions_m=(*shape, 3), yaws_rad=shape, velocities_mps=(*shape, 2))
        require_shapes(self, sizes_m=(*shape, 3))

    def ego_steps(self) -> slice:
        """Return the steps from the first to the last one in which the AV is seen.

        Raises:
            ValueError: It is seen in none.
        """
        return steps_seen(self.is_valid[self.ego_row], f"the AV, track {self.ids[self.ego_row]!r},")

    def to_ego(self, steps: slice, times_ns: Int64Array, remarks: list[str], *, is_middle: bool) -> SourceEgo:
        """Return the AV in some steps.

        Args:
            steps: From :meth:`ego_steps`.
            times_ns: Time of each of these steps.
            remarks: Where to tell what was made up.
            is_middle: Whether z is that of the middle of boxes, and not of the ground.
        """
        seen = self.is_valid[self.ego_row, steps]
        poses = np.column_stack([self.positions_m[self.ego_row, steps], self.yaws_rad[self.ego_row, steps]])
        size_m = np.median(self.sizes_m[self.ego_row, steps][seen], axis=0)
        if not (size_m > 0).all():
            remarks.append("The AV has no size, and got one of 4.87 x 1.85 x 1.48 m.")
            size_m = np.array(_USUAL_AV_M)
        if is_middle:
            poses[:, 2] -= size_m[2] / 2.0
        if holes := (np.flatnonzero(~seen) + steps.start).tolist():
            remarks.append(f"The AV is not seen in steps {', '.join(map(str, holes))}; its poses lie between others.")
        whole = filled_poses(poses, seen, times_ns)
        return SourceEgo(whole[:, :3], whole[:, 3], size_m)

    def to_source(self, steps: slice, times_ns: Int64Array) -> SourceTracks:
        """Return the others in some steps, those that are seen in one of them; velocities that are missing are made."""
        others = np.flatnonzero(self.is_valid[:, steps].any(axis=1))
        others = others[others != self.ego_row]
        is_valid, positions_m = self.is_valid[others, steps], self.positions_m[others, steps, :2]
        velocities_mps = self.velocities_mps[others, steps]
        if np.isnan(velocities_mps[is_valid]).any():
            made = velocities_of(positions_m, is_valid, times_ns)
            velocities_mps = np.where(np.isnan(velocities_mps), made, velocities_mps)
        return SourceTracks(
            ids=tuple(self.ids[row] for row in others),
            classes=tuple(self.types[row] if self.types[row] in CLASSES else "OTHER" for row in others),
            is_valid=is_valid,
            positions_m=positions_m,
            yaws_rad=self.yaws_rad[others, steps],
            velocities_mps=velocities_mps,
            sizes_m=self.sizes_m[others, steps],
            is_target=None if self.is_target is None else self.is_target[others],
        )


def read_tracks(scenario: SourceFields, metadata: SourceFields, num_steps: int) -> ScenarioTracks:
    """Read the tracks of a scenario.

    Args:
        scenario: The scenario.
        metadata: Its metadata.
        num_steps: How many times there are.

    Raises:
        TypeError: A value is of another kind.
        ValueError: There is no AV, several of them, or an array has another number of steps.
    """
    tracks = scenario.fields("tracks")
    items = list(tracks.items())
    ids = tuple(name for name, _ in items)
    require_few_states(len(ids), num_steps)
    shape = len(ids), num_steps
    positions_m, yaws_rad, velocities_mps = np.zeros((*shape, 3)), np.zeros(shape), np.zeros((*shape, 2))
    sizes_m, is_valid = np.zeros((*shape, 3)), np.zeros(shape, np.bool_)
    has_velocities = np.ones(len(ids), np.bool_)
    for row, (_, track) in enumerate(items):  # positions may lack heights, and states velocities
        state = track.fields("state")
        is_valid[row] = state.floats("valid", num_steps) > 0
        track_m = state.floats("position", num_steps, None)
        if track_m.shape[1] not in (2, 3):
            raise ValueError(f"{state.path}.position must have 2 or 3 columns, got {track_m.shape[1]}")
        positions_m[row, :, : track_m.shape[1]] = track_m
        yaws_rad[row] = state.floats("heading", num_steps)
        if state.has("velocity"):
            velocities_mps[row] = state.floats("velocity", num_steps, 2)
        else:
            has_velocities[row] = False
        for column, name in enumerate(("length", "width", "height")):
            sizes_m[row, :, column] = state.floats(name, num_steps)
    velocities_mps[~has_velocities] = np.nan
    types = tuple(track.text("type", "UNSET") for _, track in items)
    originals = []
    for name, track in items:
        track_metadata = track.values.get("metadata")
        original = track_metadata.get("original_id") if isinstance(track_metadata, dict) else None
        originals.append(name if original is None else str(original))
    unknown = sorted({kind[:40] for kind in types} - {*CLASSES})
    remarks = [f"Tracks of the unknown types {', '.join(unknown)} are OTHER."] if unknown else []
    if not has_velocities.all():
        remarks.append(f"Velocities of {np.count_nonzero(~has_velocities)} tracks are differences of their places.")

    # Length and width are swapped in sets of nuScenes whose vehicles are wider than long, mostly, by the steps in which
    # a vehicle is seen.
    vehicles = np.array([kind == "VEHICLE" for kind in types], np.bool_)[:, None] & is_valid
    wider = np.count_nonzero((sizes_m[..., 1] > sizes_m[..., 0]) & vehicles)
    is_of_nuscenes = metadata.text("dataset", "").lower().startswith(_SWAPPED)
    if is_of_nuscenes and wider * 2 > np.count_nonzero(vehicles):
        remarks.append("Length and width of boxes are swapped in this set, and were put right.")
        sizes_m = sizes_m[..., [1, 0, 2]]
    ego_row, is_target = _roles_of(metadata, ids)
    return ScenarioTracks(
        ids=ids,
        originals=tuple(originals),
        types=types,
        is_valid=is_valid,
        positions_m=positions_m,
        yaws_rad=yaws_rad,
        velocities_mps=velocities_mps,
        sizes_m=sizes_m,
        ego_row=ego_row,
        is_target=is_target,
        remarks=tuple(remarks),
    )


def _roles_of(metadata: SourceFields, ids: tuple[str, ...]) -> tuple[int, BoolArray | None]:
    """Return the row of the AV, and which tracks are to be predicted, None where the set does not tell.

    Raises:
        ValueError: No AV is named, several are, or the one that is has no track.
    """
    named = metadata.values.get("sdc_id")
    if isinstance(named, list | tuple | set | dict) and len(named) != 1:
        raise ValueError(f"{metadata.path}.sdc_id must name the one AV, got {len(named)} of them")
    name = str(next(iter(named))) if isinstance(named, list | tuple | set) else str(named)
    if named is None or name not in ids:
        raise ValueError(
            f"{metadata.path}.sdc_id must be one of the tracks, the AV, got {'none' if named is None else repr(name)}"
        )

    # Tracks to predict are a list of ids, or dictionaries that may tell the id of the track beside their own.
    listed = metadata.values.get("tracks_to_predict")
    if isinstance(listed, dict):
        wanted = {str(each.get("track_id", key)) for key, each in listed.items() if isinstance(each, dict)}
    elif isinstance(listed, list | tuple):
        wanted = {str(each) for each in listed}
    else:
        return ids.index(name), None
    return ids.index(name), np.array([track in wanted for track in ids], np.bool_)
