"""Safe reading of pickles: a restricted interpreter builds plain values and refuses everything else.

The standard loader calls whatever a file names. This one supports dictionaries, lists, tuples, sets, text, bytes,
numbers and NumPy arrays, and builds arrays itself from their bytes: nothing that a file names is imported or called.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

_DEEPEST: Final = 100
"""Maximum nesting of containers; scenarios have about seven levels."""

_TOO_DEEP: Final = f"containers lie more than {_DEEPEST} levels deep in each other, which no scenario has"

_LONGEST_NUMBER: Final = 64
"""Maximum bytes of a whole number, or digits if it is text."""

_RECONSTRUCT, _ARRAY, _DTYPE, _SCALAR, _FROM_BUFFER, _ORDERED, _ENCODE, _NO_BYTES = range(8)
_MULTIARRAY: Final = {"_reconstruct": _RECONSTRUCT, "scalar": _SCALAR}
_GLOBALS: Final = {
    **{(f"numpy.{core}.multiarray", name): kind for core in ("core", "_core") for name, kind in _MULTIARRAY.items()},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _FROM_BUFFER for core in ("core", "_core")},
    ("numpy", "ndarray"): _ARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("collections", "OrderedDict"): _ORDERED,
    ("_codecs", "encode"): _ENCODE,  # how protocols 0 to 2 write bytes
    ("__builtin__", "bytes"): _NO_BYTES,  # and empty bytes
}
"""Names that files may use: those by which NumPy writes arrays and numbers, and ordered dictionaries."""

_KINDS: Final = re.compile(r"(?:[iu][1248]|f[248]|b1|O8?|[SU]\d{1,6})")
_BYTE_ORDERS: Final = ("<", ">", "|", "=")

_REFUSED: Final = {
    "P": "a persistent id",
    "Q": "a persistent id",
    "i": "an instance of a class",
    "o": "an instance of a class",
    "\x81": "an instance of a class",
    "\x92": "an instance of a class",
    "\x82": "an entry of the registry of extensions",
    "\x83": "an entry of the registry of extensions",
    "\x84": "an entry of the registry of extensions",
    "\x97": "a buffer outside of the file",
    "\x98": "a buffer outside of the file",
}
"""Opcodes that plain values never need, and what they create."""


def load_plain_pickle(content: bytes) -> object:
    """Return the value of a pickle of any protocol: a plain value, or containers of plain values.

    Arrays are read-only views of their bytes; arrays of objects with one axis become lists.

    Args:
        content: The pickle.

    Raises:
        ValueError: It is truncated, holds a value that is not plain, names a function or class other than those by
            which NumPy writes arrays, or nests containers more than 100 levels deep.
    """
    value = _Machine(content).run()

    # Refuse endless nesting: containers are visited level by level, and each only once, as one may be in many others
    # or in itself.
    level, seen = [value], {id(value)}
    for _ in range(_DEEPEST):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(each.values())
            elif isinstance(each, list | tuple):
                below.extend(each)
        level = []
        for each in below:
            if type(each) in _CONTAINERS and id(each) not in seen:
                seen.add(id(each))
                level.append(each)
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


@dataclass(frozen=True, slots=True)
class _Named:
    """Stand-in for a global of the file, one of ``_GLOBALS``; distinguishable from values, and never called."""

    kind: int


@dataclass(slots=True)
class _Unfinished:
    """An array or a dtype whose state is still to be read."""

    kind: int
    dtype: str = ""


class _Machine:
    """Interpreter of the opcodes of a pickle."""

    __slots__ = ("_at", "_content", "_marks", "_memo", "_stack")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._stack: list[object] = []
        self._marks: list[list[object]] = []
        self._memo: list[object] = []

    def run(self) -> object:
        """Return the value at the STOP opcode.

        Raises:
            ValueError: See :func:`load_plain_pickle`.
        """
        content, memo, marks, steps = self._content, self._memo, self._marks, _STEPS
        at, stack, unpack_number = 0, self._stack, struct.Struct("<I").unpack_from
        try:
            while True:
                opcode = content[at]
                at += 1
                # the most frequent opcodes are inlined, as a call takes longer than they do
                if opcode == _MEMOIZE:
                    memo.append(stack[-1])
                elif opcode == _GET_SHORT:
                    stack.append(memo[content[at]])
                    at += 1
                elif opcode == _GET_LONG:
                    stack.append(memo[unpack_number(content, at)[0]])
                    at += 4
                elif opcode == _SHORT_TEXT:
                    end = at + 1 + content[at]
                    text = content[at + 1 : end]
                    stack.append(text.decode("utf-8", "surrogatepass"))
                    at = end
                elif opcode == _BYTE:
                    stack.append(content[at])
                    at += 1
                elif opcode == _TWO_BYTES:
                    stack.append(content[at] + 256 * content[at + 1])
                    at += 2
                elif opcode == _MARK:
                    if len(marks) >= _DEEPEST:
                        raise ValueError(_TOO_DEEP)
                    marks.append(stack)
                    stack = self._stack = []
                elif opcode == _TUPLE_OF_ONE:
                    stack[-1] = (stack[-1],)
                elif opcode == _FALSE:
                    stack.append(False)
                elif opcode == _TUPLE:
                    items = tuple(stack)
                    stack = self._stack = marks.pop()
                    stack.append(items)
                elif opcode == _STOP:
                    return stack.pop()
                else:
                    self._at = at
                    steps[opcode](self)
                    at, stack = self._at, self._stack
        except (IndexError, struct.error) as error:
            at = max(at, self._at)
            what = "it ends too early" if at + 4 > len(content) else f"it is damaged at byte {at}"
            raise ValueError(f"{what}, as a pickle; copy the file again") from error
        except (KeyError, TypeError, AttributeError, OverflowError, UnicodeDecodeError) as error:
            raise ValueError(f"it is damaged at byte {at}, as a pickle; copy the file again") from error

    # --- bytes of the file

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) != size:
            self._at = len(self._content)
            raise IndexError(size)
        self._at += size
        return taken

    def _take_line(self) -> bytes:
        end = self._content.find(b"\n", self._at)
        if end < 0:
            self._at = len(self._content)
            raise IndexError
        line = self._content[self._at : end]
        self._at = end + 1
        return line

    # --- numbers, text and bytes

    def push_signed(self, size: int) -> None:
        """Push a whole number of a given size in bytes."""
        if size > _LONGEST_NUMBER:
            raise ValueError(f"a whole number has {size} bytes, more than {_LONGEST_NUMBER}")
        self._stack.append(int.from_bytes(self._take(size), "little", signed=True))

    def push_text(self, size: int) -> None:
        """Push text of a given size in bytes."""
        self._stack.append(self._take(size).decode("utf-8", "surrogatepass"))

    def push_line(self, kind: str) -> None:
        """Push a line of protocol 0: a whole number, a float or text."""
        line = self._take_line()
        if kind == "text":
            self._stack.append(line.decode("raw-unicode-escape"))
        elif kind == "string":
            if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
                raise TypeError
            self._stack.append(line[1:-1].decode("unicode-escape"))  # the repr of Python 2
        elif kind == "float":
            self._stack.append(float(line))
        elif line in (b"00", b"01"):  # False and True
            self._stack.append(line == b"01")
        else:
            if len(line) > _LONGEST_NUMBER:
                raise ValueError(f"a whole number has {len(line)} digits, more than {_LONGEST_NUMBER}")
            self._stack.append(int(line.rstrip(b"L")))

    # --- containers

    def items(self) -> list[object]:
        """Return the items since the mark, and restore the stack below it."""
        popped = self._stack
        self._stack = self._marks.pop()
        return popped

    def append(self) -> None:
        """Append one item to a list."""
        item = self._stack.pop()
        self._list().append(item)

    def extend(self) -> None:
        """Append the items since the mark to a list."""
        items = self.items()
        self._list().extend(items)

    def set_item(self) -> None:
        """Set one item of a dictionary."""
        item, key = self._stack.pop(), self._stack.pop()
        self._set([key, item])

    def _list(self) -> list[object]:
        target = self._stack[-1]
        if type(target) is not list:
            raise TypeError
        return target

    def _set(self, items: list[object]) -> None:
        """Set alternating keys and values in the dictionary on top."""
        target, keys = self._stack[-1], items[::2]
        if type(target) is not dict or len(items) % 2:
            raise TypeError
        if not _PLAIN_KEYS.issuperset(map(type, keys)):
            keys = [_as_key(key) for key in keys]
        target.update(zip(keys, items[1::2], strict=True))

    def add_items(self) -> None:
        """Add the items since the mark to a set."""
        items = self.items()
        target = self._stack[-1]
        if type(target) is not set:
            raise TypeError
        target.update(map(_as_key, items))

    def push_dict(self) -> None:
        """Push a dictionary of the items since the mark."""
        items = self.items()
        self._stack.append({})
        self._set(items)

    def push_tuple(self, size: int) -> None:
        """Push a tuple of the topmost items."""
        items = self._stack[-size:]
        if len(items) != size:
            raise IndexError(size)
        self._stack[-size:] = [tuple(items)]

    def pop(self) -> None:
        """Drop the item on top, or a mark."""
        if self._stack:
            self._stack.pop()
        else:
            self.items()

    # --- memo

    def put(self, number: int) -> None:
        """Store the item on top in the memo."""
        memo = self._memo
        if number == len(memo):  # the usual case
            memo.append(self._stack[-1])
        else:
            memo[number] = self._stack[-1]

    def get(self, number: int) -> None:
        """Push an item of the memo."""
        self._stack.append(self._memo[number])

    # --- globals and objects

    def push_named(self, module: object, name: object) -> None:
        """Push the stand-in of a global.

        Raises:
            ValueError: It is not one that files may name.
        """
        kind = _GLOBALS.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
        if kind is None:
            raise ValueError(
                f"it names {module!s:.80}.{name!s:.80}, and a pickle may run what it names; only dictionaries, "
                "lists, text, numbers and NumPy arrays are read"
            )
        self._stack.append(_Named(kind))

    def push_stacked_global(self) -> None:
        """Push the stand-in of a global whose module and name are on the stack."""
        name, module = self._stack.pop(), self._stack.pop()
        self.push_named(module, name)

    def reduce(self) -> None:
        """Replace a global and its arguments by the result of the call."""
        arguments, named = self._stack.pop(), self._stack.pop()
        if type(named) is not _Named or type(arguments) is not tuple:
            raise TypeError
        kind = named.kind
        made: object
        if kind == _RECONSTRUCT:
            made = _Unfinished(_ARRAY)
        elif kind == _DTYPE:
            name = arguments[0]
            if not isinstance(name, str) or not _KINDS.fullmatch(name):
                raise ValueError(f"an array has the dtype {name!s:.80}; only numbers, bool and text are read")
            made = _Unfinished(_DTYPE, name)
        elif kind == _SCALAR:
            dtype, raw = arguments
            values = _array_of((1, (1,), dtype, False, raw))
            made = values[0] if isinstance(values, np.ndarray | list) else None
        elif kind == _FROM_BUFFER:
            raw, dtype, shape, order = arguments
            made = _array_of((1, shape, dtype, order == "F", raw))
        elif kind == _ORDERED:
            pairs = arguments[0] if arguments else ()
            if not isinstance(pairs, list | tuple):
                raise TypeError
            made = {_as_key(key): value for key, value in pairs}
        elif kind == _ENCODE:
            text, encoding = arguments
            if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
                raise TypeError
            made = text.encode("latin-1")
        elif kind == _NO_BYTES and not arguments:
            made = b""
        else:
            raise TypeError  # ndarray() itself
        self._stack.append(made)

    def build(self) -> None:
        """Complete an array or a dtype with its state, also in the memo."""
        state, unfinished = self._stack.pop(), self._stack.pop()
        if type(unfinished) is not _Unfinished or type(state) is not tuple:
            raise ValueError("it sets the state of an object that is not an array; only plain values are read")
        if unfinished.kind == _ARRAY:
            done = _array_of(state)
        else:
            order, of_fields = state[1], state[2:5]
            if order not in _BYTE_ORDERS or any(field is not None for field in of_fields):
                raise ValueError(
                    f"an array has a dtype with fields or the byte order {order!s:.20}; only plain ones are read"
                )
            done = np.dtype(unfinished.dtype if order == "|" else f"{order}{unfinished.dtype}")
        self._stack.append(done)
        # its memo entry is a few numbers back: shape, dtype, bytes and state came since
        last = len(self._memo) - 1
        for number in range(last, max(last - 16, -1), -1):
            if self._memo[number] is unfinished:
                self._memo[number] = done
                return


def _as_key(key: object) -> object:
    """Return a valid key of a dictionary; others are refused, as hashing nested tuples may never end."""
    if isinstance(key, str | int | float | bytes | np.generic) or key is None:
        return key
    if type(key) is tuple and all(isinstance(part, str | int | float) or part is None for part in key):
        return key
    raise ValueError(f"a key of a dictionary must be text or a number, got a {type(key).__name__}")


def _array_of(state: tuple[object, ...]) -> object:
    """Return an array from its state: version, shape, dtype, whether the order is Fortran's, and bytes.

    Raises:
        ValueError: The number of bytes does not match its shape.
    """
    shape, dtype, is_fortran, raw = state[-4:]
    if not isinstance(shape, tuple) or not isinstance(dtype, np.dtype):
        raise TypeError
    if dtype.hasobject:
        if not isinstance(raw, list) or shape != (len(raw),):
            raise ValueError("an array of objects must have one axis, and an object for each place")
        return list(raw)
    if isinstance(raw, str):  # protocols 0 and 1
        raw = raw.encode("latin-1")
    if not isinstance(raw, bytes):
        raise TypeError
    try:
        values = np.ndarray(shape, dtype, raw, order="F" if is_fortran is True else "C")
    except (TypeError, ValueError):  # not a shape, or the buffer is too small
        values = None
    if values is None or values.nbytes != len(raw):
        raise ValueError(f"an array of shape {str(shape)[:80]} and {dtype} needs other than {len(raw)} bytes")
    return values


_CONTAINERS: Final = frozenset({dict, list, tuple})
_PLAIN_KEYS: Final = frozenset({str, int})
_STOP, _MARK, _TUPLE, _BYTE, _TWO_BYTES, _GET_SHORT, _GET_LONG = b".(tKMhj"
_MEMOIZE, _SHORT_TEXT, _TUPLE_OF_ONE, _FALSE = b"\x94\x8c\x85\x89"


def _push(value: object) -> Callable[[_Machine], None]:
    return lambda machine: machine._stack.append(value)


def _sized(size: int, step: Callable[[_Machine, int], None]) -> Callable[[_Machine], None]:
    """Return a step that first reads a number of the given size in bytes."""
    return lambda machine: step(machine, int.from_bytes(machine._take(size), "little"))


def _refuse(opcode: int, machine: _Machine) -> None:
    what = _REFUSED.get(chr(opcode))
    if what is None:
        raise ValueError(f"it is no pickle, or damaged: there is no opcode {opcode} at byte {machine._at - 1}")
    raise ValueError(f"it holds {what}; only dictionaries, lists, text, numbers and NumPy arrays are read")


def _push_items(make: Callable[[list[object]], object], machine: _Machine) -> None:
    items = machine.items()  # first, as it restores the stack to push on
    machine._stack.append(make(items))


def _push_bytes(machine: _Machine, size: int) -> None:
    machine._stack.append(machine._take(size))


def _skip(machine: _Machine, size: int) -> None:
    """Skip the header of a frame; its content follows in the file as usual."""


def _push_latin(machine: _Machine, size: int) -> None:
    machine._stack.append(machine._take(size).decode("latin-1"))


_PLAIN_STEPS: Final[dict[str, Callable[[_Machine], object]]] = {
    "G": lambda machine: machine._stack.append(struct.unpack(">d", machine._take(8))[0]),
    "b": _Machine.build,
    "R": _Machine.reduce,
    "s": _Machine.set_item,
    "u": lambda machine: machine._set(machine.items()),
    "a": _Machine.append,
    "e": _Machine.extend,
    "\x90": _Machine.add_items,
    "d": _Machine.push_dict,
    "0": _Machine.pop,
    "1": _Machine.items,
    "2": lambda machine: machine._stack.append(machine._stack[-1]),
    "c": lambda machine: machine.push_named(machine._take_line().decode("utf-8"), machine._take_line().decode("utf-8")),
    "\x93": _Machine.push_stacked_global,
    "l": partial(_push_items, list),
    "\x91": partial(_push_items, lambda items: {_as_key(item) for item in items}),
    "\x86": lambda machine: machine.push_tuple(2),
    "]": lambda machine: machine._stack.append([]),
    "}": lambda machine: machine._stack.append({}),
    "\x87": lambda machine: machine.push_tuple(3),
    "\x8f": lambda machine: machine._stack.append(set()),
    ")": _push(()),
    "N": _push(None),
    "\x88": _push(True),
    "I": lambda machine: machine.push_line("number"),
    "L": lambda machine: machine.push_line("number"),
    "F": lambda machine: machine.push_line("float"),
    "V": lambda machine: machine.push_line("text"),
    "S": lambda machine: machine.push_line("string"),
    "J": lambda machine: machine.push_signed(4),
    "g": lambda machine: machine.get(int(machine._take_line()[:20])),
    "p": lambda machine: machine.put(int(machine._take_line()[:20])),
    "\x8a": _sized(1, _Machine.push_signed),
    "\x8b": _sized(4, _Machine.push_signed),
    "X": _sized(4, _Machine.push_text),
    "\x8d": _sized(8, _Machine.push_text),
    "B": _sized(4, _push_bytes),
    "C": _sized(1, _push_bytes),
    "\x8e": _sized(8, _push_bytes),
    "\x96": _sized(8, _push_bytes),
    "T": _sized(4, _push_latin),
    "U": _sized(1, _push_latin),
    "q": _sized(1, _Machine.put),
    "r": _sized(4, _Machine.put),
    "\x80": _sized(1, _skip),
    "\x95": _sized(8, _skip),
}
"""Step of each opcode; all others are refused."""

_STEPS: Final = tuple(_PLAIN_STEPS.get(chr(opcode), partial(_refuse, opcode)) for opcode in range(256))
