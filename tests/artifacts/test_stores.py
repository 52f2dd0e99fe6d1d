"""Properties of every store, tested on MLflow in a folder and on the hub library with a server in this process."""

import dataclasses
import json
import re
import sys

import pytest

from l5kit.artifacts import link_training, open_store
from l5kit.artifacts.lineage import DatasetInUse
from l5kit.data.artifact import ArtifactNotFoundError, describe_dataset
from l5kit.data.digests.digest import dataset_digest
from l5kit.errors import (
    CorruptedDataError,
    InvalidArgumentError,
    MissingDependencyError,
    UnsupportedValueError,
    install_command,
)
from support.artifacts import files_below, make_training

pytestmark = pytest.mark.process  # MLflow asks `uname` what machine this is


def changed(city, name="meta.json"):
    """Change a file of a city without another size."""
    data = bytearray((city / name).read_bytes())
    data[-2] ^= 1
    (city / name).write_bytes(data)
    return city


def test_what_was_logged_comes_back_to_the_byte(store, city, described, tmp_path):
    logged = store.log(described, "l5-data", aliases=["train"], description="A town")
    assert logged.digest == dataset_digest(city)
    assert (logged.num_scenes, logged.num_frames, logged.description) == (3, 300, "A town")
    assert (logged.aliases, logged.is_reference) == (("latest", "train"), False)
    for place, alias in enumerate(("latest", "train", logged.version)):
        got = store.get(f"l5-data:{alias}", tmp_path / "out" / str(place))
        assert (got.name, got.version, got.digest) == ("l5-data", logged.version, logged.digest)
        assert files_below(tmp_path / "out" / str(place)) == files_below(city)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2"]


def test_aliases_move_and_versions_stay(store, described, copied_city):
    first = store.log(described, "l5-data", aliases=["train", "old"])
    second = store.log(describe_dataset(changed(copied_city)), "l5-data", aliases=["train"])
    assert first.version != second.version
    listed = store.list("l5-data")
    assert [(one.version, one.aliases) for one in listed] == [
        (second.version, ("latest", "train")),
        (first.version, ("old",)),
    ]
    assert [one.digest for one in listed] == [second.digest, first.digest]
    assert store.find(f"l5-data:{first.version}").digest == first.digest
    assert store.find("l5-data:train").digest == second.digest


def test_all_names_of_a_project_are_listed(store, described):
    store.log(described, "one")
    store.log(described, "two")
    assert sorted(one.name for one in store.list()) == ["one", "two"]


def test_by_reference_the_store_has_the_manifest_only(store, city, described, tmp_path):
    logged = store.log(described, "l5-data", reference=city.as_uri())
    assert (logged.is_reference, logged.location) == (True, city.as_uri())
    store.get("l5-data", tmp_path / "out")
    assert files_below(tmp_path / "out") == files_below(city)


def test_what_is_not_what_was_logged_never_takes_the_place(store, copied_city, tmp_path):
    store.log(describe_dataset(copied_city), "l5-data", reference=copied_city.as_uri())
    changed(copied_city)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(CorruptedDataError, match=r"differs from the logged version.* 1 changed \(meta.json\)"):
        store.get("l5-data", tmp_path / "out")
    (copied_city / "meta.json").unlink()
    with pytest.raises(OSError, match=r"meta\.json could not be read from file:"):
        store.get("l5-data", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_manifest_of_other_data_than_the_version_tells_is_refused(store, described, tmp_path, monkeypatch):
    other = dataclasses.replace(store.log(described, "l5-data"), digest="0" * 64)
    monkeypatch.setattr(type(store), "find", lambda self, name: other)
    for ask in (lambda: store.read_manifest("l5-data"), lambda: store.get("l5-data", tmp_path / "out")):
        with pytest.raises(CorruptedDataError, match=r"manifest\.json of l5-data:.* one of them was changed"):
            ask()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["l5-data:nope", "other", "other:v0"])
def test_what_is_not_there_is_named(store, described, tmp_path, name):
    store.log(described, "l5-data")
    with pytest.raises(ArtifactNotFoundError, match=f"there is no {name}"):
        store.get(name, tmp_path / "out")


def test_a_folder_that_holds_files_is_refused(store, described, tmp_path):
    store.log(described, "l5-data")
    (tmp_path / "out").mkdir()
    store.get("l5-data", tmp_path / "out")
    with pytest.raises(InvalidArgumentError, match="which holds files"):
        store.get("l5-data", tmp_path / "out")


def test_use_fetches_once_and_again_where_the_cache_has_lost_something(store, city, described, monkeypatch):
    store.log(described, "l5-data")
    place = store.use("l5-data")
    assert files_below(place) == files_below(city)
    with monkeypatch.context() as patch:
        patch.setattr(type(store), "_fetch_verified", None)
        (place / "scenes" / "sample.zarr" / "agents_mask").mkdir()  # as `l5kit mask --store` does
        (place / "scenes" / "sample.zarr" / "agents_mask" / "0").write_bytes(b"mask")
        assert store.use("l5-data:latest") == place
    (place / "meta.json").unlink()
    assert store.use("l5-data") == place
    assert files_below(place) == files_below(city)


def test_use_fetches_again_what_was_changed_in_the_cache(store, city, described):
    store.log(described, "l5-data")
    place = store.use("l5-data")
    content = (place / "meta.json").read_bytes()
    (place / "meta.json").write_bytes(bytes(len(content)))
    assert store.use("l5-data") == place
    assert files_below(place) == files_below(city)


def test_use_proves_that_a_folder_has_the_data(store, city, described, copied_city):
    store.log(described, "l5-data")
    assert store.use("l5-data", copied_city) == copied_city
    (changed(copied_city) / "more.txt").write_text("x")
    with pytest.raises(CorruptedDataError, match=r"1 changed \(meta.json\), 1 extra \(more.txt\)"):
        store.use("l5-data", copied_city)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": "a b"}, "name is 'a b'"),
        ({"aliases": ["a/b"]}, "aliases is 'a/b'"),
        ({"aliases": ["v12"]}, "reserved for versions"),
        ({"reference": "/data/city"}, "must be a URL"),
    ],
)
def test_what_cannot_be_logged_is_refused(store, described, options, text):
    with pytest.raises(InvalidArgumentError, match=text):
        store.log(described, **({"name": "l5-data"} | options))
    assert store.list() == ()


def test_a_training_on_other_data_is_not_linked(store, city, described, copied_city, tmp_path):
    store.log(described, "l5-data")
    with pytest.raises(InvalidArgumentError, match="name the version that was trained on"):
        link_training(make_training(tmp_path / "a"), store, "l5-data", data=describe_dataset(changed(copied_city)))
    other = make_training(tmp_path / "b", data={"path": "x", "digest": "0" * 64, "num_scenes": 3})
    with pytest.raises(InvalidArgumentError, match="neither it nor a log in it has the digest 000"):
        link_training(other, store, "l5-data")
    log = {"path": "x", "digest": dataset_digest(city / "scenes" / "sample.zarr"), "num_scenes": 3}
    assert link_training(make_training(tmp_path / "c", data=log), store, "l5-data", data=described)


def test_a_training_without_weights_is_not_linked(store, training, described):
    store.log(described, "l5-data")
    (training / "planner.safetensors").unlink()
    with pytest.raises(InvalidArgumentError, match="which has no weights"):
        link_training(training, store, "l5-data")


# MLflow.


def test_mlflow_has_a_version_of_the_same_data_once(mlflow_store, described):
    assert mlflow_store.log(described, "l5-data").version == "v0"
    assert mlflow_store.log(described, "l5-data", aliases=["train"]).aliases == ("latest", "train")
    assert [one.version for one in mlflow_store.list()] == ["v0"]
    assert mlflow_store.log(described, "l5-data", reference="s3://bucket/city").version == "v1"


def test_mlflow_shows_no_version_that_was_broken_off(mlflow_store, described, monkeypatch):
    from mlflow import MlflowClient

    def fail(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifact", fail)
        with pytest.raises(OSError, match="MLflow: the disk is full"):
            mlflow_store.log(described, "l5-data")
    assert mlflow_store.list() == ()
    assert mlflow_store.log(described, "l5-data").version == "v0"


def test_mlflow_links_the_training(mlflow_store, described, training):
    from mlflow import MlflowClient

    logged = mlflow_store.log(described, "l5-data")
    run_id = link_training(training, mlflow_store, "l5-data").rpartition("/")[2]
    run = MlflowClient().get_run(run_id)
    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("l5-data:v0", logged.digest[:36])
    assert json.loads(used.dataset.source)["digest"] == logged.digest
    assert run.data.tags["l5kit.dataset_digest"] == logged.digest
    assert run.data.metrics == {"num_steps": 5.0, "minutes": 0.5}
    names = {file.path for file in MlflowClient().list_artifacts(run_id, "model")}
    assert names == {"model/config.yaml", "model/planner.safetensors", "model/result.json"}


# The hub.


def test_the_hub_pins_commits(hub, hub_store, described, copied_city):
    first = hub_store.log(described, "l5-data", aliases=["train"])
    repository = hub.repositories["datasets", "team/l5-data"]
    assert first.version == repository.commits[-1].id
    hub_store.log(describe_dataset(changed(copied_city)), "l5-data", aliases=["train"])
    assert hub_store.find("l5-data:main").version == repository.commits[-1].id
    assert hub_store.find(f"l5-data:{first.version}").digest == first.digest
    assert first.location == f"hf://datasets/team/l5-data@{first.version}"


def test_the_hub_loses_files_that_a_version_has_no_more(hub, hub_store, described, copied_city, tmp_path):
    hub_store.log(described, "l5-data")
    (copied_city / "meta.json").unlink()
    hub_store.log(describe_dataset(copied_city), "l5-data")
    files = hub.repositories["datasets", "team/l5-data"].commits[-1].files
    assert {name for name in files if name.startswith("data/")} == {f"data/{n}" for n in files_below(copied_city)}


def test_commits_of_others_are_no_versions(hub, hub_store, described):
    from support.hub_server import Commit

    logged = hub_store.log(described, "l5-data")
    repository = hub.repositories["datasets", "team/l5-data"]
    repository.commits.append(Commit("f" * 40, "Edit the page", dict(repository.commits[-1].files)))
    assert [one.version for one in hub_store.list("l5-data")] == [logged.version]
    assert hub_store.find("l5-data").digest == logged.digest


def test_a_damaged_file_of_the_hub_is_found(hub, hub_store, described, tmp_path):
    hub_store.log(described, "l5-data")
    files = hub.repositories["datasets", "team/l5-data"].commits[-1].files
    files["data/meta.json"] = files["data/meta.json"][:-3] + b"  }"
    with pytest.raises(CorruptedDataError, match=r"meta\.json"):
        hub_store.get("l5-data", tmp_path / "out")
    files["manifest.json"] = files["manifest.json"].replace(b'"meta.json"', b'"../meta.json"')
    with pytest.raises(ValueError, match=r"meta\.json"):
        hub_store.get("l5-data", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "meta.json").exists()


def test_the_hub_links_the_training(hub, hub_store, described, training):
    logged = hub_store.log(described, "l5-data")
    link_training(training, hub_store, "l5-data")
    files = hub.repositories["models", "team/my-planner"].commits[-1].files
    assert {"planner.safetensors", "config.yaml", "result.json"} < set(files)
    assert "last.ckpt" not in files
    assert b"datasets:\n- team/l5-data\n" in files["README.md"]
    facts = json.loads(files["l5kit.json"])
    assert (facts["dataset_revision"], facts["dataset_digest"]) == (logged.version, logged.digest)


def test_a_hub_that_is_not_there_is_an_error_of_the_store(described, tmp_path):
    from l5kit.artifacts.hub_store import HubStore
    from l5kit.data.artifact import ArtifactStoreError

    with pytest.raises(ArtifactStoreError, match="Hugging Face hub: "):
        HubStore("team", endpoint="http://127.0.0.1:9").find("l5-data")


# Places in one text.


def test_a_place_is_read(mlflow_store, described):
    mlflow_store.log(described, "l5-data")
    in_use = DatasetInUse.parse("mlflow:driving/l5-data:v0")
    assert (in_use.service, in_use.project, in_use.dataset) == ("mlflow", "driving", "l5-data:v0")
    with pytest.raises(ArtifactNotFoundError, match="l5-data:v7"):
        DatasetInUse.parse("mlflow:driving/l5-data:v7")


@pytest.mark.parametrize("text", ["l5-data:v0", "mlflow:l5-data", "ftp:driving/l5-data"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(InvalidArgumentError, match="must be SERVICE:PROJECT/NAME:ALIAS"):
        DatasetInUse.parse(text)


@pytest.mark.parametrize(
    ("service", "library", "extra"),
    [("wandb", "wandb", "wandb"), ("mlflow", "mlflow", "mlflow"), ("hub", "huggingface_hub", "hub")],
)
def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch, service, library, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"l5kit.artifacts.{service}_store", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependencyError, match=re.escape(install_command(extra))):
        open_store(service, "driving")


def test_a_module_that_its_library_lacks_is_told_as_it_is(monkeypatch):
    monkeypatch.delitem(sys.modules, "l5kit.artifacts.hub_store", raising=False)
    monkeypatch.setitem(sys.modules, "l5kit.artifacts.hub_store", None)
    with pytest.raises(ModuleNotFoundError, match="hub_store") as caught:
        open_store("hub", "driving")
    assert not isinstance(caught.value, MissingDependencyError)


def test_services_are_named():
    with pytest.raises(UnsupportedValueError, match="wandb, mlflow, hub"):
        open_store("dvc", "driving")
