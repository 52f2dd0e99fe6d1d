"""Synthetic cities: complete dataset folders in the published layout."""

import itertools
import json
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import cv2
import numpy as np

from l5kit._files import clear_leftovers, placed_when_complete
from l5kit._types import Int64Array, JsonObject
from l5kit.data.jobs.owned_outputs import LOG_FILES, OutputKind, require_own_folder
from l5kit.data.jobs.scene_jobs import Workers, map_scenes
from l5kit.data.log_writer import write_log
from l5kit.data.progress import Progress
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.synthetic.aerial import draw_aerial
from l5kit.synthetic.map_writer import MAP_NAME, build_map
from l5kit.synthetic.params import FRAME_PERIOD_NS, MADE_FACTS, CityParams
from l5kit.synthetic.perception_noise import perceive
from l5kit.synthetic.scene import GROUND_Z_M, Town, build_town, record_scene, simulate_scene

WORLD_TO_ECEF = np.array(
    [
        [0.846617444, 0.323463078, -0.422623402, -2698767.44],
        [-0.532201938, 0.514559352, -0.672301845, -4293151.58],
        [-3.05311332e-16, 0.794103464, 0.6077826, 3855164.76],
        [0.0, 0.0, 0.0, 1.0],
    ]
)
"""World to ECEF of the published dataset (Palo Alto), so that made and real data share one frame."""
WORLD_TO_ECEF.setflags(write=False)

_FIRST_SCENE_NS = 1_600_000_000_000_000_000
_SCENE_PAUSE_NS = 60_000_000_000
_NUM_HOSTS = 20
_SPLITS = ("sample", "train", "validate")
_RECIPE_FILE = "city.json"
_GENERATION = 2
"""Counts up when cities of the same arguments change, so that those of before are not taken for them."""


def _is_made(folder: Path) -> bool:
    """Return whether the semantic map in a folder is that of a synthetic town, by its name."""
    try:
        with (folder / "semantic_map" / "semantic_map.pb").open("rb") as file:
            return MAP_NAME.encode() in file.read(64)
    except OSError:
        return False


_CITY = OutputKind(
    "a synthetic city",
    _is_made,
    rf"meta\.json|{re.escape(_RECIPE_FILE)}|semantic_map/semantic_map\.pb|aerial_map/aerial_map\.png"
    rf"|(?:scenes|truth)/(?:{'|'.join(_SPLITS)})\.zarr/{LOG_FILES}",
)


@dataclass(frozen=True)
class CityFolder:
    """Where the files of a synthetic city are.

    Args:
        path: the folder.
        scenes: the datasets by name: ``sample`` and, if requested, ``train`` and ``validate``.
        semantic_map: the map.
        aerial_map: the aerial picture.
        meta: the file with the matrices ``world_to_ecef`` and ``ecef_to_aerial``.
        truth: of a city with noise, the datasets with the true boxes, by the same names; else none.
    """

    path: Path
    scenes: dict[str, Path]
    semantic_map: Path
    aerial_map: Path
    meta: Path
    truth: dict[str, Path] = field(default_factory=dict)


def make_city(
    path: str | os.PathLike[str],
    *,
    seed: int = CityParams.seed,
    num_scenes: int = CityParams.num_scenes,
    num_train_scenes: int = CityParams.num_train_scenes,
    num_validate_scenes: int = CityParams.num_validate_scenes,
    town_size: float = CityParams.town_size,
    traffic_density: float = CityParams.traffic_density,
    num_frames: int = CityParams.num_frames,
    aerial_resolution_m: float = CityParams.aerial_resolution_m,
    noise: bool = CityParams.noise,
    overwrite: bool = False,
    reuse: bool = False,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> CityFolder:
    """Make a town, let an AV drive through it, and write everything as a dataset folder.

    The folder holds ``scenes/sample.zarr`` (and ``train.zarr``, ``validate.zarr`` if requested),
    ``semantic_map/semantic_map.pb``, ``aerial_map/aerial_map.png``, ``meta.json``, and ``city.json`` with the
    arguments. It appears under its name only once it is complete. The same arguments give the same bytes, and a scene
    does not depend on how many there are.

    With ``noise`` the scenes hold what a tracker would perceive (:mod:`l5kit.synthetic.perception_noise`), and
    ``truth/sample.zarr`` and so on hold what the same arguments give without.

    Args:
        path: the folder to write; it must not exist or be empty, unless ``overwrite``.
        seed: decides everything random.
        num_scenes: scenes of ``sample.zarr``.
        num_train_scenes: scenes of ``train.zarr``, which is left out when 0.
        num_validate_scenes: scenes of ``validate.zarr``, which is left out when 0.
        town_size: side of the square town, metres.
        traffic_density: factor on the number of road users besides the AV; 1 gives about 90 agent rows a frame.
        num_frames: frames per scene, 10 a second.
        aerial_resolution_m: side of a pixel of the aerial picture, metres.
        noise: whether others are perceived with errors; the AV's pose and the lights stay true.
        overwrite: whether a synthetic city that is there is replaced; a folder with anything else in it is not.
        reuse: whether a city that is there is taken as it is if it was made with the same arguments. Several processes
            may do this at the same time: all of them get the city of the first that is done.
        progress: called with (finished scenes, all scenes) after each scene.
        workers: number of threads that make scenes, or an executor; the files are the same. See
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        InvalidArgumentError: if a parameter is out of range, or the folder holds files and may not be replaced.
        FileExistsError: if another process has written the folder in the meantime, and it may be neither taken nor
            replaced.
    """
    params = CityParams(
        seed=seed,
        num_scenes=num_scenes,
        num_train_scenes=num_train_scenes,
        num_validate_scenes=num_validate_scenes,
        town_size=town_size,
        traffic_density=traffic_density,
        num_frames=num_frames,
        aerial_resolution_m=aerial_resolution_m,
        noise=noise,
    )
    target = Path(path).absolute()
    splits = [name for name, count in zip(_SPLITS, _split_sizes(params), strict=True) if count]
    folder = _folder(target, splits, has_truth=noise)
    if reuse and _recipe_in(target) == _recipe_of(params):
        return folder
    clear_leftovers(target)
    _require_free(target, overwrite, _recipe_of(params) if reuse else None)
    if not overwrite:
        with suppress(OSError):  # not there, or another process has just filled it, which is found out at the end
            target.rmdir()
    try:
        with placed_when_complete(target, may_replace=overwrite) as complete:
            complete.mkdir()
            _write_city(complete, params, progress, workers)
    except FileExistsError:
        if not reuse or _recipe_in(target) != _recipe_of(params):
            raise
    return folder


def _recipe_of(params: CityParams) -> JsonObject:
    """Return what ``city.json`` holds."""
    arguments = json.dumps(asdict(params), default=lambda number: number.item())  # scalars of NumPy
    return {"generation": _GENERATION, "arguments": json.loads(arguments)}


def _recipe_in(target: Path) -> JsonObject | None:
    """Return the recipe of the city in a folder; None where there is none."""
    try:
        recipe: JsonObject = json.loads((target / _RECIPE_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return recipe


def _split_sizes(params: CityParams) -> tuple[int, int, int]:
    return params.num_scenes, params.num_train_scenes, params.num_validate_scenes


def _folder(path: Path, splits: list[str], *, has_truth: bool) -> CityFolder:
    return CityFolder(
        path=path,
        scenes={name: path / "scenes" / f"{name}.zarr" for name in splits},
        semantic_map=path / "semantic_map" / "semantic_map.pb",
        aerial_map=path / "aerial_map" / "aerial_map.png",
        meta=path / "meta.json",
        truth={name: path / "truth" / f"{name}.zarr" for name in splits if has_truth},
    )


def _require_free(target: Path, overwrite: bool, recipe: JsonObject | None) -> None:
    """Refuse a path that may not be written to; the recipe is that of a city which might have been taken."""
    if target.exists() and not target.is_dir():
        raise InvalidArgumentError(f"path must be a folder to write, got the file {target}; choose another path")
    if not target.exists() or not any(target.iterdir()):
        return
    present = None if recipe is None else _recipe_in(target)
    if not overwrite and present is not None and recipe is not None:
        before, now = (each.get("arguments", {}) for each in (present, recipe))
        different = [
            f"{name} {before.get(name)} in place of {now[name]}" for name in now if before.get(name) != now[name]
        ]
        raise InvalidArgumentError(
            f"path is {target}, which holds another city: it has {', '.join(different) or 'other scenes, of another '}"
            f"{'' if different else 'version of l5kit'}; choose another folder, or pass overwrite=True"
        )
    if not overwrite:
        raise InvalidArgumentError(
            f"path must be a new or empty folder, got {target}, which holds files; choose another folder, or pass "
            "overwrite=True"
        )
    require_own_folder(target, _CITY, argument="path")


def _write_city(part: Path, params: CityParams, progress: Progress | None, workers: Workers) -> None:
    town, folder = build_town(params.town_size, seed=params.seed), _folder(part, list(_SPLITS), has_truth=params.noise)
    sizes = _split_sizes(params)
    with map_scenes(_MadeScenes(params, town), range(sum(sizes)), workers, block_size=1, progress=progress) as made:
        # map, aerial picture and metadata are written while workers make the first scenes; the generator of the picture
        # is its own, as those of scenes are, so that none depends on how many numbers another one has drawn
        datasets = [paths["sample"] for paths in (folder.scenes, folder.truth) if paths]
        for file in (*datasets, folder.semantic_map, folder.aerial_map):
            file.parent.mkdir(parents=True)
        build_map(town.plan, town.network, world_to_ecef=WORLD_TO_ECEF, ground_z_m=GROUND_Z_M).save(folder.semantic_map)
        rng = np.random.default_rng([params.seed, 1])
        canvas = draw_aerial(town.plan, town.network, resolution_m=params.aerial_resolution_m, rng=rng)
        encoded = cv2.imencode(".png", canvas.image)[1]
        folder.aerial_map.write_bytes(encoded.tobytes())
        ecef_to_aerial = canvas.aerial_from_world @ np.linalg.inv(WORLD_TO_ECEF)
        meta = {"world_to_ecef": WORLD_TO_ECEF.tolist(), "ecef_to_aerial": ecef_to_aerial.tolist()}
        folder.meta.write_text(json.dumps(meta, indent=2) + "\n")
        (part / _RECIPE_FILE).write_text(json.dumps(_recipe_of(params), indent=2) + "\n", "utf-8")

        # the scenes of one dataset after the other, and beside each the true one where there is any
        scenes = (scene for block in made for scene in block)
        for name, count in zip(_SPLITS, sizes, strict=True):
            paths = [folder.scenes[name], folder.truth.get(name)] if count else []
            with ExitStack() as stack:
                writers = [stack.enter_context(write_log(path, facts=MADE_FACTS)) for path in paths if path is not None]
                for index, pair in enumerate(itertools.islice(scenes, count)):
                    for writer, scene in zip(writers, pair, strict=False):
                        if scene is not None:
                            writer.append(replace(scene, host=f"host-m{index % _NUM_HOSTS:03d}"))
        next(scenes, None)  # reports the last one


@dataclass(frozen=True)
class _MadeScenes:
    """The scenes of a city, by their indices through all splits, each with the true one where it has noise."""

    params: CityParams
    town: Town

    def __call__(self, indices: Int64Array) -> list[tuple[SceneRecords, SceneRecords | None]]:
        made: list[tuple[SceneRecords, SceneRecords | None]] = []
        params, ends = self.params, np.cumsum(_split_sizes(self.params))
        for index in indices.tolist():
            split = int(np.searchsorted(ends, index, side="right"))
            scene_index = index - (int(ends[split - 1]) if split else 0)
            # a true scene depends on the town, the seed and its own numbers only
            rng = np.random.default_rng([params.seed, 2, split, scene_index])
            density = params.traffic_density
            simulation = simulate_scene(self.town, num_frames=params.num_frames, traffic_density=density, rng=rng)
            start_ns = _FIRST_SCENE_NS + scene_index * (params.num_frames * FRAME_PERIOD_NS + _SCENE_PAUSE_NS)
            true = record_scene(self.town, simulation, start_ns=start_ns, rng=rng)
            if not params.noise:
                made.append((true, None))
                continue
            # what a tracker perceives has a generator of its own, so that true scenes are those of a city without noise
            rng = np.random.default_rng([params.seed, 3, split, scene_index])
            made.append((perceive(true, rng), true))
        return made

    def __reduce__(self) -> tuple[Callable[[CityParams], "_MadeScenes"], tuple[CityParams]]:
        """Leave the town out, which another process builds faster than it would get it."""
        return _made_elsewhere, (self.params,)


def _made_elsewhere(params: CityParams) -> _MadeScenes:
    return _MadeScenes(params, build_town(params.town_size, seed=params.seed))
