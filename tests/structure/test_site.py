"""The site of the documents: its reference has every public name, and nothing is fetched from elsewhere."""

import importlib
import json
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from l5kit.data import AGENT_DTYPE, FRAME_DTYPE, PERCEPTION_LABELS, SCENE_DTYPE, TL_FACE_DTYPE
from l5kit.data.records import AGENT_CHUNK_SIZE, FRAME_CHUNK_SIZE, SCENE_CHUNK_SIZE, TL_FACE_CHUNK_SIZE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SURFACE = json.loads((Path(__file__).parent / "surface.json").read_text("utf-8"))["surface"]


CHUNKS = {
    "scenes": SCENE_CHUNK_SIZE[0],
    "frames": FRAME_CHUNK_SIZE[0],
    "agents": AGENT_CHUNK_SIZE[0],
    "traffic_light_faces": TL_FACE_CHUNK_SIZE[0],
}
sys.path.insert(0, str(DOCS))  # the scripts of the site are no package


# --- the reference


def test_every_listed_name_is_found():
    from reference_pages import missing_names

    assert missing_names() == []


def test_every_name_of_1_5_has_an_entry():
    from public_names import origin, public_modules
    from reference_pages import page_path, reference_pages

    modules, pages = public_modules(), reference_pages()
    lost = []
    for module, names in SURFACE.items():
        for name in names:
            full_name = f"{module}.{name}"
            home, _, last = origin(full_name).rpartition(".")
            is_there = full_name in modules or f"'{last}'" in pages[page_path(home)]
            lost += [] if is_there else [full_name]
    assert lost == []


def test_pages_of_the_reference_lead_to_one_another():
    from reference_pages import link_to, page_path

    assert page_path("l5kit.data.map") == "reference/l5kit.data.map/index.md"
    assert link_to("l5kit.data.map.api", seen_from=page_path("l5kit.data.map")) == "../l5kit.data.map.api.md"
    assert link_to("l5kit.data", seen_from=page_path("l5kit.data.filter")) == "l5kit.data/index.md"


@pytest.mark.parametrize(
    "module", ["l5kit.data", "l5kit.dataset", "l5kit.geometry", "l5kit.rasterization", "l5kit.evaluation.driving"]
)
def test_names_read_from_the_source_are_those_of_the_imported_package(module):
    from public_names import public_modules

    found = public_modules()[module]
    package = importlib.import_module(module)
    names = [name for name in package.__all__ if not isinstance(getattr(package, name), ModuleType)]
    assert {*found.defined, *found.handed_on} == set(names)


def test_public_names_of_a_source(tmp_path, monkeypatch):
    import public_names

    (tmp_path / "l5kit" / "cli").mkdir(parents=True)
    (tmp_path / "l5kit" / "__init__.py").write_text('"""Top."""\n')
    (tmp_path / "l5kit" / "_hidden.py").write_text("x = 1\n")
    (tmp_path / "l5kit" / "cli" / "main.py").write_text("x = 1\n")
    (tmp_path / "l5kit" / "listed.py").write_text(
        '"""Doc\nof two lines.\n\nMore."""\n'
        "import numpy\nfrom l5kit.open import A as B\nfrom torch import nn\n"
        '__all__ = ["B", "C", "first", "nn", "lost"]\n'
        'C = 1\n"""A constant."""\nfirst, _second = 1, 2\nunlisted = 3\n'
    )
    (tmp_path / "l5kit" / "open.py").write_text(
        'from l5kit.listed import C\n\ndef f():\n    """Do it."""\n\nclass A: ...\n\ndef _g(): ...\n'
    )
    (tmp_path / "l5kit" / "inner.py").write_text(
        'from l5kit.home import E\n\ndef h(): ...\n\ndef D():\n    """Of it."""\n'
    )
    (tmp_path / "l5kit" / "home.py").write_text('__all__ = ["E", "G"]\nE = G = 1\n')
    (tmp_path / "l5kit" / "house").mkdir()
    (tmp_path / "l5kit" / "house" / "__init__.py").write_text('from l5kit.inner import D, E\n__all__ = ["D", "E"]\n')
    (tmp_path / "l5kit" / "private").mkdir()
    (tmp_path / "l5kit" / "private" / "__init__.py").write_text('"""Nothing."""\n')
    (tmp_path / "l5kit" / "private" / "deep.py").write_text("def k(): ...\n")
    monkeypatch.setattr(public_names, "SOURCE", tmp_path)
    monkeypatch.setattr(public_names, "MODULES_OF_1_5", {"l5kit.listed", "l5kit.open"})
    monkeypatch.setattr(public_names, "public_modules", cache(public_names.public_modules.__wrapped__))
    modules = public_names.public_modules()
    assert list(modules) == ["l5kit", "l5kit.home", "l5kit.house", "l5kit.inner", "l5kit.listed", "l5kit.open"]
    listed = modules["l5kit.listed"]
    assert listed.summary == "Doc of two lines."
    assert listed.defined == {"C": "A constant.", "first": ""}
    assert listed.handed_on == {"B": "l5kit.open.A"}
    assert listed.together == [(["first"], "first, _second = (1, 2)")]
    assert listed.unknown == ["lost"]
    assert modules["l5kit.open"].defined == {"f": "Do it.", "A": ""}
    assert modules["l5kit.open"].handed_on == {}
    assert public_names.origin("l5kit.listed.B") == "l5kit.open.A"
    # of modules that are neither packages nor of 1.5, what a package hands on
    assert modules["l5kit.inner"].defined == {"D": "Of it."}
    assert modules["l5kit.inner"].handed_on == {"E": "l5kit.home.E"}
    assert modules["l5kit.home"].defined == {"E": ""}
    assert public_names.origin("l5kit.house.E") == "l5kit.home.E"


def test_roles_of_docstrings_become_code():
    from docstring_roles import plain_roles

    assert plain_roles("a :class:`MapAPI` and :func:`~l5kit.f`, ``x``") == "a `MapAPI` and `l5kit.f`, ``x``"


def test_the_page_of_the_command_has_all_commands_and_their_options():
    from command_page import command_page
    from typer.main import get_command

    from l5kit.cli.main import make_app

    page = command_page()
    assert "## l5kit info\n" in page
    assert "| `--engine` | `threads` |" in page
    assert "\nl5kit config schema --out l5kit.schema.json\n```\n" in page
    assert set(re.findall(r"^## l5kit ([\w-]+)$", page, flags=re.MULTILINE)) == set(get_command(make_app()).commands)


# --- other pages


def test_each_version_has_a_page_of_notes():
    from included_pages import release_pages

    pages = release_pages(
        "# Changelog\n\n## [2.1.0] - unreleased\n\nNew.\n\n### Added\n\n- [a](docs/logs.md#x), [b](LICENSE), [c](https://x)\n"
        "\n## [2.0.0] - 2026-11-23\n\nFirst.\n"
    )
    assert list(pages) == ["releases/index.md", "releases/2.1.0.md", "releases/2.0.0.md"]
    assert (
        "- [l5kit 2.1.0](2.1.0.md), unreleased\n- [l5kit 2.0.0](2.0.0.md), 2026-11-23\n" in pages["releases/index.md"]
    )
    assert pages["releases/2.0.0.md"] == "# l5kit 2.0.0\n\n*2026-11-23*\n\n\nFirst.\n"
    newer = pages["releases/2.1.0.md"]
    assert "\n## Added\n" in newer
    assert "[a](../logs.md#x), [b](https://github.com/l5kit/l5kit/blob/main/LICENSE), [c](https://x)" in newer
    assert "First" not in newer


def test_each_network_that_ships_has_its_model_card_as_a_page():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from types import SimpleNamespace

    from site_hooks import generated_nav, generated_pages, on_page_markdown

    cards = {f"weights/{path.parent.name}.md": path for path in (ROOT / "src/l5kit/weights").glob("*/README.md")}
    assert cards
    assert generated_nav()["WEIGHTS"] == sorted(cards)
    pages = generated_pages()
    for page, path in cards.items():
        assert pages[page] == path.read_text("utf-8")
        shown = on_page_markdown(
            f"[card](../{path.relative_to(ROOT)})", page=SimpleNamespace(file=SimpleNamespace(src_uri="x.md"), meta={})
        )
        assert shown == f"[card]({page})"


def test_links_out_of_the_docs_lead_into_the_repository():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from site_hooks import link_out

    assert link_out("docs", "../LICENSE") == "https://github.com/l5kit/l5kit/blob/main/LICENSE"
    assert link_out("docs/guides", "../logs.md") == "../logs.md"
    assert link_out("docs", "../src/l5kit/cli") == "reference/command.md"
    assert link_out("docs/reference", "../../src/l5kit") == "index.md"
    with pytest.raises(FileNotFoundError, match=r"\.\./NOTHING"):
        link_out("docs", "../NOTHING")


def test_words_of_the_navigation_are_replaced_and_empty_titles_left_out():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from site_hooks import filled_nav

    nav = ["a.md", {"N": "NOTEBOOKS"}, {"R": ["b.md", {"C": "REFERENCE"}]}]
    parts = {"NOTEBOOKS": [], "REFERENCE": ["c.md"]}
    assert filled_nav(nav, parts) == ["a.md", {"R": ["b.md", {"C": ["c.md"]}]}]


def headings_of(page):
    """The anchors of a page of the documents."""
    from markdown.extensions.toc import slugify

    text = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)
    return {slugify(re.sub(r"[`*]", "", title), "-") for title in titles}


def test_old_addresses_lead_to_sections_that_are_there():
    pytest.importorskip("markdown")
    from moved_sections import MOVED

    for old, new in MOVED.items():
        page, _, anchor = old.partition("#")
        assert anchor not in headings_of(page), f"{old} is there again: it has not moved"
        target, _, section = new.partition("#")
        if target != "reference/command.md":  # which is made from the code
            assert not section or section in headings_of(target), new


def test_guides_rank_above_packages_and_these_above_modules_in_the_search():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from site_hooks import search_boost

    pages = ["training.md", "reference/l5kit.data/index.md", "reference/l5kit.data.records.md"]
    boosts = [search_boost(page) for page in pages]
    assert boosts == sorted(boosts, reverse=True)
    assert len(set(boosts)) == 3
    assert search_boost("reference/simulate.md") == search_boost("training.md")


def test_a_page_in_a_folder_leads_to_notebooks_and_cards_of_the_site():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from types import SimpleNamespace

    from site_hooks import on_page_markdown

    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/x.md"), meta={})
    links = "[a](../../examples/notebooks/a.ipynb) [b](../../src/l5kit/weights/route_planner/README.md)"
    assert on_page_markdown(links, page=page) == "[a](../notebooks/a.ipynb) [b](../weights/route_planner.md)"


def test_a_page_that_is_named_as_its_file_is_named_by_its_title():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from types import SimpleNamespace

    from site_hooks import on_page_markdown

    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"), meta={})
    shown = on_page_markdown("see [logs.md](logs.md#facts), [here](logs.md), [a.md](b.md)", page=page)
    title = (DOCS / "logs.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")
    assert shown == f"see [{title}](logs.md#facts), [here](logs.md), [a.md](b.md)"


def test_why_a_block_is_not_run_is_shown():
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make docs brings it")
    from types import SimpleNamespace

    from site_hooks import on_page_markdown

    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"), meta={})
    shown = on_page_markdown("<!-- not run: needs the real data -->\n```bash\n", page=page)
    assert shown == '<p class="not-run">Not run in the tests: needs the real data </p>\n\n```bash\n'


class _AnyTag(yaml.SafeLoader):
    """Loader that takes mkdocs' own tags for their text."""


_AnyTag.add_multi_constructor("", lambda loader, suffix, node: suffix)


def test_the_navigation_has_each_page_once():
    nav = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), _AnyTag)["nav"]

    def pages(entry):
        if isinstance(entry, str):
            return [entry] if entry.endswith(".md") else []
        return [page for value in (entry.values() if isinstance(entry, dict) else entry) for page in pages(value)]

    generated = {"contributing.md"}
    assert sorted(set(pages(nav)) - generated) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    assert len(pages(nav)) == len(set(pages(nav)))


def test_versions_are_published_side_by_side_the_newest_first(tmp_path):
    from publish_version import publish

    site, folder = tmp_path / "site", tmp_path / "all"
    site.mkdir()
    for version, text in [("2.9.0", "nine"), ("2.10.0", "old ten"), ("2.10.0", "ten"), ("2.1.0", "one")]:
        (site / "index.html").write_text(text)
        publish(site, folder, version)
    assert {path.parent.name: path.read_text() for path in folder.glob("*/index.html")} == {
        "2.1.0": "one",
        "2.9.0": "nine",
        "2.10.0": "ten",
    }
    listed = json.loads((folder / "versions.json").read_text())
    assert [(entry["version"], entry["aliases"]) for entry in listed] == [
        ("2.10.0", ["latest"]),
        ("2.9.0", []),
        ("2.1.0", []),
    ]
    assert "url=2.10.0/" in (folder / "index.html").read_text()


# --- what tables promise


def rows_of_table(text, heading):
    """The cells of the first table below a heading, without its head."""
    below = text[text.index(f"\n{heading}\n") :]
    lines = re.search(r"^\|.*?(?=\n\n|\Z)", below, flags=re.MULTILINE | re.DOTALL)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[2:]]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("scenes", SCENE_DTYPE), ("frames", FRAME_DTYPE), ("agents", AGENT_DTYPE), ("traffic_light_faces", TL_FACE_DTYPE)],
)
def test_the_page_on_the_format_has_each_field_with_shape_and_type(name, dtype):
    text = (DOCS / "format.md").read_text("utf-8")
    record = np.dtype(dtype)
    rows = [(field.strip("`"), shape, kind) for field, shape, kind, *_ in rows_of_table(text, f"### `{name}`")]
    fields = [(key, record[key].subdtype or (record[key], ())) for key in record.names]
    assert rows == [(key, str(shape), "str16" if base.kind == "U" else str(base)) for key, (base, shape) in fields]
    assert f"\n### `{name}`\n\n{record.itemsize} bytes a row, {CHUNKS[name]:,} rows a chunk." in text


def test_the_page_on_the_format_has_each_label_at_its_index():
    cells = [
        cell for row in rows_of_table((DOCS / "format.md").read_text("utf-8"), "### Labels") for cell in row if cell
    ]
    assert {int(index): label.strip("`") for index, label in zip(cells[::2], cells[1::2], strict=True)} == dict(
        enumerate(PERCEPTION_LABELS)
    )


def test_each_example_is_in_the_index():
    named = set(re.findall(r"\]\(\.\./examples/([\w.]+)\)", (DOCS / "examples.md").read_text("utf-8")))
    assert named == {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".yaml")}


def test_each_notebook_begins_with_its_title():
    """The site takes the first large heading for the title."""
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "markdown"]
        assert "".join(cells[0]["source"]).startswith("# "), path.name
        assert not any("".join(cell["source"]).startswith("# ") for cell in cells[1:]), path.name


def test_each_extra_is_explained():
    rows = rows_of_table((DOCS / "install.md").read_text("utf-8"), "## Extras")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row[0])} == set(extras)


# --- the built site


@pytest.mark.parametrize(
    ("text", "fetched"),
    [
        ('<script src="https://cdn/x.js"></script>', ["https://cdn/x.js"]),
        ('<link rel="stylesheet" href="//fonts/x.css">', ["//fonts/x.css"]),
        ('<img src="http://x/y.png" alt="">', ["http://x/y.png"]),
        ('<a href="https://x">x</a><link rel="canonical" href="https://x"><script src="a/x.js"></script>', []),
        ('<img src="images/y.png"><img src="data:image/png;base64,AA//">', []),
    ],
)
def test_what_a_page_fetches_from_elsewhere(text, fetched):
    from check_site import fetched_elsewhere

    assert fetched_elsewhere(text) == fetched


def test_what_a_style_sheet_fetches_from_elsewhere():
    from check_site import fetched_elsewhere

    style = '@import "https://a/b.css"; .x { background: url(//c/d.png) } .y { mask: url(data:image/svg+xml;x) }'
    assert fetched_elsewhere(style, is_style=True) == ["https://a/b.css", "//c/d.png"]


TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{TABLE}### From Python\n\nText", ["a heading did not become one: ### From Python"]),
        (f"Before\n{TABLE}", ["a table did not become one: | a | b |"]),
        ("Before\n- one\n- two", ["a list did not become one: - one"]),
        ("Before `code`\n1. one", ["a list did not become one: 1. one"]),
        ("a ** b** and **this**", []),
        ("<div>**this**</div>", ["bold did not become one: **this**"]),
        ("<div>\n[this](that.md)\n</div>", ["a link did not become one: [this](that.md)"]),
        ("<p>\n```python\nx\n</p>", ["a block of code did not become one: ```python"]),
        (f"# A\n\nText\n\n{TABLE}\n### B\n\n- one\n- two\n\n    ### code", []),
        ("| a | b |\n| --- | --- |\n| - w n | `**x**` |\n", []),
        ("Of 2**63 - 1 and 2**62, `### x`, f(**options), f(**others)", []),
        ("`- x`\n`- y` from 1\n2 to 5. Or -1", []),
    ],
)
def test_markdown_that_is_left_on_a_page_is_found(text, left):
    markdown = pytest.importorskip("markdown").markdown
    from check_site import left_as_markdown

    assert left_as_markdown(markdown(text, extensions=["tables"])) == left
