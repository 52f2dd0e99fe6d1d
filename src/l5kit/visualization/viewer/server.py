"""The local server of the page."""

import asyncio
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from l5kit._compiling import CompilationWatch
from l5kit.errors import L5KitError, SampleError
from l5kit.visualization.viewer.addresses import LOOPBACK, LOOPBACK_NAMES, is_loopback_host
from l5kit.visualization.viewer.aerial_tiles import AerialTiles
from l5kit.visualization.viewer.overview import Overview
from l5kit.visualization.viewer.page_files import OVERVIEW, PAGE, TWO_PAGES, compose_page, page_files
from l5kit.visualization.viewer.viewed_log import ViewedLog
from l5kit.visualization.viewer.worker_threads import WorkerThreads

_NUM_DATA_THREADS: Final = 4
# What reads records ends before the interpreter does, or zarr warns of reads that never ended. What compiles or draws
# for longer is not waited for.
_GRACE_S: Final = 1.0
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-src 'self'; "
    "frame-ancestors {ancestors}"
)
_NUMBER: Final = r"(\d{1,18})"


class ViewerServer:
    """Serves the page of a dataset from a thread of its own, until it is closed; a context manager.

    It hands out the page, its scripts and what it makes of the dataset, never a file by its path. Requests that name
    another host than the one it listens on are refused, so that no foreign site can read the data by a name that
    leads to this machine. Samples are drawn by a thread of their own, which may have to compile kernels for a quarter
    of a minute, so that data never waits for them. What nobody waits for any more is left out.

    Args:
        log: The dataset; or several simulations of the same scenes, of which each two can be shown beside each other.
        beside: Another dataset, which is shown beside the first one.
        address: Network address to listen on; by default only this machine reaches it.
        port: Port to listen on; 0 takes a free one.

    Attributes:
        port: The port it listens on.

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
        # numba compiles one kernel at a time: what data needs comes before what samples need
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
        """Address of the page."""
        name = LOOPBACK if self._address in ("", "0.0.0.0") else self._address
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    def wait(self) -> None:
        """Return when the server has been closed."""
        while self._thread.is_alive():
            self._thread.join(timeout=0.5)  # in turns, so that an interruption from the keyboard gets through

    def close(self) -> None:
        """Stop answering and free the port; the logs are closed as well."""
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
            # all of them are told to end before any is waited for, so that their times of grace run side by side
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
    """What answers are made with.

    Attributes:
        log: The dataset.
        data_threads: Read what the page shows.
        sample_threads: Draw samples.
        tag_threads: Find tags.
        watch: Sees whether kernels are being compiled.
        is_private: Whether only those are answered who name this machine.
    """

    log: ViewedLog
    data_threads: Executor
    sample_threads: Executor
    tag_threads: Executor
    watch: CompilationWatch
    is_private: bool


def _make_application(services: Sequence[_Service], overview: Overview | None) -> Application:
    """Return what answers: for one dataset, for two beside each other, or for those of an overview."""
    # one dataset has the addresses from the root on; each of several has its own, and a page that others may frame
    if overview is not None:
        prefixes = [f"/planner-{number}" for number in range(len(services))]
    else:
        prefixes = [""] if len(services) == 1 else ["/left", "/right"]
    sides = list(zip(prefixes, services, strict=True))
    service, names = services[0], [each.log.facts()["name"] for each in services]
    routes: list[tuple[str, type[RequestHandler], dict[str, Any]]] = [
        (prefix + pattern, handler, {"service": side}) for prefix, side in sides for pattern, handler in _ROUTES_OF_LOG
    ]
    if len(services) == 1:
        routes.append((r"/", _PageHandler, {"service": service}))
    else:
        title = f"{' beside '.join(names)} - l5kit" if overview is None else "Planners compared - l5kit"
        of_two = r"/" if overview is None else r"/beside"
        routes.append((of_two, _TwoPagesHandler, {"service": service, "title": title}))
        routes += [(rf"{prefix}/", _FramedPageHandler, {"service": side}) for prefix, side in sides]
    if overview is not None:
        routes.append((r"/", _OverviewPageHandler, {"service": service}))
        routes.append((r"/api/overview", _OverviewHandler, {"service": service, "overview": overview}))
    return Application(
        [*routes, (r"/page/([A-Za-z0-9_.]+)", _ScriptHandler, {"service": service})],
        default_handler_class=_NothingHandler,
        default_handler_args={"service": service},
        log_function=_log_request,
    )


def _log_request(handler: RequestHandler) -> None:
    """Tell of what went wrong only: a terminal full of addresses helps nobody."""
    if handler.get_status() >= 500:
        logging.getLogger(__name__).error("%s: status %d", handler.request.uri, handler.get_status())


class _Handler(RequestHandler):
    """What all answers have in common."""

    def initialize(self, service: _Service) -> None:
        self.service = service
        self.log = service.log
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
            self._making.cancel()  # left out, unless a thread is at it already

    async def answer(self, media_type: str, make: Callable[[], bytes], *, threads: Executor | None = None) -> None:
        """Send what ``make`` returns, called in one of ``threads``, by default those that read data."""
        threads = threads or self.service.data_threads
        self._making = asyncio.get_running_loop().run_in_executor(threads, make)
        try:
            content = await self._making
        except asyncio.CancelledError:
            return  # nobody waits for it
        self.set_header("Content-Type", media_type)
        self.finish(content)

    async def answer_json(self, make: Callable[[], object]) -> None:
        """Send what ``make`` returns as JSON."""
        await self.answer("application/json", lambda: json.dumps(make(), allow_nan=False).encode("ascii"))

    def write_error(self, status_code: int, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        # what a sample could not be drawn for says more than that it could not
        if isinstance(error, SampleError) and error.__cause__ is not None:
            error = error.__cause__
        text = f"{type(error).__name__}: {error} (unexpected; the terminal shows where it happened)"
        if isinstance(error, (L5KitError, OSError)):
            text = str(error)
        elif isinstance(error, HTTPError):
            text = error.reason or HTTPStatus(status_code).phrase
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"error": text}))

    def log_exception(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, (HTTPError, L5KitError, OSError)):
            super().log_exception(kind, error, traceback)

    def send_error(self, status_code: int = 500, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        # 404 for what is not there, which errors of l5kit may say as well, 422 for data that cannot be read
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
    ancestors = "'none'"

    def get(self) -> None:
        self.send_page(f"{self.log.facts()['name']} - l5kit")

    def send_page(self, title: str, *, template: str = PAGE) -> None:
        """Send a page whose scripts alone may run."""
        nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", _POLICY.format(nonce=nonce, ancestors=self.ancestors))
        self.set_header("Referrer-Policy", "no-referrer")
        self.finish(compose_page(title=title, script_folder="/page", nonce=nonce, template=template))


class _FramedPageHandler(_PageHandler):
    ancestors = "'self'"


class _TwoPagesHandler(_PageHandler):
    def initialize(self, service: _Service, title: str = "") -> None:
        super().initialize(service)
        self.title = title

    def get(self) -> None:
        self.send_page(self.title, template=TWO_PAGES)


class _OverviewPageHandler(_PageHandler):
    def get(self) -> None:
        self.send_page("Planners compared - l5kit", template=OVERVIEW)


class _OverviewHandler(_Handler):
    def initialize(self, service: _Service, overview: Overview | None = None) -> None:
        super().initialize(service)
        self.overview = overview

    async def get(self) -> None:
        if self.overview is None:
            raise HTTPError(404, reason="There is no overview")
        await self.answer_json(self.overview.as_json)


class _ScriptHandler(_Handler):
    def get(self, name: str) -> None:
        for file in page_files():
            if file.name == name:
                self.set_header("Content-Type", file.media_type)
                self.finish(file.content)
                return
        raise HTTPError(404, reason="There is no such script")


class _DatasetHandler(_Handler):
    async def get(self) -> None:
        await self.answer_json(self.log.facts)


class _ScenesHandler(_Handler):
    async def get(self) -> None:
        await self.answer_json(lambda: self.log.scene_columns)


class _TagsHandler(_Handler):
    async def get(self, first: str) -> None:
        self.log.tags.begin(self.service.tag_threads)
        await self.answer_json(lambda: self.log.tags.since(int(first)))


class _SceneHandler(_Handler):
    async def get(self, scene_index: str) -> None:
        await self.answer("application/octet-stream", lambda: self.log.scene_bytes(int(scene_index)))


class _DriveHandler(_Handler):
    async def get(self, scene_index: str) -> None:
        if self.log.facts()["run"] is None:
            raise HTTPError(404, reason="The dataset is no simulation")
        await self.answer("application/octet-stream", lambda: self.log.drive_bytes(int(scene_index)) or b"")


class _PredictionsHandler(_Handler):
    async def get(self, scene_index: str) -> None:
        if self.log.facts()["predictions"] is None:
            raise HTTPError(404, reason="There are no predictions")
        await self.answer("application/octet-stream", lambda: self.log.prediction_bytes(int(scene_index)) or b"")


class _MapHandler(_Handler):
    async def get(self) -> None:
        if not self.log.facts()["has_map"]:
            raise HTTPError(404, reason="The dataset has no map")
        await self.answer("application/octet-stream", lambda: self.log.map_bytes or b"")


class _LanesHandler(_Handler):
    async def get(self) -> None:
        if not self.log.facts()["has_map"]:
            raise HTTPError(404, reason="The dataset has no map")
        await self.answer("application/octet-stream", lambda: self.log.lane_bytes() or b"")


class _AerialHandler(_Handler):
    async def get(self, scene_index: str) -> None:
        aerial, height_of = _require_aerial(self.log), self.log.ego_height_m
        await self.answer_json(lambda: aerial.facts(height_of(int(scene_index))))


class _TileHandler(_Handler):
    async def get(self, level: str, column: str, row: str) -> None:
        aerial = _require_aerial(self.log)
        await self.answer("image/jpeg", lambda: aerial.tile(int(level), int(column), int(row)))


def _require_aerial(log: ViewedLog) -> AerialTiles:
    if log.aerial is None:
        raise HTTPError(404, reason="The dataset has no aerial picture")
    return log.aerial


class _StatusHandler(_Handler):
    def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"compiling": self.service.watch.is_compiling}))


class _SampleHandler(_Handler):
    async def answer_sample(self, media_type: str, draw: Callable[[], bytes]) -> None:
        """Send what ``draw`` returns, which is called when those requested before have been drawn."""
        await self.answer(media_type, draw, threads=self.service.sample_threads)

    def track_id(self) -> int | None:
        """Return the agent that is requested; None for the AV."""
        text = self.get_query_argument("track", "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            raise HTTPError(404, reason="track must be a number")
        return int(text)


class _RasterHandler(_SampleHandler):
    async def get(self, scene_index: str, frame_index: str) -> None:
        track_id, kind = self.track_id(), self.get_query_argument("kind", self.log.sample_kinds[0])
        draw = self.log.samples.raster_png
        await self.answer_sample("image/png", lambda: draw(int(scene_index), int(frame_index), track_id, map_kind=kind))


class _VectorHandler(_SampleHandler):
    async def get(self, scene_index: str, frame_index: str) -> None:
        track_id, draw = self.track_id(), self.log.samples.vector_svg
        await self.answer_sample("image/svg+xml", lambda: draw(int(scene_index), int(frame_index), track_id))


_ROUTES_OF_LOG: Final[tuple[tuple[str, type[RequestHandler]], ...]] = (
    (r"/api/dataset", _DatasetHandler),
    (r"/api/scenes", _ScenesHandler),
    (rf"/api/tags/{_NUMBER}", _TagsHandler),
    (rf"/api/scene/{_NUMBER}", _SceneHandler),
    (rf"/api/drive/{_NUMBER}", _DriveHandler),
    (rf"/api/predictions/{_NUMBER}", _PredictionsHandler),
    (r"/api/map", _MapHandler),
    (rf"/api/raster/{_NUMBER}/{_NUMBER}", _RasterHandler),
    (rf"/api/vector/{_NUMBER}/{_NUMBER}", _VectorHandler),
    (r"/api/lanes", _LanesHandler),
    (rf"/api/aerial/{_NUMBER}", _AerialHandler),
    (rf"/api/tile/{_NUMBER}/{_NUMBER}/{_NUMBER}", _TileHandler),
    (r"/api/status", _StatusHandler),
)
"""Where what is made of a log is handed out."""
