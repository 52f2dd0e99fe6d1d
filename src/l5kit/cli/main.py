"""The ``l5kit`` command: its commands, and the options before them."""

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from l5kit import __version__
from l5kit.cli.artifact import make_artifact_app
from l5kit.cli.bench import bench
from l5kit.cli.cache import cache
from l5kit.cli.checkpoint import make_checkpoint_app
from l5kit.cli.chop import chop
from l5kit.cli.config import config
from l5kit.cli.demo import demo
from l5kit.cli.download import download
from l5kit.cli.evaluate import evaluate
from l5kit.cli.export import export
from l5kit.cli.importing import import_dataset, resample
from l5kit.cli.info import info
from l5kit.cli.manifest import manifest, verify
from l5kit.cli.mask import mask
from l5kit.cli.record import record
from l5kit.cli.render import render
from l5kit.cli.reporting import DEBUG_OPTION, ReportingCommand, ReportingGroup, request_traceback
from l5kit.cli.simulate import simulate
from l5kit.cli.synth import synth
from l5kit.cli.train import train
from l5kit.cli.train_rl import train_rl
from l5kit.cli.validate import validate
from l5kit.cli.view import view
from l5kit.cli.warmup import warmup

_NAMES: dict[Callable[..., None], str] = {import_dataset: "import"}
"""Commands that are not called as their function."""


def _examples(*lines: str) -> str:
    return "\n\n".join(("Examples:", *lines))


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
    """Look into logs of self-driving cars, sample from them, and draw them.

    PATH is a dataset folder or a .zarr; map, aerial picture and meta.json are looked for inside, beside and one level
    above it. Exit status: 0 done, 1 an error or findings, 2 a wrong call, 130 Ctrl-C.
    """
    if debug:
        request_traceback(ctx)


def make_app() -> typer.Typer:
    """Return the command with all its commands."""
    app = typer.Typer(
        name="l5kit",
        cls=ReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=_examples("l5kit demo", "l5kit info city --json", "l5kit COMMAND --help  shows examples of a command"),
    )
    app.callback(help=_in_paragraphs(_root))(_root)
    commands: dict[Callable[..., None], tuple[str, ...]] = {
        demo: ("l5kit demo", "l5kit demo --data prediction-dataset --out pictures"),
        synth: ("l5kit synth city", "l5kit synth city --seed 7 --scenes 20 --train-scenes 100 --overwrite --workers 4"),
        info: ("l5kit info city", "l5kit info city --json", "l5kit info city --checksums digests.json"),
        validate: ("l5kit validate city", "l5kit validate city/scenes/sample.zarr --checksums digests.json"),
        manifest: (
            "l5kit manifest city --out city.json",
            "l5kit manifest city/scenes/sample.zarr --out sample.json --json",
        ),
        verify: ("l5kit verify copy --manifest city.json", "l5kit verify city --manifest city.json --fresh --json"),
        download: (
            "l5kit download",
            "l5kit download https://server/sample.tar https://server/semantic_map.tar --out prediction-dataset",
            "l5kit download --from addresses.txt --out prediction-dataset --manifest manifest.json",
            "l5kit download s3://bucket/prediction-dataset --out prediction-dataset",
        ),
        import_dataset: (
            "l5kit import argoverse2 /data/av2/val av2 --workers 8",
            "l5kit import argoverse2 /data/av2 av2 --max-scenes 100 --json",
        ),
        resample: ("l5kit resample nuscenes nuscenes-10hz", "l5kit resample nuscenes/scenes/sample.zarr sample.zarr"),
        mask: ("l5kit mask city", "l5kit mask city --json", "l5kit mask city/scenes/sample.zarr --store"),
        cache: (
            "l5kit cache city",
            "l5kit cache city --folder /fast/disk",
            "l5kit cache --list",
            "l5kit cache --prune",
        ),
        chop: (
            "l5kit chop city --frames 50 --future 40",
            "l5kit chop scenes/validate.zarr scenes/sample.zarr --json",
            "l5kit chop scenes/validate.zarr --future 30 --out test-set --overwrite",
        ),
        export: (
            "l5kit export city columns.zarr --workers 2",
            "l5kit export city/scenes/sample.zarr tables --layout parquet --overwrite --json",
        ),
        render: (
            "l5kit render city --scene 1 --frame 50 --out frame.png",
            "l5kit render city --scene 0 --frames 20:120:2 --out scene.gif --map-type satellite",
            "l5kit render city --scene 0 --out scene.mp4",
            "l5kit render city --agent 12 --out agent.mp4 --fps 5",
        ),
        view: (
            "l5kit view city",
            "l5kit view city --scene 3 --no-browser --port 9000",
            "l5kit view city --export scene.html --scene 3",
        ),
        record: (
            "l5kit record city --scene 1 --out scene.mcap",
            "l5kit record city --scene 1 --out scene.rrd --map-radius 300",
        ),
        train: (
            "l5kit train raster_planner --data city --out planner",
            "l5kit train config.yaml --workflow simnet --set train_params.learning_rate=0.0005",
            "l5kit train config.yaml --out planner --resume",
        ),
        train_rl: (
            "l5kit train-rl",
            "l5kit train-rl gym.yaml --data city --eval-data other-city --out driver --minutes 30",
            "l5kit train-rl gym.yaml --data city --out driver --resume --steps 5000000",
        ),
        evaluate: (
            "l5kit evaluate planner --data city",
            "l5kit evaluate motion.safetensors --data city --key scenes/sample_chopped_100 --out test --json",
            "l5kit evaluate planner.pt --config config.yaml --workflow raster_planner --max-samples 2000 --worst 12",
        ),
        simulate: (
            "l5kit simulate city",
            "l5kit simulate city --agents idm --scenes 0:100 --workers 4 --out reactive --json",
            "l5kit simulate city --planner planner --agents simnet.safetensors --out learned",
            "l5kit simulate city --planner my_planner.py:MyPlanner --frames 100 --out mine",
        ),
        config: ("l5kit config schema", "l5kit config schema --out l5kit.schema.json"),
        warmup: ("l5kit warmup", "NUMBA_CACHE_DIR=/opt/kernels l5kit warmup"),
        bench: (
            "l5kit bench",
            "l5kit bench --data city --only agent-semantic --only batches",
            "l5kit bench --data data --reference reference.json --markdown rates.md",
            "l5kit bench --memory",
            "l5kit bench --startup",
        ),
    }
    for function, examples in commands.items():
        app.command(
            _NAMES.get(function),
            cls=ReportingCommand,
            help=_in_paragraphs(function),
            epilog=_examples(*examples),
            no_args_is_help=False,
        )(function)
    app.add_typer(make_artifact_app(_in_paragraphs))
    app.add_typer(make_checkpoint_app(_in_paragraphs))
    return app


def run() -> None:
    """Run the command with the arguments of the process."""
    make_app()(prog_name="l5kit")
