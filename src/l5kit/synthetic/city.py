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
"""World to ECEF of the published dataset (Palo Alto), so that synthetic and real data share one frame."""
WORLD_TO_ECEF.setflags(write=False)

_FIRST_SCENE_NS = 1_600_000_000_000_000_000
_SCENE_PAUSE_NS = 60_000_000_000
_NUM_HOSTS = 20
_SPLITS = ("sample", "train", "validate")
_RECIPE_FILE = "city.json"
_GENERATION = 2
"""Version of the generator; increase it when cities of the same arguments change, so that older ones are not reused."""


def _is_made(folder: Path) -> bool:
    """Return whether the semantic map in a folder has the name of those of synthetic towns."""
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
    """Paths of the files of a synthetic city.

    Args:
        path: The folder.
        scenes: The datasets by name: ``sample`` and, if requested, ``train`` and ``validate``.
        semantic_map: The map.
        aerial_map: The aerial picture.
        meta: The file with the matrices ``world_to_ecef`` and ``ecef_to_aerial``.
        truth: For a city with noise, the datasets with the true boxes, by the same names; otherwise empty.
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
    """Generate a town, simulate an AV in it, and write everything as a dataset folder.

    The folder has ``scenes/sample.zarr`` (and ``train.zarr``, ``validate.zarr`` if requested),
    ``semantic_map/semantic_map.pb``, ``aerial_map/aerial_map.png``, ``meta.json``, and ``city.json`` with the
    arguments. It appears under its name only when complete. The same arguments give the same bytes, and a scene does
    not depend on the number of scenes.

    With ``noise``, the scenes are those perceived by a tracker (:mod:`l5kit.synthetic.perception_noise`), and
    ``truth/sample.zarr`` and so on are the scenes of the same arguments without noise.

    Args:
        path: The output folder; it must not exist or be empty, unless ``overwrite``.
        seed: Random seed.
        num_scenes: Scenes of ``sample.zarr``.
        num_train_scenes: Scenes of ``train.zarr``; 0 for none.
        num_validate_scenes: Scenes of ``validate.zarr``; 0 for none.
        town_size: Side of the square town, metres.
        traffic_density: Factor on the number of road users besides the AV; 1 gives about 90 agent rows per frame.
        num_frames: Frames per scene, at 10 Hz.
        aerial_resolution_m: Side of a pixel of the aerial picture, metres.
        noise: Whether other road users are perceived with errors; the AV's pose and the lights stay true.
        overwrite: Whether an existing synthetic city is replaced; a folder with any other file is not.
        reuse: Whether an existing city with the same arguments is used unchanged. Several processes may do this at the
            same time: all of them get the city that is finished first.
        progress: Called with (finished scenes, all scenes) after each scene.
        workers: Number of threads that make scenes, or an executor, with the same result. See
            :func:`~l5kit.data.jobs.scene_jobs.map_scenes`.

    Raises:
        InvalidArgumentError: A parameter is out of range, or the folder has files and may not be replaced.
        FileExistsError: Another process has written the folder in the meantime, and it may be neither reused nor
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
        with suppress(OSError):  # missing, or just filled by another process, which is detected at the end
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
    """Return the content of ``city.json``."""
    arguments = json.dumps(asdict(params), default=lambda number: number.item())  # NumPy scalars
    return {"generation": _GENERATION, "arguments": json.loads(arguments)}


def _recipe_in(target: Path) -> JsonObject | None:
    """Return the recipe of the city in a folder; None if there is none."""
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
    """Refuse a path that may not be written to; the recipe is that of a city that could have been reused."""
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
            f"path is {target}, which has another city: it has {', '.join(different) or 'other scenes, of another '}"
            f"{'' if different else 'version of l5kit'}; choose another folder, or pass overwrite=True"
        )
    if not overwrite:
        raise InvalidArgumentError(
            f"path must be a new or empty folder, got {target}, which has files; choose another folder, or pass "
            "overwrite=True"
        )
    require_own_folder(target, _CITY, argument="path")


def _write_city(part: Path, params: CityParams, progress: Progress | None, workers: Workers) -> None:
    town, folder = build_town(params.town_size, seed=params.seed), _folder(part, list(_SPLITS), has_truth=params.noise)
    sizes = _split_sizes(params)
    with map_scenes(_MadeScenes(params, town), range(sum(sizes)), workers, block_size=1, progress=progress) as made:
        # Map, aerial picture and metadata are written while workers make the first scenes. The picture and each scene
        # have their own random generators, so that they do not depend on each other.
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

        # write the scenes of one dataset after the other, each with its true scene, if any
        scenes = (scene for block in made for scene in block)
        for name, count in zip(_SPLITS, sizes, strict=True):
            paths = [folder.scenes[name], folder.truth.get(name)] if count else []
            with ExitStack() as stack:
                writers = [stack.enter_context(write_log(path, facts=MADE_FACTS)) for path in paths if path is not None]
                for index, pair in enumerate(itertools.islice(scenes, count)):
                    for writer, scene in zip(writers, pair, strict=False):
                        if scene is not None:
                            writer.append(replace(scene, host=f"host-m{index % _NUM_HOSTS:03d}"))
        next(scenes, None)  # reports the last scene


@dataclass(frozen=True)
class _MadeScenes:
    """The scenes of a city, by their index over all splits, each with its true scene if there is noise."""

    params: CityParams
    town: Town

    def __call__(self, indices: Int64Array) -> list[tuple[SceneRecords, SceneRecords | None]]:
        made: list[tuple[SceneRecords, SceneRecords | None]] = []
        params, ends = self.params, np.cumsum(_split_sizes(self.params))
        for index in indices.tolist():
            split = int(np.searchsorted(ends, index, side="right"))
            scene_index = index - (int(ends[split - 1]) if split else 0)
            # a true scene depends only on the town, the seed and its indices
            rng = np.random.default_rng([params.seed, 2, split, scene_index])
            density = params.traffic_density
            simulation = simulate_scene(self.town, num_frames=params.num_frames, traffic_density=density, rng=rng)
            start_ns = _FIRST_SCENE_NS + scene_index * (params.num_frames * FRAME_PERIOD_NS + _SCENE_PAUSE_NS)
            true = record_scene(self.town, simulation, start_ns=start_ns, rng=rng)
            if not params.noise:
                made.append((true, None))
                continue
            # perception has its own generator, so that true scenes are those of a city without noise
            rng = np.random.default_rng([params.seed, 3, split, scene_index])
            made.append((perceive(true, rng), true))
        return made

    def __reduce__(self) -> tuple[Callable[[CityParams], "_MadeScenes"], tuple[CityParams]]:
        """Pickle without the town, which another process builds faster than it would receive it."""
        return _made_elsewhere, (self.params,)


def _made_elsewhere(params: CityParams) -> _MadeScenes:
    return _MadeScenes(params, build_town(params.town_size, seed=params.seed))
