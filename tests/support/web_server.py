"""Web server for tests: it serves a folder, supports byte ranges, counts requests, and fails on demand."""

import contextlib
import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class WebFolder:
    """A served folder, its requests, and its failures.

    Attributes:
        folder: The folder.
        url: Its URL.
        requests: Method, path and range of each request.
        failures: Failures of the next requests for a path with a suffix: a status, ``reset`` or ``hang``; the last one
            is repeated for suffixes in ``forever``.
        forever: Suffixes of paths whose last failure is repeated.
        knows_ranges: Whether ranges are supported.
        tells_versions: Whether ETag and modification time are sent.
        lists: Whether folders are listed.
        most_at_once: Most requests that were answered at the same time.
    """

    folder: Path
    url: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    failures: dict[str, list[int | str]] = field(default_factory=dict)
    forever: bool = False
    knows_ranges: bool = True
    tells_versions: bool = True
    lists: bool = False
    most_at_once: int = 0
    delay_s: float = 0.0
    num_now: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def paths(self, method: str = "GET") -> list[str]:
        """Return the paths of the requests of a method, in their order."""
        return [path for kind, path, _ in self.requests if kind == method]

    @contextlib.contextmanager
    def counting(self) -> Iterator[list[tuple[str, str, str | None]]]:
        """Give a list that holds the requests of the block when it ends."""
        start, seen = len(self.requests), []
        yield seen
        seen += self.requests[start:]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, web: WebFolder, *args: object) -> None:
        self.web = web
        super().__init__(*args)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        web = self.web
        with web.lock:
            web.requests.append((self.command, self.path, self.headers.get("Range")))
            web.num_now += 1
            web.most_at_once = max(web.most_at_once, web.num_now)
            failure = self._next_failure()
        try:
            if web.delay_s:
                web.is_over.wait(web.delay_s)
            if not self._fails(failure):
                self._send_file(with_body)
        finally:
            with web.lock:
                web.num_now -= 1

    def _next_failure(self) -> int | str | None:
        for end, failures in self.web.failures.items():
            if failures and self.path.endswith(end):
                return failures[0] if self.web.forever else failures.pop(0)
        return None

    def _fails(self, failure: int | str | None) -> bool:
        if failure is None:
            return False
        if failure == "hang":
            self.web.is_over.wait(60)
            self.close_connection = True
        elif failure == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        else:
            self._send(int(failure), b"as told")
        return True

    def _send_file(self, with_body: bool) -> None:
        file = self.web.folder / self.path.partition("?")[0].lstrip("/")
        if file.is_dir() and self.web.lists:
            names = [entry.name + "/" * entry.is_dir() for entry in sorted(file.iterdir())]
            links = "".join(f'<a href="{name}">{name}</a>' for name in names)
            self._send(200, links.encode(), with_body=with_body)
            return
        if not file.is_file():
            self._send(404, b"")
            return
        content, headers = file.read_bytes(), {}
        if self.web.tells_versions:
            headers = {
                "ETag": f'"{hashlib.sha256(content).hexdigest()[:16]}"',
                "Last-Modified": formatdate(file.stat().st_mtime, usegmt=True),
            }
        asked = self.headers.get("Range")
        if asked is None or not self.web.knows_ranges:
            self._send(200, content, headers, with_body=with_body)
            return
        first, last = asked.removeprefix("bytes=").split("-")
        start = max(0, len(content) - int(last)) if first == "" else int(first)
        stop = len(content) if first == "" or last == "" else min(int(last) + 1, len(content))
        if start >= len(content):
            self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        self._send(206, content[start:stop], headers, with_body=with_body)

    def _send(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, *, with_body: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Accept-Ranges", "bytes" if self.web.knows_ranges else "none")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *args: object) -> None:
        """Say nothing of connections that the client has closed."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[WebFolder]:
    """Serve a folder while the block runs."""
    web = WebFolder(folder)
    server = _Server(("127.0.0.1", 0), partial(_Handler, web))
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
