"""Cache of the values used last, made on request, such as maps of scenes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from l5kit._types import PickledState
from l5kit.errors import InvalidArgumentError

_Value = TypeVar("_Value")


class Kept(Generic[_Value]):
    """Values by key that are made on request, of which those used last are kept.

    Several threads may use it at the same time. An unpickled copy starts empty.

    Args:
        most: Maximum number of kept values, at least 1.
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
        """Return the value of a key, made by ``make`` if it is not kept."""
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
        """Return the number of kept values."""
        return len(self._values)

    def __getstate__(self) -> dict[str, int]:
        """Return the maximum number of kept values, for pickling."""
        return {"most": self._most}

    def __setstate__(self, state: PickledState) -> None:
        """Start empty."""
        self._most = state["most"]
        self._clear()
