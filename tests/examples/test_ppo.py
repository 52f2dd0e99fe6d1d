"""The example of PPO in one file: it trains, and its advantages are those of the definition."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from l5kit.configs.overrides import load_driver_config, with_overrides

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ppo.py"


@pytest.fixture
def example():
    return SimpleNamespace(**runpy.run_path(str(EXAMPLE), run_name="ppo"))


def test_a_policy_is_trained_and_saved(example, city, tmp_path, monkeypatch, capsys):
    out = tmp_path / "policy.pt"
    arguments = ["--data", city, "--out", out, "--minutes", 0.03, "--envs", 4, "--rollout", 8, "--batch-size", 16]
    cfg = with_overrides(load_driver_config(None), ["gym_params.num_simulation_steps=9"])
    monkeypatch.setitem(example.main.__globals__, "load_driver_config", lambda _: cfg)
    monkeypatch.setattr(sys, "argv", ["ppo.py", *map(str, arguments)])
    example.main()
    weights = torch.load(out, weights_only=True)
    assert all(value.isfinite().all() for value in weights.values())
    assert (weights["mean"] != 0).any()
    assert weights["log_deviation"].item() != pytest.approx(-0.7, abs=1e-9)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"wrote {out}"
    assert "32 steps" in lines[0]


def test_advantages_are_sums_of_discounted_surprises(example):
    generator = np.random.default_rng(0)
    rewards, values = generator.normal(size=(2, 6, 3)).astype(np.float32)
    ends, following = generator.random((6, 3)) < 0.3, generator.normal(size=3).astype(np.float32)
    found = {"rewards": torch.tensor(rewards), "values": torch.tensor(values), "ends": torch.tensor(ends)}
    told = example.advantages_of(found, torch.tensor(following), gamma=0.9, decay=0.8).numpy()
    after = np.concatenate([values[1:], following[None]])
    surprises = rewards + 0.9 * after * ~ends - values
    for env in range(3):
        for step in range(6):
            expected, weight = 0.0, 1.0
            for later in range(step, 6):
                expected += weight * surprises[later, env]
                weight *= 0.9 * 0.8 * (not ends[later, env])
            assert told[step, env] == pytest.approx(expected, abs=1e-5)
