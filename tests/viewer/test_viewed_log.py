"""A dataset as the page asks for it."""

import shutil
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("tornado")

from l5kit.errors import L5KitError
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog
from synthetic_city import NUM_SCENES


def test_the_row_of_a_scene_is_that_of_the_table(city_files):
    log = ViewedLog(city_files)
    columns = log.scene_columns
    for index in range(NUM_SCENES):
        row = log.scene_row(index)
        assert row.pop("error") == {}
        assert row == {name: [values[index]] for name, values in columns.items() if name != "error"}


def test_reading_the_table_ends_when_the_log_is_closed(city_files):
    log = ViewedLog(city_files)
    log.close()
    with pytest.raises(L5KitError, match="the viewer has been closed"):
        log.scene_columns  # noqa: B018


def test_a_map_that_cannot_be_read_is_not_offered_for_samples(city_files, tmp_path):
    damaged = tmp_path / "semantic_map.pb"
    shutil.copy(city_files.semantic_map, damaged)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    log = ViewedLog(replace(city_files, semantic_map=damaged))
    assert not log.facts()["has_map"]
    assert "semantic" not in log.sample_kinds
    assert any("the map is left out" in note for note in log.notes)
    assert ViewedLog(city_files).sample_kinds[0] == "semantic"


def test_the_log_is_closed_with_its_server(city_files, monkeypatch):
    log, closed = ViewedLog(city_files), []
    monkeypatch.setattr(log, "close", lambda: closed.append(True))
    with ViewerServer(log):
        assert closed == []
    assert closed == [True]
