"""The table of frames, read scene by scene."""

import numpy as np
import pytest

from l5kit.errors import CorruptedDataError
from l5kit.simulation.folder.frame_table import FrameTable


def table(folder, text):
    path = folder / "frames.csv"
    path.write_text(text)
    return FrameTable(path)


def test_a_scene_has_its_rows_with_nan_where_nothing_is_known(tmp_path):
    frames = table(tmp_path, "scene,frame,kind\n3,0,front\n3,1,\n12,0,2.5\n1,7,-1\n")
    of_scenes = {scene: frames.columns_of(scene) for scene in (12, 3, 1)}
    assert of_scenes[12]["kind"].tolist() == [2.5]
    assert of_scenes[3]["frame"].tolist() == [0, 1]
    assert np.isnan(of_scenes[3]["kind"]).all()
    assert of_scenes[1]["frame"].tolist() == [7]


def test_a_scene_that_the_table_lacks_has_no_rows(tmp_path):
    columns = table(tmp_path, "frame,scene\n0,3\n").columns_of(4)
    assert {name: values.tolist() for name, values in columns.items()} == {"frame": [], "scene": []}


def test_ids_of_tracks_keep_all_their_digits(tmp_path):
    frames = table(tmp_path, f"scene,frame,collision_track\n0,1,{2**64 - 1}\n0,2,\n0,3,{2**53 + 1}\n0,4\n1,0,5\n")
    assert frames.tracks_of(0) == [2**64 - 1, None, 2**53 + 1, None]
    assert frames.tracks_of(2) == []
    assert list(frames.columns_of(0)) == ["scene", "frame"]
    assert table(tmp_path, "scene,frame\n0,1\n").tracks_of(0) == [None]
    appeared = table(tmp_path, f"scene,appeared_track\n0,{2**64 - 1}\n0,\n")
    assert appeared.tracks_of(0, "appeared_track") == [2**64 - 1, None]
    assert list(appeared.columns_of(0)) == ["scene"]


def test_a_line_that_is_cut_off_has_no_values(tmp_path):
    columns = table(tmp_path, "scene,frame,speed\n0,1,2\n0,2\n").columns_of(0)
    assert columns["frame"].tolist() == [1, 2]
    np.testing.assert_array_equal(columns["speed"], [2, np.nan])


@pytest.mark.parametrize(
    ("text", "message"), [("frame,time\n0,1\n", "no column 'scene'"), ("scene,frame\nx,1\n", "has the scene b'x'")]
)
def test_a_table_that_cannot_be_told_apart_is_refused(tmp_path, text, message):
    with pytest.raises(CorruptedDataError, match=message):
        table(tmp_path, text).columns_of(0)
