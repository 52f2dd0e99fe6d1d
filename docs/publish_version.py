#!/usr/bin/env python3
"""Publication of a built site next to those of other versions, with a choice of versions on its pages.

Usage: python docs/publish_version.py site FOLDER

FOLDER gets a folder named after the version, ``versions.json`` with all versions, newest first, and an ``index.html``
that redirects to the newest. Any file server can serve it.
"""

import json
import shutil
import sys
from pathlib import Path

from packaging.version import Version

from l5kit import __version__

_REDIRECT = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={version}/"><title>l5kit</title>\n'
)


def publish(site: Path, folder: Path, version: str) -> None:
    """Put a built site into the folder of all versions, replacing an older one of the same version."""
    target, fresh = folder / version, folder / f".{version}.part"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(site, fresh)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    found = sorted((path.parent.name for path in folder.glob("*/index.html")), key=Version, reverse=True)
    versions = [{"version": name, "title": name, "aliases": ["latest"] if name == found[0] else []} for name in found]
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_REDIRECT.format(version=found[0]), encoding="utf-8")


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), __version__)
    print(f"l5kit {__version__} is in {Path(sys.argv[2]) / __version__}")
