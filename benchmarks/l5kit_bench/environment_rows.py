"""Rows of environments: steps and resets of one or many environments, and a training."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from l5kit._types import BoolArray, Float32Array, Int64Array, JsonObject
from l5kit.configs.overrides import load_driver_config
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.map.builder import MapBuilder
from l5kit.warmup.workloads import EGO_GYM, URBAN_DRIVER, RowLeftOutError, VectorWorkload, Workload, config_with_files
from l5kit_bench.log_rows import CityMaker
from l5kit_bench.row import Fact, PreparedRow, Row
from l5kit_bench.workplace import Workplace

if TYPE_CHECKING:
    from l5kit.environment.envs.l5_env import L5Env
    from l5kit.environment.envs.vector_env import L5VectorEnv

DriverTrainer = Callable[[JsonObject, Path, Path], tuple[int, float]]
"""Function that trains a driver from a configuration, in a new folder, on data; returns steps and environment share."""

_EXTRAS = {"gymnasium": "; it comes with l5kit[gym]", "stable_baselines3": "; it comes with l5kit[rl]"}
_STEPS = "steps"
_AGENT_STEPS = "agent-steps"
_NUM_AT_ONCE = 64
_STEP_M = 1.0
_NUM_ACTIONS = 16
_MAX_SHARE_PERCENT = 30
_SINGLE = "environment steps, gym_config 112 px"
_STREETS = f"{_SINGLE}, street map"


def environment_rows() -> tuple[Row, ...]:
    """Return the rows of 1.5's environment, alone and 64 at once, and of 64 that see vectors.

    All drive the first scene of the dataset 1 m a step, in episodes of 33 frames, whose starts count into the time of
    the steps.
    """
    return (
        _single_row("environment", has_streets=False, floor=5),
        _single_row("environment-street", has_streets=True, floor=6),
        _many_row("environment-64", has_streets=False),
        _many_row("environment-64-street", has_streets=True),
        Row(
            key="environment-reset",
            title="environment reset",
            unit="resets",
            prepare=_prepare_resets,
            floor=20,
            reference="environment reset",
        ),
        Row(
            key="environment-64-vectors",
            title="environment steps, vectors, 64 at once",
            unit=_STEPS,
            prepare=partial(_prepare_many, workload=URBAN_DRIVER, has_streets=True),
            rate_floor=15_000,
        ),
    )


def crowd_rows(make_city: CityMaker) -> tuple[Row, ...]:
    """Return the rows of 1,024 environments that see compact states, in a made city with vehicles driven by IDM.

    They are those of ``l5kit train-rl``, with random actions. In the city that ``l5kit bench`` makes, a frame has about
    90 agents, of which some ten within 100 m of the AV follow lanes and are driven: these are the agent-steps. All
    scenes are prepared and all kernels compiled before; episodes start and end all the time.
    """
    crowds: WeakKeyDictionary[Workplace, _StepsAtOnce] = WeakKeyDictionary()

    def open_once(place: Workplace) -> "_StepsAtOnce":
        if place not in crowds:
            crowds[place] = _open_crowd(place, make_city)
        return crowds[place]

    def prepare_steps(place: Workplace) -> PreparedRow:
        steps, num_calls = open_once(place), place.amounts.num_steps_at_once
        return PreparedRow(partial(steps.do, num_calls), partial(_crowd_facts, steps))

    def prepare_agents(place: Workplace) -> PreparedRow:
        steps, num_calls = open_once(place), place.amounts.num_steps_at_once
        return PreparedRow(partial(steps.do_agents, num_calls))

    title = "environment steps, compact state, IDM, 1,024 at once"
    steps = Row(key="environment-1024", title=title, unit=_STEPS, prepare=prepare_steps, rate_floor=100_000)
    agents = Row(
        key="environment-1024-agents",
        title=f"agents in {title}",
        unit=_AGENT_STEPS,
        prepare=prepare_agents,
        rate_floor=1_000_000,
    )
    return steps, agents


def driver_row(make_city: CityMaker, train: DriverTrainer) -> Row:
    """Return the row of a training with PPO from its begin to its end, one short evaluation before and after included.

    It is that of ``l5kit train-rl``, in the city of :func:`crowd_rows`.
    """

    def prepare(place: Workplace) -> PreparedRow:
        _require("gymnasium", "torch", "stable_baselines3")
        data, cfg = _crowded_city(place, make_city), _training_config(place)
        shares, folders = [0.0], iter(range(1_000_000))

        def work() -> int:
            num_steps, shares[0] = train(cfg, place.scratch / f"driver-{next(folders)}", data)
            return num_steps

        title = "share of the environments in the time of training"
        return PreparedRow(work, lambda: [Fact(title, 100 * shares[0], _MAX_SHARE_PERCENT, "percent")])

    return Row(key="train-rl", title="PPO end to end, compact state", unit=_STEPS, prepare=prepare)


@dataclass(eq=False)
class _StepsAtOnce:
    """Environments that step together, with actions (K, N, A) repeated in turn, and which have ended, (N,)."""

    env: "L5VectorEnv"
    actions: Float32Array
    is_over: BoolArray
    num_done: int = 0

    @classmethod
    def begin(cls, env: "L5VectorEnv", actions: Float32Array) -> "_StepsAtOnce":
        env.reset(seed=0)
        return cls(env, actions, np.zeros(env.num_envs, np.bool_))

    def do(self, num_calls: int) -> int:
        """Step a number of times, and return the frames that all environments have driven; resets do not count."""
        return sum(int(self._step().sum()) for _ in range(num_calls))

    def do_agents(self, num_calls: int) -> int:
        """Step a number of times, and return the agent-steps, counted in the last frame of each step."""
        return sum(int((self._step() * self.num_agents()).sum()) for _ in range(num_calls))

    def num_agents(self) -> Int64Array:
        """Return the number of driven agents in the last frame of each environment, (N,)."""
        roads, slots = self.env.episodes.parts.roads, np.arange(self.env.num_envs)
        return np.zeros(len(slots), np.int64) if roads is None else roads.traffic.num_driven(slots)

    def _step(self) -> Int64Array:
        """Step once, and return the frames that each environment has driven, (N,); an action may hold several."""
        before, begins = self.env.episodes.frame_indices.copy(), self.is_over
        actions = self.actions[self.num_done % len(self.actions)]
        _, _, terminated, truncated, _ = self.env.step(actions)
        self.is_over = terminated | truncated
        self.num_done += 1
        return np.where(begins, 0, self.env.episodes.frame_indices - before)


def _single_row(key: str, *, has_streets: bool, floor: float) -> Row:
    def prepare(place: Workplace) -> PreparedRow:
        env, num_episodes = _open_single(place, has_streets=has_streets), place.amounts.num_episodes
        return _on_one_thread(lambda: sum(_drive_episode(env) for _ in range(num_episodes)))

    title = _STREETS if has_streets else _SINGLE
    return Row(key=key, title=title, unit=_STEPS, prepare=prepare, floor=floor, reference=title)


def _many_row(key: str, *, has_streets: bool) -> Row:
    reference = _STREETS if has_streets else _SINGLE
    prepare = partial(_prepare_many, workload=EGO_GYM, has_streets=has_streets)
    title = f"{reference}, {_NUM_AT_ONCE} at once"
    return Row(key=key, title=title, unit=_STEPS, prepare=prepare, floor=20, reference=reference)


def _prepare_resets(place: Workplace) -> PreparedRow:
    env, num_resets = _open_single(place, has_streets=False), place.amounts.num_resets

    def work() -> int:
        for _ in range(num_resets):
            env.reset()
        return num_resets

    return _on_one_thread(work)


def _prepare_many(place: Workplace, workload: Workload | VectorWorkload, *, has_streets: bool) -> PreparedRow:
    _require("gymnasium", "torch")
    from l5kit.environment.envs.vector_env import L5VectorEnv

    seen = "vectors" if isinstance(workload, VectorWorkload) else "raster"
    config = _write_config(place, workload, has_streets=has_streets, observation=seen)
    num_envs = min(_NUM_AT_ONCE, place.amounts.num_environments)
    data = LocalDataManager("")
    env = L5VectorEnv(num_envs, config, data, rescale_action=False, randomize_start=False, copy=False)
    place.at_end.callback(env.close)
    ahead = np.zeros((1, num_envs, 3), np.float32)
    ahead[..., 0] = _STEP_M
    steps = _StepsAtOnce.begin(env, ahead)
    return _on_one_thread(partial(steps.do, place.amounts.num_steps_at_once))


def _open_single(place: Workplace, *, has_streets: bool) -> "L5Env":
    _require("gymnasium", "torch")
    from l5kit.environment.envs.l5_env import L5Env

    config = _write_config(place, EGO_GYM, has_streets=has_streets)
    env = L5Env(config, LocalDataManager(""), rescale_action=False, randomize_start=False)
    place.at_end.callback(env.close)
    return env


def _drive_episode(env: "L5Env") -> int:
    """Drive an episode from start to end, and return its steps."""
    ahead = np.array([_STEP_M, 0, 0], np.float32)
    env.reset()
    count, is_over = 0, False
    while not is_over:
        is_over = env.step(ahead).done
        count += 1
    return count


def _open_crowd(place: Workplace, make_city: CityMaker) -> _StepsAtOnce:
    """Return environments of a synthetic city, whose scenes are all prepared."""
    _require("gymnasium", "torch")
    from l5kit.environment.envs.vector_env import L5VectorEnv

    city = _crowded_city(place, make_city)
    path = place.scratch / "crowd.yaml"
    path.write_text(json.dumps(load_driver_config(None)), "utf-8")
    env = L5VectorEnv(place.amounts.num_environments, str(path), LocalDataManager(str(city)), copy=False)
    place.at_end.callback(env.close)
    roads = env.episodes.parts.roads
    assert roads is not None
    roads.bank.prepare(np.arange(len(roads.bank.log.scenes)))
    size = (_NUM_ACTIONS, *(env.action_space.shape or ()))
    steps = _StepsAtOnce.begin(env, np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32))
    steps.do(place.amounts.num_steps_at_once)
    return steps


def _crowd_facts(steps: _StepsAtOnce) -> Sequence[Fact]:
    return [Fact("driven in each environment", float(steps.num_agents().mean()), unit="agents")]


def _crowded_city(place: Workplace, make_city: CityMaker) -> Path:
    """Return the folder of a city that is generated once."""
    folder = place.scratch / "crowded"
    if not folder.exists():
        make_city(folder, place.amounts.num_made_scenes)
    return folder


def _training_config(place: Workplace) -> JsonObject:
    """Return a training configuration with evaluations and checkpoints at the beginning and the end only."""
    cfg, num_steps = load_driver_config(None), place.amounts.num_trained_steps
    params = cfg["rl_params"]
    params["num_envs"] = min(params["num_envs"], place.amounts.num_environments)
    params["n_steps"] = min(params["n_steps"], num_steps // params["num_envs"])
    params["batch_size"] = min(params["batch_size"], params["num_envs"] * params["n_steps"])
    params |= {"minutes": None, "total_steps": num_steps, "eval_scenes": 1}
    params |= {"eval_every_steps": 2 * num_steps, "checkpoint_every_steps": 2 * num_steps}
    return cfg


def _write_config(
    place: Workplace, workload: Workload | VectorWorkload, *, has_streets: bool, observation: str = "raster"
) -> str:
    """Write the configuration of an environment over the first scene, and return its path.

    Raises:
        RowLeftOutError: A map that it needs is missing.
    """
    cfg: dict[str, Any] = config_with_files(workload, place.files)
    if not has_streets:
        cfg["raster_params"]["semantic_map_key"] = _write_empty_map(place)
    cfg |= {name: {"key": str(place.files.dataset)} for name in ("train_data_loader", "val_data_loader")}
    cfg["gym_params"] = {"overfit": True, "overfit_id": 0, "max_scene_id": 1, "max_val_scene_id": 1}
    cfg["gym_params"]["observation"] = observation
    path = place.scratch / f"{observation}-{'streets' if has_streets else 'empty'}.yaml"
    path.write_text(json.dumps(cfg), "utf-8")
    return str(path)


def _write_empty_map(place: Workplace) -> str:
    """Write an empty map, like that of the recorded rates, and return its path."""
    assert place.files.meta is not None
    meta = json.loads(place.files.meta.read_text("utf-8"))
    path = place.scratch / "empty_map.pb"
    MapBuilder(np.array(meta["world_to_ecef"])).save(path)
    return str(path)


def _on_one_thread(work: Callable[[], int]) -> PreparedRow:
    """Return a row that runs torch on one thread, like the reference."""
    from l5kit_bench.straight_models import on_one_thread

    return PreparedRow(partial(on_one_thread, work))


def _require(*packages: str) -> None:
    """Require optional packages of a row.

    Raises:
        RowLeftOutError: A package is missing.
    """
    for name in packages:
        if find_spec(name) is None:
            raise RowLeftOutError(f"{name} is not installed{_EXTRAS.get(name, '')}")
