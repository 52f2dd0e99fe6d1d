"""User code named as ``FILE.py:NAME``: drivers, models, metrics, edits, readers and rasterizers, with their digests."""

import hashlib
import importlib.util
import inspect
import os
import pickle
import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, Final

from l5kit.configs.class_path import describe_error
from l5kit.configs.kinds import OWN_CODE
from l5kit.configs.texts import did_you_mean
from l5kit.errors import InvalidArgumentError

_MOST_SHOWN: Final = 200
"""Longest representation of an argument in an error text; a whole configuration would hide the error."""


def is_own(reference: str) -> bool:
    """Return whether a text names an object in a user's file."""
    return re.fullmatch(OWN_CODE, reference) is not None


def with_whole_file(reference: str) -> str:
    """Return the reference with an absolute path, for a process with another working directory."""
    file, name = _parts(reference)
    return f"{os.path.abspath(file)}:{name}"


def read_own(
    reference: str, argument: str, *, called: str, is_one: Callable[[object], bool], arguments: tuple[object, ...] = ()
) -> tuple[object, str]:
    """Load an object of a user's file, or the result of calling it if it is a class or function, and its source.

    Args:
        reference: ``FILE.py:NAME``, for which :func:`is_own` holds.
        argument: Name of the argument with the reference, for error texts.
        called: Kind of the wanted object, for error texts.
        is_one: Whether an object is of the wanted kind already.
        arguments: Arguments for a class or function.

    Returns:
        The object, and a text that identifies its code: the name and the digest of the file.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgumentError: The file cannot be loaded or lacks the name, or the call with ``arguments`` fails.
    """
    path, name = _parts(reference)
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{argument} is {reference!r}, but there is no file {path!r}; check the spelling")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    source = f"{name} of {digest}"
    spec = importlib.util.spec_from_file_location(f"l5kit_user_{file.stem}_{digest[:8]}", file)
    if spec is None or spec.loader is None:
        raise InvalidArgumentError(f"{argument}: {file} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    # dataclasses and pickle look up the module
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError:  # the command names the missing library and how to install it
        raise
    except (Exception, SystemExit) as error:  # a script may exit when it is loaded
        raise InvalidArgumentError(f"{argument}: {file} cannot be loaded: {describe_error(error)}") from error
    member: object = getattr(module, name, None)
    if member is None:
        raise InvalidArgumentError(
            f"{argument}: {file} has no {name}{did_you_mean(name, vars(module))}; give a {called}, or a class or "
            "function that returns one"
        )
    makes_one = callable(member) and (isinstance(member, type) or not is_one(member))
    if not makes_one:
        return member, source
    try:
        return member(*arguments), source  # type: ignore[operator]
    except TypeError as error:
        given = ", ".join(repr(each)[:_MOST_SHOWN] for each in arguments) or "out arguments"
        raise InvalidArgumentError(
            f"{argument}: {name} of {file} could not be called with{' ' if arguments else ''}{given} ({error}); give a "
            f"function that returns the {called}"
        ) from error
    except (Exception, SystemExit) as error:
        raise InvalidArgumentError(
            f"{argument}: {name} of {file} cannot make a {called}: {describe_error(error)}"
        ) from error


def digest_of_object(part: object) -> str:
    """Return a digest of the state of a user object; one that cannot be pickled gets a random digest."""
    try:
        return hashlib.sha256(pickle.dumps(part)).hexdigest()
    except Exception:  # user code may raise anything
        return uuid.uuid4().hex


def digest_of_code(part: object) -> str:
    """Return a digest of the code of a function or of the class of an object; empty for code of l5kit.

    It is the digest of the whole file, as for ``FILE.py:NAME``, so that helper functions in it count. For code without
    a file, as in notebooks, it is the digest of the compiled functions.
    """
    kind: Any = part if hasattr(part, "__code__") else type(part)
    if kind.__module__.partition(".")[0] in ("l5kit", "builtins"):
        return ""
    try:
        return hashlib.sha256(Path(inspect.getsourcefile(kind) or "").read_bytes()).hexdigest()
    except (TypeError, OSError):
        members = [kind] if kind is part else [value for base in kind.__mro__ for value in vars(base).values()]
        codes = [_described(each.__code__) for each in members if hasattr(each, "__code__")]
        return hashlib.sha256("\n".join(codes).encode()).hexdigest()


def _described(constant: object) -> str:
    """Return a text for a constant of compiled code, or for a code object, that is the same in every process."""
    if isinstance(constant, CodeType):
        return repr([constant.co_code, constant.co_names, [_described(each) for each in constant.co_consts]])
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _parts(reference: str) -> tuple[str, str]:
    file, _, name = reference.rpartition(":")
    return file, name
