"""Columns of the tables."""

import re
from pathlib import Path

import numpy as np
import pytest

from l5kit.closedloop.tables import FRAME_COLUMNS, SCENE_COLUMNS, frame_columns, frame_dtype_of, write_table


def test_tracks_are_known_where_there_is_a_collision_whatever_their_ids(tmp_path):
    rows = np.zeros(3, frame_dtype_of(FRAME_COLUMNS))
    rows["collision_track"] = [2**63 + 5, 0, 7]
    rows["collision_at_fault"] = [1, 0, -1]
    columns = frame_columns(rows)
    assert columns["collision_track"] == [2**63 + 5, 0, None]
    assert columns["collision_at_fault"] == [1, 0, None]
    with write_table(tmp_path / "frames.csv", FRAME_COLUMNS, with_parquet=False) as table:
        table.append(columns)
    place = list(FRAME_COLUMNS).index("collision_track")
    lines = (tmp_path / "frames.csv").read_text().splitlines()[1:]
    assert [line.split(",")[place] for line in lines] == ["9223372036854775813", "0", ""]


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        pytest.param("frames.csv", FRAME_COLUMNS, id="frames"),
        pytest.param("scenes.csv", SCENE_COLUMNS, id="scenes"),
    ],
)
def test_the_document_explains_all_columns_in_their_order(file, columns):
    document = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "simulate.md").read_text("utf-8")
    table = document.split(f"### Columns of `{file}`\n\n")[1].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines()]
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == list(columns)
