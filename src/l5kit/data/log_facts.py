"""Log facts: size of the AV, time between frames, original classes, and sources of a log.

They are attributes of the zarr group of logs written by l5kit. Logs of L5Kit 1.x have none; for them the constants of
L5Kit 1.5 apply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from l5kit._types import JsonObject
from l5kit.data.labels import PERCEPTION_LABEL_TO_INDEX
from l5kit.errors import DatasetFormatError, InvalidArgumentError

EGO_EXTENT_WIDTH = 1.85
"""Default width of the AV, metres."""

EGO_EXTENT_LENGTH = 4.87
"""Default length of the AV, metres."""

EGO_EXTENT_HEIGHT = 1.8
"""Default height of the AV, metres."""

EGO_EXTENT_M = (EGO_EXTENT_LENGTH, EGO_EXTENT_WIDTH, EGO_EXTENT_HEIGHT)
"""Default length, width and height of the AV, metres."""

_LONGEST_AV_M = 100.0
_LONGEST_STEP_S = 3600.0


@dataclass(frozen=True)
class LogFacts:
    """Properties of a whole log; the defaults are the constants of L5Kit 1.5.

    Attributes:
        ego_extent_m: Length, width and height of the AV, metres.
        step_time_s: Time between two frames, seconds.
        label_mapping: For each class of the original dataset, the label in ``PERCEPTION_LABELS`` of its agents,
            read-only; empty if the log has its own classes.
        sources: Original datasets, as texts by name, such as ``dataset``, ``version`` and ``licence``, read-only; empty
            for logs that were not imported. Logs derived from this one inherit them.

    Raises:
        InvalidArgumentError: A value is not allowed.
    """

    ego_extent_m: tuple[float, float, float] = EGO_EXTENT_M
    step_time_s: float = 0.1
    label_mapping: Mapping[str, str] = field(default_factory=dict, hash=False)
    sources: Sequence[Mapping[str, str]] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        extent_m: Any = self.ego_extent_m
        is_right = isinstance(extent_m, (list, tuple, np.ndarray)) and len(extent_m) == 3
        if not is_right or not all(_is_number(size_m, above=0.0, up_to=_LONGEST_AV_M) for size_m in extent_m):
            raise InvalidArgumentError(
                f"ego_extent_m must be length, width and height of the AV, each above 0 and up to {_LONGEST_AV_M:g} "
                f"metres, got {extent_m!r}"
            )
        object.__setattr__(self, "ego_extent_m", tuple(map(float, extent_m)))
        if not _is_number(self.step_time_s, above=0.0, up_to=_LONGEST_STEP_S):
            raise InvalidArgumentError(
                f"step_time_s must be a number above 0, up to {_LONGEST_STEP_S:g} seconds, got {self.step_time_s!r}"
            )
        object.__setattr__(self, "step_time_s", float(self.step_time_s))

        # copy mappings, so that the facts do not change with them
        mapping: Any = self.label_mapping
        if not isinstance(mapping, Mapping):
            raise InvalidArgumentError(f"label_mapping must give a label for each class by name, got {mapping!r}")
        for name, label in mapping.items():
            if not isinstance(name, str) or not isinstance(label, str) or label not in PERCEPTION_LABEL_TO_INDEX:
                raise InvalidArgumentError(
                    f"label_mapping must give one of PERCEPTION_LABELS for each class by name, got {label!r} for "
                    f"{name!r}"
                )
        object.__setattr__(self, "label_mapping", MappingProxyType(dict(mapping)))

        sources: Any = self.sources
        is_right = isinstance(sources, (list, tuple)) and all(isinstance(source, Mapping) for source in sources)
        if not is_right or not all(
            isinstance(text, str) for source in sources for pair in source.items() for text in pair
        ):
            raise InvalidArgumentError(
                f"sources must be a list of texts by name, one for each dataset, got {sources!r}"
            )
        object.__setattr__(self, "sources", tuple(MappingProxyType(dict(source)) for source in sources))

    def __reduce__(self) -> tuple[type["LogFacts"], tuple[object, ...]]:
        """Return class and fields with plain dictionaries, as read-only mappings cannot be pickled."""
        sources = tuple(dict(source) for source in self.sources)
        return type(self), (self.ego_extent_m, self.step_time_s, dict(self.label_mapping), sources)

    @classmethod
    def from_attributes(cls, attributes: JsonObject, *, file: str) -> "LogFacts | None":
        """Return the facts among the attributes of a log; None if there are none.

        Args:
            attributes: All attributes of the zarr group; other attributes are ignored.
            file: Path of the attributes, for the error.

        Raises:
            DatasetFormatError: A value is not allowed.
        """
        present = {known.name: attributes[known.name] for known in fields(cls) if known.name in attributes}
        if not present:
            return None
        try:
            return cls(**present)
        except InvalidArgumentError as error:
            raise DatasetFormatError(
                f"the attribute in {file} is wrong: {error}; mend it, or remove it, and what L5Kit 1.5 has for all "
                "logs holds"
            ) from error

    def as_attributes(self) -> JsonObject:
        """Return the facts as JSON values under the names of the attributes; sources only if there are any."""
        attributes = {
            "ego_extent_m": list(self.ego_extent_m),
            "step_time_s": self.step_time_s,
            "label_mapping": dict(self.label_mapping),
        }
        return attributes | ({"sources": [dict(source) for source in self.sources]} if self.sources else {})


def require_facts(facts: object) -> None:
    """Refuse anything but the facts of a log or None.

    Raises:
        InvalidArgumentError: ``facts`` has another type.
    """
    if facts is not None and not isinstance(facts, LogFacts):
        raise InvalidArgumentError(
            f"facts must be LogFacts, or None for what L5Kit 1.5 has for all logs, got {facts!r}; pass "
            "LogFacts(step_time_s=0.1), for example"
        )


def agreed_facts(logs: Sequence[tuple[str, LogFacts | None]]) -> LogFacts | None:
    """Return the common facts of logs to be joined, with the sources of all; None if none has facts.

    Args:
        logs: Name and facts of each, None for those of L5Kit 1.5.

    Raises:
        InvalidArgumentError: The facts of two logs differ.
    """
    for first_name, first in logs[:1]:
        of_first = (first or LogFacts()).as_attributes()
        for name, facts in logs[1:]:
            of_other = (facts or LogFacts()).as_attributes()
            for known in (each.name for each in fields(LogFacts) if each.name != "sources"):
                if of_first[known] != of_other[known]:
                    raise InvalidArgumentError(
                        f"the logs have other facts: {known} is {of_first[known]} in {first_name!r} and "
                        f"{of_other[known]} in {name!r}; keep them apart, or pass the facts that the whole is to have "
                        "(facts=)"
                    )
    agreed = next((facts for _, facts in logs if facts is not None), None)
    if agreed is None:
        return None
    sources: list[Mapping[str, str]] = []
    for source in (source for _, facts in logs if facts is not None for source in facts.sources):
        sources += [source] if source not in sources else []
    return replace(agreed, sources=sources)


def _is_number(value: Any, *, above: float, up_to: float) -> bool:
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return is_number and bool(above < value <= up_to)
