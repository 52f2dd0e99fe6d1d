"""How the devices of a training share it: strategies of Lightning by the names of ``train_params.strategy``."""

import os
from pathlib import Path

from l5kit.errors import ConfigError
from l5kit.planning.torch_files import CheckpointError
from l5kit.training.lightning_parts import ModelParallelStrategy, Strategy
from l5kit.training.setup import TrainingSetup
from l5kit.training.state_file import LightningState, StateFiles

_NODE_VARIABLES = ("NODE_RANK", "GROUP_RANK", "RANK", "SLURM_NODEID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""What torchrun, Slurm, MPI, and people who start each machine by hand, set."""


class ShardedStrategy(ModelParallelStrategy):
    """Each device keeps a part of the weights, of their gradients and of the state of the optimiser (FSDP2 of torch).

    The state of a training is one file with all of it, as with other strategies.

    Args:
        world_size: How many processes.
    """

    def __init__(self, world_size: int) -> None:
        super().__init__(data_parallel_size=world_size, tensor_parallel_size=1, save_distributed_checkpoint=False)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> LightningState:  # noqa: ARG002
        """Load a state, without running code in it.

        Optimisers have no state of weights that no loss depends on, which is all that may be missing.

        Raises:
            CheckpointError: The file is broken, or no state of a training, or has other weights.
        """
        state, module = StateFiles().load_checkpoint(checkpoint_path), self.lightning_module
        if module is None:
            raise RuntimeError("a state is loaded for no module")
        different = sorted(state["state_dict"].keys() ^ module.state_dict().keys())
        if different:
            raise CheckpointError(f"{checkpoint_path} is the state of another network: {', '.join(different)} differ")
        module.strict_loading = False  # torch knows no other way to let states of the optimiser be missing
        try:
            return dict(super().load_checkpoint(checkpoint_path, weights_only=True))
        finally:
            module.strict_loading = True


def make_strategy(setup: TrainingSetup) -> str | Strategy:
    """Return what Lightning's trainer takes as its strategy."""
    named = setup.config.params.scaling.strategy
    if named == "fsdp":
        return ShardedStrategy(setup.world_size)
    if named == "auto" and setup.world_size == 1:
        return "auto"
    return "ddp_find_unused_parameters_true" if setup.config.workflow.has_idle_weights else "ddp"


def require_node(num_nodes: int) -> None:
    """Refuse a training on several machines that does not know which of them this is; it would wait for ever.

    Raises:
        ConfigError: No variable of the environment tells.
    """
    if num_nodes > 1 and not any(name in os.environ for name in _NODE_VARIABLES):
        raise ConfigError(
            f"train_params.num_nodes is {num_nodes}, and nothing tells which machine this is; start with torchrun or "
            "srun, or set NODE_RANK, MASTER_ADDR and MASTER_PORT on each"
        )
