"""``l5kit compare``: runs side by side, with intervals and significance of differences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit.cli.options import JsonOption
from l5kit.cli.output import (
    print_facts,
    print_json,
    print_table,
    print_texts,
    remark,
    remark_notes,
    require_writable_folder,
)
from l5kit.evaluation.resampling import Resampling

if TYPE_CHECKING:
    from l5kit.comparison.comparison import Comparison


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Folders of simulate, evaluate, train or train-rl, two or more; NAME=RUN,RUN for the seeds of one "
            "planner, or to give it a name.",
        ),
    ],
    reference: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Planner to compare with. Default: the first."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            show_default=False,
            help="Metric to compare in addition to the score; may be given several times. Default: all.",
        ),
    ] = None,
    tags: Annotated[
        bool, typer.Option("--tags", help="Also compare by tags of the scenes, computed from the log.")
    ] = False,
    scenes: Annotated[
        int, typer.Option(min=0, help="Number of won, and of lost, scenes to list for each planner.")
    ] = 3,
    draws: Annotated[int, typer.Option(min=100, help="Number of bootstrap draws.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            help="Also write tables (CSV, Markdown, LaTeX), a picture (PNG, SVG), and a page to share.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the comparison in the folder.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare planners over the same scenes: means with intervals of 95 %, and significance of the differences.

    Intervals come from a paired bootstrap over scenes; seeds of a planner are averaged within each scene. P-values
    are corrected for multiple comparisons (Holm). Scenes that a run lacks are left out and counted. Runs over different
    data, or scored differently, are refused.

    l5kit view FOLDER opens the folder of --out and plays scenes side by side.

    Examples:
        l5kit compare driven/rules driven/idm
        l5kit compare rules=driven/rules mine=driven/seed0,driven/seed1 --reference rules --tags --out comparison
        l5kit view comparison
    """
    from l5kit.comparison.comparison import compare as compare_runs
    from l5kit.comparison.folder import facts_of, require_folder, write_comparison

    if out is not None:
        require_writable_folder(out)
        require_folder(out, overwrite=overwrite)
    resampling = Resampling(num_draws=draws, seed=seed)
    comparison = compare_runs(runs, reference=reference, metrics=metrics or (), tags=tags, resampling=resampling)
    remark_notes(comparison.notes)
    if out is not None:
        write_comparison(comparison, out, overwrite=overwrite)
    if as_json:
        print_json({**({} if out is None else {"folder": out}), **facts_of(comparison)})
        return
    _print_comparison(comparison, out, num_scenes=scenes)


def _print_comparison(comparison: "Comparison", out: Path | None, *, num_scenes: int) -> None:
    """Print the tables, and up to ``num_scenes`` scenes each that a planner has won and lost."""
    from l5kit.comparison.tables import overview_tables, scene_table

    run = comparison.planners[0].runs[0]
    facts = {
        "log": str(run.log or run.same["data"]),
        "scenes": f"{len(comparison.common.scenes):,} in common, {comparison.common.num_left_out:,} left out",
    }
    print_facts(f"Compared {', '.join(comparison.names)}", facts | ({} if out is None else {"written to": str(out)}))
    for table in overview_tables(comparison):
        print_table(table.title, table.columns, table.rows)
    differing = scene_table(comparison, most=num_scenes)
    if differing.rows:
        print_texts(differing.title, differing.columns, differing.rows)
    if any(row.is_beyond_chance for row in comparison.rows):
        remark(f"better and worse: compared with {comparison.reference}, by more than chance")
