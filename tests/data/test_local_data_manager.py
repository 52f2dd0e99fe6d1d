from pathlib import Path

import pytest

from l5kit.data import DataManager, LocalDataManager
from l5kit.data.local_data_manager import L5KIT_DATA_FOLDER_ENV_KEY


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scenes").mkdir()
    (tmp_path / "meta.json").write_text("{}")
    return tmp_path


def test_finds_files_and_folders(folder):
    manager = LocalDataManager(str(folder))
    assert isinstance(manager, DataManager)
    assert manager.root_folder == folder
    assert manager.require("meta.json") == str(folder / "meta.json")
    assert LocalDataManager(folder).require("scenes") == str(folder / "scenes")


def test_a_missing_file_is_named(folder):
    with pytest.raises(FileNotFoundError, match=r"aerial_map\.png"):
        LocalDataManager(folder).require("aerial_map/aerial_map.png")


def test_what_lies_where_a_file_is_missing_is_told(folder):
    for name in "edcba":
        (folder / "scenes" / f"{name}.zarr").mkdir()
    (folder / "scenes" / "text.txt").touch()
    with pytest.raises(
        FileNotFoundError, match=r"train\.zarr does not exist, but there is a\.zarr, b\.zarr, c\.zarr, d\.zarr; check"
    ):
        LocalDataManager(folder).require("scenes/train.zarr")
    with pytest.raises(FileNotFoundError, match=r"train\.zarr does not exist; check"):
        LocalDataManager(folder).require("nowhere/train.zarr")


def test_the_environment_names_the_folder(folder, monkeypatch):
    monkeypatch.setenv(L5KIT_DATA_FOLDER_ENV_KEY, str(folder))
    assert LocalDataManager().require("meta.json") == str(folder / "meta.json")
    assert LocalDataManager("elsewhere").root_folder == Path("elsewhere")


def test_no_folder_is_a_value_error(monkeypatch):
    monkeypatch.delenv("L5KIT_DATA_FOLDER", raising=False)
    with pytest.raises(ValueError, match="L5KIT_DATA_FOLDER"):
        LocalDataManager()


def test_b16_the_empty_text_is_the_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert LocalDataManager("").require("meta.json") == "meta.json"
    monkeypatch.setenv("L5KIT_DATA_FOLDER", "")
    assert LocalDataManager().root_folder == Path()
    assert LocalDataManager("does/not/exist").root_folder == Path("does/not/exist")


def test_the_base_class_is_abstract():
    with pytest.raises(TypeError):
        DataManager()


def test_repr_tells_the_folder(folder):
    assert repr(LocalDataManager(folder)) == f"LocalDataManager({str(folder)!r})"
