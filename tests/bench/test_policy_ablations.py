"""``benchmarks/policy_ablations.py``: its rows are possible, and its table is of what was measured."""

import json

import pytest

pytest.importorskip("stable_baselines3")

from l5kit.configs.environment import EnvironmentParams
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_driver_config, with_overrides
from l5kit.configs.reinforcement import ReinforcementParams
from l5kit.environment.policy_options import PolicyOptions


@pytest.fixture
def script(import_script):
    return import_script("policy_ablations")


def test_each_row_is_a_training_whose_policy_drives_in_simulations(script, tmp_path):
    for row in script.ROWS:
        cfg = with_overrides(load_driver_config(None), [*script.SHORT, *row.changes])
        check_known_keys(cfg)
        EnvironmentParams.from_cfg(cfg)
        assert ReinforcementParams.from_cfg(cfg).minutes is None
        PolicyOptions.of_cfg(cfg).require_simulated()
    files = [script.file_of(row, seed, tmp_path) for row in script.ROWS for seed in (0, 1)]
    assert len(set(files)) == len(files)
    assert not any(set(" ,") & set(file.name) for file in files)


def test_the_table_compares_with_the_default_scene_by_scene(script, tmp_path):
    assert script.table_of(tmp_path)[0].startswith("No row has been measured yet")
    other = script.ROWS[1]
    for row, seed, scores in ((script.DEFAULT, 0, (0.4, 0.6)), (other, 0, (0.6, 0.8)), (other, 1, (0.8, 1.0))):
        run = {
            "scores": {agents: {"choose/town_00": [*scores, None]} for agents in ("replay", "idm")},
            "cpu_minutes": 1.23,
        }
        script.file_of(row, seed, tmp_path).write_text(json.dumps(run))
    _, _, default, changed = script.table_of(tmp_path)
    assert default.startswith("|  | default of before | 1 | 0.50")
    assert default.endswith("|  | 1.2 |")
    assert changed.startswith(f"| {other.group} | {other.name} | 2 | 0.80")
    assert "+0.300" in changed
    assert changed.endswith("| 1.2, 1.2 |")
