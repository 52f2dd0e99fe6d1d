#!/usr/bin/env python3
"""Generation of the documents that are made of tables in the code, into this folder.

Usage: python docs/write_tables.py
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from l5kit.evaluation.driving import METRICS
from l5kit.evaluation.driving.metric import MULTIPLIER, MetricFacts
from l5kit.evaluation.epdms import TERMS
from l5kit.sampling.sample_keys import KEYS_BY_DATASET, ROWS_OF_AV, SIZES, SampleKey

FOLDER = Path(__file__).parent

_TITLES = {
    "EgoDataset": "Samples with rasters: `EgoDataset`, `AgentDataset`",
    "EgoDatasetVectorized": "Vector samples: `EgoDatasetVectorized`, `EgoAgentDatasetVectorized`, "
    "`AgentDatasetVectorized`",
}


_BY_HAND = "## Routes"
"""Heading in ``samples.md`` from which on it is written by hand."""


def samples_page() -> str:
    """Return ``samples.md``: the content of each sample key, followed by the part that is written by hand."""
    _, heading, by_hand = (FOLDER / "samples.md").read_text(encoding="utf-8").partition(f"\n{_BY_HAND}\n")
    return "\n".join(_sample_lines()) + "\n" + heading + by_hand


def _sample_lines() -> Iterator[str]:
    yield "# Keys of samples"
    yield ""
    yield "[Make training samples](datasets.md) shows how to get them. The tables are generated from"
    yield "`src/l5kit/sampling/sample_keys.py` by `python docs/write_tables.py`."
    yield ""
    yield "A sample is a dictionary. Batches have one more axis in front of each shape. The *target* is the AV or the"
    yield "agent of the sample, and its frame has x forward, y left, and the origin at its centroid."
    yield ""
    yield "| size | meaning |"
    yield "| --- | --- |"
    yield from (f"| {letter} | {text} |" for letter, text in SIZES.items())
    for dataset, title in _TITLES.items():
        yield ""
        yield f"## {title}"
        yield ""
        yield "| key | shape | type | frame | unit | meaning |"
        yield "| --- | --- | --- | --- | --- | --- |"
        yield from map(_row, KEYS_BY_DATASET[dataset])
    yield ""
    yield "## The AV as an agent: `EgoAgentDatasetVectorized`"
    yield ""
    yield "Like the samples above, but in the keys of other agents the first of the M rows is the AV:"
    yield ""
    yield "| key | its first row is |"
    yield "| --- | --- |"
    yield from (f"| `{key}` | `{of_av}` |" for key, of_av in ROWS_OF_AV.items())
    yield ""
    yield "They have one more key:"
    yield ""
    yield "| key | shape | type | frame | unit | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    of_ego = {key.name for key in KEYS_BY_DATASET["EgoDatasetVectorized"]}
    yield from (_row(key) for key in KEYS_BY_DATASET["EgoAgentDatasetVectorized"] if key.name not in of_ego)
    yield ""
    yield "## The AV as seen by an agent: `AgentDatasetVectorized`"
    yield ""
    yield "In the same keys of other agents the first of the M rows is the AV, as the target sees it: its past and"
    yield "future, track -1, the class of a car. The row is 0 where the AV is not closer than `max_agents_distance` in"
    yield "a frame of the past or the current one."


def _row(key: SampleKey) -> str:
    dtype = key.dtype + (f", {key.agent_dtype} of agents" if key.agent_dtype else "")
    dtype += f"; a Python {key.python_type.__name__} in single samples" if key.python_type else ""
    text = key.text + (" Only with past steps." if key.needs_history else "")
    text += " Only with `model_params.route`." if key.needs_route else ""
    shape = ", ".join(map(str, key.shape)) + ("," if len(key.shape) == 1 else "")
    return f"| `{key.name}` | ({shape}) | {dtype} | {key.frame} | {key.unit} | {text} |"


_TABLE_OF_METRICS = ("<!-- metrics: printed by docs/write_tables.py -->", "<!-- end of metrics -->")


def scores_page() -> str:
    """Return ``closed_loop_scores.md`` with the table of the metrics of the score."""
    return _with_table("closed_loop_scores.md", METRICS)


def epdms_page() -> str:
    """Return ``reference/epdms.md`` with the table of the terms of EPDMS."""
    return _with_table("reference/epdms.md", TERMS)


def _with_table(name: str, metrics: Sequence[MetricFacts]) -> str:
    page = (FOLDER / name).read_text(encoding="utf-8")
    start, end = _TABLE_OF_METRICS
    before, _, rest = page.partition(start)
    lines = ["| metric | role | definition | label |", "| --- | --- | --- | --- |"]
    for metric in metrics:
        role = metric.role if metric.role == MULTIPLIER else f"weight {metric.role:g}"
        needs_map = "; needs a map" if metric.needs_map else ""
        lines.append(f"| `{metric.name}` | {role} | {metric.sentence}{needs_map} | {metric.label} |")
    return "\n".join([before + start, "", *lines, "", end + rest.partition(end)[2]])


PAGES = {"samples.md": samples_page, "closed_loop_scores.md": scores_page, "reference/epdms.md": epdms_page}
"""Function that returns each document, by its name."""

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(f"wrote {FOLDER / name}")
