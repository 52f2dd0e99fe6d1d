"""``l5kit checkpoint``: describes files of weights, converts them to safetensors, and exports them."""

import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit._types import JsonObject
from l5kit.cli.options import ChangesOption, JsonOption, WorkflowOption
from l5kit.cli.output import print_facts, print_json, print_line, remark
from l5kit.configs.class_path import ClassPath
from l5kit.configs.known_keys import check_known_keys
from l5kit.configs.overrides import load_training_config, with_overrides
from l5kit.planning.weights_file import checkpoint_path, is_onnx, is_policy, weights_of
from l5kit.synthetic.city import make_city

if TYPE_CHECKING:
    from l5kit.workflows.checkpoint_description import CheckpointDescription
    from l5kit.workflows.exported_network import ExportedArray, ExportFacts

_MOST_SHAPES = 4
"""Number of weights of an unknown network whose shapes are shown."""

_FileArgument = Annotated[
    str,  # or the name of a shipped network; "./NAME" is a folder
    typer.Argument(
        metavar="FILE",
        help="File of weights of any kind, folder of l5kit train for its final weights, or route_planner, the network "
        "that ships with l5kit.",
    ),
]
_ConfigOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="YAML file of the training, or the name of a configuration that ships with l5kit."
    ),
]
_OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
_PickleOption = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Load pickled modules, which can run any code. Without it, convert still runs the code of classes named "
        "by class_path in the configuration.",
    ),
]


def info(
    file: _FileArgument,
    config: _ConfigOption = None,
    workflow: WorkflowOption = None,
    changes: ChangesOption = None,
    allow_pickle: _PickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Describe a file of weights: its format, its network, and the configuration that it needs.

    Nothing in the file is run or imported. With --config, the weights are checked against that configuration;
    mismatches are listed, and the exit status is 1.

    Examples:
        l5kit checkpoint info planner.pt
        l5kit checkpoint info planner --json
        l5kit checkpoint info planner.pt --config config.yaml --workflow raster_planner
    """
    weights = weights_of(file)  # before the slow import of torch
    cfg = _read_config(config, workflow, changes)
    if is_onnx(weights):
        if cfg is not None:
            raise typer.BadParameter(f"{weights} contains its configuration; drop --config")
        from l5kit.workflows.exported_network import ExportedNetwork

        exported = ExportedNetwork(weights).facts
        if as_json:
            print_json({"file": str(weights), "kind": "ONNX", **asdict(exported)})
        else:
            print_facts(str(weights), {"kind": "ONNX", **_facts_of_export(exported)})
        return
    from l5kit.workflows.checkpoint_description import describe_checkpoint, mismatch_with_config

    description = describe_checkpoint(weights, allow_pickle=allow_pickle)
    mismatch = None if cfg is None else mismatch_with_config(description, cfg)
    if as_json:
        fit: JsonObject | None = None
        if mismatch is not None:
            reshaped = [
                {"name": name, "in_file": list(theirs), "in_model": list(ours)}
                for name, theirs, ours in mismatch.reshaped
            ]
            fit = {"fits": not mismatch, "missing": list(mismatch.missing), "unexpected": list(mismatch.unexpected)}
            fit["reshaped"] = reshaped
        print_json({**description.as_dict(), "given_config": fit})
    else:
        print_facts(str(description.file), _facts_of(description))
        if mismatch is not None:
            print_line(f"{config} does not fit:\n{mismatch}" if mismatch else f"{config} fits")
    if mismatch:  # after it has been shown
        raise typer.Exit(1)


def convert(
    file: _FileArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, which ends in .safetensors.")],
    config: _ConfigOption = None,
    workflow: WorkflowOption = None,
    changes: ChangesOption = None,
    overwrite: _OverwriteOption = False,
    allow_pickle: _PickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write weights as safetensors with their configuration, so that no command needs --config for them.

    The weights are loaded into the network of the configuration, written, read again and compared bit by bit before
    the file gets its name.

    Examples:
        l5kit checkpoint convert planner.pt planner.safetensors --config config.yaml --workflow raster_planner
        l5kit checkpoint convert module.pt module.safetensors --allow-pickle --overwrite
    """
    weights = weights_of(file)  # before the slow import of torch
    cfg = _read_config(config, workflow, changes)
    from l5kit.workflows.checkpoint_conversion import convert_checkpoint

    done = convert_checkpoint(weights, out, cfg=cfg, allow_pickle=allow_pickle, overwrite=overwrite)
    if as_json:
        print_json(asdict(done))
        return
    print_facts(
        f"Written to {done.file}",
        {
            "from": f"{done.source}, {done.kind}",
            "network": done.model_class,
            "tensors": f"{done.num_tensors}, each the same as in the source",
            "configuration": "inside" if done.has_config else "none",
        },
    )
    if not done.has_config:
        remark("note: the file contains no configuration; convert with --config to include it")


def export(
    file: _FileArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, which ends in .onnx or .pt2.")],
    data: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="Log with samples for the check; default: a small synthetic city."),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Licence of the weights, if no model card next to them states it."),
    ] = None,
    config: _ConfigOption = None,
    workflow: WorkflowOption = None,
    changes: ChangesOption = None,
    overwrite: _OverwriteOption = False,
    allow_pickle: _PickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a network or policy as ONNX, or as a torch.export program, which run without l5kit.

    Inputs have the keys of samples (observations, for a policy), for any batch size and, if the network allows it, any
    number of agents. The file is run and compared with torch before it appears; inputs and outputs are described in its
    metadata.

    Examples:
        l5kit checkpoint export route_planner route_planner.onnx
        l5kit checkpoint export planner planner.pt2 --data city/scenes/sample.zarr
        l5kit checkpoint export route_policy route_policy.onnx
    """
    of_policy = is_policy(file)
    weights = checkpoint_path(file) if of_policy else weights_of(file)  # before the slow import of torch
    cfg = _read_config(config, workflow, changes)
    if of_policy and cfg is not None:
        raise typer.BadParameter(f"{file} is a policy, which contains its configuration; drop --config")
    # the export is run on real samples, of the user's log or a synthetic scene, and compared with torch
    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            city = make_city(Path(folder) / "city", num_scenes=1, num_train_scenes=0, num_validate_scenes=0)
            data = str(city.path / "scenes" / "sample.zarr")
        if of_policy:
            from l5kit.environment.policy_export import export_policy

            done = export_policy(weights, out, log=data, licence=licence, overwrite=overwrite)
        else:
            from l5kit.workflows.network_export import export_network
            from l5kit.workflows.trained_model import load_model

            model = load_model(weights, cfg=cfg, device="cpu", allow_pickle=allow_pickle)
            done = export_network(model, out, log=data, licence=licence, overwrite=overwrite)
    if as_json:
        print_json({"file": str(done.file), **asdict(done.facts)})
    else:
        print_facts(f"Written to {done.file}", _facts_of_export(done.facts))


def _facts_of_export(facts: "ExportFacts") -> dict[str, object]:
    """Return the facts of an exported network for display."""
    checked = facts.checked
    shown: dict[str, object] = {
        "network": facts.network,
        "workflow": facts.workflow,
        "weights": facts.weights_sha256,
        "licence": facts.licence,
        "l5kit": facts.l5kit,
        "opset": facts.opset or "none, a torch.export program",
        "takes": ", ".join(_shape_of(each) for each in facts.inputs),
        "gives": ", ".join(_shape_of(each) for each in facts.outputs),
        "largest difference to torch": f"{checked['largest_difference']:.2g}, of {', '.join(checked['batches'])}",
    }
    if checked["of_torch_by_rounding"]:
        shown["torch's own, by rounding"] = (
            f"{checked['of_torch_by_rounding']:.2g}, samples one by one, or a changed last bit of inputs and weights"
        )
    return shown


def _shape_of(array: "ExportedArray") -> str:
    return f"{array.name} ({', '.join(map(str, array.shape))})" + (f" in {array.unit}" if array.unit else "")


def _read_config(config: str | None, workflow: str | None, changes: list[str] | None) -> JsonObject | None:
    """Return the configuration given by options; None without one."""
    if config is None:
        if workflow is not None or changes:
            raise typer.BadParameter("--workflow and --set change a configuration; give it with --config")
        return None
    cfg = with_overrides(load_training_config(config), changes or [])
    check_known_keys(cfg)
    return cfg if workflow is None else {**cfg, "workflow": workflow}


def _facts_of(description: "CheckpointDescription") -> dict[str, object]:
    """Return the facts of a checkpoint for display."""
    types = ", ".join(f"{count} {dtype}" for dtype, count in description.dtypes.items())
    parameters = f"{description.num_parameters:,}, and {description.num_buffer_values:,} values that are not trained"
    facts: dict[str, object] = {
        "kind": description.kind,
        "size": f"{description.file.stat().st_size / 1e6:,.1f} MB",
        "loading": "can run any code in it, which needs --allow-pickle"
        if description.needs_pickle
        else "needs no permission",
        "tensors": types,
        "parameters": parameters,
    }
    if description.model_class:
        facts["class in the file"] = description.model_class
    params = description.config.get("model_params")
    own, architecture = params.get("model") if isinstance(params, Mapping) else None, description.architecture
    if own is not None:
        # a user's class is named but never imported, which would run code; the shapes of its weights describe it
        named = ClassPath.read(own, key="model_params.model")
        facts["network"] = f"{named.class_path}, your own class, named by the configuration inside"
        if named.init_args:
            facts["arguments"] = _as_text(named.init_args)
        shapes = [f"{name} {list(value.shape)}" for name, value in description.weights.items()]
        more = f" and {len(shapes) - _MOST_SHAPES} more" if len(shapes) > _MOST_SHAPES else ""
        facts["weights"] = ", ".join(shapes[:_MOST_SHAPES]) + more
    elif architecture is None:
        facts["network"] = "unknown to l5kit by the names and shapes of its weights"
    else:
        residual = ", added to a kinematic baseline" if architecture.is_residual else ""
        facts["network"] = f"{architecture.model_class}{residual}"
        facts["workflow"] = " or ".join(architecture.workflows) or "none"
        facts |= architecture.settings
        if architecture.readings:
            facts["or"] = "; ".join(map(_as_text, architecture.readings))
        if architecture.not_in_weights:
            facts["not in the weights"] = ", ".join(architecture.not_in_weights)
    facts["configuration inside"] = description.config.get("workflow", "yes") if description.config else "none"
    facts["shipped configurations that fit"] = ", ".join(description.fits) or "none"
    # facts that a file claims about itself do not override what was found in it
    return facts | {name: value for name, value in description.facts.items() if name not in facts}


def _as_text(reading: JsonObject) -> str:
    return ", ".join(f"{name} {value}" for name, value in reading.items())


checkpoint = {
    "help": """Describe checkpoints, convert them to safetensors with their configuration, and export them as ONNX.

    Examples:
        l5kit checkpoint info planner
        l5kit checkpoint convert OL.pt OL.safetensors --config urban.yaml --workflow vector_planner
    """,
    "commands": {"info": info, "convert": convert, "export": export},
}
"""The command and its subcommands."""
