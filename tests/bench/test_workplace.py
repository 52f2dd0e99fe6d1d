"""Workplace of a benchmark, and the rows themselves on a small synthetic city."""

import json
import shutil

import numpy as np
import pytest

from l5kit.data import ChunkedDataset
from l5kit.errors import InvalidArgumentError, SampleError
from l5kit.warmup.workloads import AGENT_SATELLITE, AGENT_SEMANTIC, AGENT_STUB, WORKLOADS, RowLeftOutError
from l5kit_bench.fast_store import StoreReader, make_copies
from l5kit_bench.reference import read_reference
from l5kit_bench.row import choose_rows, measure_rows
from l5kit_bench.run import BenchPlan, all_rows, prepare_rows, run_benchmark
from l5kit_bench.sample_rows import draw_batches, draw_items, in_batches
from l5kit_bench.workplace import QUICK, Amounts, Workplace, drawn_indices, find_bench_files


@pytest.fixture
def place(city):
    with Workplace(find_bench_files(city), QUICK) as place:
        yield place


def test_the_configurations_are_those_of_the_recorded_rates(shared_data):
    recorded = json.loads((shared_data.parent / "bench" / "workloads.json").read_text())
    for workload in WORKLOADS:
        assert recorded[workload.name]["dataset"] == workload.dataset
        assert recorded[workload.name]["cfg"] == workload.config()


def test_the_references_of_the_rows_are_recorded(shared_data):
    recorded = read_reference(shared_data.parent / "bench" / "reference.json")
    assert {row.reference for row in all_rows()} - {None} <= set(recorded)


def test_the_maps_of_the_recorded_rates_count_first(city, tmp_path):
    folder = shutil.copytree(city, tmp_path / "city")
    assert find_bench_files(folder).semantic_map == folder / "semantic_map" / "semantic_map.pb"
    for name in ("semantic_synth.pb", "aerial_synth.png"):
        (folder / name).touch()
    files = find_bench_files(folder)
    assert (files.semantic_map, files.aerial) == (folder / "semantic_synth.pb", folder / "aerial_synth.png")
    named = find_bench_files(folder, map_path=folder / "semantic_map" / "semantic_map.pb")
    assert named.semantic_map == folder / "semantic_map" / "semantic_map.pb"


def test_maps_beside_the_dataset_count_too(shared_data):
    assert find_bench_files(shared_data / "single_scene.zarr") == find_bench_files(shared_data)


class SomeSamples:
    """Samples of which the odd ones cannot be made."""

    def __init__(self, length):
        self.length = length
        self.dataset = ChunkedDataset("")

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index % 2:
            raise SampleError("odd")
        return index

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def test_indices_are_the_first_of_a_shuffled_order_without_those_that_fail():
    first = np.random.RandomState(0).permutation(1000)[:200]
    assert drawn_indices(SomeSamples(1000), 200) == [index for index in first if index % 2 == 0]


def test_no_sample_at_all_is_a_row_left_out():
    with pytest.raises(RowLeftOutError, match="none of 0 samples"):
        drawn_indices(SomeSamples(0), 200)


def test_drawing_counts_samples():
    assert in_batches([2, 4, 6, 8, 10], 2) == [[2, 4], [6, 8], [10]]
    assert draw_items(SomeSamples(100), [2, 4, 6]) == 3
    assert draw_batches(SomeSamples(100), [[2, 4], [6]]) == 3


def test_samples_of_a_workload_are_built_once(place):
    samples = place.samples_of(AGENT_STUB)
    assert place.samples_of(AGENT_STUB) is samples
    assert place.samples_of(AGENT_STUB, image_dtype="uint8") is not samples


def test_the_folder_of_a_workplace_goes_at_the_end(city):
    with Workplace(find_bench_files(city), QUICK) as place:
        assert place.scratch.is_dir()
    assert not place.scratch.exists()


def test_rows_without_their_maps_are_left_out_with_the_reason(city, tmp_path):
    shutil.copytree(city / "scenes", tmp_path / "alone" / "scenes")
    with Workplace(find_bench_files(tmp_path / "alone"), QUICK) as place:
        rows = choose_rows(all_rows(), ["agent-semantic", "agent-satellite", "copies", "build", "agent-stub", "mask"])
        prepared, left_out = prepare_rows(rows, place)
    assert [row.key for row, _ in prepared] == ["agent-stub", "mask"]
    assert sorted(left_out) == sorted(row.title for row in rows if row.key not in ("agent-stub", "mask"))
    assert "no semantic map and no meta.json near" in left_out[AGENT_SEMANTIC.name]
    assert "no aerial picture and no meta.json near" in left_out[AGENT_SATELLITE.name]


def test_each_row_does_what_it_counts(place, city, clock):
    """All rows except those of the loader and of other processes, which have separate tests."""
    pytest.importorskip("gymnasium")
    made = []
    keys = [row.key for row in all_rows() if row.key not in ("copies", "loader-1", "loader-2")]  # without state-idm
    rows = choose_rows(all_rows(lambda folder, num_scenes: made.append((folder, num_scenes))), [*keys, "city"])
    prepared, left_out = prepare_rows(rows, place)
    assert left_out == {}
    num_agents = len(ChunkedDataset(str(find_bench_files(city).dataset)).open().agents)
    counts = {row.key: ready.work() for row, ready in prepared}
    assert counts == {
        "agent-semantic": 8,
        "batches": 8,
        "batches-uint8": 8,
        "ego-semantic": 8,
        "agent-satellite": counts["agent-satellite"],
        "agent-box": 8,
        "agent-stub": 8,
        "urban-driver": 8,
        "safepathnet": 8,
        "mask": num_agents,
        "frames": 20,
        "build": 1,
        "city": 1,
        "unroll-raster": 40,
        "unroll-raster-32": 32 * 30,
        "unroll-vector": 40,
        "unroll-vector-32": 32 * 30,
        "unroll-raster-agents": 8 * 12,
        "unroll-vector-agents": 8 * 12,
        "cle-metrics": 1,
        "state-replay": num_agents + 40,
        "drive-score": 1,
        "environment": 2 * 31,
        "environment-street": 2 * 31,
        "environment-64": 3 * 4,
        "environment-64-street": 3 * 4,
        "environment-reset": 2,
        "environment-64-vectors": 3 * 4,
    }
    assert 1 <= counts["agent-satellite"] <= 8
    assert made == [(place.scratch / "made", 1)]


def test_a_made_city_is_driven_by_idm(place, city):
    def copy_city(folder, num_scenes):
        assert num_scenes == 1
        shutil.copytree(city, folder)

    ((_, ready),), left_out = prepare_rows(choose_rows(all_rows(copy_city), ["state-idm"]), place)
    num_agents = len(place.dataset.agents)
    assert left_out == {}
    assert 0.9 * num_agents < ready.work() <= num_agents + 40  # some find no room where they would appear


def test_both_loaders_draw_the_same_number_of_samples(place):
    rows = choose_rows(all_rows(), ["loader-1", "loader-2"])
    prepared, left_out = prepare_rows(rows, place)
    assert left_out == {}
    one, two = (ready.work() for _, ready in prepared)
    assert one == two >= QUICK.num_loaded_batches * QUICK.batch_size


@pytest.mark.process
def test_copies_are_read_by_another_process(place):
    task = make_copies(place)
    assert len(ChunkedDataset(str(task.path)).open().agents) == 3 * len(place.dataset.agents)
    reader = StoreReader(task)
    try:
        assert reader.draw() == 8
        memory = reader.memory()
        assert 0 < reader.memory_at_start().anonymous_mb <= memory.resident_mb
    finally:
        reader.close()


def test_a_large_dataset_is_not_copied(city):
    with Workplace(find_bench_files(city), Amounts(num_joined_rows=10)) as place:
        with pytest.raises(RowLeftOutError, match="agent rows, and this row joins copies of a small one, 10 rows"):
            make_copies(place)
        assert list(place.scratch.iterdir()) == []


@pytest.mark.process
def test_a_dataset_that_the_process_cannot_read_is_a_row_left_out(place):
    task = make_copies(place)
    for folder in (task.path, task.cache_folder):
        shutil.rmtree(folder)
    reader = StoreReader(task)
    try:
        with pytest.raises(RowLeftOutError, match=r"copies\.zarr"):
            reader.draw()
    finally:
        reader.close()


def test_a_run_takes_the_score_before_and_after(city, clock):
    scores = iter([1000, 3000])
    plan = BenchPlan(
        rows=choose_rows(all_rows(), ["agent-stub"]), amounts=QUICK, num_passes=2, score=lambda: next(scores)
    )
    report = run_benchmark(plan, find_bench_files(city), data="here")
    assert (report.scores, report.score, report.data) == ((1000, 3000), 2000, "here")
    (measured,) = report.measured
    assert len(measured.rates) == 2


def test_at_least_one_pass_counts():
    with pytest.raises(InvalidArgumentError, match="num_passes must be at least 1, got 0"):
        BenchPlan(rows=[], num_passes=0)


def test_no_rows_are_measured_as_none(clock):
    assert measure_rows([], num_passes=1, clock=clock) == []
