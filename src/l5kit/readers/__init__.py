"""Other datasets in: readers of their formats beside one contract, and the import that makes logs and a map of them."""

from l5kit.readers.reader import Reader, SceneRef, SourceDataError, SourceInfo
from l5kit.readers.source_map import SourceArea, SourceLane, SourceMap, SourceSign
from l5kit.readers.source_scene import LightState, SourceEgo, SourceLights, SourceScene, SourceTracks

__all__ = [
    "LightState",
    "Reader",
    "SceneRef",
    "SourceArea",
    "SourceDataError",
    "SourceEgo",
    "SourceInfo",
    "SourceLane",
    "SourceLights",
    "SourceMap",
    "SourceScene",
    "SourceSign",
    "SourceTracks",
]
