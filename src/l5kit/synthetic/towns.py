"""Several synthetic cities in one folder, each with its own town, for use in one training."""

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
"""Towns that are made at once, at most."""

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

    A town depends on the seed and its number only, not on how many there are. Towns that are there with the same
    arguments are kept as they are, so that a call that was killed goes on, and more towns can be added.

    Args:
        path: The folder that they are written to.
        num_towns: How many, 1 to 10,000.
        params: What each holds; ``seed`` is that of all, of which each town gets one of its own.
        overwrite: Whether synthetic cities with other arguments are replaced; folders with anything else are not.
        progress: Called with (finished scenes, all scenes) of all towns.
        workers: Number of threads that make the scenes of a town, or an executor; the files are the same.

    Raises:
        InvalidArgumentError: The number is out of range, or the folder of a town holds something else.
    """
    path = Path(path)
    num_scenes = params.num_scenes + params.num_train_scenes + params.num_validate_scenes
    total = num_towns * num_scenes
    towns: list[CityFolder] = []
    for name, of_town in params_of_towns(params, num_towns):
        num_before = len(towns) * num_scenes

        def tell(finished: int, _: int, num_before: int = num_before) -> None:
            if progress is not None:
                progress(num_before + finished, total)

        made = make_city(
            path / name, **asdict(of_town), overwrite=overwrite, reuse=True, progress=tell, workers=workers
        )
        tell(num_scenes, num_scenes)  # a town that is kept has reported no scene
        towns.append(made)
    return towns


def params_of_towns(params: CityParams, num_towns: int) -> Iterator[tuple[str, CityParams]]:
    """Yield the name of each town, and its parameters with the seed of its own.

    Seeds are mixed, so that no town of one seed is among the towns of another, as ``seed + number`` would have it.

    Raises:
        InvalidArgumentError: The number is out of range.
    """
    if not 1 <= num_towns <= MAX_NUM_TOWNS:
        raise InvalidArgumentError(f"num_towns is {num_towns}; make 1 to {MAX_NUM_TOWNS:,} towns at once")
    for number in range(num_towns):
        yield f"town_{number:02d}", replace(params, seed=mix_seeds(params.seed, number))
