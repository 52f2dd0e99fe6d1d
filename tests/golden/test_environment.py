"""Episodes equal those recorded from L5Kit 1.5: pictures and draws exactly, rewards and states to 1e-5."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")

import l5kit.environment  # noqa: E402, F401  registers the id
from l5kit.data.local_data_manager import LocalDataManager  # noqa: E402
from l5kit.data.log_writer import write_log  # noqa: E402
from l5kit.data.records import AGENT_INTERVAL  # noqa: E402
from l5kit.data.scene_records import SceneRecords, join_scenes  # noqa: E402
from l5kit.data.zarr_dataset import ChunkedDataset  # noqa: E402
from l5kit.dataset import EgoDataset  # noqa: E402
from l5kit.environment.envs.l5_env import EpisodeOutputGym, L5Env, SimulationConfigGym  # noqa: E402
from l5kit.environment.gym_metric_set import CLEMetricSet  # noqa: E402
from l5kit.environment.kinematic_model import UnicycleModel  # noqa: E402
from l5kit.environment.reward import L2DisplacementYawReward  # noqa: E402
from l5kit.environment.utils import calculate_non_kinematic_rescale_params  # noqa: E402
from l5kit.rasterization import build_rasterizer  # noqa: E402
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset  # noqa: E402
from support.rule_models import ScriptedSteps  # noqa: E402
from support.scored_scenes import SceneStandIn  # noqa: E402

Found = dict[str, Any]
EPISODES = [
    "unscaled/straight",
    "scaled/random",
    "unicycle/random",
    "unicycle/own_limits_unscaled",
    "reward/no_clip",
    "simnet/agents_move",
    "random_start/episode",
    "reset_id/episodes",
    "last_observation_fixed_in_2",
]
RESETS = ["resets/random_start", "resets/reset_id"]
OTHERS = ["unicycle_model/default", "rescale/scene", "reward_alone/default", "errors/reward_set_lacks_yaw"]
TOLERANCES = {"rtol": 1e-5, "atol": 1e-5}


class Recording:
    """The cases, their arrays, and the environments that they name."""

    def __init__(self, golden: Path, data: Path, work: Path) -> None:
        content = json.loads((golden / "environment.json").read_text())
        self.cases, self._configs = content["cases"], content["configs"]
        self._arrays = dict(np.load(golden / "environment.npz"))
        self._work = work
        for file in data.iterdir():
            (work / file.name).symlink_to(file, target_is_directory=file.is_dir())
        self.scene = SceneRecords.read(ChunkedDataset(str(data / "single_scene.zarr")).open(), 0)
        for number in (3, 4):
            with write_log(str(work / f"cat{number}.zarr")) as writer:
                for _ in range(number):
                    writer.append(self.scene)

    def arrays_of(self, case: str) -> dict[str, Any]:
        return {key.removeprefix(f"{case}//"): a for key, a in self._arrays.items() if key.startswith(f"{case}//")}

    def inputs(self, name: str) -> Any:
        return self._arrays[f"inputs//{name}"]

    def config(self, name: str) -> dict[str, Any]:
        cfg: dict[str, Any] = self._configs[name]
        return cfg

    @property
    def data_manager(self) -> LocalDataManager:
        return LocalDataManager(str(self._work))

    def make(self, described: Mapping[str, Any]) -> L5Env:
        path = self._work / f"{described['cfg']}.yaml"
        path.write_text(json.dumps(self.config(described["cfg"])))
        args = dict(described["args"])
        if "sim_cfg" in args:
            args["sim_cfg"] = SimulationConfigGym(**args["sim_cfg"])
        if "kin_model" in args:
            args["kin_model"] = UnicycleModel(**args["kin_model"])
        if "reward" in args:
            args["reward"] = L2DisplacementYawReward(**args["reward"])
        if "simnet" in args:
            args["simnet_model_path"] = str(self._work / "simnet.pt")
            torch.jit.script(ScriptedSteps(**args.pop("simnet"))).save(args["simnet_model_path"])
        if described.get("make"):
            env: L5Env = gymnasium.make("L5-CLE-v0", env_config_path=str(path), dmg=self.data_manager, **args).unwrapped
            return env
        return L5Env(env_config_path=str(path), dmg=self.data_manager, **args)


@pytest.fixture(scope="module")
def recording(shared_golden: Path, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return Recording(shared_golden, shared_data, tmp_path_factory.mktemp("environments"))


def test_every_case_is_listed(recording: Recording) -> None:
    assert set(recording.cases) == {*EPISODES, *RESETS, *OTHERS}


def assert_equal(found: Found, expected: Mapping[str, Any]) -> None:
    assert set(found) == set(expected)
    for key, value in expected.items():
        array = np.asarray(found[key])
        assert array.shape == value.shape, key
        if value.dtype.kind == "f":
            np.testing.assert_allclose(array, value, err_msg=key, **TOLERANCES)
        else:
            np.testing.assert_array_equal(array, value, err_msg=key)


def actions_of(described: Mapping[str, Any], num_steps: int) -> Any:
    """Return the actions of an episode."""
    if "constant" in described:
        return np.tile(np.array(described["constant"], described["dtype"]), (num_steps, 1))
    generator = np.random.RandomState(described["seed"])
    drawn = generator.uniform(described["low"], described["high"], (num_steps, len(described["low"])))
    return drawn.astype(described["dtype"])


def as_bytes(image: Any) -> Any:
    return np.round(255 * image).astype(np.uint8)


@pytest.mark.parametrize("name", EPISODES)
def test_episodes_are_reproduced(name: str, recording: Recording) -> None:
    case, expected = recording.cases[name], recording.arrays_of(name)
    legacy = {"legacy_done": True} if case.get("defect") == "G14" else {}
    env = recording.make({**case["env"], "args": case["env"]["args"] | legacy})
    image = env.observation_space["image"]
    scales = getattr(env, "non_kin_rescale", None)
    found: Found = {
        "action_space": np.stack([env.action_space.low, env.action_space.high]),
        "observation_shape": image.shape,
        "observation_keys": list(env.observation_space),
        "rescale": list(scales or env.kin_rescale),
    }
    for number, described in enumerate(case["episodes"]):
        for key, value in run_episode(env, described, case):
            found[f"episode{number}/{key}"] = value
    assert_equal(found, expected)


def run_episode(env: L5Env, described: Mapping[str, Any], case: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Drive an episode and yield what was recorded of it."""
    if "reset_id" in described:
        env.set_reset_id(described["reset_id"])
    obs, _ = env.reset(seed=described["seed"])
    yield "scene_and_start", [env.scene_index, env.sim_cfg.start_frame_index]
    yield "length", len(env.sim_dataset)
    yield "obs_keys", list(obs)
    yield "obs_dtype", [str(obs["image"].dtype)]
    yield "obs/0", as_bytes(obs["image"])
    rewards, dones, sums, outputs = [], [], [], []
    for number, action in enumerate(actions_of(described["actions"], described["steps"]), start=1):
        step = env.step(action)
        info = step.info
        rewards.append([step.reward, info["reward_tot"], info["reward_dist"], info["reward_yaw"]])
        dones.append(step.done)
        outputs.append([*env.ego_output_dict["positions"][0, 0], env.ego_output_dict["yaws"][0, 0, 0]])
        if not step.done:
            sums.append(int(as_bytes(step.obs["image"]).sum()))
        if number in described["images"]:
            yield f"obs/{number}", as_bytes(step.obs["image"])
        if step.done:
            break
    yield "rewards", rewards
    yield "done", dones
    yield "obs_sums", sums
    yield "ego_outputs", outputs
    yield "info_keys", sorted(info)
    if case.get("last_obs"):
        yield "last_obs", as_bytes(step.obs["image"])
    (output,) = info["sim_outs"] if "sim_outs" in info else env.get_episode_outputs()
    yield from describe_output(output, with_scores=case.get("cle_set", False))


def describe_output(output: EpisodeOutputGym, *, with_scores: bool) -> Iterator[tuple[str, Any]]:
    """Yield what was recorded of the output of an episode."""
    agents_ins_outs = output.agents_ins_outs
    yield (
        "outputs",
        [
            1,
            output.get_scene_id(),
            len(output.tls_frames),
            len(output.ego_ins_outs),
            len(agents_ins_outs),
        ],
    )
    yield "agents_threshold", output.agents_th
    yield "simulated_ego_states", output.simulated_ego_states
    yield "recorded_ego_states", output.recorded_ego_states
    start_m = output.recorded_ego["ego_translation"][0]
    yield "ego_translation_from_start", output.simulated_ego["ego_translation"] - start_m
    yield "agents_sums", [sums_of(output.simulated_agents, frame, start_m) for frame in output.simulated_ego]
    first = output.ego_ins_outs[0]
    yield "ego_in_keys", sorted(first.inputs)
    yield "ego_out_keys", sorted(first.outputs)
    controlled = [(frame, each.track_id) for frame, agents in enumerate(agents_ins_outs) for each in agents]
    yield "controlled", np.array(controlled, np.int64).reshape(-1, 2)
    if with_scores:
        yield from describe_scores(output)


def sums_of(agents: Any, frame: Any, start_m: Any) -> list[float]:
    rows = agents[slice(*frame[AGENT_INTERVAL])]
    x_m, y_m = (rows["centroid"] - start_m[:2]).sum(axis=0)
    values = (rows[field].astype(np.float64).sum() for field in ("yaw", "extent", "velocity", "label_probabilities"))
    return [x_m, y_m, *values]


def describe_scores(output: EpisodeOutputGym) -> Iterator[tuple[str, Any]]:
    metric_set = CLEMetricSet()
    metric_set.evaluate([output])
    for scene, results in metric_set.evaluator.validation_results().items():
        for name, result in results.items():
            yield f"cle/scene{scene}/valid/{name}", result.is_valid_scene
            yield f"cle/scene{scene}/failed/{name}", np.array(result.failed_frames, np.int64)
    for scene, values in metric_set.evaluator.composite_metric_results().items():
        for name, value in values.items():
            yield f"cle/scene{scene}/composite/{name}", float(value)


def test_the_last_observation_is_the_real_one_but_for_the_legacy_end(recording: Recording) -> None:
    """Row G14 of the defects: 1.5 returned the first frame after the last step."""
    described = recording.cases["last_observation_fixed_in_2"]["env"]
    last = {}
    for is_legacy in (False, True):
        env = recording.make({**described, "args": described["args"] | {"legacy_done": is_legacy}})
        env.reset(seed=0)
        step = env.step(np.array([1, 0, 0], np.float32))
        while not step.done:
            step = env.step(np.array([1, 0, 0], np.float32))
        assert (step.terminated, step.truncated) == (is_legacy, not is_legacy)
        last[is_legacy] = step.obs["image"]
        frame = 0 if is_legacy else len(env.sim_dataset) - 1
        np.testing.assert_array_equal(last[is_legacy], env.sim_dataset.rasterise_frame_batch(frame)[0]["image"])
    assert not np.array_equal(last[False], last[True])


@pytest.mark.parametrize("name", RESETS)
def test_what_is_drawn_on_resets_is_reproduced(name: str, recording: Recording) -> None:
    case = recording.cases[name]
    env = recording.make(case["env"])
    chosen, sums, speeds = [], [], []
    for seed in case["seeds"]:
        obs, _ = env.reset(seed=seed)
        next_id = env.reset_scene_id if case.get("next_id") else -1
        chosen.append([env.scene_index, env.sim_cfg.start_frame_index, len(env.sim_dataset), env.frame_index, next_id])
        sums.append(int(as_bytes(obs["image"]).sum()))
        speeds.append(float(env.ego_input_dict["curr_speed"][0]))
    assert_equal({"chosen": chosen, "obs_sums": sums, "curr_speed": speeds}, recording.arrays_of(name))


def test_unicycle_is_reproduced(recording: Recording) -> None:
    case = recording.cases["unicycle_model/default"]
    model = UnicycleModel(**case["args"])
    model.reset(np.array(case["init"]))
    rows = []
    for action in actions_of(case["actions"], case["steps"]):
        out = model.update(action)
        rows.append([*out["positions"][0, 0], out["yaws"][0, 0, 0], model.new_r, model.new_v, model.old_v])
    expected = recording.arrays_of("unicycle_model/default")
    assert_equal({"rows": rows, "shapes": [out["positions"].shape, out["yaws"].shape]}, expected)


def test_scales_are_reproduced(recording: Recording) -> None:
    case = recording.cases["rescale/scene"]
    cfg = recording.config(case["dataset"]["cfg"])
    log = join_scenes([recording.scene.cut(*cut) for cut in case["dataset"]["scenes"]]).as_dataset()
    dataset = EgoDataset(cfg, log, build_rasterizer(cfg, recording.data_manager))
    sim_cfg = replace(SimulationConfig(), **case["sim"])
    simulated = SimulationDataset.from_dataset_indices(dataset, case["scene_indices"], sim_cfg)
    params = list(calculate_non_kinematic_rescale_params(simulated))
    assert_equal({"params": params}, recording.arrays_of("rescale/scene"))


def test_reward_alone_is_reproduced(recording: Recording) -> None:
    case = recording.cases["reward_alone/default"]
    scene = SceneStandIn.make(
        recording.inputs(case["simulated"]), recording.inputs(case["recorded"]), scene_id=case["scene_id"]
    )
    before = scene.simulated_ego_states.clone()
    reward = L2DisplacementYawReward(**case["args"])
    rewards = []
    for frame in case["frames"]:
        found = reward.get_reward(frame, [scene])
        rewards.append([found["total"], found["distance"], found["yaw"]])
    assert_equal({"rewards": rewards}, recording.arrays_of("reward_alone/default"))
    assert torch.equal(scene.simulated_ego_states, before), "row G15 of the defects: 1.5 cut the output itself"


def test_a_set_without_the_yaw_error_is_refused(recording: Recording) -> None:
    from l5kit.cle.metrics import DisplacementErrorL2Metric
    from l5kit.environment.gym_metric_set import L2DisplacementYawMetricSet

    class Lacking(L2DisplacementYawMetricSet):
        def build_metrics(self) -> Any:
            return [DisplacementErrorL2Metric()]

    assert recording.cases["errors/reward_set_lacks_yaw"]["expect"] == ["RuntimeError"]
    with pytest.raises(RuntimeError, match="lacks the metric 'yaw_error_closest_angle'"):
        L2DisplacementYawReward(metric_set=Lacking())
