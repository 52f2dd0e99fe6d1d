"""``l5kit config``."""

import json

import pytest
import yaml

from l5kit.configs.overrides import load_driver_config, load_training_config, shipped_config_names
from l5kit.configs.schema import json_schema


def test_it_prints_the_schema(l5kit):
    done = l5kit("config", "schema")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json_schema()
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_it_writes_the_schema(l5kit, tmp_path):
    done = l5kit("config", "schema", "--out", tmp_path / "schema.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert json.loads((tmp_path / "schema.json").read_text("utf-8")) == json_schema()
    assert l5kit("config", "schema", "--out", tmp_path).exit_code == 1


def test_nothing_else_is_told(l5kit):
    done = l5kit("config", "keys")
    assert done.exit_code == 2
    assert "schema" in done.stderr


def test_it_prints_a_shipped_configuration_as_it_is_loaded(l5kit, tmp_path):
    for name in (*shipped_config_names(), "reinforcement"):
        done = l5kit("config", "show", name)
        assert (done.exit_code, done.stderr) == (0, "")
        loaded = load_driver_config(None) if name == "reinforcement" else load_training_config(name)
        assert yaml.safe_load(done.stdout) == loaded
    assert l5kit("config", "show", "simnet", "--out", tmp_path / "mine.yaml").stderr == (
        f"simnet written to {tmp_path / 'mine.yaml'}\n"
    )
    assert load_training_config(str(tmp_path / "mine.yaml")) == load_training_config("simnet")


def test_a_configuration_that_may_be_edited_is_not_replaced(l5kit, tmp_path):
    edited = tmp_path / "mine.yaml"
    edited.write_text("# an edited configuration of l5kit\n")
    done = l5kit("config", "show", "simnet", "--out", edited)
    assert done.exit_code == 1
    assert "exists and may have been edited" in done.stderr
    assert edited.read_text() == "# an edited configuration of l5kit\n"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("show", "vector_planer"), 1, "did you mean 'vector_planner'"),
        (("show",), 2, "takes the NAME of a configuration"),
        (("schema", "simnet"), 2, "schema takes none"),
        (("shema",), 2, "did you mean 'schema'"),
    ],
)
def test_what_is_not_there_is_told(l5kit, words, status, told):
    done = l5kit("config", *words)
    assert (done.exit_code, done.stdout) == (status, "")
    assert told in done.stderr
