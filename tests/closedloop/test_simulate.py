"""Simulation of a log: what is in its folder, for any batch size, any number of workers and after a kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from numpy.testing import assert_allclose

from l5kit.closedloop import ClosedLoopOptions, read_result, simulate
from l5kit.closedloop.tables import FRAME_COLUMNS, SCENE_COLUMNS
from l5kit.data import ChunkedDataset
from l5kit.data.digests.digest import dataset_digest
from l5kit.data.log_writer import write_log
from l5kit.data.scene_records import SceneRecords
from l5kit.errors import InvalidArgumentError
from l5kit.evaluation.driving import METRICS
from l5kit.simulation.drivers.simple import ConstantVelocity
from l5kit.simulation.engine.actions import Actions, PlannedPoses
from l5kit.simulation.engine.scene_simulation import EgoSeat
from support.simulated_folders import digests_of, rows_of, write_planner

METRIC_NAMES = [metric.name for metric in METRICS]
FILES = ["frames.csv", "plans.npz", "receipt.json", "run.json", "scenes.csv", "scores.json", "simulated.zarr"]
QUIET = {"show_bar": False}


def options(**values):
    return ClosedLoopOptions(**values, **QUIET)


@pytest.fixture(scope="module")
def straight_on(mixed_city, tmp_path_factory):
    """The mixed scenes, driven straight on, by AV and vehicles."""
    folder = tmp_path_factory.mktemp("straight") / "out"
    simulate(mixed_city, folder, planner="constant-velocity", agents="constant-velocity", options=options())
    return folder


def test_a_folder_has_scores_tables_scenes_and_plans(straight_on, mixed_city):
    assert [name for name in sorted(os.listdir(straight_on)) if not name.endswith(".parquet")] == FILES
    scores = json.loads((straight_on / "scores.json").read_text())
    assert list(scores)[:3] == ["score", "scenes", "metrics"]
    assert list(scores["metrics"]) == METRIC_NAMES
    assert (scores["scenes"], scores["failed"], scores["without_map"]) == (4, [], False)
    assert (scores["planner"], scores["agents"]) == ("constant-velocity", "constant-velocity")
    log = mixed_city / "scenes" / "mixed.zarr"
    assert scores["data"] == {"path": str(log), "digest": dataset_digest(log), "num_scenes": 5}
    assert scores["digests"]["data"] == dataset_digest(log)
    assert set(scores["digests"]) == {"data", "map", "planner", "agents", "configuration"}
    run = json.loads((straight_on / "run.json").read_text())
    assert {name: scores[name] for name in run} == run
    assert run["files"]["log"] == str(mixed_city / "scenes" / "mixed.zarr")


def test_means_are_those_of_the_table(straight_on):
    scores, rows = json.loads((straight_on / "scores.json").read_text()), rows_of(straight_on / "scenes.csv")
    assert list(rows[0]) == list(SCENE_COLUMNS)
    assert [row["position"] for row in rows] == ["0", "1", "2", "3", "4"]
    for name in ("score", *METRIC_NAMES):
        values = [float(row[name]) for row in rows if row[name]]  # the scene of one frame has none
        assert_allclose(scores["score"] if name == "score" else scores["metrics"][name], np.mean(values), atol=1e-6)
    assert rows[1]["comfort"] == rows[1]["progress"] == ""  # one frame: no comfort, no route
    assert scores["totals"]["frames"] == 60 + 35 + 60 + 20
    result = read_result(straight_on)
    assert [row["score"] for row in result.scenes()] == [float(row["score"]) if row["score"] else None for row in rows]
    assert rows[1]["score"] == ""
    assert result.unscored == {1: "one frame, in which nothing is driven"}
    assert next(result.scenes())["message"] is None


def test_scenes_in_which_nobody_moves_have_no_score(mixed_city, scenes, tmp_path):
    """Standing still where the log stands still would get all points, and so would a single frame."""
    one = simulate(mixed_city, tmp_path / "one", options=options(num_frames=1))
    assert (one.score, one.num_scenes, len(one.unscored), one.failed) == (None, 0, 5, ())
    assert set(one.metrics.values()) == {None}
    still, creeping = (scenes[0].cut(0, 30) for _ in range(2))
    for scene, way_m in ((still, 0.0), (creeping, 0.2)):
        start_m = scene.frames["ego_translation"][0]
        scene.frames["ego_translation"][:] = start_m + np.linspace(0, 1, 30)[:, None] * (way_m, 0, 0)
    with write_log(tmp_path / "still.zarr") as writer:
        writer.append(still)
        writer.append(creeping)
    stood = simulate(tmp_path / "still.zarr", tmp_path / "stood", planner="standing", options=options())
    assert (stood.num_scenes, list(stood.unscored)) == (1, [0])
    assert "neither the planner (0.00 m) nor the log (0.00 m) moves" in stood.unscored[0]
    assert stood.is_without_map
    assert stood.metrics["progress"] is None


def test_frames_follow_scenes_and_their_poses_are_those_of_the_driven_log(straight_on):
    rows = rows_of(straight_on / "frames.csv")
    assert list(rows[0]) == list(FRAME_COLUMNS)
    assert len(rows) == 176
    driven = ChunkedDataset(str(straight_on / "simulated.zarr")).open()
    assert np.diff(driven.scenes["frame_index_interval"], axis=1)[:, 0].tolist() == [60, 1, 35, 60, 20]
    assert_allclose([float(row["x_m"]) for row in rows], driven.frames["ego_translation"][:, 0], atol=6e-4)
    assert [int(row["frame"]) for row in rows[:60]] == list(range(60))
    assert [row["scene"] for row in rows[59:63]] == ["0", "1", "2", "2"]
    assert float(rows[5]["time_s"]) == pytest.approx(0.5)


def test_plans_begin_one_step_ahead_of_the_driven_poses(straight_on):
    with np.load(straight_on / "plans.npz") as plans:
        assert_allclose(plans["times_s"], 0.1 * np.arange(1, 31))
        assert plans["scene_2"].shape == (35, 30, 3)
        assert plans["scene_2"].dtype == np.float32
        assert np.isnan(plans["scene_2"][-1]).all()  # there is no plan in the last frame
        planned_m = plans["scene_0"][:-1, 0, :2]
    driven = ChunkedDataset(str(straight_on / "simulated.zarr")).open()
    assert_allclose(driven.frames["ego_translation"][1:60, :2], planned_m, atol=0.05)


def test_parquet_has_what_csv_has(straight_on):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra arrow")
    for name in ("scenes", "frames"):
        table = parquet.read_table(straight_on / f"{name}.parquet").to_pydict()
        rows = rows_of(straight_on / f"{name}.csv")
        assert list(table) == list(rows[0])
        for column, values in table.items():
            texts = [row[column] for row in rows]
            assert [value is None for value in values] == [text == "" for text in texts]
            if isinstance(values[0], float):
                assert_allclose([v for v in values if v is not None], [float(t) for t in texts if t], atol=6e-3)


@pytest.mark.parametrize(
    ("batch_size", "workers"), [pytest.param(1, 1, id="alone"), pytest.param(2, 3, id="pairs by three threads")]
)
def test_any_batch_size_and_any_number_of_workers_give_the_same_files(
    straight_on, mixed_city, tmp_path, batch_size, workers
):
    chosen = options(batch_size=batch_size, workers=workers)
    simulate(mixed_city, tmp_path, planner="constant-velocity", agents="constant-velocity", options=chosen)
    assert digests_of(tmp_path) == digests_of(straight_on)


def test_the_replayed_log_is_the_log(city, scenes, tmp_path):
    result = simulate(city, tmp_path, planner="replay", options=options())
    driven = ChunkedDataset(str(result.driven_log)).open()
    for number, scene in enumerate(scenes):
        records = SceneRecords.read(driven, number)
        assert records.frames.tobytes() == scene.frames.tobytes()
        assert records.agents.tobytes() == scene.agents.tobytes()
        assert records.tl_faces.tobytes() == scene.tl_faces.tobytes()
    for name in ("no_at_fault_collisions", "drivable_area_compliance", "making_progress", "progress"):
        assert result.metrics[name] == 1
    assert {float(row["distance_to_log_m"]) for row in rows_of(result.frames_table)} == {0.0}
    with np.load(result.plans) as plans:
        assert plans.files == ["times_s"]
    assert result.score > 0.9


class Planning:
    """Driver that stands still, with longer plans in each scene; in scene 0 optionally with other time steps."""

    def __init__(self, step_s=None):
        self.step_s = step_s

    def drive(self, state):
        (scene,) = state.batch.scene_indices[state.scenes].tolist()  # an error where there are several
        size = 2 + scene
        poses = np.zeros((1, size, 3))
        poses[:, :, :2] = state.ego.positions_m[:, None]
        poses[:, :, 0] += 0.1 * np.arange(1.0, size + 1)
        return Actions(poses, None if self.step_s is None or scene else self.step_s * np.arange(1.0, size + 1))


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize(
    ("step_s", "times_s", "first_m"),
    [
        pytest.param(None, [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, np.nan, np.nan], id="lengths"),
        pytest.param(0.15, [0.1, 0.15, 0.2, 0.3, 0.4], [np.nan, 0.1, 0.1 + 0.1 / 3, 0.2, np.nan], id="steps"),
    ],
)
def test_plans_of_other_lengths_and_steps_stand_at_their_times(city, tmp_path, step_s, times_s, first_m, batch_size):
    seat, chosen = EgoSeat(Planning(step_s), PlannedPoses()), options(num_frames=3, batch_size=batch_size)
    with np.load(simulate(city, tmp_path, planner=seat, options=chosen).plans) as plans:
        assert_allclose(plans["times_s"], times_s)
        ahead_m = [plans[f"scene_{scene}"][0, :, 0] for scene in range(3)]
    starts_m = [ahead[np.argmin(np.isnan(ahead))] - 0.1 for ahead in ahead_m]
    ahead_m = np.array([ahead - start for ahead, start in zip(ahead_m, starts_m, strict=True)])
    assert_allclose(ahead_m[0], first_m, atol=1e-3)
    for scene in (1, 2):  # 0.1 m each 0.1 s
        expected_m = np.where(np.array(times_s) < 0.1 * (2 + scene) + 0.01, times_s, np.nan)
        assert_allclose(ahead_m[scene], expected_m, atol=1e-3)


def test_plans_of_other_lengths_are_the_same_files_for_any_batch_size(city, tmp_path):
    def drive(batch_size):
        chosen = options(num_frames=3, batch_size=batch_size)
        return simulate(city, tmp_path / str(batch_size), planner=EgoSeat(Planning(), PlannedPoses()), options=chosen)

    assert len({drive(batch_size).plans.read_bytes() for batch_size in (1, 2, 3)}) == 1


def test_part_of_the_scenes_and_frames(city, scenes, tmp_path):
    chosen = options(scenes=slice(None, None, 2), start_frame=20, num_frames=30, keeps_plans=False)
    result = simulate(city, tmp_path, planner="standing", options=chosen)
    rows = rows_of(result.frames_table)
    assert [row["scene"] for row in rows] == ["0"] * 30 + ["2"] * 30
    assert [int(row["frame"]) for row in rows[:30]] == list(range(20, 50))
    log_m = scenes[2].frames["ego_translation"][20:50, :2]
    away_m = np.linalg.norm(log_m - log_m[0], axis=1)
    assert_allclose([float(row["distance_to_log_m"]) for row in rows[30:]], away_m, atol=6e-4)
    assert [row["way_m"] for row in result.scenes()] == [0.0, 0.0]
    with zipfile.ZipFile(result.plans) as archive:
        assert archive.namelist() == ["times_s.npy"]


def test_without_a_map_its_metrics_do_not_apply(city, tmp_path):
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    result = simulate(log, tmp_path / "out", planner="replay", options=options(num_frames=30))
    of_map = ("drivable_area_compliance", "making_progress", "driving_direction_compliance", "progress")
    assert [result.metrics[name] for name in (*of_map, "speed_limit_compliance")] == [None] * 5
    assert result.metrics["no_at_fault_collisions"] == 1
    assert result.score is not None
    row = rows_of(result.frames_table)[3]
    assert row["distance_off_road_m"] == row["speed_limit_mps"] == row["progress_m"] == ""


def test_traffic_that_needs_a_map_says_so_before_anything_is_driven(city, tmp_path):
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    with pytest.raises(InvalidArgumentError, match="agents is 'idm', which needs a semantic map"):
        simulate(log, tmp_path / "out", planner="replay", agents="idm", options=options())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("planner", ["idm", "rules"])
def test_planners_that_follow_lanes_go_straight_on_without_a_map(city, tmp_path, planner):
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    with pytest.warns(RuntimeWarning, match=f"planner '{planner}' drives straight on"):
        result = simulate(log, tmp_path / "out", planner=planner, options=options(num_frames=20))
    assert result.failed == ()
    assert result.metrics["drivable_area_compliance"] is None


def test_intelligent_drivers_score_above_constant_velocity(city, tmp_path):
    idm = simulate(city, tmp_path / "idm", options=options())
    straight = simulate(city, tmp_path / "straight", planner="constant-velocity", options=options())
    assert idm.failed == straight.failed == ()
    assert idm.score > straight.score
    reactive = simulate(city, tmp_path / "reactive", agents="idm", options=options())
    assert all(row["driven_agents"] > 0 for row in reactive.scenes())
    assert all(row["driven_agents"] == 0 for row in idm.scenes())


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_networks_drive_the_av_and_the_others(city, tmp_path):
    pytest.importorskip("torch")
    from support.networks import save_network

    planner, simnet = save_network("vector_planner", city, tmp_path), save_network("simnet", city, tmp_path)
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    maps = {"map_path": city / "semantic_map" / "semantic_map.pb", "meta_path": city / "meta.json"}
    few = options(num_frames=5, device="cpu")
    result = simulate(log, tmp_path / "out", planner=str(planner), agents=str(simnet), options=few, **maps)
    assert result.failed == ()
    assert all(row["driven_agents"] > 0 for row in result.scenes())
    with np.load(result.plans) as plans:
        assert np.isfinite(plans["scene_1"][:-1]).all()
    moved = simulate(city, tmp_path / "moved", planner=str(planner), agents=str(simnet), options=few)
    for name in ("planner", "agents", "configuration", "data", "map"):  # wherever the log lies
        assert moved.scores["digests"][name] == result.scores["digests"][name]
    assert moved.frames_table.read_bytes() == result.frames_table.read_bytes()
    with pytest.raises(InvalidArgumentError, match="drives agents, not the AV"):
        simulate(city, tmp_path / "wrong", planner=str(simnet), options=few)
    assert not (tmp_path / "wrong").exists()


@pytest.mark.filterwarnings("ignore:the agents mask of")
def test_a_network_drives_as_its_checkpoint_does(city, tmp_path):
    torch = pytest.importorskip("torch")
    from l5kit import load_model
    from support.networks import save_network

    checkpoint, few = save_network("vector_planner", city, tmp_path), options(num_frames=5, device="cpu")
    model = load_model(checkpoint)
    from_file = simulate(city, tmp_path / "file", planner=str(checkpoint), options=few)
    drives = {
        "loaded": simulate(city, tmp_path / "loaded", planner=model, options=few),
        "network": simulate(
            city, tmp_path / "network", planner=model.network.train(), planner_cfg=model.config.mapping, options=few
        ),
    }
    for drive in drives.values():
        assert drive.frames_table.read_bytes() == from_file.frames_table.read_bytes()
    assert not model.network.training

    (tmp_path / "mine.py").write_text(
        f"import l5kit\n\n\ndef make():\n    return l5kit.load_model({str(checkpoint)!r}).network\n"
    )
    named = {"planner": f"{tmp_path}/mine.py:make", "planner_cfg": model.config.mapping, "options": few}
    assert simulate(city, tmp_path / "named", **named).frames_table.read_bytes() == from_file.frames_table.read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"planner_cfg is None, but the network .* needs"):
        simulate(city, tmp_path / "none", planner=named["planner"], options=few)

    # the same weights are the same planner, different ones are not
    again = simulate(city, tmp_path / "loaded", planner=load_model(checkpoint), options=few)
    assert again.scores == drives["loaded"].scores
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    with pytest.raises(InvalidArgumentError, match="planner"):
        simulate(city, tmp_path / "loaded", planner=model, options=few)


def test_a_network_needs_the_configuration_of_its_samples(city, tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidArgumentError, match="planner_cfg is None, but the network Linear needs the"):
        simulate(city, tmp_path / "out", planner=torch.nn.Linear(2, 2), options=options())
    with pytest.raises(InvalidArgumentError, match="planner must be a torch network or an object with a method"):
        simulate(city, tmp_path / "out", planner=3, options=options())


@pytest.mark.filterwarnings("ignore:.*traffic_light")
def test_logs_without_lights_work(city, tmp_path):
    log = shutil.copytree(city / "scenes" / "sample.zarr", tmp_path / "alone" / "sample.zarr")
    shutil.rmtree(log / "traffic_light_faces")
    with pytest.warns(RuntimeWarning):
        result = simulate(log, tmp_path / "out", planner="constant-velocity", options=options(num_frames=10))
    assert (result.num_scenes, result.failed) == (3, ())


def test_a_driver_of_ones_own_and_how_it_is_carried_out(mixed_city, straight_on, tmp_path):
    seat = EgoSeat(ConstantVelocity(), PlannedPoses())
    met = simulate(mixed_city, tmp_path / "seat", planner=seat, options=options(scenes=[0, 2]))
    asked = simulate(
        mixed_city, tmp_path / "name", planner="constant-velocity", options=options(scenes=[0, 2], moves="poses")
    )
    assert met.frames_table.read_bytes() == asked.frames_table.read_bytes()
    tracked = simulate(mixed_city, tmp_path / "driver", planner=ConstantVelocity(), options=options(scenes=[0, 2]))
    assert tracked.frames_table.read_bytes() != met.frames_table.read_bytes()
    assert met.scores["planner"] == "l5kit.simulation.drivers.simple.ConstantVelocity"


def test_with_a_fallback_files_say_who_drove(mixed_city, straight_on, tmp_path):
    result = simulate(mixed_city, tmp_path, planner="constant-velocity", fallback="rules", options=options())
    assert (result.scores["planner"], result.scores["fallback"]) == ("constant-velocity", "rules")
    frames, rows = rows_of(result.frames_table), rows_of(tmp_path / "scenes.csv")
    assert [row["fallback_steps"] == "" for row in rows] == [False, True, False, False, False]  # one frame has no step
    for row in rows:
        of_scene = [frame["by_fallback"] for frame in frames if frame["scene"] == row["scene"]]
        assert of_scene[-1] == ""
        assert of_scene.count("1") == int(row["fallback_steps"] or 0)
    steps, of_fallback = 59 + 34 + 59 + 19, sum(int(row["fallback_steps"] or 0) for row in rows)
    assert result.scores["driven_by"] == {"planner": steps - of_fallback, "fallback": of_fallback}
    assert result.fallback_share == of_fallback / steps
    assert 0 < of_fallback < steps
    alone = read_result(straight_on)
    assert "driven_by" not in alone.scores
    assert alone.fallback_share is None
    assert {row["by_fallback"] for row in rows_of(alone.frames_table)} == {""}
    # another simulation than without it, and the same one for threads that drive one scene at a time
    with pytest.raises(InvalidArgumentError, match=r"fallback \(--fallback\) was rules and is none"):
        simulate(mixed_city, tmp_path, planner="constant-velocity", options=options())
    before, few = digests_of(tmp_path), options(batch_size=1, workers=2)
    simulate(mixed_city, tmp_path / "few", planner="constant-velocity", fallback="rules", options=few)
    assert digests_of(tmp_path / "few") == before


def test_a_complete_simulation_is_not_repeated(straight_on, mixed_city):
    before = digests_of(straight_on)
    times = {path: path.stat().st_mtime_ns for path in straight_on.glob("*.csv")}
    again = simulate(
        mixed_city, straight_on, planner="constant-velocity", agents="constant-velocity", options=options(batch_size=3)
    )
    assert again.scenes_per_s is None
    assert digests_of(straight_on) == before
    assert {path: path.stat().st_mtime_ns for path in straight_on.glob("*.csv")} == times


def test_other_options_and_other_data_are_refused_and_named(straight_on, mixed_city, city):
    before = digests_of(straight_on)
    with pytest.raises(InvalidArgumentError, match=r"num_frames \(--frames\) was none and is 7") as error:
        simulate(mixed_city, straight_on, planner="standing", options=options(num_frames=7))
    for text in ("planner (--planner) was constant-velocity and is standing", "agents (--agents) was", "--overwrite"):
        assert text in str(error.value)
    with pytest.raises(InvalidArgumentError, match="digest of the data was"):
        simulate(city, straight_on, planner="constant-velocity", agents="constant-velocity", options=options())
    assert digests_of(straight_on) == before


def test_a_simulation_is_replaced_when_asked_for_and_nothing_else_is(mixed_city, tmp_path):
    first, second = (options(scenes=[number], overwrite=True) for number in (1, 4))
    simulate(mixed_city, tmp_path, planner="standing", options=first)
    assert [row["scene"] for row in simulate(mixed_city, tmp_path, options=second).scenes()] == [4]
    (tmp_path / "notes.txt").write_text("mine")
    before = digests_of(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"holds 'notes\.txt' in addition to a simulation"):
        simulate(mixed_city, tmp_path, planner="standing", options=first)
    assert digests_of(tmp_path) == before


def test_two_processes_do_not_write_into_one_folder(mixed_city, tmp_path):
    (tmp_path / "parts").mkdir()
    with (
        FileLock(tmp_path / "parts" / "owner.lock"),
        pytest.raises(InvalidArgumentError, match="another process is writing"),
    ):
        simulate(mixed_city, tmp_path, planner="standing", options=options())
    assert os.listdir(tmp_path) == ["parts"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"scenes": slice(5, 9)}, "one of the 5 scenes", id="none"),
        pytest.param({"scenes": [1, 1]}, "none twice", id="twice"),
        pytest.param({"scenes": [5]}, "one of the 5 scenes", id="too high"),
        pytest.param({"scenes": [0.5]}, r"scenes .* is \[0.5\]; it must be a slice or a list", id="part"),
        pytest.param({"scenes": 3}, "scenes .* is 3; it must be a slice or a list", id="number"),
        pytest.param({"scenes": "0:2"}, "scenes .* is '0:2'; it must be a slice or a list", id="text"),
        pytest.param({"scenes": slice(0, 2, 0)}, "scenes .* is slice", id="steps of 0"),
    ],
)
def test_scenes_that_are_not_there_are_refused(mixed_city, tmp_path, values, message):
    with pytest.raises(InvalidArgumentError, match=message):
        simulate(mixed_city, tmp_path, planner="standing", options=options(**values))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "values",
    [
        {"moves": "jumped"},
        {"moves": 3},
        {"batch_size": 0},
        {"batch_size": None},
        {"workers": -1},
        {"workers": 1.5},
        {"num_frames": 0},
        {"num_frames": 2.5},
        {"start_frame": -1},
        {"start_frame": 1.5},
        {"start_frame": None},
        {"start_frame": True},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(values):
    (name,) = values
    with pytest.raises(InvalidArgumentError, match=name):
        options(**values)


KILLED = """
import sys
from l5kit.closedloop import ClosedLoopOptions, simulate

city, folder, planner = sys.argv[1:]
simulate(city, folder, planner=planner, options=ClosedLoopOptions(batch_size=1))
"""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="only POSIX systems kill with a signal")
def test_a_killed_run_goes_on_where_it_was(mixed_city, tmp_path):
    planner = write_planner(tmp_path, {(2, 10): "killed"}, tmp_path / "mark")
    call = [sys.executable, "-c", KILLED, str(mixed_city), str(tmp_path / "killed"), planner]
    killed = subprocess.run(call, capture_output=True, check=False, timeout=500)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = tmp_path / "killed" / "parts"
    assert sorted(path.name for path in finished.glob("[0-9]*")) == ["00000000", "00000001"]
    before = {path: path.stat().st_mtime_ns for path in Path(finished / "00000000").rglob("*")}
    with pytest.raises(InvalidArgumentError, match=r"start_frame \(--start-frame\) was 0 and is 1"):
        simulate(mixed_city, tmp_path / "killed", planner=planner, options=options(start_frame=1))
    assert {path: path.stat().st_mtime_ns for path in Path(finished / "00000000").rglob("*")} == before

    simulate(mixed_city, tmp_path / "killed", planner=planner, options=options(batch_size=4))
    simulate(mixed_city, tmp_path / "undisturbed", planner=planner, options=options())
    assert digests_of(tmp_path / "killed") == digests_of(tmp_path / "undisturbed")
    assert len(rows_of(tmp_path / "killed" / "scenes.csv")) == 5
