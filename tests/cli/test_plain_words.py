"""Errors of the command are in words that can be typed, not in those of Python."""

import itertools
import re

import pytest

from l5kit.cli.reporting import in_plain_words

OF_PYTHON = re.compile(
    r"\bslice\(|\bnp\.\w+\(|\b\w+=(?:True|False|None)\b|Path\(|<class |\bdtype\(|\barray\(|,\)| object at 0x|"
    r"\b[a-z]+_[a-z_]+ (?:is|must be)\b|\bNone\b|\bTrue\b|\bFalse\b"
)
FAMILY = {
    "simulate LOG --out OUT": (
        *("--scenes 500:600", "--scenes 1:1", "--scenes :0", "--scenes 3", "--start-frame 9999", "--frames 0"),
        *("--moves no", "--planner no", "--agents no", "--planner no.py", "--planner no.py:Me", "--truth FULL"),
        *("--map no", "--batch-size 0", "--workers -1", "--workers 99999", "--engine no", "--address here:1"),
        *("--config no", "--workflow no", "--agents-set no", "--planner FULL", "--agents FULL", "--out FULL"),
    ),
    "render LOG --out frame.png": (
        *("--frame 99999", "--scene 999", "--agent 7777777", "--frames 5:9", "--pixel-size -1", "--pixel-size nan"),
        *("--size 0x0", "--size 9", "--out FULL", "--out frame.doc", "--map no", "--plans", "--fps 3"),
    ),
    "render LOG --out film.gif": ("--frames 500:600", "--frames 5:5", "--frame 3", "--fps 0", "--frames no"),
    "record LOG --out scene.mcap": ("--scene 999", "--map-radius -1", "--map-radius nan", "--meta no", "--out FULL"),
    "chop LOG --out OUT": (
        "--frames 0",
        "--future 0",
        "--min-future 999",
        "--probability nan",
        "--out FULL",
        "--job FULL",
    ),
    "synth FULL": ("", "--scenes 0", "--density nan", "--town-size nan", "--seed -1", "--overwrite", "--frames 0"),
    "resample LOG FULL": ("", "--step 0", "--step nan", "--workers -1"),
    "export LOG FULL": ("", "--layout no", "--overwrite"),
    "info LOG --job FULL": ("--statistics", "--map no"),
    "mask LOG --job FULL": ("", "--yaw nan", "--probability 3", "--distance -1"),
    "import womd FULL OUT": ("", "--max-scenes 0", "--engine no"),
    "view LOG": ("--export FULL", "--scene 999 --export page.html", "--predictions no", "--port 99999"),
    "train vector_planner --data FULL": ("", "--out FULL", "--set train_params=3", "--seeds 0", "--sweep no"),
    "train-rl --data FULL": ("", "--out FULL", "--minutes no", "--set rl_params.gamma=7", "--resume"),
    "checkpoint info FULL": ("", "--workflow no"),
    "evaluate FULL": ("", "--horizons no", "--worst -1"),
}


@pytest.mark.parametrize("base", FAMILY)
def test_no_error_of_a_family_of_wrong_calls_speaks_python(l5kit, city, tmp_path, monkeypatch, base):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of.txt").touch()
    names = {"LOG": city / "scenes" / "sample.zarr", "OUT": tmp_path / "out", "FULL": tmp_path / "full"}
    told = {}
    for wrong in FAMILY[base]:
        words = [str(names.get(word, word)) for word in (*base.split(), *wrong.split())]
        done = l5kit(*words)
        assert done.exit_code in (1, 2), wrong
        assert "no such option" not in done.stderr
        told[wrong] = done.stderr.replace(str(tmp_path), "").replace(str(city), "")
    assert {wrong: text for wrong, text in told.items() if OF_PYTHON.search(text)} == {}


FLAGS = {"out": "--out", "overwrite": "--overwrite", "scenes": "--scenes", "path": "PATH"}


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        ("folder is 'x', which holds files", "--out is 'x', which holds files"),
        ("scenes (--scenes) is slice(50, 60, None); it", "--scenes is 50:60; it"),
        ("scenes is slice(None, 5, 2)", "--scenes is :5:2"),
        ("choose another, or pass overwrite=True", "choose another, or pass --overwrite"),
        ("there, or replace it (overwrite=True)", "there, or replace it (--overwrite)"),
        ("got np.float64(0.5)", "got 0.5"),
        ("the shape is (3,)", "the shape is 3"),
        ("it lies in PosixPath('a/b')", "it lies in 'a/b'"),
        ("path must be a folder", "PATH must be a folder"),
        ("device must be known, pass allow_pickle=True", "device must be known, pass allow_pickle=True"),
        ("fewer scenes (--max-scenes), or others", "fewer scenes (--max-scenes), or others"),
        ("a folder is 'x'", "a folder is 'x'"),
    ],
)
def test_arguments_become_options_and_values_plain(message, plain):
    assert in_plain_words(message, FLAGS) == plain


def test_a_message_without_arguments_stays():
    for words in itertools.permutations(("no dataset", "at 'x'", "look again")):
        assert in_plain_words("; ".join(words), FLAGS) == "; ".join(words)
