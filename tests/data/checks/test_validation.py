import json
import shutil

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l5kit.data import ChunkedDataset, Finding, compute_checksums, validate_dataset, validate_path
from l5kit.data.checks.finding import FindingList
from l5kit.data.index.interval_index import IntervalIndex
from l5kit.data.log_facts import LogFacts
from l5kit.errors import InvalidArgumentError
from support.logs import write_with_chunks
from support.random_logs import random_dataset

FILES_PER_KIND = {"scenes": 2, "frames": 5, "agents": 7, "traffic_light_faces": 4}


def make(seed=51, num_scenes=6, **sizes):
    return random_dataset(np.random.default_rng(seed), num_scenes, **sizes)


@pytest.fixture
def folder(tmp_path):
    write_with_chunks(make(), tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def summarize(findings):
    return [(finding.severity, finding.check, finding.scene, finding.frame, finding.row) for finding in findings]


def owner(dataset, row, *, array):
    """Scene and frame of a row, by a plain search."""
    field = {"agents": "agent_index_interval", "tl_faces": "traffic_light_faces_index_interval"}.get(array)
    frame = row
    if field:
        (frame,) = [i for i, (start, stop) in enumerate(dataset.frames[field].tolist()) if start <= row < stop]
    scenes = dataset.scenes["frame_index_interval"].tolist()
    (scene,) = [i for i, (start, stop) in enumerate(scenes) if start <= frame < stop]
    return scene, frame


@pytest.mark.parametrize("seed", range(5))
def test_valid_datasets_have_no_findings(tmp_path, seed):
    made = make(seed, num_scenes=seed)
    assert made.validate() == []
    path = write_with_chunks(made, tmp_path / "a.zarr")
    assert ChunkedDataset(path).open().validate() == []
    assert validate_path(path) == []


def test_the_real_scene_has_no_findings(shared_data):
    assert validate_path(shared_data / "single_scene.zarr") == []


def set_value(field, value, *, column=None):
    def change(record):
        if column is None:
            record[field] = value
        else:
            record[field][column] = value

    return change


PITCHED = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]
ROLLED_44 = [[1.0, 0.0, 0.0], [0.0, np.cos(np.radians(44)), -np.sin(np.radians(44))]]
ROLLED_44.append([0.0, np.sin(np.radians(44)), np.cos(np.radians(44))])

BAD_VALUES = {
    "AV pitched by 90 degrees": ("frames", set_value("ego_rotation", PITCHED), "frames: rotation"),
    "AV upside down": ("frames", set_value("ego_rotation", np.diag([1.0, -1.0, -1.0])), "frames: rotation"),
    "track id of 2**63": ("agents", set_value("track_id", 2**63), "agents: track id"),
    "largest track id": ("agents", set_value("track_id", 2**64 - 1), "agents: track id"),
    "negative timestamp": ("frames", set_value("timestamp", -1), "frames: timestamp"),
    "position is NaN": ("frames", set_value("ego_translation", np.nan, column=2), "frames: finite"),
    "position is far": ("frames", set_value("ego_translation", 1e300, column=0), "frames: position"),
    "rotation is scaled": ("frames", set_value("ego_rotation", 2 * np.eye(3)), "frames: rotation"),
    "rotation is mirrored": ("frames", set_value("ego_rotation", np.diag([1.0, 1.0, -1.0])), "frames: rotation"),
    "rotation is zero": ("frames", set_value("ego_rotation", 0.0), "frames: rotation"),
    "rotation is infinite": ("frames", set_value("ego_rotation", np.inf), "frames: finite"),
    "centroid is NaN": ("agents", set_value("centroid", np.nan, column=1), "agents: finite"),
    "yaw is infinite": ("agents", set_value("yaw", np.inf), "agents: finite"),
    "velocity is NaN": ("agents", set_value("velocity", np.nan), "agents: finite"),
    "centroid is far": ("agents", set_value("centroid", -1e12, column=0), "agents: position"),
    "extent is zero": ("agents", set_value("extent", 0.0, column=2), "agents: extent"),
    "extent is negative": ("agents", set_value("extent", -1.0, column=0), "agents: extent"),
    "probability above 1": ("agents", set_value("label_probabilities", 1.5, column=3), "agents: labels"),
    "negative probability": ("agents", set_value("label_probabilities", -0.5, column=3), "agents: labels"),
    "probability is NaN": ("agents", set_value("label_probabilities", np.nan, column=3), "agents: finite"),
    "status above 1": (
        "tl_faces",
        set_value("traffic_light_face_status", 3.0, column=0),
        "traffic_light_faces: status",
    ),
    "negative status": (
        "tl_faces",
        set_value("traffic_light_face_status", -1.0, column=1),
        "traffic_light_faces: status",
    ),
    "status is NaN": ("tl_faces", set_value("traffic_light_face_status", np.nan), "traffic_light_faces: finite"),
}


@pytest.mark.parametrize(("array", "change", "check"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
@pytest.mark.parametrize("stored", [False, True], ids=["numpy", "folder"])
def test_a_bad_value_is_found_where_it_is(tmp_path, array, change, check, stored):
    made = make()
    records = getattr(made, array)
    row = 2 * len(records) // 3
    change(records[row])
    scene, frame = owner(made, row, array=array)
    dataset = ChunkedDataset(write_with_chunks(made, tmp_path / "a.zarr")).open() if stored else made
    errors = [finding for finding in dataset.validate() if finding.severity == "error"]
    assert ("error", check, scene, frame, row) in summarize(errors)
    assert {(finding.scene, finding.frame, finding.row) for finding in errors if finding.check == check} == {
        (scene, frame, row)
    }
    files = {finding.file for finding in errors if finding.check == check}
    key = "traffic_light_faces" if array == "tl_faces" else array
    assert files == {str(tmp_path / "a.zarr" / key / str(row // FILES_PER_KIND[key])) if stored else None}


SUSPICIOUS_VALUES = {
    "labels add up to 0.4": ("agents", set_value("label_probabilities", np.eye(17)[14] * 0.4), "agents: labels"),
    "yaw of 10 turns": ("agents", set_value("yaw", 62.8), "agents: yaw"),
    "velocity of 1000 m/s": ("agents", set_value("velocity", 1000, column=0), "agents: velocity"),
    "extent of 1 km": ("agents", set_value("extent", 1000, column=0), "agents: extent"),
    "track id above 2**53": ("agents", set_value("track_id", 2**53 + 1), "agents: track id"),
    "no status": ("tl_faces", set_value("traffic_light_face_status", 0), "traffic_light_faces: status"),
    "no face id": ("tl_faces", set_value("face_id", ""), "traffic_light_faces: text"),
}


@pytest.mark.parametrize(("array", "change", "check"), SUSPICIOUS_VALUES.values(), ids=SUSPICIOUS_VALUES.keys())
def test_a_suspicious_value_is_a_warning(array, change, check):
    made = make()
    change(getattr(made, array)[3])
    assert summarize(made.validate()) == [("warning", check, *owner(made, 3, array=array), 3)]


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("frames", set_value("ego_rotation", ROLLED_44)),
        ("agents", set_value("track_id", 2**53)),
        ("agents", set_value("yaw", 6.28)),
        ("agents", set_value("velocity", 150)),
        ("agents", set_value("extent", 200)),
    ],
)
def test_a_value_at_its_limit_is_no_finding(array, change):
    made = make()
    change(getattr(made, array)[3])
    assert made.validate() == []


def frame_inside_a_scene(made):
    """A frame with frames of its scene on both sides."""
    return next(start + 1 for start, stop in made.scenes["frame_index_interval"].tolist() if stop - start > 2)


@pytest.mark.parametrize("position", [(0, 0, 0), (3000, 0, 0)], ids=["at the origin", "3 km away"])
@pytest.mark.parametrize("stored", [False, True], ids=["numpy", "folder"])
def test_a_jump_of_the_av_is_found_where_it_goes_and_where_it_comes_back(tmp_path, position, stored):
    made = make(min_frames=4)
    made.frames["ego_translation"] += 400
    row = frame_inside_a_scene(made)
    made.frames["ego_translation"][row] = position
    dataset = ChunkedDataset(write_with_chunks(made, tmp_path / "a.zarr")).open() if stored else made
    found = [finding for finding in dataset.validate() if finding.check == "frames: position"]
    assert [(finding.severity, finding.row) for finding in found] == [("error", row), ("error", row + 1)]
    assert all("150 m/s" in finding.message for finding in found)


@pytest.mark.parametrize(("step_m", "expected"), [(14.9, []), (15.1, ["frames: position"])])
def test_the_av_may_move_by_150_m_in_a_second(step_m, expected):
    made = make(min_frames=4)
    row = frame_inside_a_scene(made)
    start, stop = next(interval for interval in made.scenes["frame_index_interval"].tolist() if interval[0] < row)
    made.frames["ego_translation"][start:stop] = 0
    made.frames["ego_translation"][row:stop, 0] = step_m
    assert [finding.check for finding in made.validate()] == expected


@pytest.mark.parametrize(
    ("step_ns", "expected"),
    [
        (1, [("error", "frames: timestamp")]),
        (999_999, [("error", "frames: timestamp")]),
        (1_000_000, []),
        (10**9, []),
        (10**9 + 1, [("warning", "frames: timestamp")]),
    ],
)
def test_steps_in_time_have_limits(step_ns, expected):
    made = make(min_frames=4)
    row = frame_inside_a_scene(made)
    start, stop = next(interval for interval in made.scenes["frame_index_interval"].tolist() if interval[0] < row)
    made.frames["ego_translation"][start:stop] = 0
    made.frames["timestamp"][row:stop] += step_ns - 10**8
    assert [finding[:2] for finding in summarize(made.validate())] == expected


@pytest.mark.parametrize(
    ("step_s", "told_s", "is_told"),
    [
        (0.1, None, False),
        (0.12, None, False),
        (0.2, None, True),
        (0.05, None, True),
        (0.5, 0.5, False),
        (0.1, 0.5, True),
    ],
)
def test_timestamps_of_another_rate_than_the_facts_tell_are_a_warning(step_s, told_s, is_told):
    made = make()
    made.frames["timestamp"] = 10**18 + np.arange(len(made.frames)) * round(step_s * 1e9)
    ends = made.frames["timestamp"][made.scenes["frame_index_interval"][:, 1] - 1]
    made.scenes["end_time"] = np.maximum(ends, made.scenes["end_time"])
    facts = None if told_s is None else LogFacts(step_time_s=told_s)
    log = ChunkedDataset.in_memory(
        scenes=made.scenes, frames=made.frames, agents=made.agents, tl_faces=made.tl_faces, facts=facts
    )
    told = [finding for finding in log.validate() if "step time" in finding.check]
    assert [finding.severity for finding in told] == ["warning"] * is_told
    if is_told:
        assert f"frames are {step_s:g} s apart" in told[0].message
        assert f"taken for {told_s or 0.1:g} s apart" in told[0].message


def test_negative_track_ids_of_old_sets_are_found():
    made = make()
    fields = [(name, np.int32 if name == "track_id" else made.agents.dtype[name]) for name in made.agents.dtype.names]
    made.agents = made.agents.astype(fields)
    assert made.validate() == []
    made.agents["track_id"][4] = -1
    assert summarize(made.validate()) == [("error", "agents: track id", *owner(made, 4, array="agents"), 4)]


def test_times_of_scenes():
    made = make()
    made.scenes["end_time"][1] = made.scenes["start_time"][1] - 1
    made.scenes["start_time"][4] = -7
    assert summarize(made.validate()) == [
        ("error", "scenes: times", 1, None, 1),
        ("error", "scenes: times", 4, None, 4),
    ]


def test_text_that_is_none(folder):
    for key, check in (("scenes", "scenes: text"), ("traffic_light_faces", "traffic_light_faces: text")):
        file = folder / key / "0"
        content = bytearray(numcodecs.Blosc().decode(file.read_bytes()))
        content[16:20] = b"\xff\xff\xff\xff"
        file.write_bytes(numcodecs.Blosc("lz4", 5, 1).encode(bytes(content)))
        assert [finding.check for finding in validate_path(folder) if key in finding.check] == [check]


def test_timestamps_ascend_inside_scenes_only():
    made = make()
    starts = made.scenes["frame_index_interval"][:, 0].tolist()
    row = next(row for row in range(1, len(made.frames)) if row not in starts)
    made.frames["timestamp"][row] = made.frames["timestamp"][row - 1]
    assert summarize(made.validate()) == [("error", "frames: timestamp", *owner(made, row, array="frames"), row)]
    times = random_dataset(np.random.default_rng(1), 3)
    for index, (start, stop) in enumerate(times.scenes["frame_index_interval"].tolist()):
        times.frames["timestamp"][start:stop] = 10**10 * (9 - index) + 10**8 * np.arange(stop - start)
    assert times.validate() == []


def test_late_timestamps_across_chunk_borders_are_found(tmp_path):
    made = random_dataset(np.random.default_rng(2), 2, min_frames=8)
    made.frames["timestamp"][5] = made.frames["timestamp"][4] - 1  # the first row of the second chunk
    findings = ChunkedDataset(write_with_chunks(made, tmp_path / "a.zarr")).open().validate()
    assert summarize(findings) == [("error", "frames: timestamp", 0, 5, 5)]


@pytest.mark.parametrize("chunk_length", [1, 3, 1000])
def test_track_ids_are_unique_in_a_frame_also_across_chunk_borders(tmp_path, chunk_length):
    made = random_dataset(np.random.default_rng(3), 4, max_tracks=9, min_frames=4)
    counts = np.diff(made.frames["agent_index_interval"], axis=1)[:, 0]
    frame = int(np.argmax(counts))
    start, stop = made.frames["agent_index_interval"][frame].tolist()
    assert stop - start >= 4
    made.agents["track_id"][stop - 1] = made.agents["track_id"][start]
    path = write_with_chunks(made, tmp_path / "a.zarr", chunk_lengths={**FILES_PER_KIND, "agents": chunk_length})
    scene, _ = owner(made, frame, array="frames")
    assert summarize(ChunkedDataset(path).open().validate()) == [("error", "agents: track id", scene, frame, stop - 1)]


INTERVALS = {
    "scenes": ("scenes", "frame_index_interval"),
    "agents": ("frames", "agent_index_interval"),
    "faces": ("frames", "traffic_light_faces_index_interval"),
}


@pytest.mark.parametrize(("array", "field"), INTERVALS.values(), ids=INTERVALS.keys())
@pytest.mark.parametrize("interval", [(5, 4), (-4, 3), (0, 10**9), (2**62, 2**63 - 1), (-(2**63), -1), (1, 1)], ids=str)
def test_bad_intervals_are_found(array, field, interval):
    made = make()
    row = len(getattr(made, array)) // 2
    getattr(made, array)[field][row] = interval
    found = [finding for finding in made.validate() if finding.check == f"{array}: interval" and finding.row == row]
    assert found
    assert all(finding.severity == "error" and str(interval[0]) in finding.message for finding in found)


def test_an_interval_gap_and_unused_rows():
    made = make()
    made.scenes = made.scenes[[1, 2, 4]]
    findings = summarize(made.validate())
    assert [finding[1:] for finding in findings if finding[0] == "error"] == [
        ("scenes: interval", scene, None, scene) for scene in (0, 2)
    ]
    assert [finding[:2] for finding in findings if finding[0] == "warning"] == [("warning", "frames: unused rows")]


@pytest.mark.parametrize(("array", "field"), INTERVALS.values(), ids=INTERVALS.keys())
def test_a_run_that_does_not_start_at_0_is_found(array, field):
    made = make(min_frames=3, max_tracks=9)
    first = int(np.argmax(getattr(made, array)[field][:, 1] > 0))
    getattr(made, array)[field][first, 0] = 1
    getattr(made, array)[field][:first] = 1
    found = {finding.row: finding for finding in made.validate() if finding.check == f"{array}: interval"}
    assert found[0].severity == "error"
    assert "does not start at row 0" in found[0].message


def test_a_last_scene_that_may_have_been_cut_is_an_error_and_frames_left_over_are_none():
    made = make(min_frames=4)
    made.scenes["frame_index_interval"][-1, 1] -= 1
    assert ("error", "scenes: interval", 5, None, 5) in summarize(made.validate())
    blank = np.zeros(2, made.frames.dtype)
    made = make(min_frames=4)
    made.frames = np.concatenate([made.frames, blank])
    assert {finding[:2] for finding in summarize(made.validate()) if finding[1].startswith("scenes")} == set()


def test_a_last_frame_that_may_have_lost_agents_is_an_error_and_blank_rows_are_none():
    def make_one_scene():
        return random_dataset(np.random.default_rng(0), 1, min_frames=4, max_tracks=9)

    made = make_one_scene()
    assert np.diff(made.frames["agent_index_interval"][-1]) > 1
    made.frames["agent_index_interval"][-1, 1] -= 1
    assert ("error", "frames: interval", 0, len(made.frames) - 1, len(made.frames) - 1) in summarize(made.validate())
    made = make_one_scene()
    made.agents = np.concatenate([made.agents, np.zeros(1, made.agents.dtype)])
    assert not [finding for finding in made.validate() if finding.check == "frames: interval"]


@pytest.mark.parametrize("key", ["scenes", "frames", "agents", "traffic_light_faces"])
def test_missing_and_undecodable_chunks(folder, key):
    (folder / key / "0").unlink()
    (folder / key / "1").write_bytes(b"garbage")
    findings = [finding for finding in validate_path(folder) if finding.check.startswith(key)]
    by_check = {finding.check: finding for finding in findings}
    assert by_check[f"{key}: missing chunk"].file == str(folder / key / "0")
    assert by_check[f"{key}: decode"].file == str(folder / key / "1")
    assert {by_check[f"{key}: {check}"].severity for check in ("missing chunk", "decode")} == {"error"}


def test_a_missing_chunk_that_nothing_uses_is_a_warning(folder):
    metadata = json.loads((folder / "agents" / ".zarray").read_text())
    used = metadata["shape"][0]
    (folder / "agents" / ".zarray").write_text(json.dumps({**metadata, "shape": [used + 7 * 4]}))
    findings = [finding for finding in validate_path(folder) if finding.check == "agents: missing chunk"]
    assert [(finding.severity, finding.row) for finding in findings] == [("warning", -(-used // 7) * 7)]
    assert all("are unused" in finding.message and "more of agents" in finding.message for finding in findings)


def test_a_folder_in_the_place_of_a_chunk_is_found(folder):
    (folder / "agents" / "1").unlink()
    (folder / "agents" / "1").mkdir()
    (finding,) = [finding for finding in validate_path(folder) if finding.check == "agents: decode"]
    assert (finding.severity, finding.file) == ("error", str(folder / "agents" / "1"))


def test_findings_are_capped_and_counted():
    made = make()
    made.agents["extent"] = 0
    findings = made.validate()
    assert len(findings) == 11
    assert [finding.row for finding in findings[:10]] == list(range(10))
    assert findings[-1].message == f"... and {len(made.agents) - 10:,} more"


def test_the_list_of_findings_counts_over_many_calls(monkeypatch):
    monkeypatch.setattr("l5kit.data.checks.finding.MAX_PER_CHECK", 3)
    findings = FindingList()

    def make_finding(row):
        return Finding(severity="warning", check="c", message="m", row=row)

    for _ in range(4):
        findings.add_where(np.array([False, True, True]), make_finding)
    findings.add_where(np.zeros(3, dtype=bool), make_finding)
    findings.add(Finding(severity="error", check="c", message="first"))
    listed = findings.as_list()
    assert [finding.message for finding in listed] == ["first", "m", "m", "m", "... and 5 more"]
    assert [finding.row for finding in listed] == [None, 1, 2, 1, None]


def test_what_cannot_be_opened_is_found_and_the_rest_checked(folder, tmp_path):
    (folder / "agents" / ".zarray").write_text("{")
    opened = ChunkedDataset(str(folder))
    assert list(opened.open_readable()) == ["agents"]
    assert len(opened.frames) > len(opened.agents) == 0
    (folder / "traffic_light_faces" / "0").unlink()
    findings = validate_path(folder)
    assert [finding.check for finding in findings if finding.severity == "error"] == [
        "open",
        "traffic_light_faces: missing chunk",
    ]
    assert "agents/.zarray" in findings[0].message
    assert summarize(validate_path(tmp_path / "none.zarr")) == [("error", "open", None, None, None)]


def test_arrays_of_another_type_are_found():
    made = make()
    made.agents = np.zeros(3)
    assert "agents: record type" in {finding.check for finding in made.validate()}


def test_progress_counts_blocks(folder):
    steps = []
    opened = ChunkedDataset(str(folder)).open()
    opened.validate(progress=lambda done, total: steps.append((done, total)))
    chunks = sum(getattr(opened, name).num_chunks for name in ("scenes", "frames", "agents", "tl_faces"))
    assert steps == [(index + 1, chunks) for index in range(chunks)]


def test_views_are_validated_too():
    made = make()
    made.agents["yaw"][-1] = np.nan
    joined = ChunkedDataset.concatenate([make(), made])
    scene, frame = owner(made, len(made.agents) - 1, array="agents")
    expected = ("error", "agents: finite", 6 + scene, len(made.frames) + frame, 2 * len(made.agents) - 1)
    assert summarize(joined.validate()) == [expected]


def test_checksums(folder):
    opened = ChunkedDataset(str(folder)).open()
    digests = compute_checksums(opened)
    assert set(digests) >= {".zgroup", ".zattrs", "agents/.zarray", "agents/0", "scenes/2"}
    assert opened.validate(checksums=digests) == []
    (folder / "agents_mask").mkdir()
    (folder / "agents_mask" / "0.0").write_bytes(b"x")
    assert compute_checksums(opened) == digests
    chunk = folder / "agents" / "0"
    content = bytearray(numcodecs.Blosc().decode(chunk.read_bytes()))
    content[3] ^= 1  # a bit deep in the fraction of a position
    chunk.write_bytes(numcodecs.Blosc("lz4", 5, 1).encode(bytes(content)))
    assert validate_path(folder) == []
    (folder / "frames" / "99").write_bytes(b"new")
    (folder / "traffic_light_faces" / "1").unlink()
    findings = [finding for finding in validate_path(folder, checksums=digests) if finding.check == "checksum"]
    assert [finding.file for finding in findings] == [
        str(folder / "agents" / "0"),
        str(folder / "frames" / "99"),
        str(folder / "traffic_light_faces" / "1"),
    ]
    assert {finding.severity for finding in findings} == {"error"}


def test_checksums_need_files():
    with pytest.raises(InvalidArgumentError, match="files"):
        compute_checksums(make())
    assert summarize(make().validate(checksums={})) == [("error", "checksum", None, None, None)]


def test_interval_index_looks_up_owners():
    index = IntervalIndex.from_blocks([(0, np.array([[0, 2], [2, 2], [2, 5]])), (4, np.array([[7, 9], [9, 3]]))])
    assert index.owners(np.arange(-1, 10)).tolist() == [-1, 0, 0, 2, 2, 2, -1, -1, 4, 4, -1]
    assert (index.used_end(9), index.used_end(8), index.used_end(0)) == (9, 5, 0)
    assert IntervalIndex.from_blocks([]).owners(np.arange(2)).tolist() == [-1, -1]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "small.zarr"
    write_with_chunks(random_dataset(np.random.default_rng(61), 3), path)
    return path


def damage_file(path, data):
    content = bytearray(path.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "truncate", "delete", "replace", "swap"]))
    if kind == "delete" or not content:
        path.unlink()
    elif kind == "truncate":
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    elif kind == "replace":
        path.write_bytes(data.draw(st.binary(max_size=200)))
    elif kind == "swap":
        others = sorted(file for file in path.parent.parent.rglob("*") if file.is_file())
        path.write_bytes(data.draw(st.sampled_from(others)).read_bytes())
    else:
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)


@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_damaged_files_never_crash_the_validation(small, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged") / "d.zarr"
    shutil.copytree(small, folder)
    for _ in range(data.draw(st.integers(1, 3))):
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        damage_file(data.draw(st.sampled_from(files)), data)
    findings = validate_path(folder, checksums={"agents/0": "x"})
    assert all(isinstance(finding, Finding) and finding.message for finding in findings)
    assert all(str(finding) for finding in findings)
    shutil.rmtree(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    key=st.sampled_from(["scenes", "frames", "agents", "traffic_light_faces"]),
    entry=st.sampled_from(["shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters", "zarr_format"]),
    value=json_values | st.lists(st.integers(-3, 2**64), min_size=1, max_size=1),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_wrong_metadata_never_crashes_the_validation(small, tmp_path_factory, key, entry, value):
    folder = tmp_path_factory.mktemp("metadata") / "m.zarr"
    shutil.copytree(small, folder)
    file = folder / key / ".zarray"
    file.write_text(json.dumps({**json.loads(file.read_text()), entry: value}))
    assert isinstance(validate_path(folder), list)
    shutil.rmtree(folder)


raw_records = st.binary(min_size=7 * 116, max_size=7 * 116)


@given(content=raw_records, name=st.sampled_from(["scenes", "frames", "agents", "tl_faces"]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_records_of_any_bytes_never_crash_the_validation(content, name):
    made = random_dataset(np.random.default_rng(61), 3)
    records = getattr(made, name)
    size = min(len(records), len(content) // records.dtype.itemsize)
    records[:size] = np.frombuffer(content[: size * records.dtype.itemsize], dtype=records.dtype)
    assert all(finding.message for finding in validate_dataset(made))
