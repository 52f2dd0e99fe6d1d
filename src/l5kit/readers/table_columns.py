"""Column map of users' tables: a YAML file with names, units, classes and sizes, validated."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from l5kit.configs.texts import did_you_mean, parse_yaml, read_text
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import ConfigError
from l5kit.readers.source_bounds import GREATEST_SIZE_M, is_text

NO_AV: Final = "none"
"""Value of ``av`` if no track is the AV; a vehicle is chosen instead."""

OTHER_CLASS: Final = "other"
"""Class of anything not listed among the classes, or of everything if tables have no class."""

_PREFIX: Final = "PERCEPTION_LABEL_"
_NEEDED: Final = ("time", "track", "x", "y")
_OPTIONAL: Final = ("heading", "class", "length", "width", "height", "velocity_x", "velocity_y", "z", "scene")
_KEYS: Final = (
    *("columns", "av", "classes", "sizes", "time_unit", "heading_unit", "step", "scene_seconds", "map", "map_origin"),
    *("name", "licence", "mcap"),
)
_MCAP_KEYS: Final = ("objects", "av_pose", "av_size", "class")
_OF_TABLES: Final = ("columns", "time_unit", "heading_unit")
"""Keys that only apply to tables; messages define these themselves."""

_OF_MESSAGES: Final = ("time", "track", "x", "y", "z", "heading", "length", "width", "height")
_NS_OF_UNIT: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_ANGLE_UNITS: Final = ("rad", "deg")
_DEFAULT_LABEL: Final = "PERCEPTION_LABEL_CAR"
_USUAL_SIZES_M: Final = {
    "PERCEPTION_LABEL_CAR": (4.6, 1.9, 1.6),
    "PERCEPTION_LABEL_VAN": (5.3, 2.0, 2.0),
    "PERCEPTION_LABEL_BUS": (11.5, 2.9, 3.2),
    "PERCEPTION_LABEL_TRAM": (30.0, 2.5, 3.4),
    "PERCEPTION_LABEL_TRUCK": (8.0, 2.5, 3.2),
    "PERCEPTION_LABEL_EMERGENCY_VEHICLE": (5.3, 2.0, 2.2),
    "PERCEPTION_LABEL_OTHER_VEHICLE": (5.0, 2.0, 2.0),
    "PERCEPTION_LABEL_BICYCLE": (1.8, 0.6, 1.1),
    "PERCEPTION_LABEL_MOTORCYCLE": (2.1, 0.8, 1.2),
    "PERCEPTION_LABEL_CYCLIST": (1.8, 0.7, 1.7),
    "PERCEPTION_LABEL_MOTORCYCLIST": (2.1, 0.8, 1.6),
    "PERCEPTION_LABEL_PEDESTRIAN": (0.6, 0.6, 1.75),
    "PERCEPTION_LABEL_ANIMAL": (0.8, 0.4, 0.6),
}
_OTHER_SIZE_M: Final = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class McapTopics:
    """Topics and keys of MCAP files to read.

    Attributes:
        objects: Topics of ``foxglove.SceneUpdate``, whose entities with a cube are road users.
        av_pose: Topic with the pose of the AV, ``foxglove.PoseInFrame`` or ``foxglove.FrameTransform``; None if the AV
            is an entity.
        av_size_m: Length, width and height of the AV if it has such a topic.
        class_key: Key of the class in the metadata of entities; None if all are cars.
    """

    objects: tuple[str, ...]
    av_pose: str | None = None
    av_size_m: tuple[float, float, float] = _USUAL_SIZES_M[_DEFAULT_LABEL]
    class_key: str | None = None


@dataclass(frozen=True)
class TableColumns:
    """The column map: meaning of the columns of tables.

    Attributes:
        names: Name of the column of each meaning, such as ``time`` or ``x``; optional ones may be absent.
        av: Id of the AV's track, or :data:`NO_AV`.
        classes: Label for each class of the tables; empty if all are cars.
        sizes_m: Length, width and height for each label, for tables without sizes.
        ns_per_time: Nanoseconds per unit of time.
        is_in_degrees: Whether headings are in degrees.
        step_s: Time between frames, to which rows are interpolated; None to use the times of the tables.
        scene_s: Duration of a scene; None if each file, or each value of the column ``scene``, is a scene.
        map_file: GeoJSON of the map, or None.
        map_origin: Latitude and longitude of x = y = 0 in degrees, for a map in these; None for a map in metres.
        dataset: Name of the dataset.
        licence: Its licence.
        mcap: Topics to read from MCAP files; None for tables.
    """

    names: Mapping[str, str]
    av: str
    classes: Mapping[str, str]
    sizes_m: Mapping[str, tuple[float, float, float]]
    ns_per_time: float = 1e9
    is_in_degrees: bool = False
    step_s: float | None = None
    scene_s: float | None = None
    map_file: Path | None = None
    map_origin: tuple[float, float] | None = None
    dataset: str = "tables"
    licence: str = "unknown"
    mcap: McapTopics | None = None

    @property
    def label_mapping(self) -> dict[str, str]:
        """Label of each class, and of the classes that are not listed."""
        return {**self.classes, OTHER_CLASS: f"{_PREFIX}UNKNOWN" if "class" in self.names else _DEFAULT_LABEL}

    def size_of(self, label: str) -> tuple[float, float, float]:
        """Return the default length, width and height for a label, metres."""
        return self.sizes_m.get(label, _USUAL_SIZES_M.get(label, _OTHER_SIZE_M))


def read_columns(file: Path) -> TableColumns:
    """Read and validate a column map.

    Args:
        file: The YAML file; the path of the map in it is relative to its folder.

    Raises:
        ConfigError: A key is missing, unknown, or has a value that is not allowed; the message names it.
        FileNotFoundError: There is no such file.
    """
    called = f"column map {file.name}"
    content = parse_yaml(read_text(file, called="column map"), called=called, reads_exponents=True)
    if not isinstance(content, dict):
        raise ConfigError(f"{called} must hold keys and values, such as columns: and av:, got {type(content).__name__}")
    _require_known(content, _KEYS, called)
    labels = {} if content.get("classes") is None else content["classes"]
    if not isinstance(labels, dict):
        raise ConfigError(f"{called}: classes must give a label for each class, got {labels!r:.80}")
    classes = {str(name): _label_of(label, f"{called}: classes.{name}") for name, label in labels.items()}
    mcap = _mcap_of(content, called)
    if mcap is None:
        names = _names_of(content.get("columns"), called)
    else:
        names = {name: name for name in (*_OF_MESSAGES, *(["class"] if mcap.class_key else []))}
        classes = classes or {label: label for label in PERCEPTION_LABEL_TO_INDEX if label.startswith(_PREFIX)}
    if "class" in names and not classes:
        raise ConfigError(f"{called} has columns.class, so classes: must give a label for each class, such as car: CAR")
    map_file, av = _text_of(content, "map", called, None), content.get("av")
    if isinstance(av, bool) or not isinstance(av, str | int) or not is_text(str(av)):
        raise ConfigError(
            f"{called}: av must be the id of the track of the AV, or {NO_AV} where there is none, got {av!r:.80}"
        )
    origin = content.get("map_origin")
    is_origin = isinstance(origin, list) and len(origin) == 2 and all(isinstance(each, int | float) for each in origin)
    if origin is not None and not (is_origin and abs(origin[0]) <= 90 and abs(origin[1]) <= 180):
        raise ConfigError(
            f"{called}: map_origin must be [latitude, longitude] of x = y = 0 in degrees, got {origin!r:.80}"
        )
    return TableColumns(
        names=names,
        av=str(av),
        classes=classes,
        sizes_m=_sizes_of(content.get("sizes"), called),
        ns_per_time=1.0 if mcap else _NS_OF_UNIT[_choice_of(content, "time_unit", tuple(_NS_OF_UNIT), called)],
        is_in_degrees=_choice_of(content, "heading_unit", _ANGLE_UNITS, called) == "deg",
        step_s=_seconds_of(content, "step", called),
        scene_s=_seconds_of(content, "scene_seconds", called),
        map_file=None if map_file is None else file.absolute().parent / map_file,
        map_origin=None if origin is None else (float(origin[0]), float(origin[1])),
        dataset=_text_of(content, "name", called, "tables") or "tables",
        licence=_text_of(content, "licence", called, "not told") or "not told",
        mcap=mcap,
    )


def _mcap_of(content: Mapping[object, object], called: str) -> McapTopics | None:
    """Return the MCAP topics; None for tables."""
    value = content.get("mcap")
    if value is None:
        return None
    if not isinstance(value, dict) or not value.get("objects"):
        raise ConfigError(f"{called}: mcap must have objects:, a topic of boxes or a list of such, got {value!r:.80}")
    _require_known(value, _MCAP_KEYS, f"{called}, mcap,")
    if given := [key for key in _OF_TABLES if key in content]:
        raise ConfigError(f"{called} has mcap: and {given[0]}:, which is for tables; leave one of them out")
    objects = value["objects"] if isinstance(value["objects"], list) else [value["objects"]]
    if not all(is_text(topic) for topic in objects):
        raise ConfigError(f"{called}: mcap.objects must be a topic or a list of topics, got {value['objects']!r:.80}")
    topics = {key: _text_of(value, key, f"{called}, mcap", None) for key in ("av_pose", "class")}
    if topics["av_pose"] is not None and content.get("av") == NO_AV:
        raise ConfigError(f"{called} has mcap.av_pose, but av is {NO_AV}; name the track of the AV, such as av: ego")
    size_m = _USUAL_SIZES_M[_DEFAULT_LABEL]
    if value.get("av_size") is not None:
        size_m = _sizes_of({"CAR": value["av_size"]}, f"{called}, mcap.av_size")[_DEFAULT_LABEL]
    return McapTopics(tuple(objects), topics["av_pose"], size_m, topics["class"])


def _require_known(content: Mapping[object, object], known: tuple[str, ...], called: str) -> None:
    for key in content:
        if key not in known:
            raise ConfigError(f"{called} has the key {key!r}{did_you_mean(key, known)}; there are: {', '.join(known)}")


def _names_of(value: object, called: str) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"{called} must have columns: with the names of {', '.join(_NEEDED)}, got {value!r:.80}")
    _require_known(value, (*_NEEDED, *_OPTIONAL), f"{called}, columns,")
    for key in _NEEDED:
        if key not in value:
            raise ConfigError(f"{called} lacks columns.{key}, the name of the column with it")
    for key, name in value.items():
        if not is_text(name):
            raise ConfigError(f"{called}: columns.{key} must be the name of a column, got {name!r:.80}")
    for first, second in (("velocity_x", "velocity_y"), ("length", "width")):
        if (first in value) != (second in value):
            raise ConfigError(f"{called}: columns.{first} and columns.{second} must be given both or not at all")
    return {str(key): str(name) for key, name in value.items()}


def _label_of(value: object, where: str) -> str:
    known = [label.removeprefix(_PREFIX) for label in PERCEPTION_LABEL_TO_INDEX if label.startswith(_PREFIX)]
    label = str(value).removeprefix(_PREFIX)
    if label not in known:
        raise ConfigError(f"{where} is {value!r:.80}{did_you_mean(label, known)}, must be one of {', '.join(known)}")
    return f"{_PREFIX}{label}"


def _sizes_of(value: object, called: str) -> dict[str, tuple[float, float, float]]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{called}: sizes must give length, width and height for each label, got {value!r:.80}")
    sizes_m = {}
    for name, size in value.items():
        label = _label_of(name, f"{called}: sizes")
        given = [each for each in size if type(each) in (int, float)] if isinstance(size, list) else []
        if len(given) != 3 or size != given or not all(0 < each <= GREATEST_SIZE_M for each in given):
            raise ConfigError(f"{called}: sizes.{name} must be [length, width, height] in metres, got {size!r:.80}")
        length_m, width_m, height_m = map(float, given)
        sizes_m[label] = (length_m, width_m, height_m)
    return sizes_m


def _choice_of(content: Mapping[object, object], key: str, allowed: tuple[str, ...], called: str) -> str:
    value = content.get(key, allowed[0])
    if value not in allowed:
        raise ConfigError(f"{called}: {key} must be one of {', '.join(allowed)}, got {value!r:.80}")
    return str(value)


def _seconds_of(content: Mapping[object, object], key: str, called: str) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-3 <= value <= 1e5:
        raise ConfigError(f"{called}: {key} must be seconds from 0.001 to 100,000, got {value!r:.80}")
    return float(value)


def _text_of(content: Mapping[object, object], key: str, called: str, default: str | None) -> str | None:
    value = content.get(key)
    if value is None:
        return default
    if not is_text(value):
        raise ConfigError(f"{called}: {key} must be text, got {value!r:.80}")
    return str(value)
