#!/usr/bin/env python3
"""Speed of the viewer in a headless browser.

Usage: python benchmarks/viewer_speed.py [--chromium FILE] [--passes N] [--rows NAME ...]

The log is the real scene of ../shared, filled up to 90 agents in each of its 248 frames, on the street map of 9,680
lanes there. Chromium renders in software (SwiftShader), 1280 x 800. Rows:

    play    rendered frames per second while the scene plays at eight times its speed, so each picture is another frame
            of the log; the view follows the AV, all trajectories and track ids are on
    click   from the click on a scene in the list to its first picture; "cold" with a newly started server and page
    list    from the request of the page to the list of 16,000 scenes of 248 frames, with a newly started server
    export  size of the exported file, and the time to write it
    cold    from the request of a scene to its data, half a second after requesting samples of four frames, without
            compiled kernels on disk, so kernels of samples compile meanwhile; and from the start of the command to
            its address

Times are medians over the passes.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from playwright.sync_api import Page, sync_playwright

from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.records import FRAME_DTYPE, SCENE_DTYPE
from l5kit.visualization.viewer.exported_page import write_exported_page
from l5kit.visualization.viewer.server import ViewerServer
from l5kit.visualization.viewer.viewed_log import ViewedLog

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NUM_AGENTS = 90
NUM_SCENES = 16_000
FRAMES_PER_SCENE = 248
WINDOW = {"width": 1280, "height": 800}
BROWSER_OPTIONS = (
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
)

READY = "async () => { await window.l5kitViewer.ready; }"
DRAWN = "() => window.l5kitViewer.birdseye.stats.drawn"

PLAY = """async () => {
  const { birdseye, player } = window.l5kitViewer
  birdseye.setOptions({ follow: true, labels: true, past: true, future: true })
  player.setSpeed(8)
  player.seek(0)
  player.play()
  const times = []
  let drawn = birdseye.stats.drawn
  const start = performance.now()
  while (performance.now() - start < 8000) {
    await new Promise(requestAnimationFrame)
    if (birdseye.stats.drawn !== drawn) {
      drawn = birdseye.stats.drawn
      times.push(performance.now())
    }
  }
  player.pause()
  return times
}"""

CLICK = """async () => {
  const row = document.querySelector('[data-testid="scene-row"][data-scene="0"]')
  const { birdseye } = window.l5kitViewer
  const drawn = birdseye.stats.drawn
  const start = performance.now()
  row.click()
  while (window.l5kitViewer.state().scene !== 0 || birdseye.stats.drawn === drawn) {
    await new Promise(requestAnimationFrame)
  }
  return (performance.now() - start) / 1000
}"""


def main() -> None:
    """Measure the requested rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--rows", nargs="+", default=["play", "click", "list", "export", "cold"])
    options = parser.parse_args()
    if options.chromium is None:
        sys.exit("no Chromium found; install it or name it with --chromium")
    if not SHARED.is_dir():
        sys.exit(f"the scene and the street map are not there: {SHARED}")
    measures: dict[str, Callable[..., Iterator[tuple[str, str]]]] = {
        "play": measure_play,
        "click": measure_click,
        "list": measure_list,
        "export": measure_export,
        "cold": measure_cold,
    }
    print("| what | measured |\n|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.rows:
            for title, figure in measures[name](Path(scratch), options):
                print(f"| {title} | {figure} |", flush=True)


def measure_play(scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Rendered frames per second."""
    rates = []
    with ViewerServer(ViewedLog(full_scene(scratch))) as server:
        for _ in range(options.passes):
            with opened_page(options.chromium, f"{server.url}#scene=0") as page:
                page.wait_for_function("() => window.l5kitViewer.birdseye.stats.drawn > 0")
                times_ms = np.array(page.evaluate(PLAY))
                rates.append(1000 / np.median(np.diff(times_ms)))
    spread = f"{min(rates):.1f} to {max(rates):.1f}"
    yield f"play, {NUM_AGENTS} agents, 9,680 lanes", f"{statistics.median(rates):.1f} frames/s ({spread})"


def measure_click(scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Seconds to the first picture."""
    files = full_scene(scratch, num_scenes=2)
    cold, warm = [], []
    for _ in range(options.passes):
        with ViewerServer(ViewedLog(files)) as server:
            for seconds in (cold, warm):
                with opened_page(options.chromium, f"{server.url}#scene=1") as page:
                    page.wait_for_selector('[data-testid="scene-row"][data-scene="0"]')
                    seconds.append(page.evaluate(CLICK))
    yield "click to first picture, cold", f"{statistics.median(cold):.2f} s (at most {max(cold):.2f})"
    yield "click to first picture", f"{statistics.median(warm):.2f} s (at most {max(warm):.2f})"


def measure_list(scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Seconds to the list of many scenes."""
    path = many_scenes(scratch / "many.zarr")
    files = DatasetFiles(path, None, None, None, ())
    served, whole = [], []
    for _ in range(options.passes):
        log = ViewedLog(files)
        start = time.perf_counter()
        log.scene_columns  # noqa: B018
        served.append(time.perf_counter() - start)
        with browser_page(options.chromium) as page, ViewerServer(ViewedLog(files)) as server:
            start = time.perf_counter()
            page.goto(server.url)
            page.wait_for_selector('[data-testid="scene-row"]')
            whole.append(time.perf_counter() - start)
    yield f"table of {NUM_SCENES:,} scenes", f"{statistics.median(served):.2f} s (at most {max(served):.2f})"
    yield f"page with {NUM_SCENES:,} scenes listed", f"{statistics.median(whole):.2f} s (at most {max(whole):.2f})"


def measure_export(scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Size of the exported file of a scene, and seconds to write it."""
    log = ViewedLog(full_scene(scratch))
    log.read_ahead()
    seconds = []
    for _ in range(options.passes):
        start = time.perf_counter()
        write_exported_page(scratch / "scene.html", log, 0)
        seconds.append(time.perf_counter() - start)
    yield "exported file", f"{(scratch / 'scene.html').stat().st_size / 1e6:.2f} MB"
    yield "writing it", f"{statistics.median(seconds):.2f} s (at most {max(seconds):.2f})"


def measure_cold(scratch: Path, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Seconds to the data of a scene while kernels compile, and to the address."""
    files = full_scene(scratch)
    command = [sys.executable, "-c", "from l5kit.cli.main import run; run()", "view", str(files.dataset)]
    command += ["--map", str(files.semantic_map), "--meta", str(files.meta), "--no-browser", "--port", "0"]
    starts, waits = [], []
    for number in range(options.passes):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(scratch / f"kernels-{number}")}
        start = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            url = process.stdout.readline().strip() if process.stdout else ""
            starts.append(time.perf_counter() - start)
            for sample in (f"api/{kind}/0/{frame}" for frame in range(4) for kind in ("raster", "vector")):
                threading.Thread(target=_ask_in_vain, args=(url + sample,), daemon=True).start()
            time.sleep(0.5)
            start = time.perf_counter()
            with urlopen(f"{url}api/scene/0") as answer:
                answer.read()
            waits.append(time.perf_counter() - start)
            process.kill()
    yield "data of a scene while kernels are compiled", f"{statistics.median(waits):.2f} s (at most {max(waits):.2f})"
    yield "address, no kernel on disk", f"{statistics.median(starts):.1f} s (at most {max(starts):.1f})"


def _ask_in_vain(url: str) -> None:
    with contextlib.suppress(OSError, HTTPException):  # the server stops before the page is rendered
        urlopen(url).read()


@contextmanager
def opened_page(chromium: str, url: str) -> Iterator[Page]:
    """Yield a page of a new browser at ``url``."""
    with browser_page(chromium) as page:
        page.goto(url)
        page.wait_for_function("() => window.l5kitViewer !== undefined")
        page.evaluate(READY)
        yield page


@contextmanager
def browser_page(chromium: str) -> Iterator[Page]:
    """Yield an empty page of a new browser."""
    with sync_playwright() as playwright:
        arguments = [*BROWSER_OPTIONS, "--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser.new_page(viewport=WINDOW)
        browser.close()


def full_scene(scratch: Path, *, num_scenes: int = 1) -> DatasetFiles:
    """Return files of the real scene, repeated, with 90 agents in each frame, and of the street map."""
    path = scratch / f"full-{num_scenes}.zarr"
    if not path.exists():
        log = ChunkedDataset(SHARED / "single_scene.zarr").open()
        frames, agents = np.array(log.frames[:]), np.array(log.agents[:])
        rows = [_topped_up(agents[slice(*frame["agent_index_interval"])]) for frame in frames]
        ends = NUM_AGENTS * np.arange(1, len(frames) + 1)
        frames["agent_index_interval"] = np.stack([ends - NUM_AGENTS, ends], axis=1)
        full = ChunkedDataset.in_memory(
            scenes=np.array(log.scenes[:]),
            frames=frames,
            agents=np.concatenate(rows),
            tl_faces=np.array(log.tl_faces[:]),
        )
        ChunkedDataset.concatenate([full] * num_scenes).save(path)
    files = DatasetFiles(path, SHARED / "semantic_synth.pb", SHARED / "meta.json", None, ())
    return replace(files, aerial=None)


def _topped_up(agents: Any) -> Any:
    """Return 90 agents of a frame; missing ones are copies at an offset of 4 m."""
    if len(agents) == 0:
        raise ValueError("a frame without agents cannot be filled up")
    copies = [agents]
    while sum(map(len, copies)) < NUM_AGENTS:
        beside = copies[-1].copy()
        beside["centroid"] += 4.0
        beside["track_id"] += 1_000_000
        copies.append(beside)
    return np.concatenate(copies)[:NUM_AGENTS]


def many_scenes(path: Path) -> Path:
    """Write a log of 16,000 scenes with a curving AV, without agent rows; return its path."""
    if path.exists():
        return path
    generator = np.random.default_rng(0)
    num_frames = NUM_SCENES * FRAMES_PER_SCENE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing exists at the path yet
        log = ChunkedDataset(path)
    sizes = {"num_scenes": NUM_SCENES, "num_frames": num_frames, "num_agents": 79 * num_frames, "num_tl_faces": 0}
    log.initialize(mode="w", **sizes)
    for start in range(0, num_frames, 100_000):
        rows = np.arange(start, min(start + 100_000, num_frames))
        frames = np.zeros(len(rows), FRAME_DTYPE)
        frames["timestamp"] = 1_570_000_000_000_000_000 + 100_000_000 * rows
        frames["agent_index_interval"] = np.stack([79 * rows, 79 * (rows + 1)], axis=1)
        yaws = np.cumsum(generator.normal(0, 0.01, len(rows)))
        directions = np.stack([np.cos(yaws), np.sin(yaws)], axis=1)
        frames["ego_translation"][:, :2] = np.cumsum(directions * generator.uniform(0, 1.2, (len(rows), 1)), axis=0)
        frames["ego_rotation"][:, 0, 0] = frames["ego_rotation"][:, 1, 1] = directions[:, 0]
        frames["ego_rotation"][:, 1, 0], frames["ego_rotation"][:, 0, 1] = directions[:, 1], -directions[:, 1]
        frames["ego_rotation"][:, 2, 2] = 1
        log.frames[start : start + len(rows)] = frames
    scenes = np.zeros(NUM_SCENES, SCENE_DTYPE)
    starts = FRAMES_PER_SCENE * np.arange(NUM_SCENES)
    scenes["frame_index_interval"] = np.stack([starts, starts + FRAMES_PER_SCENE], axis=1)
    scenes["host"] = "host-a011"
    log.scenes[:] = scenes
    return path


if __name__ == "__main__":
    main()
