from .action_kinds import (
    ActionKind as ActionKind,
    KinematicModelActions as KinematicModelActions,
    PoseActions as PoseActions,
    UnicycleActions as UnicycleActions,
)
from .callbacks import L5KitEvalCallback as L5KitEvalCallback
from .device.device_env import DeviceVectorEnv as DeviceVectorEnv
from .envs.l5_env import (
    EpisodeOutputGym as EpisodeOutputGym,
    L5Env as L5Env,
    SimulationConfigGym as SimulationConfigGym,
)
from .envs.parallel_env import L5ParallelEnv as L5ParallelEnv, parallel_env as parallel_env
from .envs.vector_env import L5VectorEnv as L5VectorEnv
from .feature_extractor import CustomFeatureExtractor as CustomFeatureExtractor
from .gym_metric_set import CLEMetricSet as CLEMetricSet, L2DisplacementYawMetricSet as L2DisplacementYawMetricSet
from .kinematic_model import UnicycleModel as UnicycleModel
from .model_actions import ModelActions as ModelActions, RouteActions as RouteActions
from .observations.compact_layout import CompactLayout as CompactLayout
from .observations.compact_view import CompactView as CompactView
from .observations.views import as_samples as as_samples
from .policy_driver import PolicyDriver as PolicyDriver
from .policy_options import PolicyOptions as PolicyOptions
from .registration import ENVIRONMENT_ID as ENVIRONMENT_ID
from .reward import L2DisplacementYawReward as L2DisplacementYawReward, Reward as Reward
from .rewards.driving_reward import DrivingReward as DrivingReward, DrivingWeights as DrivingWeights
from .rewards.step_reward import (
    DisplacementReward as DisplacementReward,
    DrivenStep as DrivenStep,
    StepOutcome as StepOutcome,
    StepReward as StepReward,
)
from .sb3 import StableBaselinesVecEnv as StableBaselinesVecEnv
from .slots.slot_simulation import SlotSimulation as SlotSimulation
from .traffic.scene_bank import SceneBank as SceneBank
from .traffic.traffic_slots import TrafficSlots as TrafficSlots
