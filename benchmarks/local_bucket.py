"""Local S3 bucket, served by a separate process that counts its requests."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support.processes import s3_server


@contextlib.contextmanager
def serve_bucket(folder: Path, names: Sequence[str]) -> Iterator[tuple[dict[str, Any], Callable[[], int]]]:
    """Serve a folder as ``s3://bucket``; yields the options of its file system and a counter of requests."""
    import s3fs

    command = [sys.executable, str(Path(s3_server.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        options = {"key": "test", "secret": "test", "endpoint_url": url}
        bucket = s3fs.S3FileSystem(**options)
        bucket.mkdir("bucket")
        for name in names:
            bucket.put(str(folder / name), f"bucket/{name}", recursive=True)

        def count() -> int:
            with urllib.request.urlopen(f"{url}/__requests") as answer:
                return len(json.load(answer))

        yield options, count
        server.stdin.close()
