"""Types of scenes, such as left, right and straight, and the number of scenes of each type that fail each validator."""

import csv
from pathlib import Path

from l5kit.cle.metric_set import L5MetricSet
from l5kit.configs.texts import require_regular_file
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError

__all__ = ["compute_cle_scene_type_aggregations", "read_scene_types"]


def compute_cle_scene_type_aggregations(
    mset: L5MetricSet,
    scene_ids_to_scene_types: list[list[str]],
    list_validator_table_to_publish: list[str],  # noqa: ARG001 - unused in L5Kit 1.5, too
) -> dict[str, int]:
    """Return the number of scenes of each type that fail each validator.

    Args:
        mset: The metric set, after evaluating scenes.
        scene_ids_to_scene_types: The types of each scene, indexed by scene id.
        list_validator_table_to_publish: Not used.

    Returns:
        Counts by ``TYPE/VALIDATOR``, for every type in the list, in the order of their first occurrence, and every
        validator of the plan, in its order.

    Raises:
        IndexOutOfRangeError: A failed scene has an id beyond the list.
    """
    types = dict.fromkeys(name for names in scene_ids_to_scene_types for name in names)
    counts = {f"{name}/{validator}": 0 for name in types for validator in mset.evaluation_plan.validators_dict()}
    # a scene counts once for each of its types, however many of its frames fail
    for validator, frames in mset.aggregate_failed_frames().items():
        for scene_id in sorted(set(frames[:, 0].tolist())):
            if not 0 <= scene_id < len(scene_ids_to_scene_types):
                raise IndexOutOfRangeError(
                    f"scene_ids_to_scene_types has {len(scene_ids_to_scene_types)} scenes, but scene {scene_id} was "
                    "evaluated; pass a list of types, which may be empty, for each scene id"
                )
            for name in dict.fromkeys(scene_ids_to_scene_types[scene_id]):
                counts[f"{name}/{validator}"] += 1
    return counts


def read_scene_types(path: str | Path) -> list[list[str]]:
    """Read the types of scenes from a csv file, by scene id.

    The file has no header; each line has a scene id and a type, with ids in any order. A scene with several lines has
    several types, and one without a line none. L5Kit 1.5 used the index of the line as the id.

    Args:
        path: The file.

    Raises:
        InvalidArgumentError: A line is not a non-negative id and a type.
    """
    types: dict[int, list[str]] = {}
    require_regular_file(path, called="csv file")
    with Path(path).open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.reader(file), start=1):
            if not row:
                continue
            if len(row) != 2 or not row[0].strip().isdecimal():
                raise InvalidArgumentError(f"line {line} of {path} is {','.join(row)!r}; write a scene id and a type")
            types.setdefault(int(row[0]), []).append(row[1].strip())
    return [types.get(scene_id, []) for scene_id in range(max(types, default=-1) + 1)]
