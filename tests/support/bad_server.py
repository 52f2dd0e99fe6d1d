"""Web server that breaks connections, repeats ranges and lies about lengths, as a test asks it to."""

import hashlib
import re
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LAST_MODIFIED = "Mon, 06 Jan 2020 10:00:00 GMT"


class Answer:
    """An answer in progress: the client, the file, and the requested range (None for all of it)."""

    def __init__(self, handler, content):
        self.handler, self.content = handler, content
        found = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        self.start = int(found[1]) if found else None
        self.tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'

    def send(self, body, *, status, length, **headers):
        """Send headers and a body that may disagree; ``content_range`` is the Content-Range."""
        self.handler.send_response(status)
        if length is not None:
            self.handler.send_header("Content-Length", str(length))
        for name, value in {"ETag": self.tag, **headers}.items():
            if value is not None:
                self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def whole(self, **changes):
        """Send all of the file."""
        self.send(**({"body": self.content, "status": 200, "length": len(self.content)} | changes))

    def part(self, **changes):
        """Send the requested bytes, from their start to the end of the file."""
        size, start = len(self.content), self.start
        told = f"bytes {start}-{size - 1}/{size}"
        body = self.content[start:]
        self.send(**({"body": body, "status": 206, "length": len(body), "Content_Range": told} | changes))

    def honest(self, **changes):
        """Answer as a good server does."""
        condition = self.handler.headers.get("If-Range")
        if self.start is None or condition not in (None, self.tag, LAST_MODIFIED):
            self.whole(**changes)
        elif self.start >= len(self.content):
            self.send(b"", status=416, length=0, Content_Range=f"bytes */{len(self.content)}")
        else:
            self.part(**changes)


def honest(answer):
    answer.honest()


def cut(num_bytes):
    """Break the connection after some bytes of the body."""

    def trick(answer):
        body = answer.content[answer.start or 0 :]
        answer.honest(body=body[:num_bytes], length=len(body))

    return trick


def status(code, **headers):
    """Answer with a status and nothing else."""
    return lambda answer: answer.send(b"", status=code, length=0, **headers)


def ignore_range(answer):
    answer.whole()


def repeat_the_start(answer):
    """Say that the right part comes, and send the start of the file."""
    answer.part(body=answer.content[: len(answer.content) - answer.start]) if answer.start else answer.whole()


def name_another_range(answer):
    size = len(answer.content)
    body = answer.content[10:]
    told = f"bytes 10-{size - 1}/{size}"
    answer.part(body=body, length=len(body), Content_Range=told) if answer.start else answer.whole()


def name_no_range(answer):
    answer.part(Content_Range=None) if answer.start else answer.whole()


def name_another_size(answer):
    size = len(answer.content)
    told = f"bytes {answer.start}-{size - 1}/{size + 7}"
    answer.part(Content_Range=told) if answer.start else answer.whole()


def tell_less_than_the_range(answer):
    answer.part(length=1) if answer.start else answer.whole()


def send_too_much(answer):
    body = answer.content[answer.start or 0 :]
    answer.honest(body=body + b"more", length=len(body))


def say_too_much(answer):
    body = answer.content[answer.start or 0 :]
    size = len(answer.content)
    headers = {} if answer.start is None else {"Content_Range": f"bytes {answer.start}-{size + 99}/{size + 100}"}
    answer.honest(body=body, length=len(body) + 100, **headers)


def pack(answer):
    answer.whole(Content_Encoding="gzip")


def send_half_of_chunks(answer):
    """Send chunks without a length, and break off in one."""
    answer.handler.protocol_version = "HTTP/1.1"
    half = answer.content[: len(answer.content) // 2]
    body = b"%x\r\n%b\r\n" % (len(half), half) + b"%x\r\nabc" % 5000
    answer.send(body, status=200, length=None, Transfer_Encoding="chunked")


def send_chunks(answer):
    answer.handler.protocol_version = "HTTP/1.1"
    body = b"".join(
        b"%x\r\n%b\r\n" % (len(block), block)
        for block in (answer.content[place : place + 70_000] for place in range(0, len(answer.content), 70_000))
    )
    answer.send(body + b"0\r\n\r\n", status=200, length=None, Transfer_Encoding="chunked")


def drop(answer):
    """Close the connection without a word."""
    answer.handler.connection.shutdown(2)


PASSING_TRICKS = (
    cut(0),
    cut(1),
    cut(70_000),
    cut(150_000),
    status(503, Retry_After="3"),
    status(500),
    status(429),
    status(416),
    ignore_range,
    repeat_the_start,
    name_another_range,
    name_no_range,
    name_another_size,
    tell_less_than_the_range,
    send_too_much,
    say_too_much,
    pack,
    send_half_of_chunks,
    send_chunks,
    drop,
)
"""Tricks after which an honest answer gives the right file."""


class BadServer:
    """Files by path, and the tricks of the next answers for each; after them, ``otherwise`` answers.

    Attributes:
        url: Its address, without a trailing slash.
        asked: Path and headers of each request.
        bytes_of: Bytes of bodies sent for each path.
    """

    def __init__(self, url):
        self.url = url
        self.files, self.tricks, self.asked = {}, {}, []
        self.otherwise = honest

    def add(self, path, content, *tricks):
        """Offer a file; return its address."""
        self.files[path] = content
        self.tricks[path] = list(tricks)
        return self.url + path

    def ranges(self):
        """The range of each request."""
        return [headers.get("Range") for _, headers in self.asked]


@contextmanager
def bad_server():
    """Run a server in a thread of this process."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            bad.asked.append((self.path, dict(self.headers)))
            path = self.path.partition("?")[0]
            if path not in bad.files:
                self.send_error(404)
                return
            trick = bad.tricks[path].pop(0) if bad.tricks[path] else bad.otherwise
            with suppress(BrokenPipeError, ConnectionResetError):  # the other side noticed and left
                trick(Answer(self, bad.files[path]))

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        bad = BadServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield bad
        finally:
            server.shutdown()
            thread.join()
