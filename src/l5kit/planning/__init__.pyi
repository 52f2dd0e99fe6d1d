from .checkpoint import (
    Checkpoint as Checkpoint,
    CheckpointMismatchError as CheckpointMismatchError,
    WeightMismatch as WeightMismatch,
    export_torchscript as export_torchscript,
    load_checkpoint as load_checkpoint,
    read_checkpoint as read_checkpoint,
    save_checkpoint as save_checkpoint,
    save_weights as save_weights,
)
from .torch_files import CheckpointError as CheckpointError
from .kinematic_residual import KinematicResidual as KinematicResidual
from .model import PlanningModel as PlanningModel
from .rasterized.model import RasterizedPlanningModel as RasterizedPlanningModel
from .rasterized.multimodal_model import RasterizedMultiModalPlanningModel as RasterizedMultiModalPlanningModel
from .vectorized.closed_loop_model import VectorizedUnrollModel as VectorizedUnrollModel
from .vectorized.open_loop_model import VectorizedModel as VectorizedModel
from .vectorized.route_model import RoutePlannerModel as RoutePlannerModel
from .vectorized.trajectory_decoder import TrajectoryDecoder as TrajectoryDecoder
from .weights_file import shipped_policies as shipped_policies, shipped_weights as shipped_weights
