from .edit_texts import parse_edit as parse_edit
from .edited_dataset import EditedDataset as EditedDataset, edit_dataset as edit_dataset
from .goal import AnotherGoal as AnotherGoal
from .leaders import BrakingLeader as BrakingLeader, CutIn as CutIn, SlowLeader as SlowLeader
from .lights import RedLight as RedLight
from .obstacles import (
    Cones as Cones,
    ParkedVehicle as ParkedVehicle,
    PedestrianStepsOut as PedestrianStepsOut,
)
from .population import DenserTraffic as DenserTraffic, FewerAgents as FewerAgents
from .scene_edit import (
    ImpossibleEditError as ImpossibleEditError,
    SceneEdit as SceneEdit,
    SceneSetting as SceneSetting,
)
