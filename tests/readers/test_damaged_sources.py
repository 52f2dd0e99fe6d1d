"""Random damage to sources of all formats: unreadable scenes are reported by name, and nothing else is affected.

Each seed damages one file of a small source and imports it. To inspect one, call :func:`attack` with it.
"""

import json
import pickle
import random
import shutil
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from l5kit.data import ChunkedDataset, export_lanelet2, export_opendrive
from l5kit.data.checks.path_validation import validate_path
from l5kit.errors import L5KitError
from l5kit.evaluation.driving.map_checks import check_map
from l5kit.readers.formats import open_reader
from l5kit.readers.importing import import_dataset
from l5kit.readers.map_files import import_map
from l5kit.readers.reader import SourceDataError
from support import argoverse2_files as av2
from support import exchanged_maps, mcap_files, nuscenes_folders, py123d_roots, scenarionet_files, table_files, womd

NUM_SEEDS, NUM_SEEDS_LONG = 12, 1500
FORMATS = ("argoverse2", "womd", "nuscenes", "scenarionet", "table", "table-mcap", "py123d", "argoverse2-sensor")
PROTOBUF = "table-mcap-protobuf"
"""MCAP files whose messages are not JSON, but protobuf with its schemas."""

SUFFIXES = (".parquet", ".json", ".geojson", ".csv", ".tfrecord", ".pkl", ".arrow", ".feather", ".mcap")
TABLES = ("summary.pkl", "mapping.pkl", "columns.yaml", "map.geojson", "nuplan_town.arrow")
"""Suffixes of the files that describe all scenes: damage to them makes the whole source unreadable."""

NAMES = [f"0000000{number}-0000-0000-0000-000000000000" for number in range(3)]


def write_source(kind, folder):
    """Write two or three small scenes."""
    if kind == "argoverse2":
        for name in NAMES:
            av2.write_scenario(folder / "val", name)
    elif kind == "womd":
        for name in "abc":
            womd.write_file(folder / f"training.tfrecord-{name}", [womd.small_scenario(name)])
    elif kind == "scenarionet":
        for name, dataset in zip("abc", ("waymo", "nuplan", "nuscenes"), strict=True):
            made = scenarionet_files.make_scenario(name, dataset, num_steps=12)
            scenarionet_files.write_set(folder, [made], subfolder=name, has_mapping=False)
        (folder / "dataset_summary.pkl").unlink()
        files = {path.name: path.parent.name for path in folder.rglob("sd_*.pkl")}
        (folder / "dataset_mapping.pkl").write_bytes(pickle.dumps(files))
    elif kind == "py123d":
        for name in ("log-1", "log-2", "log-3"):
            py123d_roots.write_log(folder, name, num_frames=12)
        py123d_roots.write_map(folder)
    elif kind == "argoverse2-sensor":
        for name in NAMES:
            av2.write_sensor_log(folder / "val", name, num_steps=12)
    elif kind == PROTOBUF:
        for name in ("a/a.mcap", "b/b.mcap", "c/c.mcap"):
            mcap_files.write_protobuf(folder / name, mcap_files.messages_of(12))
        mcap_files.write_columns(folder)
    elif kind == "table-mcap":
        for name in ("a/a.mcap", "b/b.mcap", "c/c.mcap"):
            mcap_files.write_json(folder / name, mcap_files.messages_of(12), compression="none")
        mcap_files.write_columns(folder)
    elif kind == "table":
        for name in ("a/a.csv", "b/b.parquet", "c/c.csv"):
            table_files.Table.make(num_steps=12).write(folder / name)
        table_files.write_map(folder, table_files.FEATURES)
        table_files.write_columns(folder, map="map.geojson")
    else:
        nuscenes_folders.write_folder(folder)


def open_source(kind, folder):
    return open_reader(kind.removesuffix("-protobuf").removesuffix("-mcap"), folder)


# --- what is damaged


def some_bytes(content, rng):
    """Flip bits, overwrite, cut out, put in, cut off or double bytes."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 3, 20])):
        place, length = rng.randrange(len(data) + 1), rng.choice([1, 4, 100])
        kind = rng.randrange(6)
        if kind == 0 and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place : place + length] = rng.randbytes(length)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = rng.randbytes(length)
        elif kind == 4:
            del data[place:]
        else:
            data[place:place] = data[place : place + length]
    return bytes(data)


def strange_value(rng):
    deep = []
    for _ in range(200):
        deep = [deep]
    return rng.choice(
        [None, True, False, "", "x" * 100_000, "../../elsewhere", "/etc/passwd", "\ud800", "a\0b", "ü/%", [], {}, deep]
        + [0, -1, 3, 2**31, 2**63, 10**40, 1e308, -1e30, 1e-320, float("nan"), float("inf"), 0.5, "1", [1, 2], {"x": 1}]
    )


def places_of(content, path=()):
    """Return the places of all values in what JSON or a pickle holds."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(place for key, value in pairs for place in places_of(value, (*path, key)))]


def some_text(text, rng):
    """Change, remove, double or swap words of a text of lines."""
    lines = text.splitlines()
    for _ in range(rng.choice([1, 1, 5])):
        row = rng.randrange(len(lines))
        words = lines[row].split(",")
        kind, word = rng.randrange(5), rng.randrange(len(words))
        if kind == 0:
            del words[word]
        elif kind == 1:
            words[word] = rng.choice(
                ["", "nan", "inf", "-1e300", "x" * 1000, "1", "true", "ego", "\ufeff", "[", "a: b"]
            )
        elif kind == 2:
            words[word] = rng.choice(rng.choice(lines).split(","))
        elif kind == 3:
            lines.insert(rng.randrange(len(lines)), lines[row])
            continue
        else:
            lines[row] = rng.choice(lines)
            continue
        lines[row] = ",".join(words)
    return "\n".join(lines) + "\n"


def some_value(content, rng):
    """Change, remove, double or swap values in what JSON holds."""
    return json.dumps(with_other_values(json.loads(content), rng)).encode()


def with_other_values(content, rng):
    whole = {"root": content}
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.choice([path for path in places_of(whole) if path])
        holder = whole
        for key in place[:-1]:
            holder = holder[key]
        kind = rng.randrange(5)
        if kind == 0 and len(place) > 1:
            del holder[place[-1]]
        elif kind == 1 and isinstance(holder, list):
            holder.append(holder[place[-1]])
        elif kind == 2 and len(holder) > 1:
            holder[place[-1]] = holder[rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))]
        else:
            holder[place[-1]] = strange_value(rng)
    return whole["root"]


def some_column(path, rng):
    """Change a column of a Parquet or feather file: its kind, or some of its values."""
    is_feather = path.suffix == ".feather"
    table = pyarrow.feather.read_table(path) if is_feather else pq.read_table(path)
    name = rng.choice(table.column_names)
    number, values = table.column_names.index(name), table.column(name).to_pylist()
    kind = rng.randrange(7)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1:
        table = table.set_column(number, name, pa.array([str(value) for value in values]))
    elif kind == 2:
        table = table.set_column(number, name, pa.array([[value] for value in values]))
    elif kind == 3:
        table = table.set_column(number, name, table.column(name).dictionary_encode())
    elif kind == 4:
        rng.shuffle(values)
        table = table.set_column(number, name, pa.array(values, table.schema.field(name).type))
    elif kind == 5:
        column_kind = table.schema.field(name).type
        strange = {pa.string(): ["", "../x", "x" * 10_000], pa.int64(): [-1, 2**40], pa.float64(): [1e308, np.nan]}
        values[rng.randrange(len(values))] = rng.choice([None, *strange.get(column_kind, [])])
        table = table.set_column(number, name, pa.array(values, table.schema.field(name).type, from_pandas=False))
    else:
        table = pa.concat_tables([table, table.slice(rng.randrange(len(values)), 3)])
    if is_feather:
        pyarrow.feather.write_feather(table, path)
    else:
        pq.write_table(table, path)


def some_rows(path, rng):
    """Change, duplicate or swap rows of a column of an Arrow file, or change its metadata."""
    table, metadata = py123d_roots.read_arrow(path)
    if metadata and rng.random() < 0.2:
        py123d_roots.change_metadata(path, **{rng.choice(list(metadata)): rng.choice([None, -1, "x", [], 1e300])})
        return

    def change(rows):
        row = rng.randrange(len(rows))
        strange = [None, rng.choice(rows), *([[], rows[row] * 2] if isinstance(rows[row], list) else [-1, 10**12])]
        rows[row] = rng.choice(strange)
        return rows

    try:
        py123d_roots.change_column(path, rng.choice(table.column_names), change)
    except (pa.ArrowException, TypeError, OverflowError):  # what a column cannot hold
        path.write_bytes(some_bytes(path.read_bytes(), rng))


def damage(kind, folder, rng):
    """Damage one file of a source, and return it."""
    path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    content = path.read_bytes()
    if rng.random() < 0.08:
        rng.choice([path.unlink, lambda: path.write_bytes(b""), lambda: (path.unlink(), path.mkdir())])()
    elif rng.random() < 0.3:
        path.write_bytes(some_bytes(content, rng))
    elif path.suffix in (".json", ".geojson"):
        path.write_bytes(some_value(content, rng))
    elif path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(with_other_values(pickle.loads(content), rng)))
    elif path.suffix == ".arrow":
        some_rows(path, rng)
    elif path.suffix == ".feather":
        some_column(path, rng)
    elif path.suffix in (".csv", ".yaml"):
        path.write_text(some_text(content.decode(), rng))
    elif path.suffix == ".parquet":
        some_column(path, rng)
    elif path.suffix == ".mcap" and kind == PROTOBUF:
        numbers = {rng.randrange(26) for _ in range(rng.choice([1, 1, 3]))}  # of 2 schemas and 24 messages
        mcap_files.rewrite(path, lambda number, data: some_bytes(data, rng) if number in numbers else data)
    elif path.suffix == ".mcap":
        messages = mcap_files.messages_of(12)
        index = rng.randrange(len(messages))
        messages[index] = (*messages[index][:3], with_other_values(messages[index][3], rng))
        mcap_files.write_json(path, messages)
    else:
        womd.write_file(path, [some_bytes(content[12:-4], rng) for _ in range(rng.choice([1, 1, 2]))])
    return path


# --- what must hold


def records_of(result, source):
    """The records of each scene by its file, AV, agents and lights, without the offset of its map."""
    found = {}
    for split, path in result.scenes.items():
        log = ChunkedDataset(str(path)).open()
        rows = (result.folder / "sources" / f"{split}.jsonl").read_text("utf-8").split("\n")[:-1]
        for number, row in enumerate(map(json.loads, rows)):
            scene = log.get_scene_dataset(number)
            ego_m = scene.frames["ego_translation"][:, :2] - row["offset_m"]
            agents_m = scene.agents["centroid"] - row["offset_m"]
            found[row["file"], row["name"]] = [ego_m, agents_m, scene.frames["timestamp"], scene.agents["yaw"]]
    return found


@pytest.fixture(scope="module", params=(*FORMATS, PROTOBUF))
def clean(request, tmp_path_factory):
    """A source, and what an import of it has."""
    if request.param == PROTOBUF:
        pytest.importorskip("foxglove", reason="the extra mcap is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    write_source(request.param, folder / "source")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L5KIT_CACHE_DIR", str(folder / "cache"))
        result = import_dataset(open_source(request.param, folder / "source"), folder / "out")
    assert not result.failed
    return request.param, folder / "source", records_of(result, folder / "source")


def attack(clean, folder, seed):
    """Import a damaged source; return how it ended: ``refused``, ``failed`` or ``read``."""
    kind, source, expected = clean
    rng = random.Random(f"{kind} {seed}")
    shutil.copytree(source, folder / "source")
    damaged = damage(kind, folder / "source", rng).relative_to(folder / "source").as_posix()
    try:
        result = import_dataset(open_source(kind, folder / "source"), folder / "out")
    except L5KitError as error:
        if not (kind == "nuscenes" or damaged.endswith(TABLES)) or len(str(error)) > 3000:  # other scenes go on
            raise
        assert not (folder / "out").exists()
        assert {path.name for path in folder.iterdir()} <= {"source", "cache"}
        return "refused"
    assert {path.name for path in folder.iterdir()} <= {"source", "cache", "out"}
    content = json.loads((folder / "out" / "import.json").read_text("utf-8"))
    for each in content["failed"]:
        assert any(suffix in each["message"] for suffix in SUFFIXES), each
        assert len(each["message"]) < 3000
    for path in result.scenes.values():
        findings = validate_path(path)  # a position that jumped, found by its speed
        assert all(each.severity == "warning" for each in findings), findings
    records = records_of(result, folder / "source")
    if kind != "nuscenes" and not damaged.endswith(TABLES):
        for place, whole in expected.items():
            folder_of_scene = place[0].rpartition("/")[0]
            if folder_of_scene != damaged.rpartition("/")[0] and not damaged.startswith(f"{folder_of_scene}/"):
                # a separate map for the damaged scene moves the others, up to rounding
                assert all(np.allclose(*pair, rtol=0, atol=1e-9) for pair in zip(records[place], whole, strict=True)), (
                    place
                )
    for ego_m, agents_m, times_ns, yaws_rad in records.values():
        assert all(np.isfinite(values).all() for values in (ego_m, agents_m, yaws_rad))
        assert np.abs(ego_m).max() <= 1.1e7
        assert (np.diff(times_ns) > 0).all()
    return "failed" if result.failed else "read"


def attack_all(clean, tmp_path, monkeypatch, seeds):
    ends = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("L5KIT_CACHE_DIR", str(folder / "cache"))
        try:
            ends.append(attack(clean, folder, seed))
        except BaseException as error:
            error.add_note(f"{clean[0]}, seed {seed}")
            raise
        shutil.rmtree(folder)
    return ends


def test_random_damage_is_told_or_harmless(clean, tmp_path, monkeypatch):
    ends = attack_all(clean, tmp_path, monkeypatch, range(NUM_SEEDS))
    assert len(set(ends)) > 1, ends


@pytest.mark.long
@pytest.mark.timeout(0)
def test_much_random_damage_is_told_or_harmless(clean, tmp_path, monkeypatch):
    ends = attack_all(clean, tmp_path, monkeypatch, range(1000, 1000 + NUM_SEEDS_LONG))
    assert min(ends.count(end) for end in set(ends)) > 50, ends


# --- maps, which are one file of XML

MAP_FORMATS = {"lanelet2": export_lanelet2, "opendrive": export_opendrive}
NUM_MAP_SEEDS, NUM_MAP_SEEDS_LONG = 40, 3000
STRANGE_TEXTS = (
    *("", "nan", "inf", "-inf", "1e300", "-1e300", "1e-320", "0", "-1", "3", str(2**63), "1" * 5000, "x" * 10_000),
    *("yes", "[]", "{", "[[1]]", "\ud7ff", "../x", "1,2", "0x10", "1_0", "half a word", "0.5", "-0.0"),
)


def some_element(text, rng):
    """Change, remove, double or move elements of XML, their attributes and their texts."""
    root = ElementTree.fromstring(text)
    for _ in range(rng.choice([1, 1, 2, 6])):
        parents = [element for element in root.iter() if len(element)]
        if not parents:
            break
        parent = rng.choice(parents)
        child = rng.choice(list(parent))
        kind = rng.randrange(7)
        if kind == 0:
            parent.remove(child)
        elif kind == 1:
            parent.insert(rng.randrange(len(parent) + 1), child)  # twice
        elif kind == 2:
            child.tag = rng.choice(list(root.iter())).tag
        elif kind == 3 and child.text and child.text.strip():
            child.text = rng.choice(STRANGE_TEXTS)
        elif kind == 4 and child.attrib:
            del child.attrib[rng.choice(list(child.attrib))]
        elif kind == 5 and child.attrib:
            key = rng.choice(list(child.attrib))
            others = [element.attrib[key] for element in root.iter(child.tag) if key in element.attrib]
            child.attrib[key] = rng.choice(others)
        elif child.attrib:
            child.attrib[rng.choice(list(child.attrib))] = rng.choice(STRANGE_TEXTS)
    return ElementTree.tostring(root, encoding="unicode")


@pytest.fixture(scope="module", params=sorted(MAP_FORMATS))
def clean_map(request, tmp_path_factory):
    """The file of a map that can be read, in one of the formats."""
    folder = tmp_path_factory.mktemp(request.param)
    file = folder / "town.xml"
    MAP_FORMATS[request.param](exchanged_maps.lit_road_map(folder), file)
    return request.param, file.read_bytes()


def attack_map(clean_map, folder, seed):
    """Import a damaged map; return how it ended: ``refused`` or ``read``."""
    map_format, content = clean_map
    rng = random.Random(f"{map_format} {seed}")
    is_of_bytes = rng.random() < 0.25
    damaged = some_bytes(content, rng) if is_of_bytes else some_element(content.decode(), rng).encode()
    (folder / "town.xml").write_bytes(damaged)
    try:
        result = import_map(map_format, folder / "town.xml", folder / "out")
    except SourceDataError as error:
        if "town.xml" not in str(error) or len(str(error)) > 3000:
            raise
        assert {path.name for path in folder.iterdir()} == {"town.xml"}
        return "refused"
    assert {path.name for path in folder.iterdir()} == {"town.xml", "out"}
    assert all(len(sentence) < 3000 for sentence in result.left_out)
    found = exchanged_maps.opened_map(result.folder)
    assert found.arrays.num_lanes == result.num_lanes
    for points_m in (found.arrays.lane_lines.points, found.arrays.crosswalk_lines.points):
        assert np.isfinite(points_m).all()
    check_map(found)
    return "read"


def attack_maps(clean_map, tmp_path, seeds):
    ends = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            ends.append(attack_map(clean_map, folder, seed))
        except BaseException as error:
            error.add_note(f"{clean_map[0]}, seed {seed}")
            raise
        shutil.rmtree(folder)
    return ends


def test_random_damage_of_maps_is_told_or_harmless(clean_map, tmp_path):
    ends = attack_maps(clean_map, tmp_path, range(NUM_MAP_SEEDS))
    assert set(ends) == {"refused", "read"}, ends


@pytest.mark.long
@pytest.mark.timeout(0)
def test_much_random_damage_of_maps_is_told_or_harmless(clean_map, tmp_path):
    ends = attack_maps(clean_map, tmp_path, range(1000, 1000 + NUM_MAP_SEEDS_LONG))
    assert min(ends.count(end) for end in ("refused", "read")) > 50, ends
