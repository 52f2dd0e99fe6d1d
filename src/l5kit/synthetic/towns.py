"""Several synthetic cities in one folder, each with its own town, for one training."""

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from l5kit.data.jobs.scene_jobs import Workers
from l5kit.data.progress import Progress
from l5kit.errors import InvalidArgumentError
from l5kit.random.seeding import mix_seeds
from l5kit.synthetic.city import CityFolder, make_city
from l5kit.synthetic.params import CityParams

MAX_NUM_TOWNS: Final = 10_000
"""Largest number of towns of one call."""

_USUAL = CityParams()


def make_towns(
    path: str | os.PathLike[str],
    num_towns: int,
    *,
    params: CityParams = _USUAL,
    overwrite: bool = False,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> list[CityFolder]:
    """Make several cities: ``town_00``, ``town_01`` and so on, each a folder of :func:`~l5kit.synthetic.make_city`.

    A town depends only on the seed and its index, not on the number of towns. Existing towns with the same arguments
    are kept, so that an interrupted call can be continued, and towns can be added.

    Args:
        path: The output folder of the towns.
        num_towns: Number of towns, 1 to 10,000.
        params: Contents of each town; its own seed is derived from ``seed``.
        overwrite: Whether synthetic cities with other arguments are replaced; folders with any other file are not.
        progress: Called with (finished scenes, all scenes) of all towns.
        workers: Number of threads that make the scenes of a town, or an executor, with the same result.

    Raises:
        InvalidArgumentError: The number is out of range, or the folder of a town has other files.
    """
    path = Path(path)
    num_scenes = params.num_scenes + params.num_train_scenes + params.num_validate_scenes
    total = num_towns * num_scenes
    towns: list[CityFolder] = []
    for name, of_town in params_of_towns(params, num_towns):
        num_before = len(towns) * num_scenes

        def report(finished: int, _: int, num_before: int = num_before) -> None:
            if progress is not None:
                progress(num_before + finished, total)

        made = make_city(
            path / name, **asdict(of_town), overwrite=overwrite, reuse=True, progress=report, workers=workers
        )
        report(num_scenes, num_scenes)  # a kept town has not reported its scenes
        towns.append(made)
    return towns


def params_of_towns(params: CityParams, num_towns: int) -> Iterator[tuple[str, CityParams]]:
    """Yield the name of each town, and its parameters with its own seed.

    Seeds are mixed, so that towns of different seeds never coincide, as they could with ``seed + number``.

    Raises:
        InvalidArgumentError: The number is out of range.
    """
    if not 1 <= num_towns <= MAX_NUM_TOWNS:
        raise InvalidArgumentError(f"num_towns is {num_towns}; make 1 to {MAX_NUM_TOWNS:,} towns at once")
    for number in range(num_towns):
        yield f"town_{number:02d}", replace(params, seed=mix_seeds(params.seed, number))
