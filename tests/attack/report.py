"""Tables of the outcomes of many sets."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from attack.judging import Outcome, Reading, is_good
from attack.runner import SetResult


def table(results: list[SetResult]) -> str:
    """Return the numbers of outcomes by family of damage and by reader: of each reader on each set the worst one."""
    return "\n\n".join(
        (
            _table(results, "damage", lambda result, reading: result.family),
            _table(results, "reader", lambda result, reading: reading.reader),
        )
    )


def _table(results: list[SetResult], title: str, row_of: Callable[[SetResult, Reading], str]) -> str:
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for result in results:
        for (_, _), readings in _by_reader(result.readings).items():
            counts[row_of(result, readings[0])][max(reading.outcome for reading in readings)] += 1
    head = [title, *(outcome.name.lower().replace("_", " ") for outcome in Outcome)]
    rows = [[name, *(str(counts[name][outcome] or "") for outcome in Outcome)] for name in sorted(counts)]
    rows.append(["all", *(str(sum(count[outcome] for count in counts.values())) for outcome in Outcome)])
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [head, *rows]
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _by_reader(readings: Iterable[Reading]) -> dict[tuple[str, str], list[Reading]]:
    found = defaultdict(list)
    for reading in readings:
        found[reading.way, reading.reader].append(reading)
    return found


def causes(results: list[SetResult], *, most_examples: int = 1) -> str:
    """Return every cause of what is not good, the worst and most frequent first, with the first sets that have it."""
    found: dict[tuple[Outcome, str], list[tuple[SetResult, Reading]]] = defaultdict(list)
    for result in results:
        for reading in result.readings:
            if not is_good(reading, result.family):
                found[reading.outcome, reading.cause].append((result, reading))
    lines = [""]
    for (outcome, cause), cases in sorted(found.items(), key=lambda item: (-item[0][0], -len(item[1]))):
        seeds = list(dict.fromkeys(result.seed for result, _ in cases))
        readers = Counter(reading.reader for _, reading in cases)
        kinds = Counter(f"{result.family}: {result.kind}" for result, _ in cases)
        lines.append(f"## {outcome.name}: {cause}")
        lines.append(
            f"   {len(seeds)} sets, {len(cases)} readings; readers {_listed(readers)}; damage {_listed(kinds)}"
        )
        for result, reading in _examples(cases, most_examples):
            lines.append(f"   seed {result.seed}: {result.said}")
            lines.append(f"      {reading.way}, {reading.reader}, {reading.what}: {reading.detail}")
    return "\n".join(lines)


def _examples(cases: list[tuple[SetResult, Reading]], most: int) -> list[Any]:
    """Return the first case of each of the first sets."""
    first: dict[int, Any] = {}
    for result, reading in cases:
        first.setdefault(result.seed, (result, reading))
    return list(first.values())[:most]


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common(6))
