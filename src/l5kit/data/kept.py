"""Cache of the most recently used values, created on demand, such as the maps of scenes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from l5kit._types import PickledState
from l5kit.errors import InvalidArgumentError

_Value = TypeVar("_Value")


class Kept(Generic[_Value]):
    """Thread-safe cache that creates values on demand and keeps the most recently used.

    An unpickled copy starts empty.

    Args:
        most: Maximum number of values, at least 1.
    """

    def __init__(self, most: int) -> None:
        if most < 1:
            raise InvalidArgumentError(f"most is {most}; keep at least 1")
        self._most = most
        self._clear()

    def _clear(self) -> None:
        self._values: OrderedDict[Hashable, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, created by ``make`` if it is not cached."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()  # without the lock, so that other threads can continue
        with self._lock:
            value = self._values.setdefault(key, value)
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def __len__(self) -> int:
        """Return the number of cached values."""
        return len(self._values)

    def __getstate__(self) -> dict[str, int]:
        """Return the capacity only."""
        return {"most": self._most}

    def __setstate__(self, state: PickledState) -> None:
        """Restore an empty cache."""
        self._most = state["most"]
        self._clear()
