"""Tracks of a ScenarioNet scenario, including the AV, as arrays."""

from typing import Final

import numpy as np

from l5kit._types import BoolArray, Int64Array
from l5kit.readers.scenario_tracks import ScenarioTracks
from l5kit.readers.source_bounds import require_few_states
from l5kit.readers.source_fields import SourceFields
from l5kit.readers.source_scene import SourceEgo

CLASSES: Final = {
    "VEHICLE": "PERCEPTION_LABEL_CAR",
    "PEDESTRIAN": "PERCEPTION_LABEL_PEDESTRIAN",
    "CYCLIST": "PERCEPTION_LABEL_CYCLIST",
    "TRAFFIC_CONE": "PERCEPTION_LABEL_UNKNOWN",
    "TRAFFIC_BARRIER": "PERCEPTION_LABEL_UNKNOWN",
    "OTHER": "PERCEPTION_LABEL_UNKNOWN",
    "UNSET": "PERCEPTION_LABEL_UNKNOWN",
}
"""Label of each type of MetaDrive; other types become ``OTHER``."""

_USUAL_AV_M: Final = (4.87, 1.85, 1.48)
_SWAPPED: Final = "nuscenes"


def read_tracks(
    scenario: SourceFields, metadata: SourceFields, num_steps: int
) -> tuple[ScenarioTracks, dict[str, str]]:
    """Read the tracks of a scenario, and the id of each in the original dataset, by its id.

    Args:
        scenario: The scenario.
        metadata: Its metadata.
        num_steps: Number of steps.

    Raises:
        TypeError: A value has another type.
        ValueError: There is no AV or more than one, or an array has another number of steps.
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
        positions_m[row] = state.points("position", num_steps)
        yaws_rad[row] = state.floats("heading", num_steps)
        if state.has("velocity"):
            velocities_mps[row] = state.floats("velocity", num_steps, 2)
        else:
            has_velocities[row] = False
        for column, name in enumerate(("length", "width", "height")):
            sizes_m[row, :, column] = state.floats(name, num_steps)
    velocities_mps[~has_velocities] = np.nan
    types = tuple(track.text("type", "UNSET") for _, track in items)
    originals = {}
    for name, track in items:
        track_metadata = track.values.get("metadata")
        original = track_metadata.get("original_id") if isinstance(track_metadata, dict) else None
        originals[name] = name if original is None else str(original)
    unknown = sorted({kind[:40] for kind in types} - {*CLASSES})
    remarks = [f"Tracks of the unknown types {', '.join(unknown)} are OTHER."] if unknown else []
    if not has_velocities.all():
        remarks.append(f"Velocities of {np.count_nonzero(~has_velocities)} tracks are differences of their positions.")

    # Some sets made from nuScenes have length and width swapped. Swap them back if vehicles are wider than long in most
    # steps in which they are observed.
    vehicles = np.array([kind == "VEHICLE" for kind in types], np.bool_)[:, None] & is_valid
    wider = np.count_nonzero((sizes_m[..., 1] > sizes_m[..., 0]) & vehicles)
    is_of_nuscenes = metadata.text("dataset", "").lower().startswith(_SWAPPED)
    if is_of_nuscenes and wider * 2 > np.count_nonzero(vehicles):
        remarks.append("Length and width of boxes are swapped in this set, and were corrected.")
        sizes_m = sizes_m[..., [1, 0, 2]]
    ego_row, is_target = _roles_of(metadata, ids)
    tracks_read = ScenarioTracks(
        ids=ids,
        classes=tuple(kind if kind in CLASSES else "OTHER" for kind in types),
        is_valid=is_valid,
        positions_m=positions_m,
        yaws_rad=yaws_rad,
        velocities_mps=velocities_mps,
        sizes_m=sizes_m,
        ego_row=ego_row,
        is_target=is_target,
        remarks=tuple(remarks),
    )
    return tracks_read, originals


def ego_of(
    tracks: ScenarioTracks, steps: slice, times_ns: Int64Array, remarks: list[str], *, is_middle: bool
) -> SourceEgo:
    """Return the AV in some steps.

    Args:
        tracks: All tracks.
        steps: From the first to the last step in which it is observed.
        times_ns: Time of each of these steps.
        remarks: List to which remarks are added.
        is_middle: Whether z is that of the box centre, not of the ground.
    """
    size_m = np.median(tracks.sizes_m[tracks.ego_row, steps][tracks.is_valid[tracks.ego_row, steps]], axis=0)
    if not (size_m > 0).all():
        remarks.append("The AV has no size, and was given one of 4.87 x 1.85 x 1.48 m.")
        size_m = np.array(_USUAL_AV_M)
    if missing := tracks.missing_steps(steps):
        remarks.append(f"The AV is not seen in steps {', '.join(map(str, missing))}; its poses are interpolated.")
    return tracks.to_ego(steps, times_ns, size_m, ground_m=size_m[2] / 2.0 if is_middle else 0.0)


def _roles_of(metadata: SourceFields, ids: tuple[str, ...]) -> tuple[int, BoolArray | None]:
    """Return the row of the AV, and which tracks are to be predicted, None if the set does not specify any.

    Raises:
        ValueError: No AV is named, several are, or the named one has no track.
    """
    named = metadata.values.get("sdc_id")
    if isinstance(named, list | tuple | set | dict) and len(named) != 1:
        raise ValueError(f"{metadata.path}.sdc_id must name the one AV, got {len(named)} of them")
    name = str(next(iter(named))) if isinstance(named, list | tuple | set) else str(named)
    if named is None or name not in ids:
        raise ValueError(
            f"{metadata.path}.sdc_id must be one of the tracks, the AV, got {'none' if named is None else repr(name)}"
        )

    # tracks to predict are a list of ids, or dictionaries that may have the track id in addition to their key
    listed = metadata.values.get("tracks_to_predict")
    if isinstance(listed, dict):
        wanted = {str(each.get("track_id", key)) for key, each in listed.items() if isinstance(each, dict)}
    elif isinstance(listed, list | tuple):
        wanted = {str(each) for each in listed}
    else:
        return ids.index(name), None
    return ids.index(name), np.array([track in wanted for track in ids], np.bool_)
