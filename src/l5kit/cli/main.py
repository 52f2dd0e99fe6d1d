"""The ``l5kit`` command: its commands, and the options before them."""

import inspect
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from l5kit import __version__
from l5kit.cli.reporting import DEBUG_OPTION, ReportingCommand, ReportingGroup, as_examples, request_traceback


@dataclass(frozen=True)
class _Command:
    """A command: what runs it, which is imported when the command or the help of all is requested.

    Attributes:
        name: What it is called.
        function: Module and name of the function, or of what makes the ``Typer`` of a command with commands.
        group: Heading under which the help lists it.
        examples: Calls that its help shows.
    """

    name: str
    function: str
    group: str
    examples: tuple[str, ...] = ()


def _in_paragraphs(function: Callable[..., None]) -> str:
    """Return the docstring of a command with each paragraph in one line, so that help breaks it where it is full."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"l5kit {__version__}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG_OPTION, help="Show the traceback of an error. May also stand after the command.")
    ] = False,
) -> None:
    """Train models on logs of self-driving cars, and test them in closed loop; look into logs, check and convert them.

    PATH is a dataset folder or a .zarr; map, aerial picture and meta.json are looked for inside, beside and one level
    above it. Exit status: 0 done, 1 an error or findings, 2 a wrong call, 130 Ctrl-C.
    """
    if debug:
        request_traceback(ctx)


_START, _LOOK, _PREPARE = "Get data", "Look at data", "Prepare data"
_TRAIN, _MACHINE = "Train, and test open and closed loop", "This machine"

_COMMANDS: Final = (
    _Command(
        "demo",
        "l5kit.cli.demo:demo",
        _START,
        (
            "l5kit demo",
            "l5kit demo --data prediction-dataset --out pictures",
        ),
    ),
    _Command(
        "synth",
        "l5kit.cli.synth:synth",
        _START,
        (
            "l5kit synth city",
            "l5kit synth city --seed 7 --scenes 20 --train-scenes 100 --overwrite --workers 4",
        ),
    ),
    _Command(
        "download",
        "l5kit.cli.download:download",
        _START,
        (
            "l5kit download",
            "l5kit download https://server/sample.tar https://server/semantic_map.tar --out prediction-dataset",
            "l5kit download --from addresses.txt --out prediction-dataset --manifest manifest.json",
            "l5kit download s3://bucket/prediction-dataset --out prediction-dataset",
        ),
    ),
    _Command(
        "import",
        "l5kit.cli.importing:import_dataset",
        _START,
        (
            "l5kit import argoverse2 /data/av2/val av2 --workers 8",
            "l5kit import argoverse2 /data/av2 av2 --max-scenes 100 --json",
        ),
    ),
    _Command(
        "info",
        "l5kit.cli.info:info",
        _LOOK,
        (
            "l5kit info city",
            "l5kit info city --json",
            "l5kit info city --checksums digests.json",
        ),
    ),
    _Command(
        "validate",
        "l5kit.cli.validate:validate",
        _LOOK,
        (
            "l5kit validate city",
            "l5kit validate city/scenes/sample.zarr --checksums digests.json",
        ),
    ),
    _Command(
        "view",
        "l5kit.cli.view:view",
        _LOOK,
        (
            "l5kit view city",
            "l5kit view city --scene 3 --no-browser --port 9000",
            "l5kit view city --export scene.html --scene 3",
        ),
    ),
    _Command(
        "drive",
        "l5kit.cli.drive:drive",
        _LOOK,
        (
            "l5kit drive city",
            "l5kit drive city --scene 3 --out my_page --no-serve",
            "l5kit drive city --score drive-3.json --out mine",
        ),
    ),
    _Command(
        "render",
        "l5kit.cli.render:render",
        _LOOK,
        (
            "l5kit render city --scene 1 --frame 50 --out frame.png",
            "l5kit render city --scene 0 --frames 20:120:2 --out scene.gif --map-type satellite",
            "l5kit render city --scene 0 --out scene.mp4",
            "l5kit render city --agent 12 --out agent.mp4 --fps 5",
        ),
    ),
    _Command(
        "record",
        "l5kit.cli.record:record",
        _LOOK,
        (
            "l5kit record city --scene 1 --out scene.mcap",
            "l5kit record city --scene 1 --out scene.rrd --map-radius 300",
        ),
    ),
    _Command(
        "resample",
        "l5kit.cli.importing:resample",
        _PREPARE,
        (
            "l5kit resample nuscenes nuscenes-10hz",
            "l5kit resample nuscenes/scenes/sample.zarr sample.zarr",
        ),
    ),
    _Command(
        "edit",
        "l5kit.cli.edit:edit",
        _PREPARE,
        (
            "l5kit edit city parked --edit parked_vehicle",
            "l5kit edit city slow --edit slow_leader,speed_mps=2 --scenes 0:100",
            "l5kit edit city dense --edit denser_traffic --edit another_goal --seed 3",
        ),
    ),
    _Command(
        "mask",
        "l5kit.cli.mask:mask",
        _PREPARE,
        (
            "l5kit mask city",
            "l5kit mask city --json",
            "l5kit mask city/scenes/sample.zarr --store",
        ),
    ),
    _Command(
        "cache",
        "l5kit.cli.cache:cache",
        _PREPARE,
        (
            "l5kit cache city",
            "l5kit cache city --folder /fast/disk",
            "l5kit cache --list",
            "l5kit cache --prune",
        ),
    ),
    _Command(
        "chop",
        "l5kit.cli.chop:chop",
        _PREPARE,
        (
            "l5kit chop city --frames 50 --future 40",
            "l5kit chop scenes/validate.zarr scenes/sample.zarr --json",
            "l5kit chop scenes/validate.zarr --future 30 --out test-set --overwrite",
        ),
    ),
    _Command(
        "export",
        "l5kit.cli.export:export",
        _PREPARE,
        (
            "l5kit export city columns.zarr --workers 2",
            "l5kit export city/scenes/sample.zarr tables --layout parquet --overwrite --json",
        ),
    ),
    _Command(
        "manifest",
        "l5kit.cli.manifest:manifest",
        _PREPARE,
        (
            "l5kit manifest city --out city.json",
            "l5kit manifest city/scenes/sample.zarr --out sample.json --json",
        ),
    ),
    _Command(
        "verify",
        "l5kit.cli.manifest:verify",
        _PREPARE,
        (
            "l5kit verify copy --manifest city.json",
            "l5kit verify city --manifest city.json --fresh --json",
        ),
    ),
    _Command("artifact", "l5kit.cli.artifact:make_artifact_app", _PREPARE, ()),
    _Command(
        "train",
        "l5kit.cli.train:train",
        _TRAIN,
        (
            "l5kit train raster_planner --data city --out planner",
            "l5kit train config.yaml --workflow simnet --set train_params.learning_rate=0.0005",
            "l5kit train config.yaml --out planner --resume",
        ),
    ),
    _Command(
        "train-rl",
        "l5kit.cli.train_rl:train_rl",
        _TRAIN,
        (
            "l5kit train-rl",
            "l5kit train-rl gym.yaml --data city --eval-data other-city --out driver --minutes 30",
            "l5kit train-rl gym.yaml --data city --out driver --resume --steps 5000000",
        ),
    ),
    _Command(
        "evaluate",
        "l5kit.cli.evaluate:evaluate",
        _TRAIN,
        (
            "l5kit evaluate planner --data city",
            "l5kit evaluate motion.safetensors --data city --key scenes/sample_chopped_100 --out test --json",
            "l5kit evaluate planner.pt --config config.yaml --workflow raster_planner --max-samples 2000 --worst 12",
        ),
    ),
    _Command(
        "simulate",
        "l5kit.cli.simulate:simulate",
        _TRAIN,
        (
            "l5kit simulate city",
            "l5kit simulate city --agents idm --scenes 0:100 --workers 4 --out reactive --json",
            "l5kit simulate city --planner planner --agents simnet.safetensors --out learned",
            "l5kit simulate city --planner my_planner.py:MyPlanner --frames 100 --out mine",
        ),
    ),
    _Command(
        "compare",
        "l5kit.cli.compare:compare",
        _TRAIN,
        (
            "l5kit compare driven/rules driven/idm",
            "l5kit compare rules=driven/rules mine=driven/seed0,driven/seed1 --reference rules --tags --out comparison",
            "l5kit view comparison",
        ),
    ),
    _Command(
        "config",
        "l5kit.cli.config:config",
        _TRAIN,
        (
            "l5kit config show vector_planner",
            "l5kit config show raster_planner --out config.yaml",
            "l5kit config schema",
            "l5kit config schema --out l5kit.schema.json",
        ),
    ),
    _Command("checkpoint", "l5kit.cli.checkpoint:make_checkpoint_app", _TRAIN, ()),
    _Command(
        "reproduce",
        "l5kit.cli.reproduce:reproduce",
        _TRAIN,
        (
            "l5kit reproduce --list",
            "l5kit reproduce rules",
            "l5kit reproduce route_planner --seed 1 --workers 2",
            "l5kit reproduce route_planner --quick",
        ),
    ),
    _Command(
        "warmup",
        "l5kit.cli.warmup:warmup",
        _MACHINE,
        (
            "l5kit warmup",
            "NUMBA_CACHE_DIR=/opt/kernels l5kit warmup",
        ),
    ),
    _Command(
        "bench",
        "l5kit.cli.bench:bench",
        _MACHINE,
        (
            "l5kit bench",
            "l5kit bench --data city --only agent-semantic --only batches",
            "l5kit bench --data data --reference reference.json --markdown rates.md",
            "l5kit bench --memory",
            "l5kit bench --startup",
        ),
    ),
)
"""All commands, in the order of the help."""


def make_app(only: str | None = None, *, is_named: bool = False) -> typer.Typer:
    """Return the command with all its commands.

    Args:
        only: Name of the one command that is needed, so that what others import is not waited for; all are there where
            there is no such command.
        is_named: Whether the names of commands are enough where there is no such command: nothing of them is imported.
    """
    app = typer.Typer(
        name="l5kit",
        cls=ReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=as_examples(
            ("l5kit demo", "l5kit info city --json", "l5kit COMMAND --help  shows examples of a command")
        ),
    )
    app.callback(help=_in_paragraphs(_root))(_root)
    needed = [command for command in _COMMANDS if command.name == only]
    for command in needed or _COMMANDS:
        if is_named and not needed:
            app.command(command.name)(_root)
            continue
        function = pkgutil.resolve_name(command.function)
        if function.__name__.startswith("make_"):  # a command with commands of its own
            app.add_typer(function(_in_paragraphs), rich_help_panel=command.group)
            continue
        app.command(
            command.name,
            cls=ReportingCommand,
            help=_in_paragraphs(function),
            epilog=as_examples(command.examples),
            no_args_is_help=False,
            # a command that is not here takes the options that it would have, and says where it is
            context_settings={"ignore_unknown_options": function.__name__.startswith("refer_")},
            rich_help_panel=command.group,
        )(function)
    return app


def run() -> None:
    """Run the command with the arguments of the process."""
    words = sys.argv[1:]
    requested = next((word for word in words if not word.startswith("-")), None)
    # help and the completion of a shell describe the commands; --version and a wrong name need names alone
    is_described = not words or "--help" in words or "_L5KIT_COMPLETE" in os.environ
    make_app(requested, is_named=not is_described)(prog_name="l5kit")
