"""Bounded parsing of YAML and JSON written by people, with one error type for all defects; hints at similar names."""

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
"""Largest nesting of lists and mappings: far more than configurations need, and safe for recursion."""

_TOO_DEEP = "is nested too deep; lists and mappings of a configuration have less than ten levels"

_MAX_NODES = 1_000_000
"""Largest number of values of a document with all aliases expanded."""

_PARSING_ERRORS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""Exceptions of PyYAML for malformed values, such as an impossible date or a number of 5,000 digits."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint at the most similar known name, to append to an error text; empty if none is similar.

    Args:
        name: The given name; anything but a text has no similar name.
        known: Known names.
    """
    near = nearest_name(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """Return the most similar known name, ignoring case; None if none is similar.

    Args:
        name: The given name; anything but a text has no similar name.
        known: Known names.
    """
    by_plain = {_plain(other): other for other in known}
    near = get_close_matches(_plain(name), by_plain, n=1) if isinstance(name, str) else []
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def require_regular_file(path: str | os.PathLike[str], *, called: str) -> None:
    """Refuse pipes, sockets and devices, since opening or reading them may block or never end.

    Missing files and folders are left to the caller.

    Args:
        path: The file.
        called: Kind of file for the error text, such as ``map file``.

    Raises:
        InvalidArgumentError: It is not a regular file.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening the file will raise it
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InvalidArgumentError(f"{called} {os.fspath(path)} is {what}; save its output to a file, and give that")


def read_text(path: str | os.PathLike[str], *, called: str) -> str:
    """Return the content of a text file in UTF-8, without a byte order mark.

    Args:
        path: The file.
        called: Kind of file for error texts, such as ``configuration file``.

    Raises:
        FileNotFoundError: There is no such file.
        ConfigError: It is a folder, or not UTF-8.
        ConfigError: It is a folder, or no UTF-8.
        InvalidArgumentError: It is a pipe or a device.
    """
    if os.path.isdir(path):
        raise ConfigError(f"{called} {os.fspath(path)} is a folder; give a file in it")
    # shell process substitutions and standard input are pipes that are open already and will end
    if not os.fspath(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/")):
        require_regular_file(path, called=called)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{called} {os.fspath(path)} does not exist; check the spelling of the path") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        position = len(content) - len(error.object) + error.start  # the error counts without the byte order mark
        raise ConfigError(
            f"{called} {os.fspath(path)} is not a UTF-8 text: byte {position} is 0x{error.object[error.start]:02x}; "
            "save it as UTF-8, or get another copy if it is not a text"
        ) from error


def parse_yaml(text: str, *, called: str, reads_exponents: bool = False) -> object:
    """Return the content of a YAML document without running code in it; its parts share no objects.

    Args:
        text: The document, with YAML's own types and Python tuples, which L5Kit 1.x wrote.
        called: Source of the document, for error texts.
        reads_exponents: Whether ``1e-3`` is a number, as in YAML 1.2; YAML 1.1 and L5Kit 1.x require ``1.0e-3``.

    Raises:
        ConfigError: It is not YAML, nested too deep, too large with its aliases expanded, or contains itself; or a
            mapping repeats a key.
    """
    try:
        loader = _ExponentLoader(text) if reads_exponents else _BoundedLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        # count before constructing: a few lines of nested aliases could exhaust the memory
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
    """Return the content of a JSON document.

    Args:
        text: The document.
        called: Source of the document, for error texts.

    Raises:
        ConfigError: It is not JSON, nested too deep, or an object repeats a key.
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
    """Return values for a JSON report: null for numbers that are not finite, lists for tuples, no secrets in URLs."""
    if isinstance(content, Mapping):
        return {name: reported_values(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [reported_values(value) for value in content]
    if isinstance(content, str):
        return without_secrets(content)
    return None if isinstance(content, float) and not math.isfinite(content) else content


def with_integers(content: object) -> Any:
    """Return values in normal form, so that equivalent ones compare equal: 1 for 1.0 and true, texts for all keys."""
    if isinstance(content, Mapping):
        return {str(name): with_integers(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [with_integers(value) for value in content]
    if isinstance(content, bool) or (isinstance(content, float) and content.is_integer()):
        return int(content)
    return content


def unshared(content: object, *, called: str) -> Any:
    """Return a deep copy without shared lists and mappings, so that a change of one part changes no other part.

    Args:
        content: Nested dicts, lists and tuples.
        called: Source of the content, for error texts.

    Raises:
        ConfigError: It is nested too deep, or contains itself.
    """

    def copied(value: object, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise ConfigError(f"{called} {_TOO_DEEP}")
        if isinstance(value, dict):
            return {key: copied(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [copied(item, depth + 1) for item in value]
        if type(value) is tuple:  # named tuples keep their type
            return tuple(copied(item, depth + 1) for item in value)
        return copy.deepcopy(value)

    return copied(content, 0)


class _TooDeepError(Exception):
    """A document is nested deeper than the limit."""


class _BoundedLoader(yaml.SafeLoader):
    """Loader of documents with YAML's own types and tuples, up to a depth."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Return the next node; the depth counts the nodes that are being composed around it."""
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
    """Loader that reads exponents as in YAML 1.2: without a decimal point or a sign of the exponent."""


_ExponentLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def _refuse_repeated_keys(node: yaml.Node, loader: _BoundedLoader, called: str) -> None:
    """Raise a ConfigError if a mapping repeats a key; keys that are merged (<<) may be repeated."""
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

        # visit each node once, however many aliases it has
        for child in _children_of(parent):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _count_nodes(node: yaml.Node, counted: dict[int, int | None], called: str) -> int:
    """Return the number of values in a node with aliases expanded; ``counted`` caches the numbers of visited nodes."""
    # None marks a node that is being counted; reaching it again means a cycle
    known = counted.get(id(node), 0)
    if known is None:
        raise ConfigError(f"{called} has an alias of its own parent: line {node.start_mark.line + 1}; remove it")
    if known:
        return known
    counted[id(node)] = None
    number = 1 + sum(_count_nodes(child, counted, called) for child in _children_of(node))
    if number > _MAX_NODES:
        raise ConfigError(
            f"{called} has more than {_MAX_NODES:,} values with its aliases (*name) expanded; remove them"
        )
    counted[id(node)] = number
    return number


def _children_of(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
