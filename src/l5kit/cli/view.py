"""``l5kit view``: scenes in the browser."""

import os
import socket
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit.cli.options import AerialOption, BrowserOption, LogOption, MapOption, MetaOption, ScenesArgument
from l5kit.cli.output import print_line, remark, remark_notes, require_writable
from l5kit.data.dataset_files import find_dataset
from l5kit.errors import InvalidArgumentError, MissingDependencyError, install_command
from l5kit.simulation.folder.simulation_folder import find_scene_files
from l5kit.visualization.viewer.addresses import LOOPBACK, LOOPBACK_NAMES

if TYPE_CHECKING:
    from l5kit.visualization.viewer.overview import Overview
    from l5kit.visualization.viewer.server import ViewerServer
    from l5kit.visualization.viewer.viewed_log import ViewedLog

_PORT = 8787
_TAKEN = "cannot listen on --address {address} --port {port}: {reason}; choose another port, or none for a free one"


def view(
    path: ScenesArgument,
    scene: Annotated[int | None, typer.Option(min=0, help="Scene to open, or to export.")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write --scene as one HTML file that plays offline, and exit.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help=f"Port. Default: {_PORT}, or a free one if that is taken.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Network address to listen on; 0.0.0.0 makes it reachable from the network.")
    ] = LOOPBACK,
    browser: BrowserOption = True,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Predictions to show: a .csv or .csv.gz file, or a folder of l5kit evaluate."
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Another dataset or simulation, shown next to the first and in step with it."
        ),
    ] = None,
    log_name: LogOption = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    aerial: AerialOption = None,
) -> None:
    """View the scenes of a dataset or of a simulation in the browser, or export one of them as a file to share.

    For a simulation (a folder of l5kit simulate), each scene is shown next to its log. For a comparison (a folder of
    l5kit compare), all planners and scenes are listed, and a click plays two of them side by side.

    Examples:
        l5kit view city
        l5kit view city --scene 3 --no-browser --port 9000
        l5kit view city --export scene.html --scene 3
    """
    if log_name is not None:
        path = find_dataset(path, name=log_name)
    is_comparison = (path / "comparison.json").is_file()
    if is_comparison:  # refuse options that would have no effect
        options = {"--scene": scene, "--export": export, "--beside": beside, "--predictions": predictions}
        _refuse_options(path, options | {"--map": map_path, "--meta": meta, "--aerial": aerial})
    if export is not None and beside is not None:
        raise InvalidArgumentError(
            "--export writes one scene of one dataset, so it excludes --beside; export each to a file of its own, or "
            "render both with l5kit render"
        )
    if export is not None:
        require_writable(export, option="--export")
        _export(_open(path, map_path, meta, aerial, predictions), scene or 0, export)
        return
    if port:  # report a taken port before anything is read
        try:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name != "nt")  # as the server does
                tried.bind((address, port))
        except OSError as error:
            raise OSError(_TAKEN.format(address=address, port=port, reason=error.strerror or error)) from error
    try:
        log = _open_overview(path) if is_comparison else _open(path, map_path, meta, aerial, predictions)
        other = None if beside is None else _open(beside, None, None, None, None)
        _serve(log, other, scene=scene, port=port, address=address, browser=browser)
    except KeyboardInterrupt:  # the normal end, at any time
        remark("ended")


def _refuse_options(path: Path, options: Mapping[str, object]) -> None:
    """Refuse options of datasets for a comparison."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InvalidArgumentError(
            f"{path} is a comparison, which lists planners and scenes: drop {', '.join(given)}, or view one "
            "of its simulations"
        )


def _open_overview(path: Path) -> "Overview":
    from l5kit.comparison.folder import open_overview

    return open_overview(path)


def _open(
    path: Path, map_path: Path | None, meta: Path | None, aerial: Path | None, predictions: Path | None
) -> "ViewedLog":
    files, simulation = find_scene_files(path, map_path=map_path, meta_path=meta, aerial_path=aerial)
    from l5kit.visualization.viewer.predictions import Predictions, refuse_predictions
    from l5kit.visualization.viewer.viewed_log import ViewedLog
    from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

    if simulation is None:
        log = ViewedLog(files, predictions=None if predictions is None else Predictions.open(predictions))
    else:
        refuse_predictions(predictions, path)
        log = ViewedSimulation(simulation, files)
    remark_notes(log.notes)
    return log


def _export(log: "ViewedLog", scene: int, out: Path) -> None:
    from l5kit.visualization.viewer.exported_page import write_exported_page

    write_exported_page(out, log, scene)
    print_line(str(out))


def _serve(
    log: "ViewedLog | Overview",
    beside: "ViewedLog | None",
    *,
    scene: int | None,
    port: int | None,
    address: str,
    browser: bool,
) -> None:
    """Serve until Ctrl+C."""
    # report an unknown scene before a page is opened
    from l5kit.visualization.viewer.viewed_log import ViewedLog

    if scene is not None and isinstance(log, ViewedLog):
        log.require_scene(scene)
    with _start(log, beside, address=address, port=port) as server:
        url = server.url if scene is None else f"{server.url}#scene={scene}"
        if address not in LOOPBACK_NAMES:
            remark(f"warning: anyone who can reach {address} can view this dataset")
        remark("Press Ctrl+C to end.")
        print_line(url)
        sys.stdout.flush()  # for readers of a pipe
        if browser:
            webbrowser.open(url)
        server.wait()


def _start(
    log: "ViewedLog | Overview", beside: "ViewedLog | None", *, address: str, port: int | None
) -> "ViewerServer":
    """Return a server on the given port, or else on the default port or a free one."""
    try:
        from l5kit.visualization.viewer.server import ViewerServer
    except ImportError as error:
        raise MissingDependencyError(
            f"l5kit view needs Tornado, which the extra viz installs: {install_command('viz')}"
        ) from error
    try:
        return ViewerServer(log, beside=beside, address=address, port=_PORT if port is None else port)
    except OSError as error:
        if port is None:  # the default port is taken
            return _start(log, beside, address=address, port=0)
        raise OSError(_TAKEN.format(address=address, port=port, reason=error.strerror or error)) from error
