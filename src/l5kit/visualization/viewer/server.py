"""Local web server of the viewer page."""

import asyncio
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from l5kit._compiling import CompilationWatch
from l5kit.errors import L5KitError, SampleError
from l5kit.visualization.viewer.addresses import LOOPBACK, LOOPBACK_NAMES, is_loopback_host
from l5kit.visualization.viewer.overview import Overview
from l5kit.visualization.viewer.page_files import OVERVIEW, PAGE, TWO_PAGES, compose_page, page_files
from l5kit.visualization.viewer.viewed_log import ViewedLog
from l5kit.visualization.viewer.worker_threads import WorkerThreads

_NUM_DATA_THREADS: Final = 4
# Readers of records end before the interpreter, or zarr warns of unfinished reads. Longer compilations and drawings are
# not waited for.
_GRACE_S: Final = 1.0
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-src 'self'; "
    "frame-ancestors {ancestors}"
)
_NUMBER: Final = r"(\d{1,18})"
_JSON, _BYTES = "application/json", "application/octet-stream"
_COMPARED: Final = "Planners compared - l5kit"


class ViewerServer:
    """Serves the page of a dataset from a background thread, until it is closed; a context manager.

    It serves the page, its scripts and data derived from the dataset, never a file by its path. Requests for another
    host than the one it listens on are refused, so that no foreign site can read the data through a name that resolves
    to this machine. Samples are drawn in a separate thread, since compiling their kernels may take 15 s, so that data
    never waits for them. Requests that were abandoned are skipped.

    Args:
        log: The dataset; or several simulations of the same scenes, any two of which can be shown side by side.
        beside: Another dataset, shown next to the first one.
        address: Network address to listen on; by default, only this machine can reach it.
        port: Port to listen on; 0 for any free port.

    Attributes:
        port: The port that it listens on.

    Raises:
        OSError: The port is taken, or the address is not one of this machine.
    """

    def __init__(
        self, log: ViewedLog | Overview, *, beside: ViewedLog | None = None, address: str = LOOPBACK, port: int = 0
    ) -> None:
        self._address = address
        self._sockets = bind_sockets(port, address, family=socket.AF_UNSPEC if ":" in address else socket.AF_INET)
        self.port: int = self._sockets[0].getsockname()[1]
        self._watch = CompilationWatch()
        self._watch.start()
        self._data_threads = WorkerThreads(_NUM_DATA_THREADS, name="l5kit view data")
        # numba compiles one kernel at a time; kernels for data come before those for samples
        overview = log if isinstance(log, Overview) else None
        shown = [log] if not isinstance(log, Overview) else log.logs
        self._logs: list[ViewedLog] = [*shown, *([] if beside is None else [beside])]
        preparing = self._data_threads.submit(self._logs[0].prepare_reading)
        for each in self._logs[:2]:
            self._data_threads.submit(each.read_ahead)
        self._sample_threads = WorkerThreads(1, name="l5kit view samples", after=preparing)
        self._tag_threads = WorkerThreads(1, name="l5kit view tags", after=preparing)
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        service = _Service(
            log=self._logs[0],
            data_threads=self._data_threads,
            sample_threads=self._sample_threads,
            tag_threads=self._tag_threads,
            watch=self._watch,
            is_private=address in LOOPBACK_NAMES,
        )
        services = [replace(service, log=each) for each in self._logs]
        self._application = _make_application(services, overview)
        self._thread = threading.Thread(target=self._run, name="l5kit view", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the page."""
        name = LOOPBACK if self._address in ("", "0.0.0.0") else self._address
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    def wait(self) -> None:
        """Block until the server is closed."""
        while self._thread.is_alive():
            self._thread.join(timeout=0.5)  # with a timeout, so that Ctrl+C is handled

    def close(self) -> None:
        """Stop the server, free the port and close the logs."""
        for log in self._logs:
            log.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            all_threads = (self._data_threads, self._sample_threads, self._tag_threads)
            # tell all of them to end before waiting, so that their grace periods overlap
            for threads in all_threads:
                threads.shutdown(wait=False, cancel_futures=True)
            for threads in all_threads:
                threads.join(_GRACE_S)
            self._watch.stop()
            self._loop.close()

    async def _serve(self) -> None:
        server = HTTPServer(self._application)
        server.add_sockets(self._sockets)
        await self._ending.wait()
        server.stop()
        await server.close_all_connections()


@dataclass(frozen=True)
class _Service:
    """Resources of the request handlers.

    Attributes:
        log: The dataset.
        data_threads: Threads that read data for the page.
        sample_threads: Threads that draw samples.
        tag_threads: Threads that find tags.
        watch: Watch that sees whether kernels are being compiled.
        is_private: Whether only requests that name this machine are answered.
    """

    log: ViewedLog
    data_threads: Executor
    sample_threads: Executor
    tag_threads: Executor
    watch: CompilationWatch
    is_private: bool


class _Content(NamedTuple):
    """A kind of data served for a log.

    Attributes:
        media_type: Media type of bytes, or JSON.
        make: Function of the log and the numbers in the URL.
        fact: Fact of the log that must be set for the data to exist.
        lack: Message if it is not set.
    """

    media_type: str
    make: Callable[..., object]
    fact: str = ""
    lack: str = ""


class _Page(NamedTuple):
    """A page: title, template, and allowed frame ancestors."""

    title: str
    template: str
    ancestors: str = "'none'"


def _make_application(services: Sequence[_Service], overview: Overview | None) -> Application:
    """Return the web application for one dataset, two side by side, or those of an overview."""
    # a single dataset is served from the root; each of several has its own prefix, and a page that others may frame
    service, names = services[0], [each.log.facts()["name"] for each in services]
    if overview is not None:
        prefixes = [f"/planner-{number}" for number in range(len(services))]
    else:
        prefixes = [""] if len(services) == 1 else ["/left", "/right"]
    made: list[tuple[str, type[_Handler], _Service, _Page | _Content | None]] = []
    for prefix, name, side in zip(prefixes, names, services, strict=True):
        made += [(prefix + pattern, _ContentHandler, side, content) for pattern, content in _CONTENTS.items()]
        made += [(prefix + pattern, handler, side, None) for pattern, handler in _HANDLERS.items()]
        ancestors = "'none'" if len(services) == 1 else "'self'"
        made.append((rf"{prefix}/", _PageHandler, side, _Page(f"{name} - l5kit", PAGE, ancestors)))
    if len(services) > 1:
        title = f"{' beside '.join(names)} - l5kit" if overview is None else _COMPARED
        made.append((r"/" if overview is None else r"/beside", _PageHandler, service, _Page(title, TWO_PAGES)))
    if overview is not None:
        made.append((r"/", _PageHandler, service, _Page(_COMPARED, OVERVIEW)))
        made.append((r"/api/overview", _ContentHandler, service, _Content(_JSON, lambda _: overview.as_json())))
    made.append((r"/page/([A-Za-z0-9_.]+)", _ScriptHandler, service, None))
    return Application(
        [(pattern, handler, {"service": side, "made": what}) for pattern, handler, side, what in made],
        default_handler_class=_NothingHandler,
        default_handler_args={"service": service},
        log_function=_log_request,
    )


def _log_request(handler: RequestHandler) -> None:
    """Log errors only: a terminal full of requests helps nobody."""
    if handler.get_status() >= 500:
        logging.getLogger(__name__).error("%s: status %d", handler.request.uri, handler.get_status())


class _Handler(RequestHandler):
    """Base of all request handlers."""

    def initialize(self, service: _Service, made: Any = None) -> None:
        self.service, self.log, self.made = service, service.log, made
        self._making: asyncio.Future[bytes] | None = None

    def prepare(self) -> None:
        if self.service.is_private and not is_loopback_host(self.request.headers.get_list("Host")):
            raise HTTPError(403, reason="Forbidden host")

    def set_default_headers(self) -> None:
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.clear_header("Server")

    def on_connection_close(self) -> None:
        if self._making is not None:
            self._making.cancel()  # skipped, unless a thread has already started it

    async def answer(self, media_type: str, make: Callable[[], object], *, threads: Executor) -> None:
        """Send the result of ``make``, called in one of ``threads``: bytes, or a value that is sent as JSON."""

        def encoded() -> bytes:
            content = make()
            return content if isinstance(content, bytes) else json.dumps(content, allow_nan=False).encode("ascii")

        self._making = asyncio.get_running_loop().run_in_executor(threads, encoded)
        try:
            content = await self._making
        except asyncio.CancelledError:
            return  # the client has gone
        self.set_header("Content-Type", media_type)
        self.finish(content)

    def write_error(self, status_code: int, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        # the cause of a sample error says more than the error itself
        if isinstance(error, SampleError) and error.__cause__ is not None:
            error = error.__cause__
        text = f"{type(error).__name__}: {error} (unexpected; see the terminal for details)"
        if isinstance(error, (L5KitError, OSError)):
            text = str(error)
        elif isinstance(error, HTTPError):
            text = error.reason or HTTPStatus(status_code).phrase
        self.set_header("Content-Type", _JSON)
        self.finish(json.dumps({"error": text}))

    def log_exception(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, (HTTPError, L5KitError, OSError)):
            super().log_exception(kind, error, traceback)

    def send_error(self, status_code: int = 500, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        # 404 for missing resources, including l5kit errors for these; 422 for unreadable data
        if isinstance(error, (IndexError, NotImplementedError)):
            status_code = 404
        elif isinstance(error, (L5KitError, OSError)):
            status_code = 422
        super().send_error(status_code, **options)


class _NothingHandler(_Handler):
    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(404, reason="There is nothing at this address")


class _PageHandler(_Handler):
    def get(self) -> None:
        page: _Page = self.made
        nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", _POLICY.format(nonce=nonce, ancestors=page.ancestors))
        self.set_header("Referrer-Policy", "no-referrer")
        self.finish(compose_page(title=page.title, script_folder="/page", nonce=nonce, template=page.template))


class _ScriptHandler(_Handler):
    def get(self, name: str) -> None:
        for file in page_files():
            if file.name == name:
                self.set_header("Content-Type", file.media_type)
                self.finish(file.content)
                return
        raise HTTPError(404, reason="There is no such script")


class _ContentHandler(_Handler):
    async def get(self, *indices: str) -> None:
        content: _Content = self.made
        if content.fact and self.log.facts()[content.fact] in (None, False):
            raise HTTPError(404, reason=content.lack)
        make = partial(content.make, self.log, *map(int, indices))
        await self.answer(content.media_type, make, threads=self.service.data_threads)


class _TagsHandler(_Handler):
    async def get(self, first: str) -> None:
        self.log.tags.begin(self.service.tag_threads)
        since = partial(self.log.tags.since, int(first))
        await self.answer(_JSON, since, threads=self.service.data_threads)


class _StatusHandler(_Handler):
    def get(self) -> None:
        self.set_header("Content-Type", _JSON)
        self.finish(json.dumps({"compiling": self.service.watch.is_compiling}))


class _SampleHandler(_Handler):
    """A raster or vector sample, drawn after earlier requests; an empty ``track`` is the AV."""

    async def get(self, form: str, scene_index: str, frame_index: str) -> None:
        track, samples = self.get_query_argument("track", ""), self.log.samples
        if track and not (track.isascii() and track.isdigit() and len(track) <= 20):
            raise HTTPError(404, reason="track must be a number")
        draw: Callable[..., bytes] = samples.vector_svg
        media_type = "image/svg+xml"
        if form == "raster":
            kind = self.get_query_argument("kind", self.log.sample_kinds[0])
            draw, media_type = partial(samples.raster_png, map_kind=kind), "image/png"
        drawn = partial(draw, int(scene_index), int(frame_index), int(track) if track else None)
        await self.answer(media_type, drawn, threads=self.service.sample_threads)


_WITH_MAP: Final = ("has_map", "The dataset has no map")
_WITH_AERIAL: Final = ("has_aerial", "The dataset has no aerial picture")
_CONTENTS: Final = {
    r"/api/dataset": _Content(_JSON, lambda log: log.facts()),
    r"/api/scenes": _Content(_JSON, lambda log: log.scene_columns),
    rf"/api/scene/{_NUMBER}": _Content(_BYTES, lambda log, scene: log.scene_bytes(scene)),
    rf"/api/drive/{_NUMBER}": _Content(
        _BYTES, lambda log, scene: log.drive_bytes(scene), "run", "The dataset is not a simulation"
    ),
    rf"/api/predictions/{_NUMBER}": _Content(
        _BYTES, lambda log, scene: log.prediction_bytes(scene), "predictions", "There are no predictions"
    ),
    r"/api/map": _Content(_BYTES, lambda log: log.map_bytes, *_WITH_MAP),
    r"/api/lanes": _Content(_BYTES, lambda log: log.lane_bytes(), *_WITH_MAP),
    rf"/api/aerial/{_NUMBER}": _Content(
        _JSON, lambda log, scene: log.aerial.facts(log.ego_height_m(scene)), *_WITH_AERIAL
    ),
    rf"/api/tile/{_NUMBER}/{_NUMBER}/{_NUMBER}": _Content(
        "image/jpeg", lambda log, *tile: log.aerial.tile(*tile), *_WITH_AERIAL
    ),
}
"""Data served for a log, by URL pattern."""

_HANDLERS: Final[dict[str, type[_Handler]]] = {
    rf"/api/tags/{_NUMBER}": _TagsHandler,
    rf"/api/(raster|vector)/{_NUMBER}/{_NUMBER}": _SampleHandler,
    r"/api/status": _StatusHandler,
}
"""Handlers of other URLs of a log."""
