"""Folder of the page: complete, small, and without foreign content."""

import dataclasses
import gzip
import json
import re

import pytest

from l5kit.closedloop.page_policies import page_policy
from l5kit.data.dataset_files import DatasetFiles, find_dataset_files
from l5kit.errors import IndexOutOfRangeError, InvalidArgumentError
from l5kit.evaluation.driving.record_faults import RecordFault
from l5kit.visualization.drive.drive_folder import drive_page_files, write_drive_folder
from support.cities import NUM_SCENES


@pytest.fixture(scope="module")
def folder(city, tmp_path_factory):
    """The page of the city, never written to."""
    target = tmp_path_factory.mktemp("page") / "drive"
    return write_drive_folder(target, find_dataset_files(city), name="A <city>")


def test_all_files_together_are_below_five_megabytes_zipped(folder):
    contents = [path.read_bytes() for path in folder.path.rglob("*") if path.is_file()]
    assert folder.num_bytes == sum(map(len, contents))
    assert folder.num_zipped_bytes < 5e6
    assert folder.num_zipped_bytes <= sum(min(len(each), len(gzip.compress(each)) + 64) for each in contents)


def test_the_list_names_the_scenes_and_their_files(folder):
    content = json.loads((folder.path / "data" / "drives.json").read_text("utf-8"))
    assert content["name"] == "A <city>"
    assert [each["scene"] for each in content["scenes"]] == list(range(NUM_SCENES)) == list(folder.scenes)
    named = [each["file"] for each in content["scenes"]] + [content["map"], content["road"]]
    assert {"drives.json", *named} == {path.name for path in (folder.path / "data").iterdir()}


def test_the_page_finds_all_that_its_scripts_import(folder):
    page = (folder.path / "index.html").read_text("utf-8")
    (imports,) = re.findall(r'<script type="importmap"[^>]*>(.*?)</script>', page)
    addresses = json.loads(imports)["imports"]
    assert {address.removeprefix("./scripts/") for address in addresses.values()} == {
        path.name for path in (folder.path / "scripts").iterdir()
    }
    for file in drive_page_files():
        if file.specifier.startswith("l5kit/"):
            imported = re.findall(r"""\b(?:from|import) ["']([^"']+)["']""", file.content.decode("utf-8"))
            assert set(imported) <= addresses.keys(), file.specifier
    assert "https://" not in re.sub(r"http://www\.w3\.org/\S+", "", page), "nothing is fetched from elsewhere"


def test_libraries_that_the_page_does_not_need_are_left_out():
    assert "uplot" not in {file.specifier for file in drive_page_files()}


def test_the_policy_is_a_file_of_the_folder_where_steps_are_as_long_as_its_own(city, policy, tmp_path):
    files, known = find_dataset_files(city), page_policy(policy, name="route_policy")
    written = write_drive_folder(tmp_path / "page", files, name="city", scenes=[0], policy=known)
    content = json.loads((written.path / "data" / "drives.json").read_text("utf-8"))
    assert content["policy"] == {"name": "route_policy", "file": "policy.bin"}
    assert len(gzip.decompress((written.path / "data" / "policy.bin").read_bytes())) < 250_000
    other = dataclasses.replace(known, step_time_s=0.2)
    written = write_drive_folder(
        tmp_path / "page", files, name="city", scenes=[0], policy=other, overwrite=True
    )  # which knows the file of the policy as its own
    assert json.loads((written.path / "data" / "drives.json").read_text("utf-8"))["policy"] is None
    assert not (written.path / "data" / "policy.bin").exists()


def test_some_scenes_alone(city, tmp_path):
    written = write_drive_folder(tmp_path / "page", find_dataset_files(city), name="city", scenes=[2, 0, 2])
    assert written.scenes == (0, 2)
    assert not (written.path / "data" / "scene-1.bin").exists()


def test_a_page_is_replaced_only_when_asked_for(city, tmp_path):
    files = find_dataset_files(city)
    write_drive_folder(tmp_path / "page", files, name="city", scenes=[0])
    with pytest.raises(InvalidArgumentError, match="exists; choose another one, or pass overwrite"):
        write_drive_folder(tmp_path / "page", files, name="city", scenes=[1])
    written = write_drive_folder(tmp_path / "page", files, name="city", scenes=[1], overwrite=True)
    assert {path.name for path in (written.path / "data").glob("scene-*")} == {"scene-1.bin"}


def test_a_folder_with_something_else_is_never_replaced(city, tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="folder \\(--out\\) is"):
        write_drive_folder(tmp_path / "page", find_dataset_files(city), name="city", overwrite=True)
    assert (tmp_path / "page" / "thesis.txt").read_text() == "mine"


def test_a_scene_that_is_not_there_is_refused(city, tmp_path):
    with pytest.raises(IndexOutOfRangeError, match=r"scenes are \[7\]; the log has 3 scenes"):
        write_drive_folder(tmp_path / "page", find_dataset_files(city), name="city", scenes=[7])


def test_a_scene_with_a_fault_is_refused(city, tmp_path, monkeypatch):
    fault = RecordFault(7, None, "the AV is nowhere")
    monkeypatch.setattr("l5kit.visualization.drive.drive_folder.find_record_fault", lambda records: fault)
    with pytest.raises(InvalidArgumentError, match=r"frame 7: the AV is nowhere; exclude it \(--scene\)"):
        write_drive_folder(tmp_path / "page", find_dataset_files(city), name="city")
    assert not (tmp_path / "page").exists()


def test_a_log_without_a_map_is_refused(city, tmp_path):
    files = DatasetFiles(find_dataset_files(city).dataset, None, None, None, ())
    with pytest.raises(InvalidArgumentError, match="has no semantic map with lanes"):
        write_drive_folder(tmp_path / "page", files, name="city")
    assert not (tmp_path / "page").exists()
