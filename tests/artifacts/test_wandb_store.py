"""The store at Weights & Biases: the real library with its service process, and a server in this process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from l5kit.artifacts import link_training
from l5kit.data.artifact import ArtifactNotFoundError, ArtifactStoreError
from l5kit.data.digests.digest import dataset_digest
from l5kit.errors import CorruptedDataError, InvalidArgumentError
from support.artifacts import WEIGHTS, files_below, make_training
from support.http_server import served
from support.wandb_server import WandbServer

wandb = pytest.importorskip("wandb")
pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture
def server(wandb_folder, monkeypatch):
    server = WandbServer()
    with served(server.answer) as address:
        monkeypatch.setenv("WANDB_BASE_URL", address)
        yield server
    assert server.unknown == []


@pytest.fixture
def store(server):
    from l5kit.artifacts.wandb_store import WandbStore

    return WandbStore("team/driving")


def sync(*folders):
    done = subprocess.run([sys.executable, "-m", "wandb", "sync", *folders], capture_output=True, text=True)
    assert (done.stdout + done.stderr).count("Finished syncing") == len(folders)


def test_a_dataset_is_logged_listed_fetched_used_and_linked(store, server, city, described, training, tmp_path):
    logged = store.log(described, "l5-data", aliases=["train"], description="A town")
    assert (logged.version, logged.aliases, logged.location) == ("v0", ("latest", "train"), "team/driving/l5-data:v0")
    (kept,) = server.artifacts.values()
    assert (kept.type, kept.description) == ("dataset", "A town")
    assert json.loads(kept.metadata) == described.metadata
    assert set(kept.files) == {"manifest.json", *(f"data/{name}" for name in files_below(city))}

    reference = store.log(described, "l5-data", reference=city.as_uri())
    assert (reference.version, reference.is_reference) == ("v1", True)
    assert set(server.artifacts["artifact-1"].files) == {"manifest.json"}
    store.log(described, "other")
    listed = [(one.name, one.version, one.aliases, one.digest) for one in store.list()]
    digest = dataset_digest(city)
    assert listed == [
        ("l5-data", "v1", ("latest",), digest),
        ("l5-data", "v0", ("train",), digest),
        ("other", "v0", ("latest",), digest),
    ]

    for number, alias in enumerate(("v0", "train", "latest")):
        store.get(f"l5-data:{alias}", tmp_path / str(number))
        assert files_below(tmp_path / str(number)) == files_below(city)
    assert store.use("l5-data:train", city) == city
    assert files_below(store.use("l5-data:v0")) == files_below(city)
    with pytest.raises(ArtifactNotFoundError, match="there is no l5-data:v9 in project 'driving'"):
        store.find("l5-data:v9")

    log = {"path": "x", "digest": dataset_digest(city / "scenes" / "sample.zarr"), "num_scenes": 3}
    (training / "result.json").write_text(json.dumps({"num_steps": 5, "data": log}))
    place = link_training(training, store, "l5-data:train", data=described)
    run = place.rpartition("/")[2]
    assert server.uses == [(run, "artifact-0")]
    model = server.artifacts["artifact-3"]
    assert (model.type, model.name, model.run) == ("model", "my-planner", run)
    assert set(model.files) == {"planner.safetensors", "config.yaml", "result.json"}
    assert server.uploads[model.files["planner.safetensors"]] == WEIGHTS
    assert server.runs[run]["jobType"] == "training"
    config = server.runs[run]["config"]
    assert (config["workflow"], config["dataset"], config["dataset_digest"]) == (
        "raster_planner",
        "l5-data:train",
        digest,
    )


def test_damage_on_the_server_is_found(store, server, described, training, tmp_path):
    store.log(described, "l5-data")
    key = server.artifacts["artifact-0"].files["data/meta.json"]
    server.uploads[key] = server.uploads[key][:-3] + b"  }"
    with pytest.raises((CorruptedDataError, ArtifactStoreError), match=r"meta\.json"):
        store.get("l5-data", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    other = make_training(tmp_path / "other", data={"digest": "0" * 64})
    with pytest.raises(InvalidArgumentError, match="neither it nor a log in it"):
        link_training(other, store, "l5-data")


def test_runs_that_are_offline_are_written_and_synced_later(
    store, server, city, described, training, wandb_folder, monkeypatch
):
    monkeypatch.setenv("WANDB_MODE", "offline")
    logged = store.log(described, "l5-data", aliases=["train"])
    assert (logged.version, logged.aliases, logged.digest) == ("", ("latest", "train"), dataset_digest(city))
    folder = link_training(training, store, "l5-data:train", data=described)
    wandb.teardown()  # as at the end of a process: what the service has still to write is written
    folders = [logged.location, folder]
    assert sorted(map(str, (wandb_folder / "wandb").glob("offline-run-*"))) == sorted(folders)
    logs = [next(Path(place).glob("run-*.wandb")).read_bytes() for place in folders]
    assert [b"l5-data" in log for log in logs] == [True, True]
    assert [b"planner.safetensors" in log for log in logs] == [False, True]
    for ask in (store.list, lambda: store.find("l5-data"), lambda: store.use("l5-data")):
        with pytest.raises(ArtifactStoreError, match="WANDB_MODE is 'offline'; unset it"):
            ask()
    assert (server.runs, server.artifacts) == ({}, {})

    monkeypatch.delenv("WANDB_MODE")
    sync(*folders)
    (dataset,) = (kept for kept in server.artifacts.values() if kept.type == "dataset")
    (model,) = (kept for kept in server.artifacts.values() if kept.type == "model")
    assert json.loads(dataset.metadata)["digest"] == dataset_digest(city)
    assert server.uses == [(model.run, dataset.id)]
    assert sorted(dataset.aliases) == ["latest", "train"]  # of the run that logged it; using it moves none
    assert server.runs[model.run]["config"]["dataset_digest"] == dataset_digest(city)


def test_what_logs_nothing_is_refused(store, described, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(ArtifactStoreError, match="WANDB_MODE is 'disabled', which disables logging"):
        store.log(described, "l5-data")


def test_a_server_that_refuses_is_an_error_of_the_store(store, server):
    server._ProjectArtifacts = None
    with pytest.raises(ArtifactStoreError, match="the server of the tests has no ProjectArtifacts"):
        store.list("l5-data")
    server.unknown.clear()
