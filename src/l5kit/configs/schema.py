"""Schema of configurations: every section with its keys, gathered from the parameter classes that read them."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from l5kit._types import JsonObject
from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.kinds import Count, Flag, FrameCount, Key, Probability
from l5kit.configs.networks import (
    BackboneParams,
    MotionTokenParams,
    QueryCentricParams,
    RoutePlannerParams,
    SafePathNetParams,
    UnrollParams,
    VectorModelParams,
)
from l5kit.configs.parameters import (
    RASTERIZERS,
    LightParams,
    MapKeys,
    OwnMapType,
    RasterGeometry,
    SamplingParams,
    VectorizerParams,
    VectorSamplingParams,
)
from l5kit.configs.reading import Params, ReadKey, keys_of
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.configs.runs import WORKFLOWS, TrainingKeys

_IDLE = Key("no effect, as in 1.5", is_unused=True)

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_OF_RASTERS: Final = ("trainings", "samples")

_OF_VECTORS: Final = ("trainings", "vector samples", "vectorizer")


@dataclass(frozen=True)
class FormatKeys(Params):
    """Keys about the configuration itself."""

    format_version: Annotated[Count, Key("4 for rasters, 7 for vectors in the examples of 1.5; ignored")]


@dataclass(frozen=True)
class IdleKeys(Params, section="model_params"):
    """Keys without effect, which the trainings of 1.5 did not read either."""

    unroll_num_frames: Annotated[FrameCount, _IDLE]
    use_perturbation: Annotated[Flag, _IDLE]
    perturbation_probability: Annotated[Probability, _IDLE]
    use_gaussian_perturbation: Annotated[Flag, _IDLE]
    use_kinematic: Annotated[Flag, _IDLE]
    history_num_frames_train: Annotated[FrameCount, _IDLE]
    load_pretrained: Annotated[Flag, _IDLE]


@dataclass(frozen=True)
class Door:
    """A consumer of configurations.

    Attributes:
        name: Name of its product: a kind of samples, a map type, a workflow.
        readers: Parameter classes that it reads.
        also: Names of further doors that it uses, such as those of the samples of a workflow.
    """

    name: str
    readers: tuple[type[Params], ...]
    also: tuple[str, ...] = ()


DOORS: Final[dict[str, Door]] = {
    door.name: door
    for door in (
        Door("samples", (RasterGeometry, SamplingParams, LightParams)),
        *(Door(reader.map_type_name(), (reader,)) for reader in RASTERIZERS),
        Door("a rasterizer of your own", (OwnMapType,)),
        Door("vector samples", (VectorSamplingParams, LightParams)),
        Door("vectorizer", (VectorizerParams, MapKeys)),
        Door("trainings", (TrainingKeys,)),
        Door("raster_planner", (BackboneParams,), _OF_RASTERS),
        Door("vector_planner", (VectorModelParams,), _OF_VECTORS),
        Door("urban_driver", (VectorModelParams, UnrollParams), _OF_VECTORS),
        Door("agent_motion", (BackboneParams,), _OF_RASTERS),
        Door("agent_motion_multimodal", (BackboneParams,), _OF_RASTERS),
        Door("safepathnet", (VectorModelParams, SafePathNetParams), _OF_VECTORS),
        Door("simnet", (BackboneParams,), _OF_RASTERS),
        Door("motion_tokens", (VectorModelParams, MotionTokenParams), _OF_VECTORS),
        Door("query_centric", (VectorModelParams, QueryCentricParams), _OF_VECTORS),
        Door("route_planner", (VectorModelParams, RoutePlannerParams), _OF_VECTORS),
        Door("environments", (EnvironmentParams,), _OF_RASTERS),
        Door("train-rl", (ReinforcementParams,), ("environments",)),
    )
}
"""All consumers of configurations, by name."""

_UNREAD: Final = (FormatKeys, IdleKeys)


@dataclass(frozen=True)
class SchemaKey:
    """A key of the schema.

    Attributes:
        uses: Name of each door that reads the key, empty if nothing does, with the key as it is read there.
    """

    uses: tuple[tuple[str, ReadKey], ...]

    @property
    def key(self) -> Key:
        """The description of the key."""
        return self.uses[0][1].key

    @property
    def read_by(self) -> tuple[str, ...]:
        """Names of the doors that read it."""
        return tuple(dict.fromkeys(door for door, _ in self.uses if door))

    @property
    def needed_by(self) -> tuple[str, ...]:
        """Names of the doors that have no default for it."""
        return tuple(dict.fromkeys(door for door, key in self.uses if door and key.is_needed))

    def schema(self) -> JsonObject:
        """Return the JSON schema of the value: the union over all doors, with the default if all of them have it."""
        # doors may allow different names or formats; the schema of the file allows them all
        schemas = [key.schema() for _, key in self.uses]
        schema = schemas[0]
        if "enum" in schema:
            schema["enum"] = list(dict.fromkeys(value for each in schemas for value in each.get("enum", ())))
            others = [each for each in schemas if "enum" not in each]
            schema = {"anyOf": [schema, *others]} if others else schema
        if self.needed_by:
            schema.pop("default", None)
        return schema


@functools.cache
def sections() -> Mapping[str, Mapping[str, SchemaKey]]:
    """Return all keys, by the path of their section and their name; the path of the top of the file is empty."""
    uses_by_key: dict[tuple[str, str], list[tuple[str, ReadKey]]] = {}
    for name, readers in [*((door.name, door.readers) for door in DOORS.values()), ("", _UNREAD)]:
        for reader in readers:
            for key in keys_of(reader):
                uses_by_key.setdefault((key.section, key.name), []).append((name, key))
    tree: dict[str, dict[str, SchemaKey]] = {}
    for (section, key_name), uses in uses_by_key.items():
        tree.setdefault(section, {})[key_name] = SchemaKey(tuple(uses))
    return tree


def json_schema() -> JsonObject:
    """Return the JSON schema (draft 2020-12) of a configuration file, for completion and checks in editors.

    Keys that a workflow needs are required if the file names this workflow.
    """
    rules = []
    for workflow in WORKFLOWS:
        readers = [reader for name in (workflow, *DOORS[workflow].also) for reader in DOORS[name].readers]
        needed = _needed(key for reader in readers for key in keys_of(reader))
        rules.append(_if_value("workflow", [workflow], needed))

    # further keys of raster trainings are required depending on the map type
    of_map_types = []
    for reader in RASTERIZERS:
        of_type = _if_value("map_type", [reader.map_type_name()], {})["if"]
        given = {"properties": {"raster_params": of_type}, "required": ["raster_params"]}
        of_map_types.append({"if": given, "then": _needed(keys_of(reader))})
    with_rasters = [name for name in WORKFLOWS if "samples" in DOORS[name].also]
    needed = {"properties": {"raster_params": {"required": ["map_type"]}}, "allOf": of_map_types}
    rules.append(_if_value("workflow", with_rasters, needed))
    title = "Configuration of l5kit"
    return {"$schema": _DRAFT, "title": title, **_object(""), "allOf": rules}


def _object(section: str) -> JsonObject:
    """Return the schema of a section, including its subsections."""
    inner = [path for path in sections() if path and path.rpartition(".")[0] == section]
    properties: JsonObject = {}
    for name, key in sections()[section].items():
        schema, described = key.schema(), key.key
        if described.null_is_missing:  # the default belongs to the key, not to one branch of anyOf
            default = {each: schema.pop(each) for each in ("default",) if each in schema}
            schema = {"anyOf": [schema, {"type": "null"}], **default}
        unit = f" [{described.unit}]" if described.unit else ""
        otherwise = f"; default: {described.otherwise}" if described.otherwise else ""
        text = f"{described.text}{unit}{otherwise}"
        properties[name] = {"description": text, **schema, **({"deprecated": True} if described.is_unused else {})}
    properties |= {path.rpartition(".")[2]: _object(path) for path in inner}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _if_value(key: str, values: list[str], needed: JsonObject) -> JsonObject:
    return {"if": {"properties": {key: {"enum": values}}, "required": [key]}, "then": needed}


def _needed(keys: Iterable[ReadKey]) -> JsonObject:
    """Return a schema that requires all keys without a default."""
    needed: JsonObject = {}
    for key in keys:
        if not key.is_needed:
            continue
        # sections on the path of a key are required too, unless the whole section is optional
        schema = needed
        for name in key.section.split(".") if key.section else ():
            if not key.is_optional_section:
                schema["required"] = sorted({*schema.get("required", ()), name})
            schema = schema.setdefault("properties", {}).setdefault(name, {})
        schema["required"] = sorted({*schema.get("required", ()), key.name})
    return needed
