"""``l5kit bench``: rates, memory and start-up time of this checkout."""

import json
import tempfile
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from l5kit._types import JsonObject
from l5kit.cli.options import AerialOption, MapOption, MetaOption
from l5kit.cli.output import print_facts, print_line, print_table, remark
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.progress import on_terminal, show_progress
from l5kit.data.stores.store import is_url, path_of
from l5kit.synthetic.city import make_city

if TYPE_CHECKING:
    from l5kit_bench.report import BenchReport
    from l5kit_bench.run import BenchPlan
    from l5kit_bench.workplace import Workplace

_CROWD_TOWN_M = 450.0
"""Side of the town for many environments; about ten agents are driven in each."""

_MADE_CITY = "a made city of one scene"


def bench(
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Dataset folder or .zarr; by default a city of one scene is made."),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Recorded rates on the same data to compare with (JSON).")
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Passes of each row; their median is shown.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ROW", help="A row to measure; may be given several times.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Samples of a batch; by default 32, or 4 if quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Little work, to see that everything runs.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="In place of rates, memory: over 20,000 samples, and of 1 to 8 processes.")
    ] = False,
    startup: Annotated[
        bool, typer.Option("--startup", help="In place of rates, what starting costs: cold and warm.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="In place of rates of the processor, those of a GPU: cuda. With --quick also cpu, where "
            "the same kernels run in a loop.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all that was measured as JSON.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the table of rates in Markdown.")
    ] = None,
    score_script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Python file whose score() tells the speed of the machine.")
    ] = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """Measure how fast samples, the log and the map are read, on one thread.

    Rates are medians of passes that alternate between the rows. They are also given per 1,000 points of a score of the
    machine, taken in the same run, so that figures of different machines and hours compare.

    Examples:
        l5kit bench
        l5kit bench --data city --only agent-semantic --only batches
        l5kit bench --data data --reference reference.json --markdown rates.md
        l5kit bench --memory
        l5kit bench --startup
    """
    from l5kit_bench.workplace import Workplace, find_bench_files

    if (memory and startup) or ((memory or startup) and (only or reference or markdown or score_script)):
        raise typer.BadParameter("--memory and --startup measure no rates: give one of them, without options for rates")
    if reference is not None and data is None:
        raise typer.BadParameter("--reference holds rates on certain data: name them with --data")
    if data is not None and is_url(path_of(data)):
        raise typer.BadParameter(f"--data {path_of(data)!r} is a URL; what is measured lies on this machine: copy it")
    if device is not None and (memory or startup or only or reference or markdown or score_script):
        raise typer.BadParameter("--device measures what a GPU does: give it with --data, --quick and --json alone")
    plan = _make_plan(only, reference, score_script, passes, quick, batch_size)
    with tempfile.TemporaryDirectory(prefix="l5kit-bench-") as scratch:
        folder = _make_city(Path(scratch) / "city", quick) if data is None else data
        files = find_bench_files(folder, map_path=map_path, meta_path=meta, aerial_path=aerial)
        title = _MADE_CITY if data is None else str(files.dataset)
        if device is not None:
            content = _show_device(files, device, title, quick)
        elif memory or startup:
            with Workplace(files, plan.amounts) as place:
                content = _show_memory(place, title, quick) if memory else _show_startup(place, title)
        else:
            report = _show_rates(plan, files, title)
            content = report.as_json()
            if markdown is not None:
                markdown.write_text(report.as_markdown(), "utf-8")
    if json_file is not None:
        json_file.write_text(json.dumps({"data": title, **content}, indent=2) + "\n", "utf-8")


def _make_plan(
    only: list[str] | None,
    reference: Path | None,
    score_script: Path | None,
    passes: int,
    quick: bool,
    batch_size: int | None,
) -> "BenchPlan":
    from l5kit_bench.reference import read_reference
    from l5kit_bench.row import choose_rows
    from l5kit_bench.run import BenchPlan, all_rows
    from l5kit_bench.score import QUICK_WINDOW_S, WINDOW_S, measure_score, score_of_script
    from l5kit_bench.workplace import QUICK, Amounts

    amounts = QUICK if quick else Amounts()
    window_s = QUICK_WINDOW_S if quick else WINDOW_S
    return BenchPlan(
        rows=choose_rows(
            all_rows(_make_small_city, make_crowded_city=_make_crowded_city, train=_train_driver), only or []
        ),
        amounts=amounts if batch_size is None else replace(amounts, batch_size=batch_size),
        num_passes=passes,
        reference={} if reference is None else read_reference(reference),
        score=partial(score_of_script, score_script) if score_script else partial(measure_score, window_s=window_s),
    )


class _CitySize(TypedDict, total=False):
    """Parameters of a small city."""

    num_frames: int
    town_size: float


def _make_city(folder: Path, quick: bool) -> Path:
    """Make the city that is measured on, of about as many agents as a scene of the real dataset has."""
    size: _CitySize = {"num_frames": 60, "town_size": 300.0} if quick else {}
    with show_progress("Making a city", visible=True) as progress:
        make_city(folder, num_scenes=1, progress=progress, **size)
    return folder


def _make_small_city(folder: Path, num_scenes: int) -> None:
    """Generate a city for the row of cities."""
    make_city(folder, num_scenes=num_scenes, overwrite=True)


def _make_crowded_city(folder: Path, num_scenes: int) -> None:
    """Generate a city for the rows of many environments."""
    make_city(folder, num_scenes=num_scenes, town_size=_CROWD_TOWN_M)


def _train_driver(cfg: JsonObject, folder: Path, data: Path) -> tuple[int, float]:
    """Train a driver, and return its steps and the share of the time that environments take."""
    from l5kit.reinforcement.run import train_driver  # imported here, since other rows need no stable-baselines3

    result = train_driver(cfg, folder, data_folder=data, tell=lambda _: None, show_bar=False)
    return result.num_steps, result.environment_share


def _show_rates(plan: "BenchPlan", files: DatasetFiles, title: str) -> "BenchReport":
    from l5kit_bench.report import COLUMNS
    from l5kit_bench.run import run_benchmark

    if on_terminal():  # no progress bar, whose thread would distort the measurement
        remark(f"measuring {len(plan.rows)} rows in {plan.num_passes} passes")
    report = run_benchmark(plan, files, data=title)
    print_facts(f"Rates on {title}", report.facts())
    passes = "One pass" if plan.num_passes == 1 else f"Medians of {plan.num_passes} passes"
    amount = "" if plan.amounts.is_for_figures else ", of too little work to mean much"
    print_table(f"{passes} on one thread{amount}", COLUMNS, report.lines())
    print_line(report.verdict())
    for row, reason in report.left_out.items():
        remark(f"left out: {row}: {reason}")
    return report


def _show_device(files: DatasetFiles, device: str, title: str, quick: bool) -> JsonObject:
    from l5kit.device.opening import open_backend
    from l5kit_bench.device_rates import DEVICE_COLUMNS, QUICK_ON_DEVICE, DeviceAmounts, measure_device
    from l5kit_bench.workplace import Workplace

    if device == "cpu" and not quick:
        raise typer.BadParameter("--device cpu runs kernels of GPUs in a loop, which tells nothing: give --quick too")
    backend, amounts = open_backend(device), QUICK_ON_DEVICE if quick else DeviceAmounts()
    with Workplace(files, _make_plan(None, None, None, 1, quick, None).amounts) as place:
        report = measure_device(place, backend, amounts, make_city=_make_crowded_city)
    print_facts(f"Rates on {title}", report.facts())
    amount = "" if amounts.is_for_figures else ", of too little work to mean much"
    print_table(f"Made on {report.device}{amount}", DEVICE_COLUMNS, report.lines())
    for row, reason in report.left_out.items():
        remark(f"left out: {row}: {reason}")
    return report.as_json()


def _show_memory(place: "Workplace", title: str, quick: bool) -> JsonObject:
    from l5kit_bench.memory import QUICK_MEMORY, SHARED_COLUMNS, MemoryAmounts, measure_course, measure_processes

    amounts = QUICK_MEMORY if quick else MemoryAmounts()
    with show_progress("Drawing samples", visible=True) as progress:
        course = measure_course(place, amounts, progress=progress)
    readings = [(f"{count:,}", f"{memory_mb:,.1f} MB") for count, memory_mb in course.readings_mb.items()]
    print_table(f"Resident memory while samples of {title} are drawn", ("Samples", "Resident"), readings)
    print_line(f"{course.verdict()}\n")
    with show_progress("Starting processes", visible=True) as progress:
        shared = measure_processes(place, amounts, progress=progress)
    heading = f"Processes that draw from the same {shared[0].dataset_mb:,.0f} MB of decoded files"
    print_table(heading, SHARED_COLUMNS, [memory.cells() for memory in shared])
    processes = [asdict(memory) for memory in shared]
    return {"resident_mb": course.readings_mb, "is_flat": course.is_flat, "processes": processes}


def _show_startup(place: "Workplace", title: str) -> JsonObject:
    from l5kit_bench.startup import STARTUP_COLUMNS, measure_startup

    times = measure_startup(place)
    print_table(f"Starting on {title}, with no compiled kernels on disk and with them", STARTUP_COLUMNS, times.lines())
    return asdict(times)
