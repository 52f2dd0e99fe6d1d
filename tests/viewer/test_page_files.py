"""The page put together: its scripts by address or inside it, and texts that must not become markup."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest

from l5kit.visualization.viewer.page_files import compose_page, page_files

HOSTILE = {
    "markup": "</title><script>alert(1)</script>",
    "quotes": "\"'&",
    "line separator": "a\u2028b",
    "a mark of the template": "<!-- l5kit:data --><!-- l5kit:importmap -->",
    "right to left": "\u202egnp.exe",
}


class Page(HTMLParser):
    """Tags with their attributes, and the text of each script and of the title."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self._is_open = [], [], False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        self._is_open = True

    def handle_endtag(self, tag):
        self._is_open = False

    def handle_data(self, data):
        if self._is_open:
            self.texts[-1] += data

    def scripts(self):
        named = zip(self.tags, self.texts, strict=True)
        return [(attributes, text) for (tag, attributes), text in named if tag == "script"]

    def import_map(self):
        (text,) = [text for attributes, text in self.scripts() if attributes.get("type") == "importmap"]
        return json.loads(text)["imports"]

    def title(self):
        (text,) = [text for (tag, _), text in zip(self.tags, self.texts, strict=True) if tag == "title"]
        return text


@pytest.fixture(scope="module")
def served():
    return Page(compose_page(title="a dataset", script_folder="/page", nonce="n0nce"))


def test_scripts_have_names_without_folders_and_specifiers_once():
    files = page_files()
    assert len({file.specifier for file in files}) == len({file.name for file in files}) == len(files)
    for file in files:
        assert re.fullmatch(r"[A-Za-z0-9_.]+", file.name), "the server offers no other names"
        assert file.specifier.startswith("l5kit/") or file.specifier in {"pixi.js", "uplot"}
        assert file.content.decode("utf-8")
        assert "javascript" in file.media_type
    assert "l5kit/app" in {file.specifier for file in files}


def test_a_served_page_loads_scripts_by_address(served):
    assert served.import_map() == {file.specifier: f"/page/{file.name}" for file in page_files()}


def test_every_script_of_a_served_page_has_the_nonce(served):
    kinds = [attributes.get("type") for attributes, _ in served.scripts()]
    assert kinds == ["importmap", "module"], "the map must come before the first module"
    assert [attributes["nonce"] for attributes, _ in served.scripts()] == ["n0nce"] * 2
    assert not any("src" in attributes for attributes, _ in served.scripts())


def test_a_page_has_no_handlers_in_its_markup(served):
    for tag, attributes in served.tags:
        assert [name for name in attributes if name.startswith("on")] == [], tag
        assert not any(str(value).strip().lower().startswith("javascript:") for value in attributes.values()), tag


def test_a_page_in_one_piece_holds_its_scripts():
    page = Page(compose_page(title="a scene", script_folder=None))
    contents = {file.specifier: file.content for file in page_files()}
    assert page.import_map().keys() == contents.keys()
    for specifier, address in page.import_map().items():
        kind, _, encoded = address.partition(";base64,")
        assert kind == "data:text/javascript"
        assert base64.b64decode(encoded) == contents[specifier]


def test_data_stand_before_the_module_that_takes_them():
    html = compose_page(title="a", script_folder=None, content='<script type="application/json" id="x">[1]</script>')
    kinds = [attributes.get("type") for attributes, _ in Page(html).scripts()]
    assert kinds == ["importmap", "application/json", "module"]
    assert "l5kit:" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("folder", ["/page", None], ids=["served", "in one piece"])
@pytest.mark.parametrize("title", HOSTILE.values(), ids=HOSTILE.keys())
def test_titles_stay_texts(served, title, folder):
    page = Page(compose_page(title=title, script_folder=folder, nonce="n0nce"))
    assert page.title() == title
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in served.tags]


def test_titles_may_hold_what_utf_8_cannot():
    html = compose_page(title="\udcff\ud800.zarr", script_folder="/page")
    assert Page(html).title() == "??.zarr"
    assert html.encode("utf-8")
