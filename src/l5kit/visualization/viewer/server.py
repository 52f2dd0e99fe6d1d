"""The local server of the page."""

import asyncio
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from l5kit.errors import L5KitError, SampleError
from l5kit.visualization.viewer.addresses import LOOPBACK, LOOPBACK_NAMES
from l5kit.visualization.viewer.page_files import compose_page, page_files
from l5kit.visualization.viewer.viewed_log import ViewedLog

__all__ = ["ViewerServer"]

_NUM_THREADS: Final = 4
_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NUMBER: Final = r"(\d{1,18})"


class ViewerServer:
    """Serves the page of a dataset from a thread of its own, until it is closed; a context manager.

    It hands out the page, its scripts and what it makes of the dataset, never a file by its path. Requests that name
    another host than the one it listens on are refused, so that no foreign site can read the data by a name that
    leads to this machine.

    Args:
        log: The dataset.
        address: Network address to listen on; by default only this machine reaches it.
        port: Port to listen on; 0 takes a free one.

    Attributes:
        port: The port it listens on.

    Raises:
        OSError: The port is taken, or the address is not one of this machine.
    """

    def __init__(self, log: ViewedLog, *, address: str = LOOPBACK, port: int = 0) -> None:
        self._address = address
        self._sockets = bind_sockets(port, address, family=socket.AF_UNSPEC if ":" in address else socket.AF_INET)
        self.port: int = self._sockets[0].getsockname()[1]
        self._pool = ThreadPoolExecutor(_NUM_THREADS)
        self._pool.submit(log.read_ahead)
        self._log = log
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._application = _make_application(log, self._pool, _allowed_names(address))
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
        """Stop answering and free the port; the log is closed as well."""
        self._log.close()
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
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._loop.close()

    async def _serve(self) -> None:
        server = HTTPServer(self._application)
        server.add_sockets(self._sockets)
        await self._ending.wait()
        server.stop()
        await server.close_all_connections()


def _allowed_names(address: str) -> frozenset[str] | None:
    """Return the hosts that requests may name; None where the server is open to the network anyway."""
    return LOOPBACK_NAMES if address in LOOPBACK_NAMES else None


def _make_application(log: ViewedLog, pool: ThreadPoolExecutor, allowed: frozenset[str] | None) -> Application:
    shared = {"log": log, "pool": pool, "allowed": allowed}
    routes = [
        (r"/", _PageHandler),
        (r"/page/([A-Za-z0-9_.]+)", _ScriptHandler),
        (r"/api/dataset", _DatasetHandler),
        (r"/api/scenes", _ScenesHandler),
        (rf"/api/scene/{_NUMBER}", _SceneHandler),
        (r"/api/map", _MapHandler),
        (rf"/api/raster/{_NUMBER}/{_NUMBER}", _RasterHandler),
        (rf"/api/vector/{_NUMBER}/{_NUMBER}", _VectorHandler),
    ]
    return Application(
        [(pattern, handler, shared) for pattern, handler in routes],
        default_handler_class=_NothingHandler,
        default_handler_args=shared,
        log_function=_log_request,
    )


def _log_request(handler: RequestHandler) -> None:
    """Tell of what went wrong only: a terminal full of addresses helps nobody."""
    if handler.get_status() >= 500:
        logging.getLogger(__name__).error("%s: status %d", handler.request.uri, handler.get_status())


class _Handler(RequestHandler):
    """What all answers have in common."""

    def initialize(self, log: ViewedLog, pool: ThreadPoolExecutor, allowed: frozenset[str] | None) -> None:
        self.log = log
        self._pool = pool
        self._allowed = allowed

    def prepare(self) -> None:
        if self._allowed is not None and self.request.host_name.strip("[]") not in self._allowed:
            raise HTTPError(403, reason="Forbidden host")

    def set_default_headers(self) -> None:
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.clear_header("Server")

    async def answer(self, media_type: str, make: Callable[[], bytes]) -> None:
        """Send what ``make`` returns, called in another thread."""
        content = await asyncio.get_running_loop().run_in_executor(self._pool, make)
        self.set_header("Content-Type", media_type)
        self.finish(content)

    async def answer_json(self, make: Callable[[], Any]) -> None:
        """Send what ``make`` returns as JSON."""
        await self.answer("application/json", lambda: json.dumps(make(), allow_nan=False).encode("ascii"))

    def write_error(self, status_code: int, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"error": _text_of(error, status_code)}))

    def log_exception(self, kind: Any, error: Any, traceback: Any) -> None:
        if not isinstance(error, (HTTPError, L5KitError, OSError)):
            super().log_exception(kind, error, traceback)

    def send_error(self, status_code: int = 500, **options: Any) -> None:
        error = options.get("exc_info", (None, None, None))[1]
        super().send_error(_status_of(error, status_code), **options)


def _status_of(error: Any, status_code: int) -> int:
    """Return 404 for what is not there, 422 for data that cannot be read."""
    if isinstance(error, (IndexError, NotImplementedError)):
        return 404
    return 422 if isinstance(error, (L5KitError, OSError)) else status_code


def _text_of(error: Any, status_code: int) -> str:
    if isinstance(error, SampleError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, (L5KitError, OSError)):
        return str(error)
    if isinstance(error, HTTPError):
        return error.reason or HTTPStatus(status_code).phrase
    return f"{type(error).__name__}: {error} (unexpected; the terminal shows where it happened)"


class _NothingHandler(_Handler):
    def prepare(self) -> None:
        super().prepare()
        raise HTTPError(404, reason="There is nothing at this address")


class _PageHandler(_Handler):
    def get(self) -> None:
        nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", _POLICY.format(nonce=nonce))
        self.set_header("Referrer-Policy", "no-referrer")
        title = f"{self.log.facts()['name']} - l5kit"
        self.finish(compose_page(title=title, script_folder="/page", nonce=nonce))


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


class _SceneHandler(_Handler):
    async def get(self, scene_index: str) -> None:
        await self.answer("application/octet-stream", lambda: self.log.scene_bytes(int(scene_index)))


class _MapHandler(_Handler):
    async def get(self) -> None:
        if not self.log.facts()["has_map"]:
            raise HTTPError(404, reason="The dataset has no map")
        await self.answer("application/octet-stream", lambda: self.log.map_bytes or b"")


class _SampleHandler(_Handler):
    def track_id(self) -> int | None:
        """Return the agent that is asked for; None for the AV."""
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
        await self.answer("image/png", lambda: draw(int(scene_index), int(frame_index), track_id, map_kind=kind))


class _VectorHandler(_SampleHandler):
    async def get(self, scene_index: str, frame_index: str) -> None:
        track_id, draw = self.track_id(), self.log.samples.vector_svg
        await self.answer("image/svg+xml", lambda: draw(int(scene_index), int(frame_index), track_id))
