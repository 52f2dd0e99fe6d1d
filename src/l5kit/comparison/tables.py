"""Tables of a comparison as texts, for the command, Markdown, LaTeX and the page."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from l5kit.comparison.comparison import ALL_SCENES, Comparison, ComparisonRow
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.resampling import Estimate
from l5kit.visualization.report_page import PageTable

_MOST_COLUMNS: Final = 6
"""Maximum planner columns of a table."""

_IN_LATEX: Final = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def overview_tables(comparison: Comparison) -> Iterator[PageTable]:
    """Yield tables of the score, of seeds, of all metrics and of the score by tag; many planners take several."""
    yield _score_table(comparison)
    score, seeded = comparison.metrics[0], [planner for planner in comparison.planners if len(planner.runs) > 1]
    if seeded:
        rows = []
        for planner in seeded:
            means = comparison.seed_means(planner.name, score.name)
            rows.append((planner.name, str(len(means)), _number(min(means), score), _number(max(means), score)))
        yield PageTable(f"Means of seeds, {titled_metric(score)}", ("planner", "seeds", "least", "most"), rows)

    # each table has as many planners as fit, always including the reference
    others = [name for name in comparison.names if name != comparison.reference]
    for start in range(0, len(others), _MOST_COLUMNS - 1):
        few = (comparison.reference, *others[start : start + _MOST_COLUMNS - 1])
        names = [name for name in comparison.names if name in few]
        if len(comparison.metrics) > 1:
            by_metric = [comparison.table(metric.name) for metric in comparison.metrics]
            heads = [titled_metric(metric) for metric in comparison.metrics]
            yield _table_of(
                f"Means {_over(comparison, len(comparison.common.scenes))}",
                "metric",
                names,
                zip(heads, by_metric, strict=True),
            )
        if comparison.tags:
            by_tag = [comparison.table(score.name, tag=tag) for tag in (ALL_SCENES, *comparison.tags)]
            tags = [f"{rows[0].tag} ({rows[0].paired.num_scenes:,})" for rows in by_tag]
            title = f"{score.label} by tag, with the number of scenes"
            yield _table_of(title, "tag", names, zip(tags, by_tag, strict=True))


def scene_table(comparison: Comparison, *, most: int) -> PageTable:
    """Return the scenes with the largest gains and losses in score of each planner other than the reference.

    Args:
        comparison: The comparison.
        most: Maximum number of gains, and of losses, per planner.
    """
    score, reference = comparison.metrics[0], comparison.reference
    sign = 1.0 if score.better == "high" else -1.0
    rows, verdicts = [], []
    for name in () if comparison.is_of_trainings else comparison.names:
        differences = comparison.differences(name)
        won = [each for each in differences if sign * each.difference > 0][:most]
        lost = [each for each in differences if sign * each.difference < 0][::-1][:most]
        for verdict, chosen in (("better", won), ("worse", lost)):
            for each in chosen:
                cells = (
                    f"{each.difference:+.{score.digits}f}",
                    *(_number(value, score) for value in (each.value, each.reference)),
                )
                fails = (each.failures or "-", each.failures_of_reference or "-")
                rows.append((name, str(each.scene[1]), *cells, *fails))
            verdicts += [("", "", verdict, "", "", "", "") for _ in chosen]
    heads = ("planner", "scene", "difference", score.label, f"of {reference}", "fails", f"fails with {reference}")
    title = f"Scenes won and lost to {reference}, the largest differences first"
    return PageTable(title, heads, rows, tones=verdicts, num_texts=2, is_long=True)


def as_csv(rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV, with six decimals; unknown values are empty."""
    text, writer = io.StringIO(), None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()})
    return text.getvalue()


def as_markdown(tables: Iterable[PageTable], notes: Sequence[str]) -> str:
    """Return tables and notes as Markdown."""
    lines = []
    for table in tables:
        lines += [f"**{table.title}**", "", _piped(table.columns), "|---" + "|---:" * (len(table.columns) - 1) + "|"]
        lines += [*map(_piped, table.rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes), *([""] if notes else [])])


def as_latex(tables: Iterable[PageTable], notes: Sequence[str]) -> str:
    """Return tables as LaTeX, each a ``table`` with rules of the package ``booktabs``; notes are comments."""
    lines = [r"% needs \usepackage{booktabs}", *(f"% {note}" for note in notes)]
    for table in tables:
        lines += [
            "",
            r"\begin{table}",
            rf"  \caption{{{_in_latex(table.title)}.}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"    \toprule",
            f"    {' & '.join(map(_in_latex, table.columns))} \\\\",
            r"    \midrule",
            *(f"    {' & '.join(map(_in_latex, row))} \\\\" for row in table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    return "\n".join([*lines, ""])


def _score_table(comparison: Comparison) -> PageTable:
    """Return the table of the score: means, differences, their significance, and the scenes won and lost."""
    score = comparison.metrics[0]
    rows, verdicts = [], []
    for row in comparison.table(score.name):
        cells = [row.planner, _with_interval(row.paired.mean, lambda value: _number(value, score))]
        if row.planner == comparison.reference:
            cells += ["reference", "", "", ""]
        else:
            difference = _with_interval(row.paired.difference, lambda value: f"{value:+.{score.digits}f}")
            won = "" if comparison.is_of_trainings else f"{row.paired.num_better:,} / {row.paired.num_worse:,}"
            # trainings have no p-values, hence no verdict
            verdict = "" if np.isnan(row.chance) else row.verdict or "by chance"
            chance = "-" if np.isnan(row.chance) else f"{row.chance:.3f}"
            cells += [difference, "< 0.001" if row.chance < 0.001 else chance, verdict, won]
        rows.append(tuple(cells))
        verdicts.append(("",) * (len(cells) - 4) + (row.verdict,) * 3 + ("",))
    heads = ("planner", "mean", f"difference to {comparison.reference}", "p", "verdict", "won / lost")
    title = f"{titled_metric(score)} {_over(comparison, comparison.table(score.name)[0].paired.num_scenes)}"
    if not comparison.is_of_trainings:
        title += f", with intervals of {100 * comparison.resampling.level:g} %"
    return PageTable(title, heads, rows, tones=verdicts)


def _over(comparison: Comparison, num_scenes: int) -> str:
    """Return in words what the means are taken over."""
    if comparison.is_of_trainings:
        return "at the end of the trainings"
    return f"over {num_scenes:,} scene{'' if num_scenes == 1 else 's'}"


def _table_of(
    title: str, head: str, names: Sequence[str], lines: Iterable[tuple[str, Sequence[ComparisonRow]]]
) -> PageTable:
    """Return a table of the means of some planners."""
    rows, verdicts = [], []
    for name, of_line in lines:
        chosen = [row for row in of_line if row.planner in names]
        rows.append((name, *(f"{_number(row.paired.mean.value, row.metric)} {row.verdict}".rstrip() for row in chosen)))
        verdicts.append(("", *(row.verdict for row in chosen)))
    return PageTable(title, (head, *names), rows, tones=verdicts)


def titled_metric(metric: MetricFacts) -> str:
    """Return the label of a metric with its unit, and a hint if lower is better."""
    notes = [metric.unit] * bool(metric.unit) + ["less is better"] * (metric.better == "low")
    return f"{metric.label} ({', '.join(notes)})" if notes else metric.label


def _number(value: float, metric: MetricFacts) -> str:
    return "-" if np.isnan(value) else f"{value:.{metric.digits}f}"


def _with_interval(estimate: Estimate, shown: Callable[[float], str]) -> str:
    if np.isnan(estimate.value):
        return "-"
    if np.isnan(estimate.low):
        return shown(estimate.value)
    return f"{shown(estimate.value)} ({shown(estimate.low)} to {shown(estimate.high)})"


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _in_latex(text: str) -> str:
    """Return a text escaped for LaTeX, with signs of numbers and ``<`` set in math mode."""
    plain = "".join(_IN_LATEX.get(character, character) for character in text)
    return re.sub(r"<|(?<![\w.])[-+](?=\d)", lambda match: f"${match[0]}$", plain)
