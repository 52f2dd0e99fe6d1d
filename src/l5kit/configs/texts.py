"""YAML and JSON of people, read within bounds, where each way to be broken is one error; values as JSON holds them."""

import copy
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from l5kit.errors import ConfigError, InvalidArgumentError, without_secrets

MAX_DEPTH = 100
"""Lists and mappings in each other, many times what a configuration needs and few enough for any recursion."""

_TOO_DEEP = "is nested too deep: lists and mappings in each other; a configuration has less than ten such levels"

_MAX_NODES = 1_000_000
"""Values of a document when each alias is written out as what it stands for."""

_PARSING_ERRORS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises for texts that are not what they seem, such as a date that is none or a number of 5,000 digits."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint at the most similar name that there is, to be put behind what was given; empty where none is.

    Args:
        name: What was given; what is no text is like nothing.
        known: What there is.
    """
    near = nearest_name(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """Return the name that is most like another one, whatever its case; None where none is like it.

    Args:
        name: The other one; what is no text is like nothing.
        known: What there is.
    """
    by_plain = {_plain(other): other for other in known}
    near = get_close_matches(_plain(name), by_plain, n=1) if isinstance(name, str) else []
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def require_regular_file(path: str | os.PathLike[str], *, called: str) -> None:
    """Refuse pipes, sockets and devices: to open or read one may wait for ever, or never come to an end.

    Whether there is a file at all, and not a folder, is for the caller to say.

    Args:
        path: The file.
        called: What it is, for the error, such as ``map file``.

    Raises:
        InvalidArgumentError: It is none that one can read from start to end.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # of which opening it tells
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InvalidArgumentError(f"{called} {os.fspath(path)} is {what}; save what it gives to a file, and name that")


def read_text(path: str | os.PathLike[str], *, called: str) -> str:
    """Return a text file that should be UTF-8, without a byte order mark.

    Args:
        path: The file.
        called: What it is, for the errors, such as ``configuration file``.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: It is a folder, or no UTF-8.
        InvalidArgumentError: It is a pipe or a device.
    """
    if os.path.isdir(path):
        raise ConfigError(f"{called} {os.fspath(path)} is a folder; name a file in it")
    # `<(command)` of a shell, and standard input, are pipes that are open already, and whoever writes to them ends
    if not os.fspath(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
        require_regular_file(path, called=called)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{called} {os.fspath(path)} does not exist; check the path for spelling") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = len(content) - len(error.object) + error.start  # the error counts without the byte order mark
        raise ConfigError(
            f"{called} {os.fspath(path)} is no text in UTF-8: byte {position} is 0x{error.object[error.start]:02x}; "
            "save it as UTF-8 if it is a text, take another copy if it is not"
        ) from error


def parse_yaml(text: str, *, called: str, reads_exponents: bool = False) -> object:
    """Return what a YAML document holds; no code in it runs, and no two of its parts are one object.

    Args:
        text: The document, of YAML's own types and Python's tuples, which L5Kit 1.x wrote.
        called: Where it came from, for the errors.
        reads_exponents: Whether ``1e-3`` is a number, as in YAML 1.2; YAML 1.1 and L5Kit 1.x want ``1.0e-3``.

    Raises:
        ConfigError: It is no YAML, nested too deep, too large when its aliases are written out, or its own part; or a
            mapping has a key twice.
    """
    try:
        loader = _ExponentLoader(text) if reads_exponents else _BoundedLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        # before anything is made of the nodes: a few lines of aliases of aliases would fill the memory
        _count_nodes(node, {}, called)
        _refuse_repeated_keys(node, loader, called)
        return unshared(loader.construct_document(node), called=called)
    except ConfigError:
        raise
    except _TooDeepError as error:
        raise ConfigError(f"{called} {_TOO_DEEP}") from error
    except _PARSING_ERRORS as error:
        raise ConfigError(f"{called} is not valid YAML: {error}") from error


def parse_json(text: str, *, called: str) -> object:
    """Return what a JSON document holds.

    Args:
        text: The document.
        called: Where it came from, for the errors.

    Raises:
        ConfigError: It is no JSON, nested too deep, or an object has a key twice.
    """

    def as_dict(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise ConfigError(f"{called} has the key {repeated!r} twice in one object; remove one of them")
        return values

    try:
        return json.loads(text, object_pairs_hook=as_dict)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"{called} is not valid JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{called} {_TOO_DEEP}") from error


def reported_values(content: object) -> Any:
    """Return values as JSON tells them: no numbers that are not finite, lists for tuples, addresses without secrets."""
    if isinstance(content, Mapping):
        return {name: reported_values(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [reported_values(value) for value in content]
    if isinstance(content, str):
        return without_secrets(content)
    return None if isinstance(content, float) and not math.isfinite(content) else content


def with_integers(content: object) -> Any:
    """Return values in which what counts as the same in a configuration is: 1 for 1.0 and true, texts for all names."""
    if isinstance(content, Mapping):
        return {str(name): with_integers(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [with_integers(value) for value in content]
    if isinstance(content, bool) or (isinstance(content, float) and content.is_integer()):
        return int(content)
    return content


def unshared(content: object, *, called: str) -> Any:
    """Return a copy in which each list and mapping stands in one place only, so that a change of it changes no other.

    Args:
        content: Dicts, lists and tuples of anything.
        called: Where it came from, for the errors.

    Raises:
        ConfigError: It is nested too deep, or a part of itself.
    """

    def copied(value: object, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise ConfigError(f"{called} {_TOO_DEEP}")
        if isinstance(value, dict):
            return {key: copied(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [copied(item, depth + 1) for item in value]
        if type(value) is tuple:  # those with names stay what they are
            return tuple(copied(item, depth + 1) for item in value)
        return copy.deepcopy(value)

    return copied(content, 0)


class _TooDeepError(Exception):
    """A document is nested deeper than the bound."""


class _BoundedLoader(yaml.SafeLoader):
    """Composes documents of YAML's own types and tuples, up to a depth."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node, which lies in as many others as are being composed."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _TooDeepError
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _construct_tuple(loader: _BoundedLoader, node: yaml.SequenceNode) -> tuple[object, ...]:
    return tuple(loader.construct_sequence(node, deep=True))


_BoundedLoader.add_constructor("tag:yaml.org,2002:python/tuple", _construct_tuple)


class _ExponentLoader(_BoundedLoader):
    """Reads numbers with an exponent as YAML 1.2 does: without a point, and without a sign of the exponent."""


_ExponentLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def _refuse_repeated_keys(node: yaml.Node, loader: _BoundedLoader, called: str) -> None:
    """Raise a ConfigError where a mapping has a key twice; keys that are merged (<<) may be there already."""
    waiting, seen = [node], {id(node)}
    while waiting:
        parent = waiting.pop()
        lines: dict[object, int] = {}
        for key_node, _ in parent.value if isinstance(parent, yaml.MappingNode) else ():
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            is_equals_sign = key_node.tag == "tag:yaml.org,2002:value"
            key = key_node.value if is_equals_sign else loader.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if key in lines:
                raise ConfigError(
                    f"{called} has the key {key!r} twice in one mapping: in lines {lines[key]} and {line}; remove one "
                    "of them"
                )
            lines[key] = line

        # each node once, however many aliases of it there are
        for child in _children_of(parent):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _count_nodes(node: yaml.Node, counted: dict[int, int | None], called: str) -> int:
    """Return the values in a node with aliases written out; ``counted`` has those of nodes that were seen."""
    # None is a node that is being counted: who comes to it again has gone around a circle
    known = counted.get(id(node), 0)
    if known is None:
        raise ConfigError(f"{called} holds an alias of what it stands in: line {node.start_mark.line + 1}; remove it")
    if known:
        return known
    counted[id(node)] = None
    number = 1 + sum(_count_nodes(child, counted, called) for child in _children_of(node))
    if number > _MAX_NODES:
        raise ConfigError(
            f"{called} holds more than {_MAX_NODES:,} values when its aliases (*name) are written out; remove them"
        )
    counted[id(node)] = number
    return number


def _children_of(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
