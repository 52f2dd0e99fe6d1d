"""Recordings of scenes for Foxglove (MCAP) and Rerun."""

from l5kit.visualization.recording.recording_files import write_mcap, write_rerun
from l5kit.visualization.recording.scene_elements import RecordingForm

__all__ = ["RecordingForm", "write_mcap", "write_rerun"]
