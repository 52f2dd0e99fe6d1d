"""Setup of a training before its first step: data, schedule and network."""

import warnings
from dataclasses import dataclass

import torch

from l5kit.configs.texts import did_you_mean
from l5kit.data.local_data_manager import LocalDataManager
from l5kit.errors import ConfigError
from l5kit.training.batches import EvaluationBatches, StepBatches, steps_per_epoch
from l5kit.training.lightning_module import TrainingModule
from l5kit.training.optimizing import TrainingSchedule
from l5kit.training.sharding import require_parts
from l5kit.workflows.driving_scores import DrivingEvaluation
from l5kit.workflows.own_models import require_outputs
from l5kit.workflows.scenarios import open_choice
from l5kit.workflows.workflow import Samples, TrainingConfig, make_model, open_samples


@dataclass(frozen=True)
class TrainingSetup:
    """Training before its first step.

    Attributes:
        config: The configuration.
        num_devices: Number of devices of each machine.
        world_size: Number of processes, each with its own device.
        samples: Samples of the training.
        batches: Batches of its steps.
        evaluation: Batches of an evaluation, never perturbed; None without evaluations.
        schedule: Schedule of the training.
        module: Network with initial weights by the seed, and its optimisation.
    """

    config: TrainingConfig
    num_devices: int
    world_size: int
    samples: Samples
    batches: StepBatches
    evaluation: EvaluationBatches | None
    schedule: TrainingSchedule
    module: TrainingModule


def set_up(config: TrainingConfig, data_manager: LocalDataManager) -> TrainingSetup:
    """Open the data of a training and create its network; torch's global generator is seeded.

    Args:
        config: The configuration.
        data_manager: Data manager for logs and map.

    Raises:
        FileNotFoundError: A log, the map, or requested ImageNet weights are missing.
        ConfigError: There is not a single batch, or nothing to evaluate or to drive, datasets miss a key, no scene has
            a weight above 0, or a named class cannot be used.
    """
    params, loader = config.params, config.params.train_loader
    batches_per_step = params.scaling.accumulate_grad_batches
    is_on_cuda = params.run.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    device = "cuda" if is_on_cuda else None
    if loader.on_device and not is_on_cuda:
        warnings.warn(
            "train_data_loader.on_device is true, but no GPU trains, so the processor builds the batches",
            UserWarning,
            stacklevel=2,
        )
    num_devices = params.run.devices or (torch.cuda.device_count() if is_on_cuda else 1)
    samples = open_samples(config, loader, data_manager, perturbed=True)
    evaluation = None
    if params.val_loader is not None:
        seen = open_samples(config, params.val_loader, data_manager, perturbed=False)
        if not len(seen):
            raise ConfigError(
                f"val_data_loader: {params.val_loader.key} gives no samples; name another log or other scenes, or "
                "leave it out"
            )
        evaluation = EvaluationBatches(seen, params.val_loader, pin_memory=is_on_cuda, device=device)
    world_size = num_devices * params.scaling.num_nodes
    choice = open_choice(loader, config.mapping, data_manager)
    num_samples = choice.num_samples_of(samples)
    num_batches = steps_per_epoch(num_samples, loader, world_size=world_size, batches_per_step=batches_per_step)
    schedule = TrainingSchedule.of(params, num_batches=num_batches, schedule=config.workflow.schedule)
    # directly before the weights are drawn, so that they do not depend on earlier draws
    torch.manual_seed(params.run.seed)
    network = make_model(config, samples)
    require_outputs(network, samples)
    if params.scaling.strategy == "fsdp":
        require_parts(network)
    if params.scaling.compile:
        from torch import _dynamo  # imported here, as it takes a second

        # in place; compiled on the first call, and again for other input shapes
        backend, names = params.scaling.compile_backend, sorted(_dynamo.list_backends(exclude_tags=()))
        if backend not in names:
            raise ConfigError(
                f"train_params.compile_backend: expected one of {', '.join(names)}, "
                f"got {backend!r}{did_you_mean(backend, names)}"
            )
        network.compile(backend=backend)
    driving = None if params.val_driving is None else DrivingEvaluation(config, params.val_driving, data_manager)
    module = TrainingModule(network, config, schedule, driving=driving)
    if params.own_classes():
        module.configure_optimizers()  # before anything is written, as classes may be missing
    batches = StepBatches(
        samples,
        loader,
        seed=params.run.seed,
        num_steps=schedule.num_steps,
        steps_per_epoch=schedule.steps_per_epoch,
        batches_per_step=batches_per_step,
        choice=choice,
        pin_memory=is_on_cuda,
        device=device,
    )
    return TrainingSetup(config, num_devices, world_size, samples, batches, evaluation, schedule, module)
