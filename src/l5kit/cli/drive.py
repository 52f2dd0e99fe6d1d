"""``l5kit drive``: drive the AV yourself on a page, and score such drives."""

import functools
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import BrowserOption, JsonOption, LogOption, MapOption, MetaOption, ScenesArgument
from l5kit.cli.output import print_facts, print_json, print_line, print_table, remark, short_number
from l5kit.data.dataset_files import find_dataset
from l5kit.simulation.folder.simulation_folder import find_scene_files

_ADDRESS = "127.0.0.1"
_PAGE = Path("drive")
_SIMULATION = Path("simulation")
_POLICY = "route_policy"
"""The shipped policy whose plan the page shows."""


def drive(
    path: ScenesArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            help="Output folder. Default: drive for the page, simulation for --score.",
        ),
    ] = None,
    scenes: Annotated[
        list[int] | None,
        typer.Option(
            "--scene", min=0, show_default=False, help="Scene to drive; may be given several times. Default: all."
        ),
    ] = None,
    score: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Score a drive that was saved on the page, and exit."),
    ] = None,
    serve: Annotated[bool, typer.Option(help="Serve the page on this machine until Ctrl+C, or only write it.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve on; 0 for a free one.")] = 0,
    browser: BrowserOption = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page or simulation in the folder.")
    ] = False,
    log_name: LogOption = None,
    map_path: MapOption = None,
    meta: MetaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drive the AV yourself among traffic that follows the IDM, on a page with a live score.

    The page is a folder of static files, which any web server can serve. --score repeats a drive saved on the page as
    a simulation, with the same scores, which l5kit view can show.

    Examples:
        l5kit drive city
        l5kit drive city --scene 3 --out my_page --no-serve
        l5kit drive city --score drive-3.json --out mine
    """
    if log_name is not None:
        path = find_dataset(path, name=log_name)
    if score is not None:  # no page is written
        _score(score, path, out or _SIMULATION, map_path, meta, overwrite=overwrite, as_json=as_json)
        return
    from l5kit.closedloop.page_policies import page_policy
    from l5kit.environment.policy_driver import PolicyDriver
    from l5kit.visualization.drive.drive_folder import write_drive_folder

    files, _ = find_scene_files(path, map_path=map_path, meta_path=meta)
    name = Path(path).resolve().name
    policy = page_policy(PolicyDriver.load(_POLICY), name=_POLICY)
    folder = write_drive_folder(out or _PAGE, files, name=name, scenes=scenes or (), policy=policy, overwrite=overwrite)
    facts = {
        "folder": str(folder.path),
        "scenes": len(folder.scenes),
        "size_mb": round(folder.num_bytes / 1e6, 2),
        "zipped_mb": round(folder.num_zipped_bytes / 1e6, 2),
    }
    if as_json:
        print_json(facts)
    else:
        sizes = f"{facts['size_mb']} MB, {facts['zipped_mb']} MB gzipped"
        print_facts("Page to drive", {"written to": facts["folder"], "scenes": str(facts["scenes"]), "size": sizes})
    # with --json the caller is a program, which would wait forever
    if serve and not as_json:
        _serve(folder.path, port=port, browser=browser)


def _score(
    file: Path,
    path: Path,
    folder: Path,
    map_path: Path | None,
    meta: Path | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Score a drive, and report differences between page and simulation."""
    from l5kit.closedloop.key_drives import read_key_drive, score_key_drive
    from l5kit.closedloop.options import ClosedLoopOptions

    options = ClosedLoopOptions(overwrite=overwrite)
    drive = read_key_drive(file)
    scored = score_key_drive(drive, path, folder, map_path=map_path, meta_path=meta, options=options)
    if as_json:
        print_json({"folder": folder, "scores": dict(scored.scores), "different": list(scored.different)})
    else:
        rows = [
            [name.replace("_", " "), short_number(value), short_number(scored.scores[name])]
            for name, value in scored.page_scores.items()
        ]
        print_table(f"Drive of scene {drive.scene}", ("", "page", "simulation"), rows)
        apart = f"{scored.most_apart_m:.2g} m"
        print_facts("Simulation", {"written to": str(folder.resolve()), "AV apart at most": apart})
    if scored.different:
        remark(
            f"warning: page and simulation differ in {', '.join(scored.different)}; was the page written by another "
            "version of l5kit?"
        )


class _QuietHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder without logging each request."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the library calls it
        """Log nothing."""


@contextmanager
def static_server(folder: Path, *, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """Yield a server of the files of a folder that listens on this machine only.

    Raises:
        OSError: The port is taken.
    """
    handler = functools.partial(_QuietHandler, directory=str(folder))
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), handler)
    except OSError as error:
        raise OSError(f"cannot listen on --port {port}: {error.strerror or error}; choose another port") from error
    with server:
        yield server


def _serve(folder: Path, *, port: int, browser: bool) -> None:
    """Serve until Ctrl+C."""
    try:
        with static_server(folder, port=port) as server:
            url = f"http://{_ADDRESS}:{server.server_port}/"
            remark("Press Ctrl+C to end.")
            print_line(url)
            sys.stdout.flush()  # for readers of a pipe
            if browser:
                webbrowser.open(url)
            server.serve_forever()
    except KeyboardInterrupt:  # the normal end, at any time
        remark("ended")
