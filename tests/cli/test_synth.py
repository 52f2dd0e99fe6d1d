"""``l5kit synth``."""

import json

from l5kit.data import ChunkedDataset

SMALL = ("--scenes", 1, "--frames", 12, "--town-size", 300)


def test_a_city_is_made_and_named(l5kit, tmp_path):
    done = l5kit("synth", tmp_path / "city", *SMALL, "--train-scenes", 2, "--seed", 3)
    assert done.exit_code == 0
    assert str(tmp_path / "city" / "meta.json") in done.stdout.replace("\n", "")
    assert len(ChunkedDataset(str(tmp_path / "city" / "scenes" / "sample.zarr")).open().scenes) == 1
    train = ChunkedDataset(str(tmp_path / "city" / "scenes" / "train.zarr")).open()
    assert (len(train.scenes), len(train.frames)) == (2, 24)


def test_a_city_that_is_there_is_replaced_only_on_request(l5kit, city_copy):
    (city_copy / "meta.json").write_text("older")
    refused = l5kit("synth", city_copy, *SMALL)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: ")
    assert (city_copy / "meta.json").read_text() == "older"
    assert l5kit("synth", city_copy, *SMALL, "--overwrite").exit_code == 0
    assert (city_copy / "meta.json").read_text() != "older"


def test_a_folder_of_other_files_is_never_replaced(l5kit, tmp_path):
    (tmp_path / "city").mkdir()
    (tmp_path / "city" / "mine.txt").write_text("precious")
    for options in ((), ("--overwrite",)):
        assert l5kit("synth", tmp_path / "city", *SMALL, *options).exit_code == 1
        assert (tmp_path / "city" / "mine.txt").read_text() == "precious"


def test_a_value_out_of_range_is_an_error_in_one_line(l5kit, tmp_path):
    done = l5kit("synth", tmp_path / "city", "--density", 99)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'--density'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_with_noise_the_true_scenes_stand_beside_those_that_are_perceived(l5kit, tmp_path):
    done = l5kit("synth", tmp_path / "city", *SMALL, "--noise")
    assert done.exit_code == 0
    assert "true sample" in done.stdout
    true, seen = (ChunkedDataset(str(tmp_path / "city" / name / "sample.zarr")).open() for name in ("truth", "scenes"))
    assert (true.frames["ego_translation"] == seen.frames["ego_translation"]).all()
    assert (true.agents["centroid"][0] != seen.agents["centroid"][0]).any()


def test_towns_are_made_listed_and_kept(l5kit, tmp_path):
    options = ("--frames", 8, "--town-size", 250, "--density", 0.2, "--scenes", 1)
    done = l5kit("synth", tmp_path / "towns", "--towns", 2, *options)
    assert done.exit_code == 0
    assert "town_00" in done.stdout
    assert "scenes/sample.zarr" in done.stdout
    assert sorted(path.name for path in (tmp_path / "towns").iterdir()) == ["town_00", "town_01"]
    for command in ("info", "validate"):
        told = l5kit(command, tmp_path / "towns", "--json")
        assert told.exit_code == 0
        assert [log["files" if command == "info" else "dataset"] for log in json.loads(told.stdout)["logs"]]
        assert len(json.loads(told.stdout)["logs"]) == 2
    other = l5kit("synth", tmp_path / "towns", "--towns", 2, *options, "--noise")
    assert other.exit_code == 1
    assert "noise False in place of True" in other.stderr
    with_job = l5kit("synth", tmp_path / "towns", "--towns", 2, *options, "--job", tmp_path / "job")
    assert with_job.exit_code == 2
    assert "for --job" in with_job.stderr
