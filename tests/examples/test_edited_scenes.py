"""The example that tests planners on edited scenes."""

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "edited_scenes.py"


def test_a_table_has_a_row_for_each_edit_and_a_column_for_each_planner(split_city, tmp_path, monkeypatch, capsys):
    arguments = ["--data", split_city / "scenes" / "train.zarr", "--out", tmp_path, "--planners", "replay,rules"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, arguments), "--frames", "20"])
    edits = runpy.run_path(str(EXAMPLE), run_name="__main__")["EDITS"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["replay", "rules"]
    assert [line[:28].strip() for line in lines[1:-1]] == ["as logged", *edits]
    assert lines[1].count(" of 1") == 2
    assert (tmp_path / "a_parked_bus" / "data" / "edits.json").is_file()
