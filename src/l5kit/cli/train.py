"""``l5kit train``: train a network."""

from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.artifact import link_used_artifact, parse_used_artifact
from l5kit.cli.options import ChangesOption, DataFolderOption, JsonOption, UsedArtifactOption
from l5kit.cli.output import print_facts, print_json, remark
from l5kit.configs.overrides import load_training_config, with_overrides


def train(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="YAML file, or the name of a small configuration that ships with l5kit."),
    ],
    data: DataFolderOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for weights, checkpoints and curves; new or empty.")
    ] = Path("training"),
    workflow: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to train, where the configuration does not say.")
    ] = None,
    changes: ChangesOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the training in the folder, where its last checkpoint is.")
    ] = False,
    artifact: UsedArtifactOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a planner, a prediction or a simulation model.

    Workflows: raster_planner, vector_planner, urban_driver, agent_motion, agent_motion_multimodal, safepathnet, simnet.
    Each has a small configuration of that name. Configurations of L5Kit 1.x work as they are, with --workflow. Scores
    of three kinematic baselines stand beside those of the network.
    """
    from l5kit.training.run import is_main_process
    from l5kit.training.run import train as train_network

    cfg = with_overrides(load_training_config(config), changes or [])
    if workflow is not None:
        cfg["workflow"] = workflow
    in_use = parse_used_artifact(artifact)
    result = train_network(cfg, out, data_folder=data, resume=resume, tell=remark)
    facts = {
        "weights": str(result.weights),
        "steps": result.num_steps,
        "minutes": round(result.minutes, 2),
        **{name: round(value, 4) for name, value in result.scores.items()},
    }
    if not is_main_process():
        return
    link_used_artifact(in_use, result.folder)
    if as_json:
        print_json(facts)
    else:
        print_facts(f"Trained {cfg['workflow']}", facts)
