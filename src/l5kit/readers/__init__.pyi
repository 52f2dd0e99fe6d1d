from .importing import ImportResult as ImportResult, import_dataset as import_dataset
from .lanelet2_map import read_lanelet2 as read_lanelet2
from .map_files import MapImport as MapImport, import_map as import_map
from .motion import velocities_of as velocities_of
from .opendrive_map import read_opendrive as read_opendrive
from .reader import (
    Reader as Reader,
    SceneRef as SceneRef,
    SourceDataError as SourceDataError,
    SourceInfo as SourceInfo,
    naming_source as naming_source,
)
from .source_map import (
    SourceArea as SourceArea,
    SourceLane as SourceLane,
    SourceMap as SourceMap,
    SourceSign as SourceSign,
)
from .source_scene import (
    LightState as LightState,
    SourceEgo as SourceEgo,
    SourceLights as SourceLights,
    SourceScene as SourceScene,
    SourceTracks as SourceTracks,
)
