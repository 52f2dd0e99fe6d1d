"""Benchmark run: its rows, prepared and measured between two measurements of the score of the machine."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from l5kit.data.dataset_files import DatasetFiles
from l5kit.errors import InvalidArgumentError
from l5kit.warmup.workloads import RowLeftOutError
from l5kit_bench.closed_loop_rows import closed_loop_rows, state_row
from l5kit_bench.environment_rows import DriverTrainer, crowd_rows, driver_row, environment_rows
from l5kit_bench.fast_store import copies_row
from l5kit_bench.log_rows import CityMaker, city_row, log_rows
from l5kit_bench.machine import describe_machine, one_opencv_thread
from l5kit_bench.report import BenchReport
from l5kit_bench.row import PreparedRow, Row, measure_rows
from l5kit_bench.sample_rows import loader_rows, sample_rows
from l5kit_bench.score import Clock, measure_score
from l5kit_bench.workplace import Amounts, Workplace


@dataclass(frozen=True, kw_only=True)
class BenchPlan:
    """What is measured, and how.

    Attributes:
        rows: The rows.
        amounts: How much a pass of them does.
        num_passes: Passes that count.
        reference: Recorded rates per 1,000 points of score, by name.
        score: Returns the score of the machine.
        clock: Tells the time.
    """

    rows: Sequence[Row]
    amounts: Amounts = field(default_factory=Amounts)
    num_passes: int = 5
    reference: Mapping[str, float] = field(default_factory=dict)
    score: Callable[[], float] = measure_score
    clock: Clock = time.perf_counter

    def __post_init__(self) -> None:
        """Check the number of passes."""
        if self.num_passes < 1:
            raise InvalidArgumentError(f"num_passes must be at least 1, got {self.num_passes}")


def all_rows(
    make_city: CityMaker | None = None,
    *,
    make_crowded_city: CityMaker | None = None,
    train: DriverTrainer | None = None,
) -> tuple[Row, ...]:
    """Return all rows of the benchmark; some only where it is told how to do what they measure.

    Args:
        make_city: Makes a city, which is a row, and in which states are driven.
        make_crowded_city: Makes a city whose vehicles are closer together, in which a thousand environments step.
        train: Trains a driver in that city.
    """
    rows = [*sample_rows(), *log_rows(), copies_row(), *loader_rows(), *closed_loop_rows(), *environment_rows()]
    if make_city is not None:
        rows += [city_row(make_city), state_row(make_city)]
    if make_crowded_city is not None:
        rows += crowd_rows(make_crowded_city)
        if train is not None:
            rows.append(driver_row(make_crowded_city, train))
    return tuple(rows)


def run_benchmark(plan: BenchPlan, files: DatasetFiles, *, data: str | Path | None = None) -> BenchReport:
    """Measure rows on a dataset, OpenCV on one thread.

    Args:
        plan: What is measured.
        files: The dataset and its maps.
        data: What to call them; None for the path of the dataset.
    """
    with one_opencv_thread(), Workplace(files, plan.amounts) as place:
        prepared, left_out = prepare_rows(plan.rows, place)
        before = plan.score()
        measured = measure_rows(prepared, num_passes=plan.num_passes, clock=plan.clock)
        after = plan.score()
    return BenchReport(
        data=str(files.dataset if data is None else data),
        machine=describe_machine(),
        scores=(before, after),
        num_passes=plan.num_passes,
        measured=measured,
        left_out=left_out,
        reference=plan.reference,
    )


def prepare_rows(rows: Sequence[Row], place: Workplace) -> tuple[list[tuple[Row, PreparedRow]], dict[str, str]]:
    """Return the rows that can be measured, prepared, and by title the reasons why others cannot."""
    prepared, left_out = [], {}
    for row in rows:
        try:
            prepared.append((row, row.prepare(place)))
        except RowLeftOutError as error:
            left_out[row.title] = str(error)
    return prepared, left_out
