"""Assembly of the page: scripts linked or embedded, and texts that must not become markup."""

import base64
import re

import pytest

from l5kit.visualization.viewer.page_files import compose_page, page_files

HOSTILE = {
    "markup": "</title><script>alert(1)</script>",
    "quotes": "\"'&",
    "line separator": "a\u2028b",
    "a mark of the template": "<!-- l5kit:data --><!-- l5kit:importmap -->",
    "right to left": "\u202egnp.exe",
}


@pytest.fixture(scope="module")
def served(read_page):
    return read_page(compose_page(title="a dataset", script_folder="/page", nonce="n0nce"))


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


def test_a_page_in_one_piece_holds_its_scripts(read_page):
    page = read_page(compose_page(title="a scene", script_folder=None))
    contents = {file.specifier: file.content for file in page_files()}
    assert page.import_map().keys() == contents.keys()
    for specifier, address in page.import_map().items():
        kind, _, encoded = address.partition(";base64,")
        assert kind == "data:text/javascript"
        assert base64.b64decode(encoded) == contents[specifier]


def test_data_stand_before_the_module_that_takes_them(read_page):
    html = compose_page(title="a", script_folder=None, content='<script type="application/json" id="x">[1]</script>')
    kinds = [attributes.get("type") for attributes, _ in read_page(html).scripts()]
    assert kinds == ["importmap", "application/json", "module"]
    assert "l5kit:" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("folder", ["/page", None], ids=["served", "in one piece"])
@pytest.mark.parametrize("title", HOSTILE.values(), ids=HOSTILE.keys())
def test_titles_stay_texts(read_page, served, title, folder):
    page = read_page(compose_page(title=title, script_folder=folder, nonce="n0nce"))
    assert page.title() == title
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in served.tags]


def test_titles_may_hold_what_utf_8_cannot(read_page):
    html = compose_page(title="\udcff\ud800.zarr", script_folder="/page")
    assert read_page(html).title() == "??.zarr"
    assert html.encode("utf-8")
