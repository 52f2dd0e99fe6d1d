"""Fields of the records for tools with named axes: names of the axes and of the places along them, units, frames."""

from dataclasses import dataclass
from itertools import product

from l5kit._types import DType, JsonObject
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.records import (
    AGENT_ARRAY_KEY,
    AGENT_INTERVAL,
    FACE_INTERVAL,
    FRAME_ARRAY_KEY,
    FRAME_INTERVAL,
    SCENE_ARRAY_KEY,
    TL_FACE_ARRAY_KEY,
)

ROW_AXES = {SCENE_ARRAY_KEY: "scene", FRAME_ARRAY_KEY: "frame", AGENT_ARRAY_KEY: "agent", TL_FACE_ARRAY_KEY: "face"}
"""For each array on disk, the name of the axis of its rows."""

AXES: dict[str, tuple[str, ...]] = {
    "bound": ("start", "end"),
    "xy": ("x", "y"),
    "xyz": ("x", "y", "z"),
    "world_axis": ("x", "y", "z"),
    "av_axis": ("x", "y", "z"),
    "size": ("length", "width", "height"),
    "label": tuple(PERCEPTION_LABELS),
    "status": tuple(TL_FACE_LABELS),
}
"""For each axis that fields have beside that of the rows, what its places are called."""


@dataclass(frozen=True)
class FieldFacts:
    """What a field of the records means.

    Attributes:
        meaning: In words.
        units: Short name of the unit; empty for what has none.
        frame: Frame of reference of the values; empty for what has none.
        axes: Names of the axes beside that of the rows.
    """

    meaning: str
    units: str = ""
    frame: str = ""
    axes: tuple[str, ...] = ()

    def as_attributes(self) -> JsonObject:
        """Return what there is as attributes of an array."""
        named = {"long_name": self.meaning, "units": self.units, "frame_of_reference": self.frame}
        return {name: text for name, text in named.items() if text}


def _interval(rows: str) -> FieldFacts:
    return FieldFacts(f"rows of {rows}, from start up to and without end", axes=("bound",))


FIELDS: dict[str, FieldFacts] = {
    FRAME_INTERVAL: _interval(FRAME_ARRAY_KEY),
    "host": FieldFacts("name of the recording car"),
    "start_time": FieldFacts("start of the scene, by a clock that is not that of the frames", "ns"),
    "end_time": FieldFacts("end of the scene, by a clock that is not that of the frames", "ns"),
    "timestamp": FieldFacts("time of the frame", "ns"),
    AGENT_INTERVAL: _interval(AGENT_ARRAY_KEY),
    FACE_INTERVAL: _interval(TL_FACE_ARRAY_KEY),
    "ego_translation": FieldFacts("position of the AV", "m", "world", ("xyz",)),
    "ego_rotation": FieldFacts(
        "rotation matrix that maps axes of the AV to the world", "1", "world from AV", ("world_axis", "av_axis")
    ),
    "centroid": FieldFacts("position of the centre of the agent", "m", "world", ("xy",)),
    "extent": FieldFacts("length along the heading, width and height of the agent", "m", "agent", ("size",)),
    "yaw": FieldFacts("heading of the agent, counter-clockwise from +x", "rad", "world"),
    "velocity": FieldFacts("velocity of the agent", "m/s", "world", ("xy",)),
    "track_id": FieldFacts("identity of the agent within its scene"),
    "label_probabilities": FieldFacts("probability of each class", "1", axes=("label",)),
    "face_id": FieldFacts("id of the bulb, that of an element of the semantic map"),
    "traffic_light_id": FieldFacts("id of the traffic light of the bulb, that of an element of the semantic map"),
    "traffic_light_face_status": FieldFacts(
        "value of each state; the bulb is on where that of ACTIVE is above 0", "1", axes=("status",)
    ),
}
"""Facts of each field of the format; no two arrays have a field of one name."""


def axis_names(field: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the axes of a field beside that of the rows; those of unknown fields are numbered.

    Args:
        field: Name of the field.
        shape: Shape of one value of it.
    """
    axes = FIELDS[field].axes if field in FIELDS else ()
    if tuple(len(AXES[axis]) for axis in axes) == shape:
        return axes
    return tuple(f"{field}_axis_{number}" for number in range(len(shape)))


def column_names(dtype: DType, field: str) -> list[str]:
    """Return the names of the columns that hold the numbers of a field in a table, such as ``centroid_x``.

    Args:
        dtype: Record type.
        field: Name of one of its fields. The last of its axes runs fastest.
    """
    shape = dtype[field].shape
    axes = axis_names(field, shape)
    labels = [AXES.get(axis, tuple(map(str, range(size)))) for axis, size in zip(axes, shape, strict=True)]
    return ["_".join([field, *parts]) for parts in product(*labels)]
