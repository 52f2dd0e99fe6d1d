"""Readers of a set: each takes a job, reads, and has the outcome judged."""

from collections.abc import Callable

from attack.job import Job
from attack.reading_files import (
    read_checkpoint,
    read_config,
    read_map,
    read_sample_pictures,
    read_satellite,
    read_semantic,
)
from attack.reading_logs import (
    read_chop,
    read_export,
    read_mask,
    read_open,
    read_path_validation,
    read_recording,
    read_scenes,
    read_summary,
    read_table,
    read_validation,
    read_viewer,
)
from attack.reading_samples import (
    read_agent_batches,
    read_agents,
    read_ego_batches,
    read_egos,
    read_loader,
    read_vectors,
)

Reader = Callable[[Job], None]

EVERY_WAY: dict[str, Reader] = {
    "open": read_open,
    "samples": read_egos,
    "batches": read_ego_batches,
    "loader": read_loader,
    "agents": read_agents,
    "agent batches": read_agent_batches,
    "vectors": read_vectors,
    "mask": read_mask,
    "scenes": read_scenes,
    "table": read_table,
    "summary": read_summary,
    "validate": read_validation,
}
"""Readers of a log that is opened in one of several ways."""

ONE_WAY: dict[str, Reader] = {
    "path validation": read_path_validation,
    "viewer": read_viewer,
    "export": read_export,
    "recording": read_recording,
    "chop": read_chop,
}
"""Readers that open the log by themselves."""

BESIDE: dict[str, dict[str, Reader]] = {
    "map": {
        "map": read_map,
        "semantic": read_semantic,
        "vectors": read_vectors,
        "viewer": read_viewer,
        "export": read_export,
        "recording": read_recording,
        "sample pictures": read_sample_pictures,
    },
    "picture": {"satellite": read_satellite, "sample pictures": read_sample_pictures},
    "meta.json": {
        "map": read_map,
        "semantic": read_semantic,
        "satellite": read_satellite,
        "viewer": read_viewer,
        "sample pictures": read_sample_pictures,
    },
    "YAML": {"configuration": read_config},
    "checkpoint": {"checkpoint": read_checkpoint},
}
"""Readers of the files next to the log, by family of damage."""

WAYS = ("cached", "uncached", "mmap")


def readers_for(family: str, way: str, *, is_first_way: bool) -> dict[str, Reader]:
    """Return the readers for a family of damage and a way of opening."""
    if family in BESIDE:
        return BESIDE[family] if is_first_way else {}
    return EVERY_WAY | (ONE_WAY if is_first_way else {})
