"""Several devices, each with its own process."""

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest
import torch

from l5kit.configs.config import save_config_data
from l5kit.planning.checkpoint import read_checkpoint
from l5kit.training import train
from l5kit.training.state_file import read_resume_point
from support.tolerances import NETWORK
from support.workflows import small_config


def start(city, folder, config, *options, **environment):
    """Start ``l5kit train``, as on another machine."""
    call = [sys.executable, "-m", "l5kit.cli", "train", config, "--data", city, "--out", folder, "--json", *options]
    return subprocess.Popen(
        [*map(str, call)],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def facts_of(*processes):
    """Output of the first of several processes; the others print nothing."""
    told = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), told
    assert not any(output for output, _ in told[1:])
    return json.loads(told[0][0])


def config_of(path, workflow="vector_planner", **train_params):
    params = {"max_num_steps": 2, "accelerator": "cpu", "log_every_n_steps": 1, **train_params}
    cfg = small_config(workflow, train_params=params)
    if workflow == "agent_motion":
        cfg["train_data_loader"] |= {"shuffle_by": "scenes", "fraction": 0.7, "subset_seed": 1}
    cfg["val_data_loader"] |= {"max_num_batches": None, "batch_size": 32}
    save_config_data(cfg, str(path))
    return path


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_machines_and_devices_with_parts_train_the_network_of_two_devices(city, tmp_path):
    """Two devices, two machines with a device each, and two devices with a part of the weights each."""
    extra = {"accumulate_grad_batches": 2, "save_top_k": 1, "checkpoint_every_n_steps": 1}
    both = facts_of(start(city, tmp_path / "both", config_of(tmp_path / "both.yaml", devices=2, **extra)))

    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = config_of(tmp_path / "nodes.yaml", num_nodes=2, **extra)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    nodes = [start(city, tmp_path / "nodes", config, NODE_RANK=str(rank), **place) for rank in (0, 1)]
    machines = facts_of(*nodes)
    own = ("weights", "minutes")
    assert {key: value for key, value in machines.items() if key not in own} == {
        key: value for key, value in both.items() if key not in own
    }
    weights = [read_checkpoint(tmp_path / name / "vector_planner.safetensors").state_dict for name in ("both", "nodes")]
    assert all((value == weights[1][name]).all() for name, value in weights[0].items())
    assert files_of(tmp_path / "nodes") == files_of(tmp_path / "both")

    config = config_of(tmp_path / "parts.yaml", devices=2, strategy="fsdp", **{**extra, "max_num_steps": 1})
    facts_of(start(city, tmp_path / "parts", config))
    assert read_resume_point(tmp_path / "parts" / "last.ckpt").step == 1
    config = config_of(tmp_path / "parts.yaml", devices=2, strategy="fsdp", **extra)
    parts = facts_of(start(city, tmp_path / "parts", config, "--resume"))
    assert parts["steps"] == 2
    assert parts["val/ade_m/0.4s"] == pytest.approx(both["val/ade_m/0.4s"], rel=1e-2)
    found = read_checkpoint(tmp_path / "parts" / "vector_planner.safetensors").state_dict
    assert {name: value.shape for name, value in found.items()} == {
        name: value.shape for name, value in weights[0].items()
    }
    for name, value in weights[0].items():
        torch.testing.assert_close(found[name], value, rtol=0.0, atol=2.5e-3)  # two steps of Adam, of 1e-3 each
    (top,) = (tmp_path / "parts").glob("*_top_*")
    assert read_checkpoint(top).facts["step"] in (1, 2)


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
    facts = json.loads(done.stdout)  # printed once
    assert facts["steps"] == 2
    for name in ("ade_m", "fde_m", "miss_rate"):
        assert facts[f"ctra/{name}/0.4s"] == pytest.approx(alone.scores[f"ctra/{name}/0.4s"], abs=NETWORK)
    assert facts["val/ade_m/0.4s"] != pytest.approx(alone.scores["val/ade_m/0.4s"], abs=NETWORK)


LARGE_LOGS = """
from l5kit.cli.__main__ import start
from l5kit.dataset import kept_index

kept_index.LARGE_NUM_FRAMES = kept_index.LARGE_NUM_ROWS = 1
start()
"""
"""The command of l5kit that takes every log for one of those whose index is kept in files."""


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the agents mask of")
@pytest.mark.parametrize("workflow", ["vector_planner", "agent_motion"])
def test_two_machines_of_which_one_was_killed_go_on_to_the_same_weights(workflow, city, tmp_path):
    """Two machines by ``torchrun``, one of which is killed after a checkpoint: both are started again."""
    params = {"num_nodes": 2, "max_num_steps": 60, "checkpoint_every_n_steps": 2}
    config = config_of(tmp_path / "nodes.yaml", workflow, **params)
    start_machines = functools.partial(two_machines, city, config, tmp_path, is_large=workflow == "agent_motion")
    whole = start_machines("whole")
    assert [process.wait(timeout=300) for process in whole] == [0, 0]

    machines = start_machines("killed")
    state = tmp_path / "killed" / "last.ckpt"
    while not state.exists() and machines[0].poll() is None:
        time.sleep(0.05)
    kill_machine(machines[1])
    time.sleep(2)
    assert machines[0].poll() != 0  # it cannot go on alone, and may wait for the other
    kill_machine(machines[0])
    assert 1 <= read_resume_point(state).step < 60

    again = start_machines("killed", "--resume")
    told = (tmp_path / "killed-0.log").read_text
    assert [process.wait(timeout=300) for process in again] == [0, 0], told()
    found, expected = (
        read_checkpoint(tmp_path / name / f"{workflow}.safetensors").state_dict for name in ("killed", "whole")
    )
    assert all((value == found[name]).all() for name, value in expected.items())
    kept = sorted(path.name for path in (tmp_path / "cache" / "sample_index").glob("*"))
    assert bool(kept) == (workflow == "agent_motion")


def kill_machine(machine):
    """Kill ``torchrun`` and its training, which is in a separate process group."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(machine.pid)
        family = [process, *process.children(recursive=True)]
        for member in family:
            member.kill()
        psutil.wait_procs(family[1:], timeout=60)
    machine.wait(timeout=60)


def two_machines(city, config, tmp_path, name, *options, is_large):
    """Start a training on two machines by ``torchrun``, a process group for each."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    script = tmp_path / "large_logs.py"
    script.write_text(LARGE_LOGS)
    command = [script] if is_large else ["-m", "l5kit.cli"]
    train_command = [*command, "train", config, "--data", city, "--out", tmp_path / name, *options]
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                *places,
                "--node-rank",
                str(rank),
                *map(str, train_command),
            ],
            env=os.environ | {"OMP_NUM_THREADS": "1", "L5KIT_CACHE_DIR": str(tmp_path / "cache")},
            stdout=subprocess.DEVNULL,
            stderr=(tmp_path / f"{name}-{rank}.log").open("wb"),
            start_new_session=True,
        )
        for rank in (0, 1)
    ]


@pytest.mark.process
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_trainings_of_two_processes_write_equal_files(city, tmp_path):
    config = config_of(tmp_path / "config.yaml", checkpoint_every_n_steps=1, save_top_k=1)
    for seed in ("1", "2"):
        facts_of(start(city, tmp_path / seed, config, PYTHONHASHSEED=seed))
    one, other = (
        {path.name: path.read_bytes() for path in (tmp_path / seed).glob("*.safetensors")} for seed in ("1", "2")
    )
    assert len(one) == 5
    assert one == other
