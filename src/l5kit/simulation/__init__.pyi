from .dataset import SimulationConfig as SimulationConfig, SimulationDataset as SimulationDataset
from .drivers.fallback_planner import FallbackPlanner as FallbackPlanner
from .drivers.intelligent import (
    POPULATIONS as POPULATIONS,
    IntelligentDriver as IntelligentDriver,
    intelligent_traffic as intelligent_traffic,
)
from .drivers.key_driver import DrivingKeys as DrivingKeys, KeyDriver as KeyDriver, KeyResponse as KeyResponse
from .drivers.network import NetworkDriver as NetworkDriver
from .drivers.rule_planner import RulePlanner as RulePlanner
from .drivers.simple import (
    ConstantVelocity as ConstantVelocity,
    FullThrottle as FullThrottle,
    Replay as Replay,
    Standing as Standing,
)
from .drivers.token_traffic import TokenTraffic as TokenTraffic
from .drivers.traffic_mix import TrafficMix as TrafficMix
from .engine.actions import (
    ActionModel as ActionModel,
    Actions as Actions,
    Controls as Controls,
    PlannedPoses as PlannedPoses,
    TrackedPlans as TrackedPlans,
)
from .engine.agent_control import AgentControl as AgentControl
from .engine.driven_scenes import DrivenScenes as DrivenScenes, SceneFault as SceneFault
from .engine.scene_batch import RoadMap as RoadMap, SceneBatch as SceneBatch
from .engine.scene_simulation import (
    AgentSeat as AgentSeat,
    EgoSeat as EgoSeat,
    SceneSimulation as SceneSimulation,
    SimulationError as SimulationError,
)
from .engine.traffic_state import Driver as Driver, TrafficState as TrafficState
from .folder.simulation_folder import SimulationFolder as SimulationFolder
from .intelligent_driver import (
    IntelligentDriverParams as IntelligentDriverParams,
    intelligent_driver_accelerations as intelligent_driver_accelerations,
    intelligent_driver_step as intelligent_driver_step,
)
from .lanes.lane_changing import LaneChangeParams as LaneChangeParams
from .session.moments import Moment as Moment, SeenObjects as SeenObjects
from .session.session import Plan as Plan, Session as Session, SessionError as SessionError
from .trajectory_tracker import TrackerParams as TrackerParams, TrajectoryTracker as TrajectoryTracker
from .unroll import (
    ClosedLoopSimulator as ClosedLoopSimulator,
    ClosedLoopSimulatorModes as ClosedLoopSimulatorModes,
    SimulationOutput as SimulationOutput,
    SimulationOutputCLE as SimulationOutputCLE,
    TrajectoryStateIndices as TrajectoryStateIndices,
    UnrollInputOutput as UnrollInputOutput,
)
from .vehicle_models import (
    InvertibleBicycle as InvertibleBicycle,
    KinematicBicycle as KinematicBicycle,
    PoseChange as PoseChange,
    Unicycle as Unicycle,
    VehicleGeometry as VehicleGeometry,
    VehicleModel as VehicleModel,
    VehicleStates as VehicleStates,
)
