"""Files of web servers, with range requests (RFC 9110, sections 13.1.5, 14 and 15.3.7), by the standard library."""

import base64
import email.utils
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from typing import IO, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from l5kit.data.download.fetching import InterruptedReplyError, Reply, WrongReplyError
from l5kit.data.stores.remote_files import PASSING_STATUS
from l5kit.errors import DownloadError

_BLOCK_BYTES = 1 << 18
_CONTENT_RANGE = re.compile(r"bytes\s+(\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.IGNORECASE)
_SENT_AS_IT_IS = "!#$%&'()*+,/:;=?@[]~"
_GZIP, _GZIPPED = ("gzip", "x-gzip"), (".gz", ".tgz")
_CHANGED = frozenset({412, 416})
_ADVICE = {
    401: "the server requires a login: get a personal address",
    403: "personal addresses expire: get a new one, and the download is resumed",
    404: "check the spelling of the address",
    410: "the file was removed: get a new address",
}


class _Body(Protocol):
    def read1(self, amount: int, /) -> bytes: ...


@dataclass(frozen=True)
class HttpSource:
    """A file of a web server.

    Attributes:
        url: Its address; a user and password in it are sent as basic authentication.
        name: The address without secrets.
        timeout_s: Seconds without a byte after which a connection counts as broken.
    """

    url: str
    name: str
    timeout_s: float = 60.0

    @contextmanager
    def open_from(self, start: int, validator: str | None) -> Iterator[Reply]:
        """Request the bytes from ``start`` on; see :class:`~l5kit.data.download.fetching.FileSource`."""
        opener = urllib.request.build_opener(_Redirects)
        try:
            response = opener.open(self._request(start, validator), timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except (http.client.InvalidURL, ValueError) as error:
            raise DownloadError(f"{self.name} is not an address of a web server: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            # urllib wraps the cause, including errors of our redirect handler; only a bad certificate is not retried
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, DownloadError):
                raise reason from error
            problem = f"{self.name}: no connection ({_text_of(reason)})"
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise DownloadError(f"{problem}; the certificate of the server is not valid") from error
            raise InterruptedReplyError(problem) from error
        with response:
            yield self._reply(response, start)

    def _request(self, start: int, validator: str | None) -> urllib.request.Request:
        # send user and password in a header that is dropped by redirects, never in the address
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        path, query = quote(parts.path, safe=_SENT_AS_IT_IS), quote(parts.query, safe=_SENT_AS_IT_IS)
        request = urllib.request.Request(urlunsplit((parts.scheme, host, path, query, "")))
        request.add_header("User-Agent", "l5kit")
        request.add_header("Accept-Encoding", "identity")
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(secret.encode()).decode()}")

        # If-Range: the server sends the whole file if it has changed
        if start:
            request.add_header("Range", f"bytes={start}-")
            if validator is not None:
                request.add_header("If-Range", validator)
        return request

    def _reply(self, response: http.client.HTTPResponse, start: int) -> Reply:
        headers = response.headers
        encoding = (headers.get("Content-Encoding") or "identity").strip().lower()
        is_the_file = encoding in _GZIP and self.name.lower().endswith(_GZIPPED)  # some servers declare it this way
        if encoding != "identity" and not is_the_file:
            raise WrongReplyError(f"{self.name}: the file is encoded as {encoding!r}, but was requested unencoded")
        # servers may omit the length, or send something that is not a number
        text = headers.get("Content-Length")
        length = int(text) if text is not None and text.strip().isdecimal() else None
        if response.status == http.client.OK:  # the whole file, even if a part was requested
            return Reply(0, length, _validator(headers), self._blocks(response, length))
        if response.status != http.client.PARTIAL_CONTENT or not start:
            raise WrongReplyError(f"{self.name}: the server answers with status {response.status}")

        # a part declares its range ("bytes 5-9/20"), which must match the request and be consistent
        content_range = headers.get("Content-Range") or ""
        match = _CONTENT_RANGE.fullmatch(content_range.strip())
        if match is None:
            raise WrongReplyError(f"{self.name}: the server sends a part without a valid range ({content_range!r:.80})")
        first, last = int(match[1]), int(match[2])
        size = None if match[3] == "*" else int(match[3])
        if first != start or last < first or (size is not None and last >= size):
            raise WrongReplyError(
                f"{self.name}: requested bytes from {start} on, but the server sends {content_range!r}"
            )
        if length is not None and length != last - first + 1:
            raise WrongReplyError(f"{self.name}: the server declares {length} bytes for {content_range!r}")
        return Reply(first, size, _validator(headers), self._blocks(response, last - first + 1))

    def _blocks(self, response: http.client.HTTPResponse, length: int | None) -> Iterator[bytes]:
        """Yield the bytes of a reply; a deviation from the declared length is an error."""
        # http.client stops reading at the declared length, which hides excess bytes
        body: _Body = response if getattr(response, "chunked", False) else response.fp
        num_bytes = 0
        while length is None or num_bytes < length:
            wanted = _BLOCK_BYTES if length is None else min(_BLOCK_BYTES, length - num_bytes)
            try:
                block = body.read1(wanted)
            except (OSError, http.client.HTTPException) as error:
                raise InterruptedReplyError(f"{self.name}: the connection broke ({_text_of(error)})") from error
            num_bytes += len(block)
            if block:
                yield block
            elif length is not None:
                raise InterruptedReplyError(f"{self.name}: the connection ended after {num_bytes} of {length} bytes")
            else:
                return

        # an additional byte shows that the length was wrong
        behind = b""
        with suppress(OSError, http.client.HTTPException):  # complete: errors at the end of the connection are ignored
            behind = body.read1(1)
        if behind:
            raise WrongReplyError(f"{self.name}: the server sends more than the {length} bytes that it declared")

    def _refused(self, error: urllib.error.HTTPError) -> DownloadError:
        """Return the error for an unsuccessful status."""
        problem = f"{self.name}: the server answers {error.code} {error.reason or ''}".rstrip()
        if error.code in PASSING_STATUS:
            interrupted = InterruptedReplyError(problem)
            # the server may say how long to wait, in seconds or as a date
            wait = error.headers.get("Retry-After")
            if wait is not None and wait.strip().isdecimal():
                interrupted.wait_s = float(wait)
            elif wait is not None:
                with suppress(TypeError, ValueError):
                    interrupted.wait_s = max(0.0, _timestamp(wait) - time.time())
            return interrupted
        if error.code in _CHANGED:
            return WrongReplyError(f"{problem}, as if the file had shrunk")
        return DownloadError(f"{problem}; {_ADVICE.get(error.code, 'check the address')}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted to an unencrypted connection."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request for the redirect."""
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old == "https" and new == "http"):
            raise DownloadError(f"the server of {req.host} redirects from {old} to {new}; get another address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _validator(headers: Message) -> str | None:
    """Return a validator for range requests (RFC 9110, 13.1.5): no weak tag, and no date that is too recent."""
    tag = (headers.get("ETag") or "").strip()
    if tag.startswith('"'):
        return tag
    changed, now = headers.get("Last-Modified"), headers.get("Date")
    with suppress(TypeError, ValueError):
        if changed and now and _timestamp(now) - _timestamp(changed) >= 1.0:
            return changed.strip()
    return None


def _timestamp(text: str) -> float:
    return email.utils.parsedate_to_datetime(text).timestamp()


def _text_of(error: object) -> str:
    return str(error) or type(error).__name__
