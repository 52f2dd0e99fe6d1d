"""Readers of files of the user: loaded by name, here and by workers."""

import pickle
import textwrap

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import InvalidArgumentError
from l5kit.readers.formats import ReaderOptions, open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.parts import part_path

LINES = """
    from __future__ import annotations

    from dataclasses import dataclass
    from pathlib import Path

    import numpy as np

    from l5kit.readers import (
        SceneRef, SourceEgo, SourceInfo, SourceLane, SourceLights, SourceMap, SourceScene, SourceTracks
    )


    @dataclass(frozen=True)
    class Lines:
        source: Path

        @property
        def info(self):
            return SourceInfo("lines", "1", "mine", 0.1, label_mapping={"car": "PERCEPTION_LABEL_CAR"})

        def list_scenes(self):
            return [SceneRef("train", path.stem, path.name) for path in sorted(self.source.glob("*.csv"))]

        def read(self, ref):
            x_m = np.loadtxt(self.source / ref.file)
            steps = len(x_m)
            none = np.zeros((0, steps))
            return SourceScene(
                name=ref.name,
                timestamps_ns=1_600_000_000_000_000_000 + np.arange(steps) * 100_000_000,
                ego=SourceEgo(np.stack([x_m, 0 * x_m, 0 * x_m], axis=-1), 0 * x_m, np.array([4.9, 1.9, 1.5])),
                tracks=SourceTracks(
                    ids=[],
                    classes=[],
                    is_valid=none.astype(bool),
                    positions_m=np.zeros((0, steps, 2)),
                    yaws_rad=none,
                    velocities_mps=np.zeros((0, steps, 2)),
                    sizes_m=np.zeros((0, 3)),
                ),
                lights=SourceLights.none(steps),
                map=SourceMap("road", [SourceLane("1", np.array([[-9.0, 0, 0], [99, 0, 0]]))]),
            )

    number = 3

    def other(source):
        return "no reader"
"""


@pytest.fixture
def lines(tmp_path):
    """A file with a reader, and a folder with one scene of twelve frames."""
    (tmp_path / "lines.py").write_text(textwrap.dedent(LINES))
    (tmp_path / "source").mkdir()
    np.savetxt(tmp_path / "source" / "first.csv", np.arange(12.0))
    return tmp_path


@pytest.mark.parametrize("workers", [None, 2])
def test_a_reader_of_a_file_imports(lines, workers, monkeypatch):
    monkeypatch.chdir(lines)
    reader = open_reader("lines.py:Lines", "source")
    result = import_dataset(reader, "out", workers=workers)
    assert result.info.dataset == "lines"
    log = ChunkedDataset(str(result.scenes["train"])).open()
    assert log.frames["ego_translation"][:, 0].tolist() == list(range(12))


def test_a_reader_is_loaded_again_where_it_is_sent(lines, monkeypatch):
    monkeypatch.chdir(lines)
    sent = pickle.dumps(open_reader("lines.py:Lines", "source"))
    monkeypatch.chdir(lines.parent)
    reader = pickle.loads(sent)
    (ref,) = reader.list_scenes()
    assert reader.source == lines / "source"
    assert len(reader.read(ref).timestamps_ns) == 12


def test_parts_of_other_code_are_others(lines):
    first = open_reader(f"{lines}/lines.py:Lines", lines / "source")
    again = open_reader(f"{lines}/lines.py:Lines", lines / "source")
    (lines / "lines.py").write_text(textwrap.dedent(LINES) + "# changed\n")
    other = open_reader(f"{lines}/lines.py:Lines", lines / "source")
    (ref,) = first.list_scenes()
    paths = [part_path(lines, reader, ref) for reader in (first, again, other)]
    assert paths[0] == paths[1] != paths[2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "makes str; a reader has source, info, list_scenes, read, and it lacks source, info, list_scenes"),
        ("Nobody", r"lines\.py has no Nobody; give a reader, or a class or function"),
        ("number", "makes int; a reader has"),
    ],
)
def test_what_is_no_reader_is_refused(lines, name, message):
    with pytest.raises(InvalidArgumentError, match=message):
        open_reader(f"{lines}/lines.py:{name}", lines / "source")


def test_a_reader_that_takes_no_folder_is_named(lines):
    (lines / "none.py").write_text("class None_:\n    pass\n")
    with pytest.raises(InvalidArgumentError, match=r"could not be called with .*source.*; give a function"):
        open_reader(f"{lines}/none.py:None_", lines / "source")
    with pytest.raises(FileNotFoundError, match=r"no file .*gone\.py"):
        open_reader(f"{lines}/gone.py:Lines", lines / "source")


def test_options_of_formats_are_refused(lines):
    with pytest.raises(InvalidArgumentError, match="have no such option; only scenarionet has"):
        open_reader(f"{lines}/lines.py:Lines", lines / "source", ReaderOptions(joins_windows=True))
