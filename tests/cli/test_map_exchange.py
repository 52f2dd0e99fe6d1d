"""Maps and scenes out and maps in: ``l5kit export --layout`` and ``l5kit import`` of Lanelet2 and OpenDRIVE."""

import json
import shutil

import pytest

from l5kit.data import compare_maps, find_map_files, open_map


@pytest.mark.parametrize(("layout", "suffix"), [("lanelet2", "osm"), ("opendrive", "xodr")])
def test_a_map_leaves_and_comes_back(l5kit, city, tmp_path, layout, suffix):
    file, folder = tmp_path / f"map.{suffix}", tmp_path / "back"
    done = l5kit("export", city, file, "--layout", layout, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    town = open_map(find_map_files(city))
    assert facts["lanes"] == town.arrays.num_lanes

    again = l5kit("export", city, file, "--layout", layout)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr

    done = l5kit("import", layout, file, folder, "--meta", city / "meta.json", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["lanes"] == facts["lanes"]
    back = open_map(find_map_files(folder))
    assert compare_maps(town, back).successors == 0
    assert compare_maps(town, back).boundary_m < 0.05
    assert (back.ecef_to_world == town.ecef_to_world).all()
    assert l5kit("export", folder, tmp_path / f"again.{suffix}", "--layout", layout).exit_code == 0


def test_what_does_not_fit_is_said(l5kit, city, tmp_path):
    (tmp_path / "map.osm").write_text("<osm/>")
    refused = l5kit("import", "lanelet2", tmp_path / "map.osm", tmp_path / "out", "--origin", "91,0")
    assert refused.exit_code == 1
    assert "--origin must be latitude and longitude" in refused.stderr
    refused = l5kit("import", "table", tmp_path, tmp_path / "out", "--origin", "48,11")
    assert "it is for maps only: lanelet2, opendrive" in refused.stderr
    refused = l5kit("import", "lanelet2", tmp_path / "map.osm", tmp_path / "out")
    assert (refused.exit_code, "it has no nodes" in refused.stderr) == (1, True)
    (tmp_path / "empty").mkdir()
    assert l5kit("export", tmp_path / "empty", tmp_path / "map.xodr", "--layout", "opendrive").exit_code == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--max-scenes", 3],
        ["--join"],
        ["--columns", "columns.yaml"],
        ["--maps", "apart"],
        ["--strict"],
        ["--workers", 2],
        ["--engine", "threads"],
    ],
    ids=lambda options: options[0],
)
@pytest.mark.parametrize("layout", ["lanelet2", "opendrive"])
def test_options_of_scenes_are_refused_for_maps(l5kit, tmp_path, layout, options):
    (tmp_path / "map").write_text("<osm/>")
    refused = l5kit("import", layout, tmp_path / "map", tmp_path / "out", *options)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: {options[0]} is for datasets with scenes, but {layout} is a single map")


@pytest.mark.parametrize("command", ["info", "validate"])
def test_a_folder_with_a_map_alone_is_told_from_one_with_nothing(l5kit, city, tmp_path, command):
    (tmp_path / "semantic_map").mkdir()
    shutil.copy(city / "semantic_map" / "semantic_map.pb", tmp_path / "semantic_map")
    refused = l5kit(command, tmp_path)
    assert refused.exit_code == 1
    assert "it has a map without scenes" in refused.stderr
    assert "open_map(find_map_files(PATH))" in refused.stderr


def test_scenes_leave_as_openscenario(l5kit, city, tmp_path):
    done = l5kit("export", city, tmp_path / "out", "--layout", "openscenario")
    assert done.exit_code == 0
    assert (tmp_path / "out" / "map.xodr").is_file()
    assert (tmp_path / "out" / "scene-000000.xosc").is_file()
