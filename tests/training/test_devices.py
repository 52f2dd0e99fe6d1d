"""Several devices, each with a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from l5kit.configs.config import save_config_data
from l5kit.training import train
from support.tolerances import NETWORK
from support.workflows import small_config


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_two_processes_train_one_network_and_score_all_samples_once(city, tmp_path):
    cfg = small_config(
        "vector_planner", train_params={"max_num_steps": 2, "accelerator": "cpu", "log_every_n_steps": 1}
    )
    cfg["val_data_loader"] |= {"max_num_batches": None, "batch_size": 32}
    alone = train(cfg, tmp_path / "alone", data_folder=city)

    cfg["train_params"]["devices"] = 2
    save_config_data(cfg, str(tmp_path / "config.yaml"))
    call = [sys.executable, "-m", "l5kit.cli", "train", tmp_path / "config.yaml", "--data", city, "--json"]
    done = subprocess.run(
        [*map(str, call), "--out", str(tmp_path / "both")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)  # told once
    assert facts["steps"] == 2
    for name in ("ade_m", "fde_m", "miss_rate"):
        assert facts[f"ctra/{name}/0.4s"] == pytest.approx(alone.scores[f"ctra/{name}/0.4s"], abs=NETWORK)
    assert facts["val/ade_m/0.4s"] != pytest.approx(alone.scores["val/ade_m/0.4s"], abs=NETWORK)
