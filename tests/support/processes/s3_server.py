"""S3-compatible server in a separate process: that of moto, with a log of requests and failures on demand.

``GET /__requests`` returns all requests so far as JSON, method and path of each; ``GET /__fail?end=E&statuses=503,503``
makes the next requests whose path ends in E fail.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Counting:
    """The application around moto's."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app = app
        self.requests: list[list[str]] = []
        self.failures: dict[str, list[str]] = {}
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        if path == "/__requests":
            return self._send(start_response, "200 OK", json.dumps(self.requests).encode())
        if path == "/__fail":
            asked = parse_qs(query)
            statuses = asked.get("statuses", [""])[0]
            self.failures[asked["end"][0]] = statuses.split(",") if statuses else []
            return self._send(start_response, "200 OK", b"")
        with self.lock:
            self.requests.append([environ["REQUEST_METHOD"], path + (f"?{query}" if query else "")])
            failing = [failures for end, failures in self.failures.items() if failures and path.endswith(end)]
            status = failing[0].pop(0) if failing else None
        if status is not None:
            code = {"503": "SlowDown", "403": "AccessDenied"}[status]
            body = f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
            return self._send(start_response, f"{status} {code}", body)
        return self.app(environ, start_response)

    def _send(self, start_response: Callable[..., Any], status: str, body: bytes) -> Iterable[bytes]:
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


class Quiet(WSGIRequestHandler):
    """A handler that writes no log, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def log(self, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until standard input ends; the first line on standard output is the URL."""
    app = Counting(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
