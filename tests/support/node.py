"""Node.js, which runs scripts of pages without a browser."""

import shutil
import subprocess

import pytest


def node():
    """Path of a node that is new enough; skips the test where there is none."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("needs Node.js on PATH, which is not here")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(map(int, version.removeprefix("v").split(".")[:2])) < (20, 6):
        pytest.skip(f"needs Node.js from 20.6 on, and this is {version}")
    return path
