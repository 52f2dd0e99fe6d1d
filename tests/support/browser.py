"""A headless browser for tests of the page of the viewer."""

import io
import shutil
from contextlib import contextmanager

import numpy as np
from PIL import Image

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = [
    "--no-sandbox",
    "--no-first-run",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
]
WITHOUT_WEBGL = [option for option in OPTIONS if "gl" not in option and "swiftshader" not in option] + [
    "--disable-gpu",
    "--disable-software-rasterizer",
]
LOAD_MS = 60_000


class ViewerPage:
    """A page of the viewer, and what a person does with it."""

    def __init__(self, page):
        self.page = page
        self.problems = []
        page.set_default_timeout(LOAD_MS)
        page.on("console", lambda message: message.type in ("error", "warning") and self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, url):
        """Show an address and wait for its scene."""
        self.page.goto(url)
        self.page.wait_for_function("() => window.l5kitViewer !== undefined")
        self.page.evaluate("async () => { await window.l5kitViewer.ready }")
        return self

    def open_scene(self, url):
        """Show an address that names a scene, and wait for its first picture."""
        self.open(url)
        self.wait_for("() => window.l5kitViewer.birdseye.stats.drawn > 0 && window.l5kitViewer.state().scene !== null")
        return self

    def wait_for(self, condition, argument=None):
        self.page.wait_for_function(condition, arg=argument)

    def wait_for_scene(self, scene):
        """Wait until another scene is shown: its index appears at once, when a message may still cover the player."""
        self.wait_for(
            "(scene) => window.l5kitViewer.state().scene === scene"
            " && document.getElementById('stage').getAttribute('aria-busy') === 'false'",
            scene,
        )

    @property
    def state(self):
        return self.page.evaluate("() => window.l5kitViewer.state()")

    def part(self, name):
        return self.page.get_by_test_id(name)

    def seek(self, frame):
        """Go to a frame and wait until it is drawn."""
        self.page.evaluate("(frame) => window.l5kitViewer.player.seek(frame)", frame)
        self.settle()

    def look(self, x_m, y_m, *, px_per_m):
        """Move the camera to a world position, away from what is followed."""
        self.page.evaluate(
            """([x, y, scale]) => {
              window.l5kitViewer.birdseye.setOptions({ follow: false })
              window.l5kitViewer.birdseye.camera = { x, y, scale }
            }""",
            [x_m, y_m, px_per_m],
        )
        self.settle()

    def settle(self):
        """Wait until the requested content is drawn."""
        self.page.evaluate("async () => { for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame) }")

    def place_of(self, x_m, y_m):
        """Position of a world point in the window, CSS pixels."""
        return self.page.evaluate(
            """([x, y]) => {
              const canvas = document.querySelector("canvas").getBoundingClientRect()
              const place = window.l5kitViewer.birdseye.worldToPage(x, y)
              return [canvas.x + place.x, canvas.y + place.y]
            }""",
            [x_m, y_m],
        )

    def colors(self):
        """RGB of the window, [height, width, 3]."""
        return np.asarray(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))

    def color_at(self, x_m, y_m, *, picture=None):
        """RGB at a world position."""
        picture = self.colors() if picture is None else picture
        column, row = (round(value) for value in self.place_of(x_m, y_m))
        return picture[row, column].astype(int)

    def constant(self, name):
        """Export of the module of colours under a name."""
        return self.page.evaluate("async (name) => (await import('l5kit/palette'))[name]", name)


@contextmanager
def viewer_page(browser, *, width=1280, height=800, **options):
    """Yield a page in a new browser context; its console must stay free of errors."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = ViewerPage(context.new_page())
    yield page
    context.close()
    assert page.problems == []


def rgb_of(color):
    """RGB of ``#RRGGBB``."""
    return np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)])
