"""Figure of a comparison: scores and differences with their intervals, with all metrics and tags below."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from l5kit.comparison.comparison import Comparison, ComparisonRow
from l5kit.comparison.tables import titled_metric
from l5kit.evaluation.driving.metric import MetricFacts
from l5kit.evaluation.resampling import Estimate
from l5kit.visualization.line_drawing import Area, Dot, Drawing, Line, Shape, Word
from l5kit.visualization.text import fitted_text, text_size_px

_INK: Final = "#1c2128"
_FAINT: Final = "#5b6470"
_GRID: Final = "#e3e7ec"
_NEUTRAL: Final = "#7b8492"
_TONES: Final = {"better": "#1a6fb5", "worse": "#c4501b", "": _NEUTRAL}
_GROUNDS: Final = {"better": "#d6e8f7", "worse": "#f9ddcf", "": "#f2f4f6"}
"""Blue and orange, which are distinguishable with red-green colour blindness."""

_WIDTH: Final = 1080
_MARGIN: Final = 24
_ROW: Final = 26
_CELL: Final = 28
_MOST_NAME_PX: Final = 190


@dataclass(frozen=True)
class _Axis:
    """A horizontal axis: a range of values between two pixel positions."""

    least: float
    most: float
    left: float
    right: float

    @classmethod
    def of(cls, estimates: Sequence[Estimate], score: MetricFacts, *, left: float, right: float) -> "_Axis":
        """Return an axis that covers all intervals."""
        ends = np.array([[each.value, each.low, each.high] for each in estimates]).ravel()
        ends = ends[~np.isnan(ends)]  # trainings have no intervals
        least, most = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
        span = max(most - least, 10.0**-score.digits)
        return cls(least - 0.04 * span, most + 0.04 * span, left, right)

    def x_of(self, value: float) -> float:
        """Return the pixel position of a value."""
        share = (value - self.least) / (self.most - self.least)
        return float(self.left + np.clip(share, 0.0, 1.0) * (self.right - self.left))

    def ticks(self) -> list[float]:
        """Return three to six round values."""
        # Steps are 1, 2, 2.5 or 5 times a power of ten: the smallest step that divides the axis into at most five
        # parts.
        span = self.most - self.least
        unit = 10.0 ** np.floor(np.log10(span))
        steps = (unit * factor for factor in (0.1, 0.2, 0.25, 0.5, 1.0))
        step = next((each for each in steps if span / each <= 5.5), unit)
        first = np.ceil(self.least / step - 1e-9)
        return [float(step * number) for number in np.arange(first, np.floor(self.most / step + 1e-9) + 1)]

    def grid(self, top: float, bottom: float) -> Iterator[Shape]:
        """Yield the grid lines of the ticks, with a stronger one at 0, and their labels."""
        ticks = self.ticks()
        digits = next(count for count in range(10) if all(abs(round(tick, count) - tick) < 1e-9 for tick in ticks))
        for tick in ticks:
            x, is_zero = self.x_of(tick), abs(tick) < 1e-12
            yield Line(x, top, x, bottom, _NEUTRAL if is_zero and self.least < 0 else _GRID)
            yield Word(x, bottom + 14, f"{0.0 if is_zero else tick:.{digits}f}", _FAINT, 11, "middle")

    def whisker(self, estimate: Estimate, y: float, color: str) -> Iterator[Shape]:
        """Yield the dot of a value and the line of its interval."""
        if np.isnan(estimate.value):
            return
        if not np.isnan(estimate.low):
            yield Line(self.x_of(estimate.low), y, self.x_of(estimate.high), y, color, 2.0)
            for end in (estimate.low, estimate.high):
                yield Line(self.x_of(end), y - 4, self.x_of(end), y + 4, color, 2.0)
        yield Dot(self.x_of(estimate.value), y, 4.5, color)


def draw_comparison(comparison: Comparison) -> Drawing:
    """Return a comparison as a drawing.

    The left side shows the means of the score with their intervals, the right side the differences to the reference;
    significantly better planners are blue, significantly worse ones orange. Below follow the means of all metrics and,
    if scenes have tags, the scores by tag, in cells of the same colours.
    """
    score = comparison.metrics[0]
    rows = comparison.table(score.name)
    names_px = min(_MOST_NAME_PX, 14 + max(text_size_px(name, size_px=13)[0] for name in comparison.names))
    shapes: list[Shape] = []
    num_scenes, share = rows[0].paired.num_scenes, 100 * comparison.resampling.level
    title = f"{score.label} over {num_scenes:,} scenes, with intervals of {share:g} %"
    shapes.append(Word(_MARGIN, 30, title, _INK, 17))
    left = _MARGIN + names_px
    half = (_WIDTH - _MARGIN - left - 40) / 2
    top = 76
    bottom = top + _ROW * len(rows)
    sides: tuple[tuple[str, float, Callable[[ComparisonRow], Estimate]], ...] = (
        (titled_metric(score), left, lambda row: row.paired.mean),
        (f"difference to {comparison.reference}", left + half + 40, lambda row: row.paired.difference),
    )
    for index, row in enumerate(rows):
        name = fitted_text(row.planner, width_px=names_px - 8, size_px=13)
        shapes.append(Word(_MARGIN, top + _ROW * (index + 0.5), name, _INK))
    for head, start, estimate_of in sides:
        shapes.append(Word(start, top - 16, fitted_text(head, width_px=int(half), size_px=13), _FAINT))
        axis = _Axis.of([estimate_of(row) for row in rows], score, left=start + 6, right=start + half - 6)
        shapes += axis.grid(top, bottom)
        is_difference = start != left
        for index, row in enumerate(rows):
            if not (is_difference and row.planner == comparison.reference):
                shapes += axis.whisker(estimate_of(row), top + _ROW * (index + 0.5), _TONES[row.verdict])

    # cells below: the means of the other metrics, and the score by tag with the number of scenes
    grids = []
    if others := comparison.metrics[1:]:
        columns = [(titled_metric(metric), comparison.table(metric.name)) for metric in others]
        grids.append(("means of the metrics", columns))
    if comparison.tags:
        by_tag = [(tag, comparison.table(score.name, tag=tag)) for tag in comparison.tags]
        columns = [(f"{tag} ({of_tag[0].paired.num_scenes:,})", of_tag) for tag, of_tag in by_tag]
        grids.append((f"{score.label.lower()} by tag", columns))
    height: float = bottom + 44
    for head, columns in grids:
        cells, height = _cells(comparison, head, columns, names_px=names_px, top=height)
        shapes += cells
    legend = (
        f"blue: better than {comparison.reference}, orange: worse, by more than chance (p below {1 - share / 100:.2g}"
    )
    shapes.append(Word(_MARGIN, height + 4, f"{legend}, corrected by Holm)", _FAINT, 12))
    return Drawing(_WIDTH, round(height + 28), tuple(shapes), title)


def _cells(
    comparison: Comparison,
    head: str,
    columns: Sequence[tuple[str, Sequence[ComparisonRow]]],
    *,
    names_px: int,
    top: float,
) -> tuple[list[Shape], float]:
    """Return cells with means, coloured by verdict, and the position below them; excess columns wrap to a new row."""
    shapes: list[Shape] = [Word(_MARGIN, top, head, _FAINT)]
    room = _WIDTH - 2 * _MARGIN - names_px
    at_once = max(1, min(len(columns), int(room // 84)))
    width = room / at_once
    for start in range(0, len(columns), at_once):
        part = columns[start : start + at_once]
        top += 20
        for column, (title, rows) in enumerate(part):
            middle = _MARGIN + names_px + width * (column + 0.5)
            # A title takes one line, or two if it is too wide, with as many words as fit on the first.
            texts, words, width_px = ["", title], title.split(), int(width) - 8
            if text_size_px(title, size_px=11)[0] > width_px:
                fits = [text_size_px(" ".join(words[:n]), size_px=11)[0] <= width_px for n in range(1, len(words))]
                end = max((n for n, is_short in enumerate(fits, 1) if is_short), default=1)
                parts = [" ".join(part) for part in (words[:end], words[end:]) if part]
                texts = [fitted_text(part, width_px=width_px, size_px=11) for part in parts]
            for line, text in enumerate(texts):
                shapes.append(Word(middle, top + 14 * line, text, _INK, 11, "middle"))
            for index, row in enumerate(rows):
                y = top + 26 + _CELL * index
                shapes.append(Area(middle - width / 2 + 1, y, width - 2, _CELL - 2, _GROUNDS[row.verdict]))
                mean = row.paired.mean.value
                text = "-" if np.isnan(mean) else f"{mean:.{row.metric.digits}f}"
                color = _TONES[row.verdict] if row.verdict else _INK
                shapes.append(Word(middle, y + _CELL / 2 - 1, text, color, 13, "middle"))
        for index, name in enumerate(comparison.names):
            fitted = fitted_text(name, width_px=names_px - 8, size_px=13)
            shapes.append(Word(_MARGIN, top + 26 + _CELL * (index + 0.5), fitted, _INK))
        top += 26 + _CELL * len(comparison.names)
    return shapes, top + 28
