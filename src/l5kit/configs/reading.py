"""Reading of configurations into frozen parameters, with error texts that name the key, its value and what is allowed.

A parameter class declares each key once, as a field: its name, type, default and description.

    @dataclass(frozen=True)
    class LaneParams(Params, section="data_generation_params.lane_params"):
        max_num_lanes: Annotated[ElementCount, Key("lanes, closest first")]

Other keys are ignored, since configurations of L5Kit 1.x carry many.
"""

import dataclasses
import functools
import math
import os
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, ParamSpec, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from l5kit._types import Config, JsonObject
from l5kit.configs.kinds import Key
from l5kit.configs.texts import did_you_mean
from l5kit.errors import ConfigError, UnsupportedConfigError

_T = TypeVar("_T")
_P = TypeVar("_P", bound="Params")
_A = ParamSpec("_A")

_TEXTS = {
    "path": "a non-empty path",
    "own code": "'FILE.py:NAME'",
    "file name": "a file name without folder, of 1 to 100 characters, which does not begin with a dot",
}
_COUNT_WORDS = {2: "two", 3: "three", 4: "four"}


def _once(function: Callable[_A, _T]) -> Callable[_A, _T]:
    """Return ``functools.cache`` of a function; for typeshed, classes are not hashable arguments."""
    return cast("Callable[_A, _T]", functools.cache(function))


class Params:
    """Base of the dataclasses that are read from a configuration.

    A field whose type is a subclass is read from the section of that class, or from the section in its :class:`Key`.
    Fields with neither a key nor such a type keep their defaults.
    """

    section: ClassVar[str] = ""
    """Path of the section with the keys of the fields, unless a key has its own path."""

    def __init_subclass__(cls, *, section: str | None = None) -> None:
        super().__init_subclass__()
        cls.section = cls.section if section is None else section

    @classmethod
    def from_cfg(cls, cfg: Config) -> Self:
        """Read and check the keys of a configuration.

        Raises:
            ConfigError: Keys are missing, of the wrong type or out of range; the message names all of them.
        """
        return read_params(cls, cfg)


@dataclass(frozen=True)
class ReadKey:
    """A key or subsection of a parameter class.

    Attributes:
        section: Path of its section; empty for the top of the file.
        name: Name in the section.
        key: Description of the key.
        is_needed: Whether it has no default.
        field: Name of the field.
        kind: Type of the field.
        default: Value of a missing key, unless the key derives one; ``...`` if there is none.
        part: Class that reads the subsection; None for a key.
        is_optional_section: Whether the whole section may be missing, which makes its keys optional too.
    """

    section: str
    name: str
    key: Key
    is_needed: bool
    field: str
    kind: object
    default: object
    part: type[Params] | None = None
    is_optional_section: bool = False

    @property
    def path(self) -> str:
        """Section and name, joined by a dot."""
        return f"{self.section}.{self.name}" if self.section else self.name

    def expected(self) -> str:
        """Return the allowed values in words."""
        return expected_text(self.schema(), self.key.unit)

    def hint(self, value: object) -> str:
        """Return a hint at the allowed value most similar to ``value``, or an empty text."""
        schema = self.schema()
        return did_you_mean(value, [name for name in schema.get("anyOf", [schema])[0].get("enum", []) if name])

    def schema(self) -> JsonObject:
        """Return the JSON schema of the value, without its description."""
        schema = msgspec.json.schema(self.kind)
        kind = _base(self.kind)
        if get_origin(kind) is Literal:  # msgspec sorts them
            schema.get("anyOf", [schema])[0]["enum"] = list(get_args(kind))
        if self.default is ... or self.default is None:
            return schema
        return {**schema, "default": list(self.default) if isinstance(self.default, tuple) else self.default}


def read_params(kind: type[_P], cfg: Config, *, section: str | None = None) -> _P:
    """Return the parameters in a configuration.

    Args:
        kind: Class of the parameters.
        cfg: The configuration.
        section: Path of the section with the keys, for a class that is read from several sections.

    Raises:
        ConfigError: A section is missing or not a mapping; keys are missing, of the wrong type or out of range.
    """
    errors: list[str] = []
    params = _read(kind, cfg, kind.section if section is None else section, errors)
    if params is None:
        raise ConfigError("; ".join(errors))
    return params


def read_variant(cfg: Config, path: str, variants: Mapping[str, _T]) -> _T:
    """Return the variant that a key names.

    Raises:
        UnsupportedConfigError: There is no such variant; also for a value that is not a text, such as an empty one.
        ConfigError: The key is missing.
    """
    section, _, name = path.rpartition(".")
    values = _section(cfg, section)
    if name not in values:
        raise ConfigError(f"{path}: this key is missing")
    value = values[name]
    if not isinstance(value, str) or value not in variants:
        raise UnsupportedConfigError(
            f"{path}: expected {' or '.join(map(repr, variants))}, got {value!r}{did_you_mean(value, variants)}"
        )
    return variants[value]


def keys_of(kind: type[Params], section: str | None = None) -> Iterator[ReadKey]:
    """Yield the keys of a parameter class, including those of its parts."""
    for key in _fields(kind, kind.section if section is None else section):
        if key.part is None:
            yield key
            continue
        for inner in keys_of(key.part, key.section):
            yield dataclasses.replace(inner, is_optional_section=not key.is_needed)


def expected_text(schema: JsonObject, unit: str = "") -> str:
    """Return in words what a JSON schema allows, omitting null, which stands for a missing key."""
    return _kind_text(schema) + (f" ({unit})" if unit else "")


@_once
def _fields(kind: type[Params], section: str) -> tuple[ReadKey, ...]:
    """Return the keys and subsections of a parameter class that is read from ``section``."""
    hints = get_type_hints(kind, include_extras=True)
    read = []
    for field in dataclasses.fields(cast("Any", kind)):
        hint = hints[field.name]
        key = next((item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Key)), None)
        part, has_no_default = _base(hint), field.default is dataclasses.MISSING
        if isinstance(part, type) and issubclass(part, Params):
            # a part: its path is that of the key, else that of its class
            home = key.at if key else part.section
            read.append(ReadKey(home, "", key or Key(""), has_no_default, field.name, hint, None, part))
        elif key is not None and key.only_in in ("", section):
            # a key: its own path takes precedence over that of the field, and the field's default over its own
            home, _, name = key.at.rpartition(".") if key.at else (section, "", field.name)
            default = key.default if has_no_default else field.default
            read.append(ReadKey(home, name, key, default is ... and key.derived is None, field.name, hint, default))
    return tuple(read)


def _base(kind: Any) -> object:
    """Return a type without its annotations and, for an optional type, without None."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    if get_origin(kind) in (Union, types.UnionType):
        return _base(next(part for part in get_args(kind) if part is not types.NoneType))
    return kind


def _read(kind: type[_P], cfg: Config, section: str, errors: list[str]) -> _P | None:
    """Return the parameters of a class; None if a key is wrong, with the messages appended to ``errors``."""
    values: dict[str, object] = {}
    num_errors = len(errors)
    for read in _fields(kind, section):
        if read.part is not None:
            # optional parts are read if their section exists, whatever its value is
            around, _, name = read.section.rpartition(".")
            if read.is_needed or name in _section(cfg, around, is_needed=False):
                values[read.field] = _read(read.part, cfg, read.section, errors)
            continue
        try:
            values[read.field] = _value_of(read, cfg, values)
        except _WrongValueError as error:
            errors.append(str(error))
            values[read.field] = None  # for keys that are derived from it
    return kind(**values) if len(errors) == num_errors else None


class _WrongValueError(Exception):
    """A key is missing, or its value is not allowed."""


def _value_of(read: ReadKey, cfg: Config, values: Mapping[str, object]) -> object:
    """Return the checked value of a key, or its default."""
    section = _section(cfg, read.section, is_needed=read.is_needed)
    if read.name in section and not (read.key.null_is_missing and section[read.name] is None):
        value = section[read.name]
    elif read.key.derived is not None:
        value = read.key.derived(cfg, read.section, values)
    elif read.is_needed:
        raise _WrongValueError(f"{read.path}: this key is missing; expected {read.expected()}")
    else:
        return read.default
    try:
        plain = _plain(value, read.kind)
        checked = msgspec.convert(plain, read.kind)
        members = (
            checked if isinstance(checked, tuple) else checked.values() if isinstance(checked, dict) else (checked,)
        )
        if any(isinstance(number, float) and not math.isfinite(number) for number in members):
            raise msgspec.ValidationError("not finite")
    except (msgspec.ValidationError, OverflowError):
        raise _WrongValueError(f"{read.path}: expected {read.expected()}, got {value!r}{read.hint(value)}") from None
    # an int stays an int where a float is allowed: its type is part of the name of a stored agents mask
    return plain if isinstance(checked, float) else checked


def _plain(value: object, kind: object) -> object:
    """Return a value that msgspec accepts: no NumPy types, and integers, flags and paths in their own types."""
    base = _base(kind)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if get_origin(base) is tuple and isinstance(value, (list, tuple)):
        return [_plain(item, get_args(base)[0]) for item in value]
    if get_origin(base) is dict and isinstance(value, Mapping):
        return {name: _plain(item, get_args(base)[1]) for name, item in value.items()}
    if base is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if base is bool and isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    return os.fspath(value) if base is str and isinstance(value, os.PathLike) else value


def _section(cfg: Config, path: str, *, is_needed: bool = True) -> Config:
    """Return a section of a configuration; an empty one if it is missing and not needed."""
    values, done = _mapping(cfg, ""), ""
    for name in path.split(".") if path else ():
        if name not in values:
            if not is_needed:
                return {}
            where = f"{done}.{name}: this section is missing" if done else f"{name}: this section is missing"
            raise ConfigError(f"{where} in {done or 'the configuration'}; found {sorted(map(str, values))}")
        done = f"{done}.{name}" if done else name
        values = _mapping(values[name], done)
    return values


def _mapping(values: object, path: str) -> Config:
    if isinstance(values, Mapping):
        return values
    if path:
        raise ConfigError(f"{path}: expected a mapping of keys, got {values!r}")
    raise ConfigError(f"the configuration must be a mapping of sections, got {type(values).__name__}")


def _kind_text(schema: JsonObject) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind_text(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    match schema["type"]:
        case "integer":
            return f"a whole number{_range_text(schema)}"
        case "number":
            return f"a finite number{_range_text(schema)}"
        case "boolean":
            return "true or false"
        case "array":
            parts = schema.get("prefixItems")
            item = parts[0] if parts else schema["items"]
            if "enum" in item or "anyOf" in item:
                return f"a list of {_kind_text(item)}"
            if item["type"] == "string":
                return "a list of paths" if item.get("format") == "path" else "a list of texts"
            number = "a list of" if not parts else _COUNT_WORDS[len(parts)]
            return f"{number} {'whole' if item['type'] == 'integer' else 'finite'} numbers{_range_text(item)}"
        case "object":
            of_names = schema.get("additionalProperties")
            if isinstance(of_names, dict) and of_names:
                return f"names with {_kind_text(of_names)} each"
            return "a mapping of class_path and init_args"
        case _:
            return _TEXTS.get(schema.get("format", ""), "a text")


def _range_text(schema: JsonObject) -> str:
    if "maximum" in schema and "exclusiveMinimum" in schema:
        return f" above {schema['exclusiveMinimum']:g} and at most {schema['maximum']:g}"
    if "maximum" in schema:
        return f" from {schema['minimum']:g} to {schema['maximum']:g}"
    if "exclusiveMaximum" in schema:
        return f" between {schema['exclusiveMinimum']:g} and {schema['exclusiveMaximum']:g}"
    if "minimum" in schema:
        return f" of at least {schema['minimum']:g}"
    return f" greater than {schema['exclusiveMinimum']:g}" if "exclusiveMinimum" in schema else ""
