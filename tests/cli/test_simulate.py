"""``l5kit simulate``."""

import json
import os
import shutil

import pytest

from l5kit.closedloop import read_result
from l5kit.errors import install_command
from support.simulated_folders import rows_of, write_planner

FEW = ("--frames", 12, "--planner", "constant-velocity")


def test_people_get_a_table_and_a_folder(l5kit, city, tmp_path):
    done = l5kit("simulate", city, "--out", tmp_path / "out", "--frames", 12, "--agents", "idm", "--workers", 2)
    assert done.exit_code == 0, done.stderr
    for text in ("Simulated idm", "sample.zarr", "3 scored, 0 failed", "scenes/s", "time to collision", " m, the log "):
        assert text in done.stdout
    assert done.stderr == ""
    assert {"scores.json", "scenes.csv", "simulated.zarr"} <= set(os.listdir(tmp_path / "out"))


def test_machines_get_what_the_folder_holds(l5kit, city, tmp_path):
    done = l5kit("simulate", city, "--out", tmp_path / "out", *FEW, "--json")
    assert done.exit_code == 0, done.stderr
    scores = json.loads(done.stdout)
    assert scores.pop("folder") == str(tmp_path / "out")
    assert scores == json.loads((tmp_path / "out" / "scores.json").read_text())
    assert scores["scenes"] == 3


def test_the_summary_says_how_often_the_fallback_drove(l5kit, city, tmp_path):
    asked = ("--out", tmp_path / "out", "--frames", 12, "--planner", "standing", "--fallback", "rules")
    done = l5kit("simulate", city, *asked)
    assert done.exit_code == 0, done.stderr
    share = read_result(tmp_path / "out").fallback_share
    assert f"standing {1 - share:.0%}".replace("%", " % of the steps, rules") in " ".join(done.stdout.split())


def test_scenes_are_chosen_as_frames_are_for_pictures(l5kit, city, tmp_path):
    chosen = ("--scenes", "0::2", "--start-frame", 30, "--moves", "poses", "--batch-size", 1, "--no-plans")
    done = l5kit("simulate", city, "--out", tmp_path / "out", *FEW, *chosen)
    assert done.exit_code == 0, done.stderr
    rows = rows_of(tmp_path / "out" / "frames.csv")
    assert [(rows[place]["scene"], rows[place]["frame"]) for place in (0, 11, 12)] == [
        ("0", "30"),
        ("0", "41"),
        ("2", "30"),
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param("0:99", ["note: --scenes 0:99 takes 3 of 99, as the log has no more"], id="more than there are"),
        pytest.param("1:9:4", ["note: --scenes 1:9:4 takes 1 of 2, as the log has no more"], id="with a step"),
        pytest.param("0:5:4", ["note: --scenes 0:5:4 takes 1 of 2, as the log has no more"], id="the last of two"),
        pytest.param("0:4:4", [], id="nothing left out"),
        pytest.param("1:", [], id="to the end"),
        pytest.param(":2", [], id="those that are there"),
    ],
)
def test_scenes_that_the_log_does_not_have_are_told_of(l5kit, city, tmp_path, asked, said):
    done = l5kit("simulate", city, "--out", tmp_path / "out", "--scenes", asked, "--planner", "replay", "--frames", 2)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines() == said


@pytest.mark.parametrize("place", ["", "simulated.zarr"])
def test_a_simulation_is_driven_on_the_map_of_its_log(l5kit, city, drives, tmp_path, place):
    done = l5kit("simulate", drives / place, "--out", tmp_path / "out", "--frames", 3, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["files"] == {
        "log": str(drives / "simulated.zarr"),
        "map": str(city / "semantic_map" / "semantic_map.pb"),
        "meta": str(city / "meta.json"),
    }


def test_a_simulation_whose_map_is_gone_says_what_to_name(l5kit, city_copy, tmp_path):
    assert l5kit("simulate", city_copy, "--out", tmp_path / "first", *FEW).exit_code == 0
    (city_copy / "semantic_map" / "semantic_map.pb").unlink()
    done = l5kit("simulate", tmp_path / "first", "--out", tmp_path / "out", "--frames", 3)
    assert done.exit_code == 0
    assert "needs a semantic map and a meta.json" in done.stderr
    assert "name them (--map, --meta)" in done.stderr


def test_a_second_call_finds_all_done_and_another_one_is_refused(l5kit, city, tmp_path):
    call = ("simulate", city, "--out", tmp_path / "out", *FEW)
    first = l5kit(*call)
    again = l5kit(*call, "--workers", 3)
    assert again.exit_code == 0, again.stderr
    assert "0 failed, " in first.stdout  # and the scenes in a second
    assert "0 failed, " not in again.stdout
    other = l5kit(*call, "--start-frame", 1, "--frames", 11, "--no-plans", "--planner", "standing")
    assert (other.exit_code, other.stdout) == (1, "")
    for difference in (
        "planner (--planner) was constant-velocity and is standing",
        "start_frame (--start-frame) was 0 and is 1",
        "num_frames (--frames) was 12 and is 11",
        "keeps_plans (--plans) was True and is False",
        "the digest of the planner was",
    ):
        assert difference in other.stderr
    assert l5kit(*call, "--start-frame", 1, "--overwrite").exit_code == 0


def test_failed_scenes_are_told_of_and_end_nothing(l5kit, city, tmp_path):
    planner = write_planner(tmp_path, {(1, 7): "nan"})
    call = ("simulate", city, "--planner", planner, "--frames", 12)
    done = l5kit(*call, "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.startswith("failed: scene 1, frame 7: ")
    assert "2 scored, 1 failed" in done.stdout
    strict = l5kit(*call, "--out", tmp_path / "strict", "--strict")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert strict.stderr.startswith("error: scene 1, frame 7: ")


def test_where_nothing_could_be_scored_the_status_says_so(l5kit, city, tmp_path):
    planner = write_planner(tmp_path, {(scene, 0): "raises" for scene in range(3)})
    done = l5kit("simulate", city, "--planner", planner, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 1
    scores = json.loads(done.stdout)
    assert (scores["score"], scores["scenes"], len(scores["failed"])) == (None, 0, 3)
    assert done.stderr.count("failed: ") == 3


def test_of_many_failed_scenes_the_first_few_are_told_of(l5kit, city, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.cli.output.MOST_LISTED", 1)
    planner = write_planner(tmp_path, {(scene, 0): "raises" for scene in range(3)})
    done = l5kit("simulate", city, "--planner", planner, "--out", tmp_path / "out")
    first, rest = done.stderr.splitlines()
    assert first.startswith("failed: scene 0, frame 0: Faulty: KeyError: 'speed' (line ")
    assert rest == f"failed: 2 more, listed in {tmp_path / 'out' / 'scores.json'} (failed)"


def test_scenes_without_a_score_are_told_of_with_the_reason(l5kit, city, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.cli.output.MOST_LISTED", 2)
    done = l5kit("simulate", city, "--out", tmp_path / "out", "--planner", "constant-velocity", "--frames", 1)
    assert done.stderr.splitlines() == [
        "no score: scene 0: one frame, in which nothing is driven",
        "no score: scene 1: one frame, in which nothing is driven",
        "no score: 1 more, listed in scores.json (unscored)",
    ]


def test_what_is_missing_is_told_in_a_line(l5kit, city, tmp_path, monkeypatch):
    monkeypatch.setattr("l5kit.closedloop.tables.can_write_parquet", lambda: False)
    monkeypatch.setattr("l5kit.closedloop.run.can_write_parquet", lambda: False)
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    done = l5kit("simulate", log, "--out", tmp_path / "out", *FEW)
    assert done.exit_code == 0, done.stderr
    (no_map, no_parquet) = done.stderr.splitlines()
    assert no_map.startswith("note: scored without a map")
    assert install_command("arrow") in no_parquet
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_an_old_checkpoint_comes_with_its_configuration(l5kit, city, tmp_path):
    torch = pytest.importorskip("torch")
    from l5kit.configs.config import save_config_data
    from l5kit.planning.checkpoint import read_checkpoint
    from support.networks import save_network

    network = save_network("vector_planner", city, tmp_path)
    checkpoint = read_checkpoint(network)
    torch.save(dict(checkpoint.state_dict), tmp_path / "old.pth")
    cfg = {key: value for key, value in checkpoint.config.items() if key != "workflow"}
    (tmp_path / "configs").mkdir()
    save_config_data(cfg, str(tmp_path / "configs" / "old.yaml"))
    call = ("simulate", city, "--planner", tmp_path / "old.pth", "--frames", 4, "--out", tmp_path / "out")
    without = l5kit(*call)
    assert (without.exit_code, without.stdout) == (1, "")
    named = ("--config", tmp_path / "configs" / "old.yaml", "--workflow", "vector_planner", "--device", "cpu")
    done = l5kit(*call, *named)
    assert done.exit_code == 0, done.stderr
    assert "3 scored" in done.stdout


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_how_a_network_drives_agents_can_be_changed(l5kit, city, tmp_path):
    pytest.importorskip("torch")
    from l5kit.data import ChunkedDataset
    from support.networks import save_network

    network = save_network("motion_tokens", city, tmp_path)
    call = ("simulate", city, "--planner", "replay", "--agents", network, "--frames", 6, "--scenes", "0:1", "--json")

    def driven(folder, *options):
        done = l5kit(*call, "--device", "cpu", "--out", tmp_path / folder, *options)
        assert done.exit_code == 0, done.stderr
        log = ChunkedDataset(str(tmp_path / folder / "simulated.zarr")).open()
        return log.agents[:]["centroid"].tobytes()

    assert driven("usual") != driven("other", "--agents-set", "model_params.sampling_seed=3")
    wrong = l5kit(*call, "--out", tmp_path / "wrong", "--agents-set", "model_params.temprature=1")
    assert wrong.exit_code == 1
    assert "temperature" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        pytest.param(("--scenes", "three"), 2, "is not START:END", id="scenes that are no slice"),
        pytest.param(("--scenes", "8:9"), 1, "one of the 3 scenes", id="no such scenes"),
        pytest.param(("--start-frame", "100"), 1, "the longest scene has 100 frames", id="a start behind the end"),
        pytest.param(("--planner", "itm"), 1, "did you mean 'idm'", id="no such planner"),
        pytest.param(("--agents", ""), 1, "--agents is '', which is not one of replay, idm,", id="no name at all"),
        pytest.param(("--agents", "gone.py:Driver"), 1, "no file 'gone.py'", id="no such file"),
        pytest.param(("--moves", "fast"), 1, "tracked, poses", id="no such way to move"),
        pytest.param(("--workflow", "simnet"), 2, "--workflow needs --config", id="a workflow of no configuration"),
        pytest.param(("--batch-size", "0"), 2, "--batch-size", id="an empty batch"),
    ],
)
def test_wrong_calls_end_with_a_line(l5kit, city, tmp_path, options, code, message):
    done = l5kit("simulate", city, "--out", tmp_path / "out", *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_several_logs_in_a_folder_are_listed(l5kit, city_copy, tmp_path):
    shutil.copytree(city_copy / "scenes" / "sample.zarr", city_copy / "scenes" / "other.zarr")
    (city_copy / "scenes" / "sample.zarr").rename(city_copy / "scenes" / "train.zarr")
    done = l5kit("simulate", city_copy, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "other.zarr" in done.stderr
    assert "train.zarr" in done.stderr


def test_without_a_scored_scene_there_are_no_numbers(l5kit, city, tmp_path):
    planner = write_planner(tmp_path, {(scene, 0): "raises" for scene in range(3)})
    done = l5kit("simulate", city, "--planner", planner, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "0 scored, 3 failed" in done.stdout
    assert "Means" not in done.stdout
    assert "at fault" not in done.stdout


def test_a_true_log_is_taken_to_score_against(l5kit, city, tmp_path):
    log = next((city / "scenes").glob("*.zarr"))
    done = l5kit("simulate", city, "--out", tmp_path / "out", *FEW, "--truth", log)
    assert done.exit_code == 0, done.stderr
    assert json.loads((tmp_path / "out" / "scores.json").read_text())["files"]["truth"] == str(log)
    refused = l5kit("simulate", city, "--out", tmp_path / "other", *FEW, "--truth", log, "--agents", "idm")
    assert refused.exit_code == 1
    assert "--agents is 'idm', which moves them" in " ".join(refused.stderr.split())


def test_plans_can_be_scored_by_epdms(l5kit, city, tmp_path):
    asked = ("--out", tmp_path / "out", "--frames", 60, "--planner", "constant-velocity", "--score", "nuplan")
    done = l5kit("simulate", city, *asked, "--score", "epdms", "--scenes", "0:2")
    assert done.exit_code == 0, done.stderr
    text = " ".join(done.stdout.split())
    for each in ("Means over the scenes", "Means over the windows", "epdms lane keeping", "windows", "2, 75 % planned"):
        assert each in text
    alone = l5kit("simulate", city, "--out", tmp_path / "alone", *asked[2:6], "--score", "epdms", "--json")
    assert json.loads(alone.stdout)["score"] == json.loads(alone.stdout)["metrics"]["epdms"]


def test_a_score_that_is_not_there_is_an_error(l5kit, city, tmp_path):
    done = l5kit("simulate", city, "--out", tmp_path / "out", "--score", "epdm")
    assert done.exit_code != 0
    assert "--score is 'epdm' (did you mean 'epdms'?); allowed are nuplan, epdms" in " ".join(done.stderr.split())
