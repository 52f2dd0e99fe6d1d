import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.configs import load_config_data, save_config_data
from l5kit.configs.config import load_matrix, load_metadata
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.errors import ConfigError


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_load_gives_what_stands_in_the_file(tmp_path):
    path = write(tmp_path / "c.yaml", "model_params:\n  step_time: 0.1\nraster_params:\n  raster_size: [224, 112]\n")
    assert load_config_data(path) == {"model_params": {"step_time": 0.1}, "raster_params": {"raster_size": [224, 112]}}


@pytest.mark.parametrize("load", [load_config_data, load_metadata])
def test_a_missing_file_is_a_file_not_found_error(tmp_path, load):
    with pytest.raises(FileNotFoundError):
        load(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (load_config_data, "a: [1,"),
        (load_config_data, "- 1\n- 2\n"),
        (load_config_data, ""),
        (load_metadata, "{"),
        (load_metadata, "[]"),
    ],
)
def test_what_is_no_mapping_is_a_config_error_that_names_the_file(tmp_path, load, text):
    path = write(tmp_path / "bad.yaml", text)
    with pytest.raises(ConfigError, match=r"bad\.yaml"):
        load(path)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12))
BROKEN_YAML = {
    "no UTF-8": (b"x: 1\ny: \xff\xfe\n", "not a UTF-8 text: byte 8 is 0xff; save it as UTF-8"),
    "no UTF-8 behind a byte order mark": (b"\xef\xbb\xbfx: \xff\n", "not a UTF-8 text: byte 6 is 0xff"),
    "UTF-16": ("x: 1\n".encode("utf-16"), "not a UTF-8 text: byte 0 is"),
    "Latin-1": ("name: caf\xe9\n".encode("latin-1"), "not a UTF-8 text: byte 9 is 0xe9"),
    "a nest of lists": (b"x: " + b"[" * 5000 + b"]" * 5000, "nested too deep"),
    "an open nest": (b"x: " + b"[" * 50_000, "nested too deep"),
    "a nest of mappings": (b"x: " + b"{a: " * 3000 + b"1" + b"}" * 3000, "nested too deep"),
    "a nest of dashes": (b"- " * 3000 + b"1", "nested too deep"),
    "aliases of aliases": (BOMB.encode(), "more than 1,000,000 values with its aliases"),
    "merges of merges": (MERGES.encode(), "more than 1,000,000 values with its aliases"),
    "an alias of itself": (b"a: 1\nx: &x [*x]\n", "an alias of its own parent: line 2"),
    "a section of itself": (b"m: &m\n  n: {k: *m}\n", "an alias of its own parent"),
    "a date that is none": (b"x: 2020-99-99\n", "not valid YAML: month must be"),
    "a huge number": (b"x: " + b"9" * 5000, "not valid YAML: .*digits"),
    "half a number": (b"x: 0x_\n", "not valid YAML"),
    "a list as key": (b"? [a]\n: 1\n", "not valid YAML"),
    "zeros": (bytes(300), "not valid YAML"),
    "two documents": (b"x: 1\n---\ny: 1\n", "not valid YAML"),
}


@pytest.mark.parametrize("case", BROKEN_YAML)
def test_broken_yaml_is_a_config_error_that_names_the_file(tmp_path, case):
    content, message = BROKEN_YAML[case]
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"configuration file .*bad\.yaml (?s:.*){message}"):
        load_config_data(str(tmp_path / "bad.yaml"))


BROKEN_JSON = {
    "no UTF-8": (b'{"x": "\xff"}', "not a UTF-8 text: byte 7 is 0xff"),
    "a nest of lists": (b"[" * 50_000 + b"]" * 50_000, "nested too deep"),
    "a nest of objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested too deep"),
    "a huge number": (b'{"x": ' + b"9" * 5000 + b"}", "not valid JSON"),
    "nothing": (b"", "not valid JSON"),
}


@pytest.mark.parametrize("case", BROKEN_JSON)
def test_broken_json_is_a_config_error_that_names_the_file(tmp_path, case):
    content, message = BROKEN_JSON[case]
    (tmp_path / "meta.json").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"metadata file .*meta\.json .*{message}"):
        load_metadata(str(tmp_path / "meta.json"))


@pytest.mark.parametrize(
    ("load", "called"),
    [
        (load_config_data, "configuration file"),
        (load_training_config, "configuration file"),
        (load_metadata, "metadata file"),
    ],
)
def test_a_folder_is_a_config_error(tmp_path, load, called):
    with pytest.raises(ConfigError, match=rf"^{called} .*is a folder; give a file in it"):
        load(str(tmp_path))


def test_aliases_that_stand_for_little_are_read(tmp_path):
    path = write(tmp_path / "c.yaml", "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n")
    assert load_config_data(path) == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}


def test_sections_that_are_aliases_are_not_shared(tmp_path):
    cfg = load_config_data(write(tmp_path / "c.yaml", "a: &a {x: [1]}\nb: *a\nc: {<<: *a}\nd: [*a, *a]\n"))
    cfg["a"]["x"].append(2)
    assert cfg == {"a": {"x": [1, 2]}, "b": {"x": [1]}, "c": {"x": [1]}, "d": [{"x": [1]}, {"x": [1]}]}


@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        ("a: 1\nb: 2\na: 3\n", "'a'", (1, 3)),
        ("a:\n  b: 1\n  'b': 2\n", "'b'", (2, 3)),
        ("a: [{1: x, 0x1: y}]\n", "1", (1, 1)),
        ("a: &a\n  b: 1\n  b: 2\nc: *a\n", "'b'", (2, 3)),
        ("=: 1\n=: 2\n", "'='", (1, 2)),
    ],
)
def test_a_key_that_stands_twice_is_named_with_both_lines(tmp_path, text, key, lines):
    path = write(tmp_path / "c.yaml", text)
    with pytest.raises(ConfigError, match=rf"c\.yaml has the key {key} twice .* lines {lines[0]} and {lines[1]};"):
        load_config_data(path)


def test_keys_beside_merged_ones_replace_them(tmp_path):
    path = write(tmp_path / "c.yaml", "a: &a {x: 1, y: 2}\nb: &b {x: 3}\nc: {<<: *a, x: 4}\nd: {<<: [*b, *a]}\n")
    assert load_config_data(path) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3},
        "c": {"x": 4, "y": 2},
        "d": {"x": 3, "y": 2},
    }


def test_a_key_of_json_that_stands_twice_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"^metadata file .* has the key 'b' twice in one object"):
        load_metadata(write(tmp_path / "meta.json", '{"a": {"b": 1, "c": 2, "b": 1}}'))


@pytest.mark.parametrize("tag", ["name:os.system", "module:os", "object:os.PathLike", "complex"])
def test_a_config_holds_no_objects_of_python(tmp_path, tag):
    with pytest.raises(ConfigError, match="is not valid YAML"):
        load_config_data(write(tmp_path / "c.yaml", f"a: !!python/{tag} ''\n"))


def test_tuples_that_1_x_wrote_are_read(tmp_path):
    path = write(tmp_path / "c.yaml", "a: !!python/tuple\n- 1\n- [2]\n")
    assert load_config_data(path) == {"a": (1, [2])}


@pytest.mark.parametrize("load", [load_config_data, load_metadata])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, load):
    (tmp_path / "c").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert load(str(tmp_path / "c")) == {"a": 1}


@pytest.mark.parametrize("value", ["[" * 3000, "2020-99-99", "9" * 5000, "[1"], ids=lambda value: value[:10])
def test_a_value_that_is_no_yaml_is_named_by_its_key(value):
    with pytest.raises(ConfigError, match=r"^train_params\.seed: '.* is (not valid YAML|nested too deep)"):
        with_overrides({}, [f"train_params.seed={value}"])


def test_a_configuration_that_is_part_of_itself_is_not_written(tmp_path):
    cfg = {"a": {"b": {}}}
    cfg["a"]["b"]["c"] = cfg
    with pytest.raises(ConfigError, match=r"^a\.b\.c\.a\.\.\.: nested too deep"):
        save_config_data(cfg, str(tmp_path / "c.yaml"))


def test_a_matrix_in_too_many_lists_is_a_short_message():
    nest = [1.0]
    for _ in range(600):
        nest = [nest]
    with pytest.raises(ConfigError, match="4x4 list of") as found:
        load_matrix({"ecef_to_aerial": nest}, "ecef_to_aerial", path="meta.json")
    assert len(str(found.value)) < 300


def test_a_config_runs_no_code(tmp_path):
    path = write(tmp_path / "evil.yaml", f"a: !!python/object/apply:os.mkdir ['{tmp_path / 'made'}']\n")
    with pytest.raises(ConfigError):
        load_config_data(path)
    assert not (tmp_path / "made").exists()


def test_j7_numpy_values_are_saved_as_plain_numbers_and_lists(tmp_path):
    cfg = {
        "raster_params": {
            "raster_size": np.array([224, 112]),
            "pixel_size": (np.float32(0.5), np.float64(0.25)),
            "set_origin_to_bottom": np.bool_(True),
            "semantic_map_key": Path("semantic_map") / "semantic_map.pb",
            np.str_("map_type"): np.str_("py_semantic"),
        },
        "model_params": {"history_num_frames": np.int64(3), "matrix": np.eye(2), "nothing": None},
    }
    path = str(tmp_path / "saved.yaml")
    save_config_data(cfg, path)
    loaded = load_config_data(path)
    assert loaded["raster_params"] == {
        "raster_size": [224, 112],
        "pixel_size": [0.5, 0.25],
        "set_origin_to_bottom": True,
        "semantic_map_key": "semantic_map/semantic_map.pb",
        "map_type": "py_semantic",
    }
    assert loaded["model_params"] == {"history_num_frames": 3, "matrix": [[1.0, 0.0], [0.0, 1.0]], "nothing": None}
    assert "!!python" not in Path(path).read_text()
    assert isinstance(cfg["raster_params"]["raster_size"], np.ndarray)


def test_j7_keys_are_sorted_and_the_file_is_replaced_whole(tmp_path):
    path = tmp_path / "saved.yaml"
    save_config_data({"b": 1, "a": {"d": 2, "c": 3}}, str(path))
    assert path.read_text() == "a:\n  c: 3\n  d: 2\nb: 1\n"
    with pytest.raises(ConfigError, match=r"^b: cannot write"):
        save_config_data({"b": object()}, str(path))
    assert path.read_text() == "a:\n  c: 3\n  d: 2\nb: 1\n"
    assert [file.name for file in tmp_path.iterdir()] == ["saved.yaml"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(cfg=st.dictionaries(st.text(min_size=1, max_size=5), plain, max_size=4))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_saved_configs_load_back_equal(tmp_path_factory, cfg):
    path = str(tmp_path_factory.mktemp("c") / "c.yaml")
    save_config_data(cfg, path)
    assert load_config_data(path) == cfg


def test_load_metadata_and_its_matrices(tmp_path):
    path = write(
        tmp_path / "meta.json", json.dumps({"world_to_ecef": np.eye(4).tolist(), "short": [[1.0]], "text": "x"})
    )
    metadata = load_metadata(path)
    assert load_matrix(metadata, "world_to_ecef", path=path).tolist() == np.eye(4).tolist()
    for key, message in (("ecef_to_aerial", "has no key"), ("short", r"\(1, 1\)"), ("text", "4x4 list of numbers")):
        with pytest.raises(ConfigError, match=message):
            load_matrix(metadata, key, path=path)
    with pytest.raises(ConfigError, match="finite"):
        load_matrix({"m": np.full((4, 4), np.nan).tolist()}, "m", path=path)


@pytest.mark.parametrize("factor", [50, 1.01, 0.99, 1e-6, 1e200, 0, -50])
def test_a_world_that_is_not_in_metres_is_refused(factor):
    matrix = np.eye(4)
    matrix[:3, :3] *= factor
    with pytest.raises(ConfigError, match=r"meta\.json: world_to_ecef must be a rotation and translation"):
        load_matrix({"world_to_ecef": matrix.tolist()}, "world_to_ecef", path="meta.json")
    assert load_matrix({"ecef_to_aerial": matrix.tolist()}, "ecef_to_aerial", path="meta.json")[0, 0] == factor


@pytest.mark.parametrize("key", ["world_to_ecef", "ecef_to_aerial"])
@pytest.mark.parametrize("last_row", [[0, 0, 0, 0], [0, 0, 0, 2], [0, 1e-3, 0, 1], [1e300, 0, 0, 1]], ids=str)
def test_a_matrix_with_another_last_row_is_refused(key, last_row):
    matrix = [*np.eye(4).tolist()[:3], last_row]
    with pytest.raises(ConfigError, match=rf"meta\.json: the last row of {key} must be \[0, 0, 0, 1\]"):
        load_matrix({key: matrix}, key, path="meta.json")
    matrix[3] = [0, 0, 1e-9, 1 - 1e-9]
    assert load_matrix({key: matrix}, key, path="meta.json").tolist() == matrix


def test_a_rotation_may_be_rounded():
    matrix = np.round(np.array([[0.6, -0.8, 0, 5], [0.8, 0.6, 0, 7], [0, 0, 1, 0]]) * 1.001, 3)
    matrix = np.vstack([matrix, [0, 0, 0, 1]])
    assert (
        load_matrix({"world_to_ecef": matrix.tolist()}, "world_to_ecef", path="meta.json").tolist() == matrix.tolist()
    )


@pytest.mark.parametrize("number", [10**400, "one", None, [1, 2]], ids=lambda number: str(number)[:8])
def test_numbers_that_are_none_are_refused(number):
    matrix = np.eye(4).tolist()
    matrix[0][0] = number
    with pytest.raises(ConfigError, match="4x4 list of"):
        load_matrix({"ecef_to_aerial": matrix}, "ecef_to_aerial", path="meta.json")


def test_the_real_metadata(shared_data):
    metadata = load_metadata(str(shared_data / "meta.json"))
    matrix = load_matrix(metadata, "world_to_ecef", path="meta.json")
    np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-8)


@pytest.mark.parametrize(
    ("cfg", "yaml_path"),
    [
        pytest.param({"model_params": {"x": object()}}, r"^model_params\.x: .*object", id="an object"),
        pytest.param({"a": {"b": [1, {"c": {2, 3}}]}}, r"^a\.b\.1\.c: .*set", id="a set in a list"),
        pytest.param({"a": {(1, 2): 3}}, r"^a\.\(1, 2\): .*tuple", id="a tuple as key"),
        pytest.param({"a": np.array([1, object()])}, r"^a\.1: .*object", id="an array of objects"),
        pytest.param({1, 2}, "^data: .*set", id="no mapping"),
    ],
)
def test_what_is_no_yaml_is_named_by_its_path(tmp_path, cfg, yaml_path):
    with pytest.raises(ConfigError, match=yaml_path):
        save_config_data(cfg, str(tmp_path / "saved.yaml"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named_with_the_wanted_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path '.*nowhere/c\.yaml'.*create it first"):
        save_config_data({}, str(tmp_path / "nowhere" / "c.yaml"))
