"""``l5kit config``."""

import json

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
