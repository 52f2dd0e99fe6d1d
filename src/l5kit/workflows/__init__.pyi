from .checkpoint_description import (
    CheckpointDescription as CheckpointDescription,
    describe_checkpoint as describe_checkpoint,
)
from .network_export import export_network as export_network
from .networks import NetworkRecipe as NetworkRecipe
from .trained_model import TrainedModel as TrainedModel, load_model as load_model
from .trained_network import load_network as load_network
from .workflow import TrainingConfig as TrainingConfig, make_model as make_model, open_samples as open_samples
