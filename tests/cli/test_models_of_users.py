"""``l5kit evaluate`` and ``l5kit simulate`` with the weights of models of users."""

import importlib
import json
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from l5kit.data import ChunkedDataset  # noqa: E402
from support.models import one_thread  # noqa: E402
from support.networks import save_network  # noqa: E402

__all__ = ["one_thread"]
pytestmark = pytest.mark.filterwarnings("ignore:the agents mask of")

NAME = "models_of_users_of_test"
CODE = """
import torch

class Ahead(torch.nn.Module):
    'Goes on straight ahead: as fast as between the last two frames, times a weight.'

    def __init__(self, future_num_frames, workflow, num_ways=2, times=1.0, fault=""):
        super().__init__()
        self.num_steps, self.workflow, self.num_ways, self.fault = future_num_frames, workflow, num_ways, fault
        self.times = torch.nn.Parameter(torch.full((num_ways,), times))

    def forward(self, batch):
        assert not [key for key in batch if key.startswith("target_") or "future" in key or key == "speed"]
        if self.fault:
            raise KeyError(self.fault)
        if self.workflow != "safepathnet":
            step_m = batch["history_positions"][:, 0] - batch["history_positions"][:, 1]
            ways_m = self.ways_of(step_m, batch["history_positions"][:, 0])
            logits = torch.zeros(len(ways_m), self.num_ways)
            given = {"positions": ways_m[:, 0], "yaws": torch.zeros_like(ways_m[:, 0, :, :1])}
            several = {"positions_all": ways_m, "mode_logits": logits}
            return given | (several if self.workflow == "agent_motion_multimodal" else {})
        past_m = batch["all_other_agents_history_positions"]
        ways_m = self.ways_of(past_m[:, :, 0] - past_m[:, :, 1], past_m[:, :, 0])
        yaws = batch["all_other_agents_history_yaws"][:, :, :1].expand(-1, -1, self.num_steps, -1)
        return {
            "agent_positions": ways_m[:, :, 0],
            "agent_yaws": yaws,
            "all_agent_positions": ways_m,
            "agent_traj_logits": torch.zeros(ways_m.shape[:3]),
        }

    def ways_of(self, step_m, start_m):
        steps = torch.arange(1, self.num_steps + 1)[:, None] * self.times[:, None, None]
        return start_m[..., None, None, :] + steps * step_m[..., None, None, :]
"""

WORKFLOWS = ("raster_planner", "vector_planner", "safepathnet", "agent_motion", "agent_motion_multimodal", "simnet")
FEW = ("--max-samples", 6, "--worst", 1, "--device", "cpu")


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def save_own(workflow, city, folder, *, model_params=(), **init_args):
    model = {"class_path": f"{NAME}.Ahead", "init_args": init_args}
    return save_network(workflow, city, folder, model_params={"model": model, **dict(model_params)})


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_log_is_evaluated(l5kit, city, tmp_path, workflow):
    file = save_own(workflow, city, tmp_path)
    done = l5kit("evaluate", file, "--data", city, "--out", tmp_path / "out", *FEW, "--json")
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["scores"]
    network, baseline = (
        [(row["ade_m"], row["fde_m"]) for row in rows if row["who"] == who] for who in ("network", "constant_velocity")
    )
    assert network == pytest.approx(np.array(baseline), rel=1e-3, abs=1e-4)
    several = ("safepathnet", "agent_motion_multimodal")
    assert ["ade_oracle_m" in row for row in rows if row["who"] == "network"] == [workflow in several] * len(network)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_scenes_are_driven(l5kit, city, tmp_path, workflow):
    is_planner = workflow in ("raster_planner", "vector_planner", "safepathnet")
    file = save_own(workflow, city, tmp_path)
    whom = ("--planner", file, "--moves", "poses") if is_planner else ("--planner", "replay", "--agents", file)
    frames = ("--start-frame", 10, "--frames", 8)
    done = l5kit("simulate", city, *whom, *frames, "--out", tmp_path / "out", "--device", "cpu", "--json")
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)
    assert (scores["scenes"], scores["failed"]) == (3, [])
    driven = ChunkedDataset(str(tmp_path / "out" / "simulated.zarr")).open()
    logged = ChunkedDataset(str(city / "scenes" / "sample.zarr")).open()
    if is_planner:
        positions_m = driven.frames[:]["ego_translation"].reshape(3, 8, 3)[..., :2]
        assert (
            bends_m(positions_m).max() < 1e-3 < bends_m(np.array([ego_of(logged, scene) for scene in range(3)])).max()
        )
    else:
        there, before = tracks_of(driven, 0), tracks_of(logged, 10)
        straight = [track for track, path in there.items() if bends_m(path).max() < 1e-3]
        assert [track for track in straight if track in before and bends_m(before[track]).max() > 1e-2]


def bends_m(positions_m):
    """How much steps of paths (..., T, 2) differ from the step before."""
    return np.linalg.norm(np.diff(positions_m, n=2, axis=-2), axis=-1)


def ego_of(log, scene):
    first = log.scenes[scene]["frame_index_interval"][0] + 10
    return log.frames[first : first + 8]["ego_translation"][:, :2]


def tracks_of(log, start):
    """Positions (8, 2) of the tracks that the first scene has in eight frames from the given one on, by track."""
    frames = log.frames[start : start + 8]
    rows = [log.agents[slice(*frame["agent_index_interval"])] for frame in frames]
    known = set.intersection(*(set(each["track_id"].tolist()) for each in rows))
    return {track: np.array([each["centroid"][each["track_id"] == track][0] for each in rows]) for track in known}


def test_what_a_model_gives_is_added_to_a_baseline(l5kit, city, tmp_path):
    """Here that is nothing, so that the baseline itself is scored, and drives."""
    file = save_own("vector_planner", city, tmp_path, times=0.0, model_params={"kinematic_residual": "ctra"})
    done = l5kit("evaluate", file, "--data", city, "--out", tmp_path / "out", *FEW, "--json")
    assert done.exit_code == 0, done.stderr
    rows = {row["who"]: row for row in json.loads(done.stdout)["scores"]}
    assert rows["network"]["fde_m"] == pytest.approx(rows["ctra"]["fde_m"], rel=1e-3)
    drive = ("simulate", city, "--planner", file, "--start-frame", 10, "--frames", 4, "--out", tmp_path / "drive")
    done = l5kit(*drive, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == []


def test_a_class_that_is_gone_is_told_with_what_to_do(l5kit, city, tmp_path):
    file = save_own("vector_planner", city, tmp_path)
    sys.modules.pop(NAME)
    (tmp_path / f"{NAME}.py").unlink()
    importlib.invalidate_caches()
    says = f"error: model_params.model.class_path: module '{NAME}' of {NAME}.Ahead cannot be imported "
    advice = f"(ModuleNotFoundError: No module named '{NAME}'); install it, or put its folder on PYTHONPATH"
    for command in (("evaluate", file, "--data", city), ("simulate", city, "--planner", file)):
        done = l5kit(*command, "--out", tmp_path / "out", "--device", "cpu")
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.strip() == says + advice
        assert not (tmp_path / "out").exists()


def test_a_model_that_fails_is_told_by_its_key_and_its_line(l5kit, city, tmp_path):
    file = save_own("vector_planner", city, tmp_path, fault="bad luck")
    done = l5kit("evaluate", file, "--data", city, "--out", tmp_path / "out", "--device", "cpu")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: model_params.model: forward fails in eval mode: KeyError: 'bad luck', at ")
    assert f"{NAME}.py:15" in done.stderr
    assert not (tmp_path / "out").exists()
    done = l5kit("simulate", city, "--planner", file, "--frames", 3, "--out", tmp_path / "out", "--device", "cpu")
    assert done.exit_code == 1
    assert done.stderr.count("NetworkDriver: ConfigError: model_params.model: ") == 3
    assert f"{NAME}.py:15" in done.stderr
