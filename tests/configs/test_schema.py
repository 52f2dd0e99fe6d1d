"""The one schema of configurations: what is derived from it holds for configurations that are there."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from l5kit.configs.documentation import with_key_tables
from l5kit.configs.known_keys import LEGACY_KEYS
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.configs.reading import keys_of
from l5kit.configs.runs import WORKFLOWS
from l5kit.configs.schema import DOORS, json_schema, sections
from l5kit.configs.training import TrainingParams
from l5kit.errors import ConfigError
from support.configs_of_1_x import format_4, format_7
from support.json_schema import complaints

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json_schema()
OF_1_X = {
    "planning": format_4(perturb=0.5),
    "agent motion": format_4(future=50),
    "DriverGym": format_4(architecture="simple_cnn", size=112, shuffle=False),
    "Urban Driver": format_7("urban_driver", steps=5),
    "open loop": format_7("vector_planner", steps=5),
    "SafePathNet": format_7("safepathnet", steps=1000, epochs=6),
}


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_the_configurations_that_ship_fit(workflow):
    assert complaints(SCHEMA, load_training_config(workflow)) == []
    example = ROOT / "examples" / f"{workflow}_config.yaml"
    assert complaints(SCHEMA, load_training_config(str(example))) == []


@pytest.mark.parametrize("text", OF_1_X.values(), ids=OF_1_X)
def test_configurations_of_1_x_fit(text):
    assert complaints(SCHEMA, yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    "path", ["learning_rate", "model_params.batch_size", "data_generation_params.lane_params.lanes"]
)
def test_unknown_keys_are_refused(path):
    cfg = with_overrides(load_training_config("vector_planner"), [f"{path}=1"])
    assert complaints(SCHEMA, cfg) == [f"{path}: not allowed"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("raster_params.raster_size=[112, 0]", "raster_params.raster_size.1: below 1"),
        ("raster_params.raster_size=[112]", "raster_params.raster_size: fewer than 2"),
        ("raster_params.pixel_size=[0.5, 0]", "raster_params.pixel_size.1: not above 0"),
        ("raster_params.map_type=py_sematic", "raster_params.map_type: not one of"),
        ("raster_params.semantic_map_key=' '", "raster_params.semantic_map_key: does not match"),
        ("model_params.step_time=fast", "model_params.step_time: no number"),
        ("train_data_loader.perturb_probability=1.5", "train_data_loader.perturb_probability: above 1"),
        ("train_params.horizons_s=[]", "train_params.horizons_s: fewer than 1"),
        ("train_params.seed=0.5", "train_params.seed: no integer"),
    ],
)
def test_it_refuses_the_values_that_are_refused_when_they_are_read(change, found):
    cfg = with_overrides(load_training_config("raster_planner"), [change])
    assert any(text.startswith(found) for text in complaints(SCHEMA, cfg)), complaints(SCHEMA, cfg)


def test_null_is_allowed_where_it_counts_as_missing():
    changes = [
        "train_params.num_epochs=null",
        "train_data_loader.perturb_std=null",
        "model_params.weights_scaling=null",
    ]
    cfg = with_overrides(load_training_config("raster_planner"), changes)
    assert complaints(SCHEMA, cfg) == []
    TrainingParams.from_cfg(cfg)
    assert complaints(SCHEMA, with_overrides(cfg, ["train_params.seed=null"])) == ["train_params.seed: no integer"]


def paths_of(workflow):
    """All keys of a configuration that ships, as the names on their way."""

    def walk(values, path):
        for name, value in values.items():
            yield from walk(value, (*path, name)) if isinstance(value, dict) else ((*path, name),)

    return list(walk(load_training_config(workflow), ()))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_what_is_missing_for_a_workflow_is_what_its_readers_miss(workflow):
    cfg = load_training_config(workflow)
    readers = {reader for name in (workflow, *DOORS[workflow].also) for reader in DOORS[name].readers}
    map_type = cfg["raster_params"].get("map_type")
    readers |= set(DOORS[map_type].readers) if map_type else set()
    for path in paths_of(workflow):
        if path == ("workflow",) or path == ("raster_params", "map_type"):
            continue
        without = copy.deepcopy(cfg)
        section = without
        for name in path[:-1]:
            section = section[name]
        del section[path[-1]]
        missed = any(is_missed(reader, without, ".".join(path)) for reader in readers)
        assert complaints(SCHEMA, without) == ([f"{'.'.join(path)}: missing"] if missed else []), path


def is_missed(reader, cfg, path):
    try:
        reader.from_cfg(cfg)
    except ConfigError as error:
        return f"{path}: this key is missing" in str(error)
    return False


def test_every_key_says_what_it_does_and_editors_know_what_has_no_effect():
    for section, keys in sections().items():
        node = SCHEMA
        for name in section.split(".") if section else ():
            node = node["properties"][name]
        for name, key in keys.items():
            found = node["properties"][name]
            assert found["description"].startswith(key.key.text)
            assert key.key.text
            assert found.get("deprecated", False) is (f"{section}.{name}" in LEGACY_KEYS)


def test_a_key_is_told_of_in_one_way_wherever_it_is_read():
    for section, keys in sections().items():
        for name, key in keys.items():
            told = {(read.key.text, read.key.unit) for _, read in key.uses}
            assert len(told) == 1, f"{section}.{name} is declared twice"


def test_defaults_are_values_that_are_allowed():
    for keys in sections().values():
        for name, key in keys.items():
            schema = key.schema()
            if "default" in schema and key.key.otherwise == "":
                assert complaints(schema, schema["default"]) == [], name


def test_every_workflow_is_a_door():
    assert set(WORKFLOWS) <= set(DOORS)
    assert {name for door in DOORS.values() for name in door.also} <= set(DOORS)
    for door in DOORS.values():
        assert all(list(keys_of(reader)) for reader in door.readers)


def test_the_document_is_what_the_schema_prints():
    path = ROOT / "docs" / "configuration.md"
    text = path.read_text("utf-8")
    assert with_key_tables(text) == text, "docs/configuration.md is stale: run make docs"
    named = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    assert {name for keys in sections().values() for name in keys} <= named


def test_a_stale_table_is_printed_anew():
    stale = "before\n<!-- keys of the top -->\nold\n<!-- end of keys -->\nafter\n"
    printed = with_key_tables(stale)
    assert printed.startswith("before\n<!-- keys of the top -->\n| key |")
    assert "| `format_version` |" in printed
    assert "old" not in printed
    assert with_key_tables(printed) == printed


def test_it_is_plain_json():
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
