"""Closed loops equal those recorded from L5Kit 1.5: images, integers and dtypes exactly, floats to 1e-5."""

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from l5kit._types import RecordArray
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.data.records import AGENT_DTYPE
from l5kit.data.scene_records import SceneRecords, join_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.dataset import EgoDataset, EgoDatasetVectorized
from l5kit.rasterization import build_rasterizer
from l5kit.simulation.dataset import SimulationConfig, SimulationDataset
from l5kit.simulation.unroll import ClosedLoopSimulator, ClosedLoopSimulatorModes, SimulationOutput, UnrollInputOutput
from l5kit.simulation.utils import disable_agents, get_frames_subset, insert_agent
from l5kit.vectorization.vectorizer_builder import build_vectorizer
from support.logs import CAR
from support.rule_models import RuleModel
from support.tolerances import FLOAT32_LONG

Found = dict[str, Any]
CPU = torch.device("cpu")
UNROLLS = [
    "ego/constant/semantic",
    "ego/standing/box",
    "ego/image/semantic",
    "ego/history/semantic",
    "ego/target/last_frames",
    "ego/frame_table/stub",
    "agents/constant/stub",
    "agents/track/semantic",
    "agents/history/semantic",
    "both/disable_new/stub",
    "both/history/box",
    "both/disable_new/replay_of_hidden",
    "replay/stub",
    "scenes/four_copies/both",
    "scenes/different/min_length",
    "vector/ego_neighbours",
    "vector/both_lanes_target",
    "exclude/nothing",
]
SIM_DATASETS = ["tracked/default_thresholds", "tracked/two_scenes_set", "tracked/disable_new"]
UTILS = ["utils/insert_and_cut", "utils/disable_all"]
SPLITTERS = ["splitters/ego", "splitters/agents"]
ERRORS = [
    "errors/empty_batch",
    "errors/repeated_scenes",
    "errors/start_beyond_end",
    "errors/no_models",
    "errors/no_agents_model_replayed_ego",
    "errors/gym_replayed_ego",
    "errors/set_ego_lengths",
    "errors/get_ego_in_out_required_excluded",
    "errors/get_agents_in_out_required_excluded",
    "errors/insert_two_scenes",
    "errors/subset_0_21",
]
FIXED_IN_2 = ["both/nobody_near_fixed_in_2"]


class Recording:
    """The cases, their arrays, and the datasets that they name."""

    def __init__(self, golden: Path, data: Path) -> None:
        content = json.loads((golden / "simulation.json").read_text())
        self.cases, self._configs = content["cases"], content["configs"]
        self._arrays = np.load(golden / "simulation.npz")
        self._data = data
        log = ChunkedDataset(str(data / "single_scene.zarr")).open()
        self._scene = log.get_scene_dataset(0)
        self._parts: dict[str, Any] = {}

    def arrays_of(self, case: str) -> dict[str, Any]:
        return {key.removeprefix(f"{case}//"): self._arrays[key] for key in self._keys if key.startswith(f"{case}//")}

    @property
    def _keys(self) -> list[str]:
        keys: list[str] = self._arrays.files
        return keys

    def dataset(self, described: Mapping[str, Any]) -> EgoDataset | EgoDatasetVectorized:
        is_vector = described["class"] == "EgoDatasetVectorized"
        cfg = self._configs[described["cfg"]]
        if described["cfg"] not in self._parts:
            build: Callable[..., Any] = build_vectorizer if is_vector else build_rasterizer
            self._parts[described["cfg"]] = build(cfg, LocalDataManager(str(self._data)))
        part = self._parts[described["cfg"]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            make: Callable[..., Any] = EgoDatasetVectorized if is_vector else EgoDataset
            dataset: EgoDataset | EgoDatasetVectorized = make(cfg, self._log(described), part)
        return dataset

    def _log(self, described: Mapping[str, Any]) -> ChunkedDataset:
        """Return a log of cuts of the real scene, or of four copies of it."""
        cuts = [[0, 248]] * 4 if described.get("zarr") == "cat4.zarr" else described["scenes"]
        return join_scenes([SceneRecords.of_scene_dataset(self._scene).cut(*cut) for cut in cuts]).as_dataset()

    def scene_dataset(self, described: Mapping[str, Any]) -> ChunkedDataset:
        return self._log(described).get_scene_dataset(0)


@pytest.fixture(scope="module")
def recording(shared_golden: Path, shared_data: Path) -> Recording:
    return Recording(shared_golden, shared_data)


def assert_equal(found: Found, expected: Mapping[str, Any]) -> None:
    assert set(found) == set(expected)
    for key, value in expected.items():
        array = np.asarray(found[key])
        assert array.shape == value.shape, key
        if value.dtype.kind == "U":
            np.testing.assert_array_equal(array, value, err_msg=key)
            continue
        assert array.dtype == value.dtype, key
        if value.dtype.kind == "f" and not key.endswith("/image"):
            np.testing.assert_allclose(array, value, rtol=FLOAT32_LONG, atol=FLOAT32_LONG, err_msg=key)
        else:
            np.testing.assert_array_equal(array, value, err_msg=key)


def test_every_case_is_listed(recording: Recording) -> None:
    assert sorted(recording.cases) == sorted(UNROLLS + SIM_DATASETS + UTILS + SPLITTERS + ERRORS + FIXED_IN_2)


def unroll(recording: Recording, case: Mapping[str, Any]) -> list[SimulationOutput]:
    models = [None if case[name] is None else RuleModel(**case[name]) for name in ("ego_model", "agents_model")]
    exclude = {"keys_to_exclude": tuple(case["exclude"])} if "exclude" in case else {}
    simulator = ClosedLoopSimulator(
        SimulationConfig(**case["sim"]), recording.dataset(case["dataset"]), CPU, models[0], models[1], **exclude
    )
    return simulator.unroll(case["scene_indices"])


@pytest.mark.parametrize("name", UNROLLS)
def test_unroll(name: str, recording: Recording) -> None:
    case = recording.cases[name]
    outputs = unroll(recording, case)
    found: Found = {"scene_ids": np.array([each.get_scene_id() for each in outputs])}
    for each in outputs:
        found |= {f"scene{each.scene_id}/{key}": value for key, value in describe_output(each, case["show"]).items()}
    expected = recording.arrays_of(name)
    added = {key for key in found if "_in/" in key} - set(expected)  # additional keys of samples are fine
    assert_in_keys_are_there(found, expected)
    assert_equal({key: value for key, value in found.items() if key not in added}, expected)


def assert_in_keys_are_there(found: Found, expected: dict[str, Any]) -> None:
    for key in [key for key in expected if key.endswith("_in_keys")]:
        assert set(expected.pop(key)) <= set(found.pop(key)), key


def describe_output(output: SimulationOutput, show: Mapping[str, Any]) -> Found:
    simulated, recorded = output.simulated_dataset.dataset, output.recorded_dataset.dataset
    start_m = recorded.frames["ego_translation"][0]
    from_start_m = output.simulated_ego["ego_translation"] - start_m
    found: Found = {
        "simulated_ego_states": output.simulated_ego_states.numpy(),
        "recorded_ego_states": output.recorded_ego_states.numpy(),
        "start_translation": start_m,
        "ego_translation_from_start": from_start_m,
        "ego_steps": np.diff(output.simulated_ego["ego_translation"], axis=0),
        "ego_rotation": output.simulated_ego["ego_rotation"],
        "timestamp": output.simulated_ego["timestamp"],
        "agent_index_interval": output.simulated_ego["agent_index_interval"],
        "recorded_agent_index_interval": output.recorded_ego["agent_index_interval"],
        "agents_sums": sums_of(output.simulated_ego, output.simulated_agents, start_m[:2]),
        "recorded_agents_sums": sums_of(output.recorded_ego, output.recorded_agents, start_m[:2]),
        "number_of_ego_items": np.array(len(output.ego_ins_outs)),
        "number_of_agents_items": np.array(len(output.agents_ins_outs)),
        "scene_row": simulated.scenes["frame_index_interval"][0],
    }
    for frame in show["agents"]:
        rows = rows_of_frame(output.simulated_ego, output.simulated_agents, frame)
        found |= {f"agents/{frame}/{key}": value for key, value in columns_of(rows, start_m[:2]).items()}
    for frame in show["images"]:
        image = output.simulated_dataset[frame]["image"]
        found[f"image/{frame}"] = np.round(255 * image).astype(np.uint8)
    return found | describe_ego(output, show) | describe_agents(output, show)


def describe_ego(output: SimulationOutput, show: Mapping[str, Any]) -> Found:
    items = output.ego_ins_outs
    if not items:
        return {}
    found: Found = {
        "ego_first_step": np.array([first_step(item) for item in items]),
        "ego_in_keys": np.array(sorted(items[0].inputs)),
        "ego_out_keys": np.array(sorted(items[0].outputs)),
        "ego_track_ids": np.array([item.track_id for item in items]),
    }
    for frame in show["ins_outs"]:
        found |= describe_item(items[frame], "ego_{}" + f"/{frame}")
    return found


def describe_agents(output: SimulationOutput, show: Mapping[str, Any]) -> Found:
    items = [(frame, item) for frame, each in enumerate(output.agents_ins_outs) for item in each]
    controlled = np.array([(frame, item.track_id) for frame, item in items], np.int64).reshape(-1, 2)
    found: Found = {"controlled": controlled}
    if not items:
        return found
    found |= {
        "agents_first_step": np.array([first_step(item) for _, item in items]),
        "agents_in_keys": np.array(sorted(items[0][1].inputs)),
        "agents_out_keys": np.array(sorted(items[0][1].outputs)),
    }
    for frame in show["ins_outs"]:
        for place, item in enumerate(output.agents_ins_outs[frame][: show["agents_per_frame"]]):
            found |= describe_item(item, "agents_{}" + f"/{frame}/{place}")
    return found


def first_step(item: UnrollInputOutput) -> Any:
    return np.concatenate([item.outputs["positions"][0], item.outputs["yaws"][0]])


def describe_item(item: UnrollInputOutput, path: str) -> Found:
    found = {f"{path.format('in')}/{key}": value for key, value in item.inputs.items()}
    return found | {f"{path.format('out')}/{key}": value for key, value in item.outputs.items()}


def rows_of_frame(frames: RecordArray, agents: RecordArray, frame: int) -> RecordArray:
    return agents[slice(*frames["agent_index_interval"][frame])]


def columns_of(rows: RecordArray, start_m: Any) -> Found:
    """Views of the rows: what 1.5 recorded of them shows what was written into the same arrays afterwards."""
    columns: Found = {field: rows[field] for field in ("track_id", "yaw", "extent", "velocity")}
    return columns | {"centroid": rows["centroid"] - start_m, "car": rows["label_probabilities"][:, CAR]}


def sums_of(frames: RecordArray, agents: RecordArray, start_m: Any) -> Any:
    sums = np.zeros((len(frames), 6))
    for frame in range(len(frames)):
        rows = rows_of_frame(frames, agents, frame)
        sums[frame, :2] = (rows["centroid"] - start_m).sum(axis=0)
        fields = ("yaw", "extent", "velocity", "label_probabilities")
        sums[frame, 2:] = [rows[field].astype(np.float64).sum() for field in fields]
    return sums


@pytest.mark.parametrize("name", SIM_DATASETS)
def test_simulation_dataset(name: str, recording: Recording) -> None:
    case = recording.cases[name]
    dataset = SimulationDataset.from_dataset_indices(
        recording.dataset(case["dataset"]), case["scene_indices"], SimulationConfig(**case["sim"])
    )
    found: Found = {
        "length": np.array([len(dataset), dataset.get_min_len()]),
        "scenes": np.array(list(dataset.scene_dataset_batch)),
        "cumulative_sizes": np.array([each.cumulative_sizes[0] for each in dataset.scene_dataset_batch.values()]),
    }
    for place, operation in enumerate(case["operations"]):
        shown = dict(OPERATIONS[operation["op"]](dataset, operation))
        shown["tracked"] = pairs(sorted(dataset._agents_tracked))
        found |= {f"op{place}/{key}": value for key, value in shown.items()}
    assert_equal(found, recording.arrays_of(name))


def pairs(keys: Any) -> Any:
    return np.array(list(keys), np.int64).reshape(-1, 2)


def poses_of(samples: Any) -> Any:
    return np.array([[*sample["centroid"], sample["yaw"]] for sample in samples]).reshape(-1, 3)


def do_agents(dataset: SimulationDataset, operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    samples = dataset.rasterise_agents_frame_batch(operation["frame"])
    yield "keys", pairs(samples)
    yield "scene_index", np.array([sample["scene_index"] for sample in samples.values()], np.int64)
    yield "poses", poses_of(samples.values())
    yield "matrices", np.array([each["agent_from_world"] for each in samples.values()]).reshape(-1, 3, 3)


def do_ego(dataset: SimulationDataset, operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    samples = dataset.rasterise_frame_batch(operation["frame"])
    yield "scene_index", np.array([sample["scene_index"] for sample in samples])
    yield "poses", poses_of(samples)
    yield "targets", np.array([sample["target_positions"] for sample in samples])
    yield "image_sums", np.array([np.round(255 * sample["image"]).astype(np.int64).sum() for sample in samples])


def do_set_ego(dataset: SimulationDataset, operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    poses = np.array(operation["translations"]), np.array(operation["yaws"])
    dataset.set_ego(operation["frame"], operation["output_index"], *poses)
    frames = [each.dataset.frames[operation["frame"]] for each in dataset.scene_dataset_batch.values()]
    yield "translation", np.array([frame["ego_translation"] for frame in frames])
    yield "rotation", np.array([frame["ego_rotation"] for frame in frames])


def do_set_agents(dataset: SimulationDataset, operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    agents = {(agent["scene"], agent["track_id"]): agent_of(agent) for agent in operation["agents"]}
    dataset.set_agents(operation["frame"], agents)
    for scene, _ in agents:
        log = dataset.scene_dataset_batch[scene].dataset
        start_m = dataset.recorded_scene_dataset_batch[scene].dataset.frames["ego_translation"][0, :2]
        for key, value in columns_of(rows_of_frame(log.frames, log.agents, operation["frame"]), start_m).items():
            yield f"{scene}/{key}", value
        yield f"{scene}/intervals", log.frames["agent_index_interval"]


OPERATIONS: dict[str, Callable[..., Iterator[tuple[str, Any]]]] = {
    "agents": do_agents,
    "ego": do_ego,
    "set_ego": do_set_ego,
    "set_agents": do_set_agents,
}


def agent_of(described: Mapping[str, Any]) -> RecordArray:
    agent = np.zeros(1, AGENT_DTYPE)
    for field in ("centroid", "yaw", "extent", "track_id"):
        agent[field] = described[field]
    agent["label_probabilities"][:, CAR] = 1
    return agent


@pytest.mark.parametrize("name", UTILS)
def test_utils(name: str, recording: Recording) -> None:
    case = recording.cases[name]
    log = recording.scene_dataset(case["dataset"])
    start_m = log.frames["ego_translation"][0, :2].copy()
    found: Found = {}
    for place, operation in enumerate(case["operations"]):
        shown: Found = {}
        if operation["op"] == "insert":
            insert_agent(agent_of(operation["agent"]), operation["frame"], log)
            rows = columns_of(rows_of_frame(log.frames, log.agents, operation["frame"]), start_m)
            shown = {f"rows/{key}": value for key, value in rows.items()}
        elif operation["op"] == "subset":
            log = get_frames_subset(log, operation["start"], operation["end"])
            shown["times"] = np.array([log.scenes["start_time"][0], log.scenes["end_time"][0]])
            shown["lights"] = log.frames["traffic_light_faces_index_interval"]
            shown["sizes"] = np.array([len(log.frames), len(log.agents), len(log.tl_faces)])
        else:
            disable_agents(log, np.array(operation["allow"], np.int64))
            shown["zero_size"] = np.array((log.agents["extent"] == 0).all(axis=1).sum())
        shown["intervals"] = log.frames["agent_index_interval"]
        shown["sums"] = sums_of(log.frames, log.agents, start_m)
        found |= {f"op{place}/{key}": value for key, value in shown.items()}
    assert_equal(found, recording.arrays_of(name))


@pytest.mark.parametrize("name", SPLITTERS)
def test_splitters(name: str, recording: Recording) -> None:
    case = recording.cases[name]
    split: Callable[..., dict[int, Any]] = getattr(ClosedLoopSimulator, case["function"])
    by_scene = split(arrays_of(case["inputs"]), arrays_of(case["outputs"]), case["exclude"])
    found: Found = {"scenes": np.array(list(by_scene))}
    for scene, items in by_scene.items():
        for place, item in enumerate(items if isinstance(items, list) else [items]):
            path = f"{scene}/{place}"
            found |= {f"{path}/track": np.array(item.track_id)}
            found |= {f"{path}/in_keys": np.array(sorted(item.inputs))}
            found |= {f"{path}/out_keys": np.array(sorted(item.outputs))}
            found |= describe_item(item, f"{path}/{{}}")
    assert_equal(found, recording.arrays_of(name))


def arrays_of(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: np.array(value) for key, value in values.items()}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, recording: Recording) -> None:
    call = recording.cases[name]["call"]
    assert recording.cases[name]["expect"] == ["ValueError"]
    dataset = recording.dataset(call["dataset"]) if "dataset" in call else None
    with pytest.raises(ValueError, match=r"\w"):
        fail(call, dataset)


def fail(call: Mapping[str, Any], dataset: Any) -> None:
    config = SimulationConfig(**call.get("sim", {}))
    what = call["what"]
    if what == "empty_batch":
        SimulationDataset({}, config)
    elif what == "from_dataset_indices":
        SimulationDataset.from_dataset_indices(dataset, call["scene_indices"], config)
    elif what == "simulator":
        ClosedLoopSimulator(config, dataset, CPU, mode=ClosedLoopSimulatorModes[call.get("mode", "L5KIT")])
    elif what == "set_ego":
        simulated = SimulationDataset.from_dataset_indices(dataset, call["scene_indices"], config)
        simulated.set_ego(call["frame"], 0, np.zeros(call["translations_shape"]), np.zeros(call["yaws_shape"]))
    elif what == "insert_two_scenes":
        insert_agent(agent_of(call["agent"]), 0, dataset.dataset)
    elif what == "get_frames_subset":
        get_frames_subset(dataset.dataset.get_scene_dataset(0), call["start"], call["end"])
    else:
        getattr(ClosedLoopSimulator, what)(arrays_of(call["inputs"]), arrays_of(call["outputs"]), call["exclude"])


def test_frames_in_which_nobody_is_near_have_empty_lists(recording: Recording) -> None:
    """Row M2: 1.5 appended nothing in such frames."""
    case = copy.deepcopy(recording.cases["both/nobody_near_fixed_in_2"])
    assert case["defect"] == "M2"
    (output,) = unroll(recording, case)
    assert output.agents_ins_outs == [[]] * 12
    assert len(output.ego_ins_outs) == 12
    recorded = recording.arrays_of("both/nobody_near_fixed_in_2")
    states = recorded["scene0/simulated_ego_states"]
    np.testing.assert_allclose(output.simulated_ego_states, states, rtol=FLOAT32_LONG, atol=FLOAT32_LONG)
