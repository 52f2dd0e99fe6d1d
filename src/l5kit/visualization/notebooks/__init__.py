"""Display of scenes, samples and maps in notebooks: pictures, tables and pages."""

from l5kit.visualization.notebooks.playing import ScenePage, play
from l5kit.visualization.notebooks.preview import preview_html
from l5kit.visualization.notebooks.showing import describe, show
from l5kit.visualization.notebooks.shown import Picture, Table

__all__ = ["Picture", "ScenePage", "Table", "describe", "play", "preview_html", "show"]
