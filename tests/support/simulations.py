"""Outputs of simulations, for tests of visualizers."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from l5kit.data import ChunkedDataset
from l5kit.data.log_facts import LogFacts


@dataclass
class InOutCase:
    """Input and output of a model for one track."""

    track_id: int
    inputs: dict
    outputs: dict

    @classmethod
    def make(cls, track_id, *, world_from_agent, targets_m, available, predicted_m):
        inputs = {
            "world_from_agent": np.array(world_from_agent, dtype=float),
            "target_positions": np.array(targets_m, dtype=np.float32),
            "target_availabilities": np.array(available, dtype=np.float32),
        }
        return cls(track_id, inputs, {"positions": np.array(predicted_m, dtype=np.float32)})


@dataclass
class SimulationCase:
    """Common attributes of the outputs of simulations and environment episodes."""

    simulated_ego: np.ndarray
    simulated_agents: np.ndarray
    tls_frames: np.ndarray
    ego_ins_outs: list = field(default_factory=list)
    agents_ins_outs: list = field(default_factory=list)
    agents_th: float = 0.5
    facts: LogFacts = field(default_factory=LogFacts)

    @property
    def simulated_dataset(self):
        cfg = {"raster_params": {"filter_agents_threshold": self.agents_th}}
        log = ChunkedDataset.in_memory(tl_faces=self.tls_frames, facts=self.facts)
        return SimpleNamespace(dataset=log, cfg=cfg)
