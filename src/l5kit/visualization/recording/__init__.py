"""Scenes as files for Foxglove (MCAP) and Rerun."""

from l5kit.visualization.recording.form import RecordingForm
from l5kit.visualization.recording.mcap_file import write_mcap
from l5kit.visualization.recording.rerun_file import write_rerun

__all__ = ["RecordingForm", "write_mcap", "write_rerun"]
