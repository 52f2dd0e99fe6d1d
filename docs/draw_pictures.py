#!/usr/bin/env python3
"""Drawing of the pictures of the README and of this folder, all or some, from synthetic cities, with Chromium.

Usage: python docs/draw_pictures.py [NAME ...] [--work FOLDER] [--chromium FILE]

Cities, simulations and comparisons are made once in WORK, by default ``build/pictures``, by commands that the documents
show. The viewer is drawn in both themes: ``viewer.png`` and ``viewer_dark.png``. Look at pictures before you commit
them. ``stages.svg`` is drawn by hand from measured times.
"""

import argparse
import contextlib
import functools
import io
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw
from playwright.sync_api import Page, sync_playwright
from typer.main import get_command

from l5kit.cli.drive import static_server
from l5kit.cli.main import make_app

FOLDER = Path(__file__).parent
IMAGES = FOLDER / "images"
BROWSER_OPTIONS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
THEMES = {"light": "", "dark": "_dark"}

FAILURE = {"scene": 5, "frame": 66}
"""A collision at fault: the AV, driven by IDM, turns left across a car that IDM drives too; neither gives way."""

DRIVEN = {
    "scene": 4,
    "keys": [0, 0, 0, 4, 0, 4, 4, 0, 4, 0, 4, 0, 0, 4, 0, 0, 0, 0, 0, 0, 2, 2, 2, 10, 2, 10, 2, 8, 0, 8, 2, 10],
}
"""A drive towards a red light, and the keys held in each step."""

VIEWED = {"scene": 2, "frame": 90}
AGENT = "scene=2&frame=90&track=1"
"""A junction with lights, and a moving agent."""

ROUTE_M = (np.array([-5.0, 220.0]), np.array([58.0, 71.0]))
"""Start and goal of the route that is drawn, metres in the city."""

EDITED = (
    ("parked_vehicle,ahead_m=25", 12),
    ("cones,ahead_m=20", 12),
    ("pedestrian_steps_out,ahead_m=25,pace_mps=2.2", 19),
    ("cut_in,at_s=1", 26),
    ("braking_leader,ahead_m=12,brakes_at_s=2", 30),
    ("denser_traffic,factor=3", 70),
    ("another_goal,speed_mps=9", 72),
    ("slow_leader,ahead_m=15", 10),
)
"""Edits of the first scene of the small city to draw, each with a frame."""

LETS_IN = {"scene": 10, "frame": 198}
"""The AV changes lanes: with IDM another vehicle stays next to it, with drivers that give way it falls back."""

BEND = {"scene": 21, "frames": slice(82, 130), "boxes": slice(82, 130, 8)}
"""A bend that IDM takes too fast, in frames of the simulation."""

VECTORS = {"scene": 5, "frame": 58}
"""A sample on vectors: two lanes, parked cars, and a junction ahead."""

SHOWN = "() => window.l5kitViewer?.birdseye.stats.drawn > 0 && window.l5kitViewer.state().scene !== null"


class Studio:
    """Folders in WORK that pictures are drawn from, each made once, and pages of the viewer in a browser."""

    def __init__(self, work: Path, chromium: str | None) -> None:
        self.work = work
        self.chromium = chromium
        work.mkdir(parents=True, exist_ok=True)

    def run(self, *words: str | Path) -> None:
        """Run the command in WORK."""
        with contextlib.chdir(self.work):
            get_command(make_app())(list(map(str, words)), prog_name="l5kit", standalone_mode=False)

    def made(self, name: str, *words: str | Path) -> Path:
        """Return a folder of WORK; a call of the command makes it if it is missing."""
        if not (self.work / name).exists():
            self.run(*words)
        return self.work / name

    @functools.cached_property
    def city(self) -> Path:
        """24 scenes that nothing is trained or tuned on."""
        return self.made("city", "synth", "city", "--seed", "9107", "--scenes", "24")

    @functools.cached_property
    def small_city(self) -> Path:
        """Three scenes of twelve seconds, for single frames and films."""
        return self.made("small", "synth", "small", "--scenes", "3", "--seed", "4", "--frames", "120")

    @functools.cached_property
    def failing(self) -> Path:
        """Drives of IDM in traffic driven by IDM; six of 24 collide at fault."""
        return self.drives("idm", "idm", "idm")

    def drives(self, name: str, planner: str, agents: str = "replay") -> Path:
        """Drives of a planner in all scenes of the city."""
        words = ["simulate", self.city, "--planner", planner, "--agents", agents, "--start-frame", "10", "--out", name]
        return self.made(name, *words)

    @functools.cached_property
    def yielding(self) -> Path:
        """The same drives in traffic that gives way."""
        return self.drives("among_yielding", "idm", "yielding")

    @functools.cached_property
    def policy(self) -> Path:
        """Drives of the policy that ships, with the rules as fallback, in traffic driven by IDM."""
        words = ["simulate", self.city, "--planner", "route_policy", "--fallback", "rules", "--agents", "idm"]
        return self.made("policy", *words, "--scenes", "0:2", "--start-frame", "10", "--out", "policy")

    @functools.cached_property
    def comparison(self) -> Path:
        """Four planners over the same scenes."""
        runs = [self.drives(name, name) for name in ("rules", "route_planner", "constant-velocity")]
        idm = f"idm={self.drives('idm_replayed', 'idm')}"
        return self.made("comparison", "compare", *runs, idm, "--tags", "--out", "comparison")

    @contextlib.contextmanager
    def server(self, path: Path, *options: str | Path) -> Iterator[str]:
        """Serve a dataset, a simulation or a comparison; yield the address."""
        words = [sys.executable, "-m", "l5kit.cli", "view", str(path), "--no-browser", *map(str, options)]
        process = subprocess.Popen(words, cwd=self.work, stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()

    @contextlib.contextmanager
    def page(self, address: str, *, theme: str = "light", width: int = 1280, height: int = 800) -> Iterator[Page]:
        """Open an address in the browser."""
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=self.chromium, args=BROWSER_OPTIONS)
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.set_default_timeout(180_000)
            page.goto(address)
            yield page
            browser.close()


def save(picture: bytes, name: str) -> None:
    """Write a picture with the colours of a palette."""
    shown = Image.open(io.BytesIO(picture)).convert("RGB")
    shown.quantize(256, kmeans=2, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)
    print(f"{name}: {(IMAGES / name).stat().st_size / 1000:.0f} kB", flush=True)


def save_photo(picture: Image.Image, name: str) -> None:
    """Write a picture that has many colours, as WebP."""
    path = IMAGES / name
    picture.save(path, quality=82, method=6)
    print(f"{name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def write_drawing(name: str, parts: list[str], *, width: int, height: int, title: str) -> None:
    """Write an SVG of its elements on white."""
    font = 'font-family="system-ui, sans-serif" font-size="14" fill="#1f2933"'
    size = f'width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" {font} role="img">'
    ground = f'<rect {size} fill="#ffffff"/>'
    lines = [head, f"<title>{title}</title>", ground, *parts, "</svg>"]
    (IMAGES / name).write_text("\n".join(lines) + "\n", "utf-8")


def save_film(frames: list[Image.Image], name: str, *, frame_ms: int = 100) -> None:
    """Write a film in real time; its last picture stays for two seconds."""
    times_ms = [frame_ms] * (len(frames) - 1) + [2000]
    path = IMAGES / name
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=times_ms, loop=0, quality=70, method=6)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


def both_themes(studio: Studio, address: str, name: str) -> None:
    """Write screenshots of a page in the light and the dark theme, once it is drawn."""
    for theme, ending in THEMES.items():
        with studio.page(address, theme=theme) as page:
            page.wait_for_function(SHOWN)
            page.wait_for_timeout(2500)  # samples, tags and curves appear after the first picture
            page.wait_for_function("() => !document.body.innerText.includes('Compiling')")
            save(page.screenshot(), f"{name}{ending}.png")


def draw_viewer(studio: Studio) -> None:
    """A log: the list with tags, a junction, and a selected agent."""
    with studio.server(studio.city) as address:
        with studio.page(f"{address}#scene=1") as page:  # computing tags and compiling kernels takes a while, once
            page.wait_for_function(SHOWN)
            page.wait_for_timeout(60_000)
        both_themes(studio, f"{address}#{AGENT}", "viewer")


def draw_drive(studio: Studio) -> None:
    """The page to drive on: some seconds of a scene, with the keys of a driver who follows the road."""
    city = studio.made("drive_city", "synth", "drive_city", "--scenes", "6")
    page_folder = studio.made("drive_page", "drive", city, "--out", "drive_page", "--no-serve")
    with static_server(page_folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for theme, ending in THEMES.items():
            address = f"http://127.0.0.1:{server.server_port}/?scene={DRIVEN['scene']}"
            with studio.page(address, theme=theme) as page:
                page.evaluate("async () => { await l5kitDrive.ready }")
                page.evaluate("(keys) => l5kitDrive.app.replay(keys)", DRIVEN["keys"])
                page.evaluate("() => { document.getElementById('start-hint').hidden = true }")
                page.wait_for_timeout(1000)
                save(page.screenshot(), f"drive{ending}.png")
        server.shutdown()


def draw_simulation(studio: Studio) -> None:
    """A drive half a second before its collision: plan, outlines of the log, failures and curves."""
    place = f"#scene={FAILURE['scene']}&frame={FAILURE['frame'] - 5}"
    with studio.server(studio.failing) as address:
        both_themes(studio, address + place, "simulation")


def draw_failure(studio: Studio) -> None:
    """The film of the README: from three seconds before the collision to one after it, as the viewer plays it."""
    first, last = FAILURE["frame"] - 30, FAILURE["frame"] + 12
    with studio.server(studio.failing) as address:
        place = f"#scene={FAILURE['scene']}&frame={first}&follow=1&zoom=9"
        with studio.page(address + place, width=1100, height=720) as page:
            page.wait_for_function(SHOWN)
            page.wait_for_timeout(2500)
            for name in ("Labels", "Off road", "Over limit"):  # space for the map
                page.get_by_role("button", name=name, exact=True).click()
            frames = []
            for frame in range(first, last + 1):
                page.evaluate("(frame) => window.l5kitViewer.player.seek(frame)", frame)
                page.wait_for_function("(frame) => window.l5kitViewer.state().frame === frame", arg=frame)
                page.evaluate("async () => { for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame) }")
                frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    save_film(frames, "failure.webp")


def draw_beside(studio: Studio) -> None:
    """Two planners in the same scene, side by side."""
    place = f"#scene={FAILURE['scene']}&frame={FAILURE['frame']}"
    with studio.server(studio.failing, "--beside", studio.drives("rules", "rules")) as address:
        for theme, ending in THEMES.items():
            with studio.page(address + place, theme=theme) as page:
                page.wait_for_timeout(15_000)
                save(page.screenshot(), f"beside{ending}.png")


def draw_overview(studio: Studio) -> None:
    """A comparison: the page of the viewer, and the picture written by the command."""
    shutil.copyfile(studio.comparison / "comparison.png", IMAGES / "comparison.png")
    with studio.server(studio.comparison) as address:
        for theme, ending in THEMES.items():
            with studio.page(address, theme=theme, height=640) as page:
                page.wait_for_timeout(5000)
                save(page.screenshot(), f"overview{ending}.png")


def draw_predictions(studio: Studio) -> None:
    """Constant velocity over the log, once at the current and once at half the speed."""
    path = studio.work / "predictions.csv"
    if not path.exists():
        predict(studio.city, path, **VIEWED)
    with studio.server(studio.city, "--predictions", path) as address:
        both_themes(studio, f"{address}#{AGENT}", "predictions")


def predict(city: Path, path: Path, *, scene: int, frame: int) -> None:
    """Write predictions for the agents of a frame, of 3 s and two modes each."""
    from l5kit.data import ChunkedDataset
    from l5kit.evaluation import write_pred_csv

    log = ChunkedDataset(city / "scenes" / "sample.zarr").open()
    row = log.frames[log.scenes["frame_index_interval"][scene, 0] + frame]
    agents = log.agents[slice(*row["agent_index_interval"])]
    ahead_s = 0.1 * np.arange(1, 31)
    coords = agents["velocity"][:, None, None] * np.array([1.0, 0.5])[:, None, None] * ahead_s[:, None]
    confidences = np.tile([0.7, 0.3], (len(agents), 1))
    times = np.full(len(agents), row["timestamp"])
    write_pred_csv(str(path), times, agents["track_id"], coords, confidences, max_modes=2)


def render(studio: Studio, path: Path, name: str, *options: str) -> None:
    """Draw by l5kit render."""
    drawn = studio.work / name
    studio.run("render", path, *options, "--out", drawn.name)
    save(drawn.read_bytes(), name)


def render_film(studio: Studio, path: Path, name: str, *options: str, frame_ms: int) -> None:
    """Draw a film by l5kit render, scaled down."""
    drawn = studio.work / f"{name}.mp4"
    studio.run("render", path, *options, "--out", drawn.name)
    with av.open(str(drawn)) as film:
        frames = [frame.to_image() for frame in film.decode(video=0)]
    save_film(frames, f"{name}.webp", frame_ms=frame_ms)


def draw_frames(studio: Studio) -> None:
    """Output of l5kit render for a frame, and for a film."""
    place = ["--scene", "1", "--frame", "60", "--size", "480x320"]
    for kind in ("semantic", "satellite", "box"):
        render(studio, studio.small_city, f"frame-{kind}.png", *place, "--map-type", kind)
    render(studio, studio.small_city, "frame-dark.png", *place, "--theme", "dark")
    render(studio, studio.small_city, "frame-channels.png", *place, "--style", "channels")
    film = ["--scene", "1", "--frames", "30:100:2", "--size", "480x320"]
    render_film(studio, studio.small_city, "scene", *film, frame_ms=200)


def draw_edited(studio: Studio) -> None:
    """A frame of a scene with each kind of edit, in a grid with their names."""
    width, height, text = 320, 220, 22
    sheet = Image.new("RGB", (4 * width, -(-len(EDITED) // 4) * (height + text)), "white")
    pen = ImageDraw.Draw(sheet)
    for number, (edit, frame) in enumerate(EDITED):
        name = edit.partition(",")[0]
        words = ["edit", studio.small_city, f"edited_{name}", "--edit", edit, "--scenes", "0:1", "--seed", "1"]
        path = studio.made(f"edited_{name}", *words)
        drawn = studio.work / f"{name}.png"
        size = ["--size", f"{width}x{height}", "--pixel-size", "0.2"]
        studio.run("render", path, "--frame", frame, *size, "--out", drawn.name)
        left, top = number % 4 * width, number // 4 * (height + text)
        sheet.paste(Image.open(drawn).convert("RGB"), (left, top + text))
        pen.text((left + 8, top + 5), name, fill="black", font_size=14)
    picture = io.BytesIO()
    sheet.save(picture, "png")
    save(picture.getvalue(), "edited.png")


def draw_driven(studio: Studio) -> None:
    """Output of l5kit render for a simulation: shortly before a collision, and the collision."""
    for theme, ending in THEMES.items():
        place = ["--scene", str(FAILURE["scene"]), "--theme", theme, "--ghosts", "--plans"]
        render(studio, studio.failing, f"driven{ending}.png", *place, "--frame", str(FAILURE["frame"] - 5))
        near = ["--size", "480x320", "--pixel-size", "0.08", "--no-trajectories", "--frame", str(FAILURE["frame"] + 2)]
        render(studio, studio.failing, f"collision{ending}.png", *place[:4], *near)


def draw_policy(studio: Studio) -> None:
    """The policy that ships, at a junction."""
    film = ["--scene", "1", "--frames", "60:150:2", "--plans", "--size", "640x400"]
    render_film(studio, studio.policy, "policy", *film, frame_ms=200)


def draw_town(studio: Studio) -> None:
    """The map of a synthetic town."""
    from l5kit.data import find_dataset_files, open_map
    from l5kit.visualization import show

    save(show(open_map(find_dataset_files(studio.city))).content, "town.png")


def draw_noise(studio: Studio) -> None:
    """A frame as perceived by a tracker, and the true boxes."""
    noisy = studio.made("noisy", "synth", "noisy", "--noise", "--seed", "4", "--scenes", "1", "--frames", "60")
    for name, log in (("seen", noisy / "scenes" / "sample.zarr"), ("true", noisy / "truth" / "sample.zarr")):
        render(studio, log, f"noise-{name}.png", "--frame", "50", "--size", "480x320", "--pixel-size", "0.2")


def draw_demo(studio: Studio) -> None:
    """Inputs of raster networks: samples of both dataset classes over both kinds of maps."""
    from l5kit.data import ChunkedDataset, find_dataset_files
    from l5kit.visualization.showcase import draw_contact_sheet

    files = find_dataset_files(studio.small_city)
    sheet = draw_contact_sheet(files, ChunkedDataset(files.dataset).open())
    height, width = sheet.shape[:2]
    save_photo(Image.fromarray(sheet).resize((1104, 1104 * height // width), Image.Resampling.LANCZOS), "demo.webp")


def draw_vectors(studio: Studio) -> None:
    """Inputs of vector networks: the same drawing as in a notebook, without its empty margins."""
    from l5kit.configs import load_training_config
    from l5kit.data import ChunkedDataset, LocalDataManager
    from l5kit.dataset import EgoDatasetVectorized
    from l5kit.vectorization import build_vectorizer
    from l5kit.visualization import show

    log = ChunkedDataset(studio.city / "scenes" / "sample.zarr").open()
    cfg = load_training_config("vector_planner")
    samples = EgoDatasetVectorized(cfg, log, build_vectorizer(cfg, LocalDataManager(str(studio.city))))
    drawing = show(samples, **VECTORS).content.decode()
    whole, cut = (
        'viewBox="-40.0 -40.0 80.0 80.0" width="448" height="448"',
        'viewBox="-40 -24 80 36" width="720" height="324"',
    )
    if whole not in drawing:
        raise ValueError(f"the drawing does not begin with {whole}")
    (IMAGES / "vectors.svg").write_text(drawing.replace(whole, cut), "utf-8")


def draw_observations(studio: Studio) -> None:
    """Observations of an environment."""
    runpy.run_path(str(FOLDER / "draw_observations.py"))["main"](str(studio.city), 16, 60)


def draw_traffic(studio: Studio) -> None:
    """The same moment in two populations of traffic."""
    place = ["--scene", str(LETS_IN["scene"]), "--frame", str(LETS_IN["frame"]), "--plans", "--no-caption"]
    for name, path in (("idm", studio.failing), ("yielding", studio.yielding)):
        for theme, ending in THEMES.items():
            size = ["--size", "480x240", "--pixel-size", "0.14", "--theme", theme]
            render(studio, path, f"traffic-{name}{ending}.png", *place, *size)


def draw_towns(studio: Studio) -> None:
    """The maps of four towns, side by side."""
    from l5kit.data import find_dataset_files, open_map
    from l5kit.visualization import show

    towns = studio.made("towns", "synth", "towns", "--towns", "4", "--scenes", "1", "--frames", "20")
    maps = [show(open_map(find_dataset_files(path))).content for path in sorted(towns.glob("town_*"))]
    shown = [Image.open(io.BytesIO(each)).convert("RGB").crop((100, 0, 700, 600)) for each in maps]
    row = Image.new("RGB", (4 * 240 + 3 * 8, 240), "white")
    for index, each in enumerate(shown):
        row.paste(each.resize((240, 240), Image.Resampling.LANCZOS), (index * 248, 0))
    picture = io.BytesIO()
    row.save(picture, "png")
    save(picture.getvalue(), "towns.png")


def draw_errors(studio: Studio) -> None:  # noqa: ARG001 - it is drawn from a table of the documents
    """The errors of ten networks next to the best baseline, from the table of the results."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = (FOLDER / "results" / "training.md").read_text("utf-8").partition("| ADE |")[2].splitlines()[2:]
    rows = [line.split("|") for line in lines[: lines.index("")]]
    names = [row[1].strip(" `") for row in rows]
    means, lows, highs = np.array([re.findall(r"[\d.]+", row[-2]) for row in rows], float).T
    figure, axes = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    axes.barh(names, means, xerr=[means - lows, highs - means], color="#1f77b4", ecolor="#66758a", height=0.62)
    axes.axvline(1, color="#d8392f", linestyle="--", linewidth=1.2)
    axes.annotate("best baseline", (1, 1.01), xycoords=("data", "axes fraction"), color="#d8392f", ha="center")
    axes.set(xlim=(0, 1.08), xlabel="ADE in unseen towns, as a share of that of the best baseline (95 % intervals)")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "errors.png", dpi=90, metadata={"Software": None})


def draw_drivers(studio: Studio) -> None:  # noqa: ARG001 - it is drawn from a table of the documents
    """The scores of planners with replayed and with reacting agents, from the tables of the results."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    text = (FOLDER / "results" / "learned_drivers.md").read_text("utf-8")
    found = {}
    for others in ("replayed", "`idm`"):
        table = text.partition(f"Others: {others}.")[2].strip().partition("\n\n")[0]
        rows = [line.split("|") for line in table.splitlines()[2:]]
        found[others] = {row[1].strip(" `"): np.array(re.findall(r"[\d.]+", row[3]), float) for row in rows}
    names = ["rules", "idm", "route_planner-fallback-rules", "route_planner", "route_policy-fallback-rules"]
    names += ["route_policy", "vector_planner", "raster_planner", "urban_driver", "safepathnet"]
    figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
    for offset, (others, scores), color in zip((-0.2, 0.2), found.items(), ("#1f77b4", "#a9cbe6"), strict=True):
        means, lows, highs = np.array([scores[name] for name in names]).T
        label = "other vehicles replayed" if others == "replayed" else "other vehicles react (IDM)"
        errors = {"xerr": [means - lows, highs - means], "ecolor": "#66758a", "error_kw": {"linewidth": 1}}
        axes.barh(np.arange(len(names)) + offset, means, height=0.38, color=color, label=label, **errors)
    axes.set(xlim=(0, 1), xlabel="score in unseen towns (95 % intervals)")
    axes.set_yticks(range(len(names)), [name.replace("-fallback-rules", " + rules") for name in names])
    axes.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "drivers.png", dpi=90, metadata={"Software": None})


ROW_PX, STACK_PX = 15, 130
"""Height of a row and width of an array in the picture of the records."""


def draw_records(studio: Studio) -> None:  # noqa: ARG001 - it needs none of its folders
    """The four arrays of a log: scenes refer to rows of frames, frames to rows of agents and of lights."""
    parts = []

    def stack(name: str, note: str, x: int, y: int, num_rows: int, chosen: range, inner: int | None = None) -> None:
        for row in range(num_rows):
            fill = "#1f77b4" if row == inner else "#a9cbe6" if row in chosen else "#e3e7eb"
            size = f'width="{STACK_PX}" height="{ROW_PX - 2}"'
            parts.append(f'<rect x="{x}" y="{y + row * ROW_PX}" {size} rx="2" fill="{fill}"/>')
        middle = x + STACK_PX / 2
        parts.append(f'<text x="{middle}" y="{y - 24}" text-anchor="middle" font-weight="600">{name}</text>')
        parts.append(f'<text x="{middle}" y="{y - 8}" text-anchor="middle" font-size="12" fill="#66758a">{note}</text>')

    def interval(start: tuple[int, int], end_x: int, first_y: int, num_rows: int) -> None:
        (x, y), last_y = start, first_y + num_rows * ROW_PX - 2
        corners = f"{x},{y} {end_x},{first_y} {end_x},{last_y} {x},{y + ROW_PX - 2}"
        parts.append(f'<polygon points="{corners}" fill="#1f77b4" opacity="0.16"/>')

    interval((20 + STACK_PX, 134), 270, 119, 4)
    interval((270 + STACK_PX, 149), 520, 59, 4)
    interval((270 + STACK_PX, 149), 520, 204, 2)
    stack("scenes", "25 s of one car", 20, 119, 3, range(1, 2), 1)
    stack("frames", "every 0.1 s: pose of the AV", 270, 74, 10, range(3, 7), 5)
    stack("agents", "boxes, velocities, classes", 520, 44, 6, range(1, 5))
    stack("traffic_light_faces", "lights that were seen", 520, 189, 4, range(1, 3))
    title = "A scene is an interval of frames, a frame an interval of agents and one of lights"
    write_drawing("records.svg", parts, width=690, height=262, title=title)


def draw_session(studio: Studio) -> None:  # noqa: ARG001 - it needs none of its folders
    """A session in a loop: moments go in, plans come out."""
    boxes = [
        ("your program", "sensors, tracker, localisation", "#d6dce4"),
        ("Session", "keeps the past, every 0.1 s", "#a9cbe6"),
        ("planner", "rules, network, policy, yours", "#a9cbe6"),
        ("your controller", "follows the plan", "#d6dce4"),
    ]
    arrows = ["moment", "state", "plan"]
    width, gap, y = 190, 62, 34
    parts = []
    for index, (name, note, fill) in enumerate(boxes):
        x, middle = 10 + index * (width + gap), 10 + index * (width + gap) + width / 2
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="58" rx="6" fill="{fill}"/>')
        parts.append(f'<text x="{middle}" y="{y + 25}" text-anchor="middle" font-weight="600">{name}</text>')
        parts.append(f'<text x="{middle}" y="{y + 44}" text-anchor="middle" font-size="12">{note}</text>')
        if index < len(arrows):
            start, end, line_y = x + width + 4, x + width + gap - 4, y + 29
            parts.append(f'<path d="M{start} {line_y}H{end - 6}" stroke="#66758a" stroke-width="2"/>')
            parts.append(f'<path d="M{end} {line_y}l-9 -5v10z" fill="#66758a"/>')
            label = f'x="{(start + end) / 2}" y="{line_y - 10}" text-anchor="middle" font-size="12"'
            parts.append(f"<text {label}>{arrows[index]}</text>")
    last, first, back_y = 10 + 3 * (width + gap) + width / 2, 10 + width / 2, y + 92
    back = f"M{last} {y + 60}V{back_y}H{first}V{y + 68}"
    parts.append(f'<path d="{back}" stroke="#66758a" stroke-width="2" fill="none"/>')
    parts.append(f'<path d="M{first} {y + 60}l-5 9h10z" fill="#66758a"/>')
    note = 'text-anchor="middle" font-size="12"'
    parts.append(
        f'<text x="{(first + last) / 2}" y="{back_y - 7}" {note}>the car drives, 10 to 50 times a second</text>'
    )
    write_drawing("session.svg", parts, width=966, height=140, title="Moments go into a session, plans come out")


def draw_routes(studio: Studio) -> None:
    """The route in a vector sample and in a picture."""
    runpy.run_path(str(FOLDER / "draw_routes.py"))["main"](str(studio.city), 16, 60)


def draw_recovery(studio: Studio) -> None:
    """Perturbed states and the ways back to the log."""
    runpy.run_path(str(FOLDER / "draw_recovery.py"))["main"](str(studio.city), 19, 60)


def draw_route(studio: Studio) -> None:
    """A route found by the map between two positions, over the lanes around it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Polygon

    from l5kit.data import find_dataset_files, open_map

    map_api = open_map(find_dataset_files(studio.city))
    lanes = {lane: map_api.get_lane_coords(lane) for lane in map_api.bounds_info["lanes"]["ids"]}
    route = map_api.find_route(*ROUTE_M)
    low_m, high_m = route.line_m[:, :2].min(axis=0) - 40, route.line_m[:, :2].max(axis=0) + 40
    figure, axes = plt.subplots(figsize=(6, 6 * (high_m - low_m)[1] / (high_m - low_m)[0]), layout="constrained")
    for lane, sides in lanes.items():
        is_of_route = lane in route.lane_ids
        corners = np.concatenate([sides["xyz_left"], sides["xyz_right"][::-1]])[:, :2]
        face = "#a3cdea" if is_of_route else "#dbdfe2"
        axes.add_patch(
            Polygon(corners, facecolor=face, edgecolor="#b0b4b8", linewidth=0.8, zorder=2 if is_of_route else 1)
        )
    axes.plot(route.line_m[:, 0], route.line_m[:, 1], color="#1259c3", linewidth=3, zorder=3)
    for position_m, color in zip(ROUTE_M, ("tab:green", "tab:red"), strict=True):
        axes.plot(*position_m, "o", color=color, markersize=10, zorder=4)
    axes.set(xlim=(low_m[0], high_m[0]), ylim=(low_m[1], high_m[1]), aspect="equal")
    axes.axis("off")
    figure.savefig(IMAGES / "route.png", dpi=100)


def draw_moves(studio: Studio) -> None:
    """The same planner in a bend, exactly on its plans and followed by a tracker."""
    import csv

    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Polygon

    from l5kit.data import find_dataset_files, open_map
    from l5kit.geometry.box import compute_box_corners

    map_api = open_map(find_dataset_files(studio.city))
    across = np.array([[0.0, -1.0], [1.0, 0.0]])  # turned so that north is right, as the street is wider than high then
    figure, axes = plt.subplots(figsize=(8, 2.9), layout="constrained")
    for lane in map_api.bounds_info["lanes"]["ids"]:
        sides = map_api.get_lane_coords(lane)
        corners = np.concatenate([sides["xyz_left"], sides["xyz_right"][::-1]])[:, :2]
        axes.add_patch(Polygon(corners @ across, facecolor="#d6dce4", edgecolor="#a6b0bc", linewidth=0.7, zorder=1))
    for moves, color in (("poses", "#00838f"), ("tracked", "#d8392f")):
        words = ["simulate", studio.city, "--planner", "idm", "--moves", moves, "--start-frame", "10"]
        drives = studio.made(f"moves_{moves}", *words, "--out", f"moves_{moves}")
        with (drives / "frames.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if int(row["scene"]) == BEND["scene"]]
        poses = np.array([[float(row[name]) for name in ("x_m", "y_m", "yaw_rad")] for row in rows])
        shown, boxes = poses[BEND["frames"]], poses[BEND["boxes"]]
        axes.plot(*(shown[:, :2] @ across).T, color=color, linewidth=1.6, label=f"--moves {moves}", zorder=3)
        sizes = np.tile([4.87, 1.85], (len(boxes), 1))
        for box in compute_box_corners(boxes[:, :2], boxes[:, 2], sizes):
            axes.add_patch(Polygon(box @ across, fill=False, edgecolor=color, linewidth=1.4, zorder=4))
    line_m = shown[:, :2] @ across
    low_m, high_m = line_m.min(axis=0) - 7, line_m.max(axis=0) + 7
    axes.set(xlim=(low_m[0], high_m[0]), ylim=(low_m[1], high_m[1]), aspect="equal", xticks=[], yticks=[])
    axes.set_facecolor("#f1f3f4")
    axes.spines[:].set_visible(False)
    axes.legend(loc="best", frameon=False)
    figure.savefig(IMAGES / "moves.png", dpi=90, metadata={"Software": None})


def draw_scene_page(studio: Studio) -> None:
    """A page on Bokeh, made by write_scene_page."""
    from l5kit.data import ChunkedDataset, find_dataset_files, open_map
    from l5kit.visualization import write_scene_page, zarr_to_visualizer_scene

    path = studio.work / "scene_page.html"
    log = ChunkedDataset(studio.city / "scenes" / "sample.zarr").open()
    frames = zarr_to_visualizer_scene(log.get_scene_dataset(VIEWED["scene"]), open_map(find_dataset_files(studio.city)))
    write_scene_page(path, VIEWED["scene"], frames)
    with studio.page(path.as_uri(), width=820, height=800) as page:
        page.wait_for_function("() => globalThis.Bokeh?.documents[0]?._all_models?.size > 0")
        page.evaluate(
            """(frame) => {
              const models = [...Bokeh.documents[0]._all_models.values()]
              models.find(({ type }) => type === "Slider").value = frame
            }""",
            VIEWED["frame"],
        )
        page.wait_for_timeout(4000)
        save(page.screenshot(), "scene-page.png")


PICTURES = {name.removeprefix("draw_"): draw for name, draw in list(globals().items()) if name.startswith("draw_")}
"""Function that draws each picture, or group of pictures, by its name."""


def main() -> None:
    """Draw the named pictures, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PICTURES], help="default: all")
    parser.add_argument("--work", type=Path, default=FOLDER.parent / "build" / "pictures")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    studio = Studio(options.work.resolve(), options.chromium)
    for name in options.names or PICTURES:
        PICTURES[name](studio)


if __name__ == "__main__":
    main()
