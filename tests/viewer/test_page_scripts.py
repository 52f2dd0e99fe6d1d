"""The scripts of the page: their unit tests, which node runs, and their types against what Python sends them."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from l5kit.visualization.map_shapes import read_map_shapes
from l5kit.visualization.scene_content import read_scene_content
from l5kit.visualization.viewer.content_bytes import lane_bytes, map_bytes, scene_bytes
from l5kit.visualization.viewer.page_files import page_files
from l5kit.visualization.viewer.prediction_matches import prediction_bytes
from l5kit.visualization.viewer.predictions import Predictions
from l5kit.visualization.viewer.viewed_log import ViewedLog
from support.node import node

ROOT = Path(__file__).resolve().parents[2]
UNIT_TESTS = sorted((ROOT / "tests" / "viewer" / "page").glob("*.test.js"))
SCRIPTS = {file.specifier: file.content.decode("utf-8") for file in page_files()}
OWN = {specifier: text for specifier, text in SCRIPTS.items() if specifier.startswith("l5kit/")}


@pytest.mark.process
def test_the_unit_tests_of_the_scripts_pass():
    command = [node(), "--test", "--test-reporter=tap", *map(str, UNIT_TESTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300)
    counts = {name: int(number) for name, number in re.findall(r"^# (pass|fail|cancelled) (\d+)$", done.stdout, re.M)}
    failed = re.findall(r"^ *not ok .*?^ *\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    assert done.returncode == 0, "\n".join([*failed, done.stderr])
    assert counts["fail"] == counts["cancelled"] == 0
    assert counts["pass"] > len(UNIT_TESTS), "files without tests"


@pytest.mark.parametrize("test", UNIT_TESTS, ids=lambda path: path.name)
def test_unit_tests_have_the_name_of_their_script(test):
    assert f"l5kit/{test.name.removesuffix('.test.js')}" in OWN


@pytest.mark.parametrize("specifier", OWN)
def test_scripts_import_what_the_page_has(specifier):
    imported = re.findall(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""", OWN[specifier])
    assert set(imported) <= SCRIPTS.keys()


def test_types_are_those_of_the_libraries_that_the_page_loads():
    pinned = json.loads((ROOT / "package.json").read_text("utf-8"))["devDependencies"]
    assert SCRIPTS["uplot"].count(f"(v{pinned['uplot']})") == 1
    assert f"PixiJS {pinned['pixi.js']} " in SCRIPTS["pixi.js"].partition("\n")[0]


# The types of what is sent


def properties(script, name):
    """Types of an object by name, as the comments of a script declare them."""
    pattern = rf"\* @typedef {{object}} {name}\b.*?\*/"
    (block,) = re.findall(pattern, SCRIPTS[script], re.DOTALL)
    return {key: kind for kind, key in re.findall(r"@property {(.+?)} \[?(\w+)\]?(?: |$)", block, re.MULTILINE)}


def array_types(arrays):
    return {name: f"{array.dtype.name.title()}Array" for name, array in arrays.items()}


def test_the_scene_that_is_sent_has_the_declared_facts_and_arrays(city_log, city_map, unpack):
    scene = unpack(scene_bytes(read_scene_content(city_log, 0, map_api=city_map)))
    assert properties("l5kit/unpack", "SceneFacts").keys() == scene.facts.keys()
    assert properties("l5kit/unpack", "SceneArrays") == array_types(scene.arrays)


def test_the_drive_that_is_sent_has_the_declared_facts_and_arrays(driven_view, unpack):
    drive = unpack(driven_view.drive_bytes(0))
    assert properties("l5kit/unpack", "DriveFacts").keys() == drive.facts.keys()
    of_curves = {curve["key"]: "Float32Array" for curve in drive.facts["curves"]}
    assert properties("l5kit/unpack", "DriveArrays") | of_curves == array_types(drive.arrays)
    for name, declared in (("metrics", "MetricValue"), ("curves", "Curve")):
        assert properties("l5kit/unpack", declared).keys() == drive.facts[name][0].keys()
    assert properties("l5kit/unpack", "Failure").keys() == drive.facts["failures"][0].keys()


def test_predictions_that_are_sent_have_the_declared_facts_and_arrays(city_log, unpack):
    predictions = Predictions.of_arrays([1], [2], np.zeros((1, 3, 2)))
    packed = unpack(prediction_bytes(predictions, read_scene_content(city_log, 0, map_api=None)))
    assert properties("l5kit/unpack", "PredictionFacts").keys() == packed.facts.keys()
    assert properties("l5kit/unpack", "PredictionArrays") == array_types(packed.arrays)


def test_the_map_that_is_sent_has_the_declared_facts_and_arrays(city_map, unpack):
    shapes = unpack(map_bytes(read_map_shapes(city_map.arrays)))
    assert properties("l5kit/unpack", "MapFacts").keys() == shapes.facts.keys()
    assert properties("l5kit/unpack", "MapArrays") == array_types(shapes.arrays)


def test_what_is_sent_of_lanes_has_the_declared_facts_and_arrays(city_map, unpack):
    lanes = unpack(lane_bytes(city_map.arrays, city_map.network))
    assert properties("l5kit/unpack", "LaneFacts").keys() == lanes.facts.keys()
    assert properties("l5kit/unpack", "LaneArrays") == array_types(lanes.arrays)


def test_the_dataset_and_its_table_have_the_declared_parts(city_files):
    log = ViewedLog(city_files)
    assert properties("l5kit/source", "Dataset").keys() == log.facts().keys()
    of_drives = {"score", "failed", "log_scene"}
    assert properties("l5kit/source", "SceneColumns").keys() - of_drives == log.scene_columns.keys()


def test_a_simulation_and_its_table_have_the_declared_parts(driven_view):
    assert properties("l5kit/source", "Dataset").keys() == driven_view.facts().keys()
    assert properties("l5kit/source", "Run").keys() == driven_view.facts()["run"].keys()
    assert properties("l5kit/source", "SceneColumns").keys() == driven_view.scene_columns.keys()
