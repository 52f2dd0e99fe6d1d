"""Contents of a dataset and its map, as names and values for tables and pages."""

from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.dataset_summary import DatasetSummary
from l5kit.data.log_facts import LogFacts
from l5kit.data.map.opened import open_maps
from l5kit.data.texts import duration_text


def summary_facts(summary: DatasetSummary, facts: LogFacts) -> dict[str, str]:
    """Return names and values of the contents of a dataset and of the facts of its log."""
    of_sources = {f"Source, {name}": text for source in facts.sources for name, text in source.items()}
    return {
        "Scenes": f"{summary.num_scenes:,}",
        "Frames": f"{summary.num_frames:,}",
        "Agent rows": f"{summary.num_agents:,}",
        "Traffic light rows": f"{summary.num_tl_faces:,}",
        "Recorded time": duration_text(3600 * summary.total_time_h),
        "Frames per scene": f"{summary.frames_per_scene:.1f}",
        "Agents per frame": f"{summary.agents_per_frame:.1f}",
        "Frame rate": f"{summary.frequency_hz:.2f} Hz",
        "Size of the AV": " x ".join(f"{size_m:.2f}" for size_m in facts.ego_extent_m) + " m",
        **of_sources,
    }


def map_counts(files: DatasetFiles) -> dict[str, int]:
    """Return the numbers of lanes and crosswalks of the semantic map; empty without a map or meta.json.

    For a folder of maps it is the number of maps, since counting lanes would read all of them.

    Raises:
        ConfigError: meta.json has no matrix ``world_to_ecef``.
        CorruptedDataError: The map cannot be read.
    """
    maps = open_maps(files)
    if maps is None:
        return {}
    if not maps.is_single:
        return {"maps": len(maps)}
    bounds = maps.map_of([0]).bounds_info
    return {kind: len(bounds[kind]["ids"]) for kind in ("lanes", "crosswalks")}


def map_facts(files: DatasetFiles) -> dict[str, str]:
    """Return names and values for the counts of :func:`map_counts`."""
    return {f"{kind.capitalize()} on the map": f"{count:,}" for kind, count in map_counts(files).items()}
