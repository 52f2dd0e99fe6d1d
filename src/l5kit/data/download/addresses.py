"""Addresses of files to download, on web servers, in folders and in buckets, with digests if they are known."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from urllib.request import url2pathname

from l5kit.data.download.fetching import Expected
from l5kit.data.user_cache import key_of
from l5kit.errors import InvalidArgumentError, without_secrets

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_WEB = ("http", "https")
_SIGNATURES = re.compile(
    r"x-amz-.*|x-goog-.*|x-oss-.*|x-cos-.*|awsaccesskeyid|googleaccessid|key-pair-id|signature|policy|expires|token|"
    r"access_token|sig|se|sp|sv|sr|st|spr|skoid|sktid|skt|ske|sks|skv",
    re.IGNORECASE,
)
"""Query parameters of signed addresses: they grant access, but do not identify the file."""


@dataclass(frozen=True)
class Address:
    """Address of a file or a folder of files.

    Attributes:
        text: The address without expected facts; it may hold secrets, so no message shows it.
        name: The address without secrets, for messages.
        identity: Digest of the address without parts that change each time it is signed.
        expected: Known facts about the file.
    """

    text: str
    name: str
    identity: str
    expected: Expected

    @property
    def is_web(self) -> bool:
        """Whether it is on a web server, which serves single files."""
        return _URL.match(self.text) is not None and urlsplit(self.text).scheme.lower() in _WEB

    @property
    def local_path(self) -> Path | None:
        """The path if it is on this machine, else None."""
        return None if _URL.match(self.text) else Path(os.path.abspath(os.path.expanduser(self.text)))

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        path = unquote(urlsplit(self.text).path) if _URL.match(self.text) else self.text
        last = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return re.sub(r"[^\w.+=@ -]", "_", last).strip(" .")[:120] or "file"


def parse_address(text: str) -> Address:
    """Return a parsed address; ``sha256=HEX`` and ``size=BYTES``, joined by ``&``, may follow after a ``#``.

    Args:
        text: Address of a file on a web server, path of a folder or file, or any URL that fsspec supports.

    Raises:
        InvalidArgumentError: It is empty or not an address, or the part after the ``#`` is malformed.
    """
    address, has_facts, facts = text.strip().rpartition("#")
    if not has_facts or not re.match(r"(sha256|size)=", facts):
        address, facts = text.strip(), ""
    if not address or any(ord(letter) < ord(" ") for letter in address):
        raise InvalidArgumentError(f"{text[:80]!r} is not an address; give https://..., s3://bucket/prefix, or a path")
    if address.startswith("file://"):
        address = url2pathname(address.removeprefix("file://"))
    if not _URL.match(address):
        return Address(address, address, key_of(address, 64), _expected(facts, address))
    try:
        parts = urlsplit(address)
    except ValueError as error:  # half of an IPv6 address
        raise InvalidArgumentError(f"{without_secrets(address)[:80]!r} is not an address: {error}") from error
    host = parts.netloc.rpartition("@")[2]
    name = without_secrets(address.partition("#")[0])
    if parts.scheme.lower() in _WEB:
        if not host:
            raise InvalidArgumentError(f"{name!r} names no server; give https://SERVER/FILE")
        if parts.path in ("", "/") or parts.path.endswith("/"):
            raise InvalidArgumentError(
                f"{name!r} is a folder of a web server, which does not list its files; give the address of each file"
            )
    # drop signatures, which differ in each issued address; the rest of the query identifies the file
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    lasting = urlencode([(key, value) for key, value in pairs if not _SIGNATURES.fullmatch(key)])
    return Address(address, name, key_of(f"{name}?{lasting}", 64), _expected(facts, name))


def parse_addresses(text: str) -> list[Address]:
    """Return the addresses in a text, one per line; empty lines and those that start with ``#`` are skipped.

    Raises:
        InvalidArgumentError: A line is not an address.
    """
    lines = (line.strip() for line in text.splitlines())
    return [parse_address(line) for line in lines if line and not line.startswith("#")]


def _expected(facts: str, name: str) -> Expected:
    given: dict[str, str] = dict(fact.partition("=")[::2] for fact in facts.split("&")) if facts else {}
    size, sha256 = given.pop("size", None), given.pop("sha256", None)
    if given or (size is not None and not size.isdecimal()) or (sha256 is not None and not _DIGEST.fullmatch(sha256)):
        raise InvalidArgumentError(
            f"{name}#{facts[:80]}: the part after the # may have sha256=HEX with 64 digits and size=BYTES, joined by &"
        )
    return Expected(None if size is None else int(size), None if sha256 is None else sha256.lower())
