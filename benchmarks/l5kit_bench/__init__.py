"""Benchmark: rates of data loading, simulation and training, comparable between machines, commits and L5Kit 1.5."""

from l5kit.warmup.workloads import RowLeftOutError
from l5kit_bench.report import BenchReport
from l5kit_bench.row import Fact, MeasuredRow, PreparedRow, Row, choose_rows
from l5kit_bench.run import BenchPlan, all_rows, run_benchmark
from l5kit_bench.score import measure_score
from l5kit_bench.workplace import QUICK, Amounts, find_bench_files

__all__ = [
    "QUICK",
    "Amounts",
    "BenchPlan",
    "BenchReport",
    "Fact",
    "MeasuredRow",
    "PreparedRow",
    "Row",
    "RowLeftOutError",
    "all_rows",
    "choose_rows",
    "find_bench_files",
    "measure_score",
    "run_benchmark",
]
