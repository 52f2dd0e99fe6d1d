"""All code and commands in the documents work.

Per document, in order and in a temporary folder with a synthetic city under the name ``city``:

* ``python`` blocks run in one namespace;
* a block right after ``<!-- file: NAME -->`` is also written to that file;
* ``<!-- uses: NAME of DOCUMENT -->`` first writes the block of that file in another document;
* ``l5kit`` lines of ``bash`` blocks run in this process, the targets of ``make`` lines must exist, and other commands
  must be in a list of harmless ones;
* ``text``, ``yaml``, ``toml`` and ``json`` blocks are not run;
* a block right after ``<!-- not run: REASON -->`` is left out.
"""

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = {"checkpoints.md", "performance.md"}  # of exports of networks and of rates, at half a minute each

FOR_READING = {"text", "yaml", "toml", "json"}
NEEDS_NO_PROOF = {"cd", "git", "python3", "source"}
BLOCK = re.compile(
    r"(?:<!-- not run:(?P<reason>[^\n]*)-->\n+)?"
    r"(?:<!-- file: (?P<file>\S+) -->\n+)?"
    r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)$",
    flags=re.MULTILINE | re.DOTALL,
)

USES = re.compile(r"^<!-- uses: (?P<file>\S+) of (?P<document>\S+) -->$", flags=re.MULTILINE)

DEEP_IMPORT = re.compile(r"^ *(?:from|import) (l5kit\.\w+\.[\w.]+)", flags=re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a document."""

    language: str
    text: str
    line: int
    not_run: str | None
    file: str | None = None


def blocks_of(text):
    return [
        Block(
            language=found["language"].strip(),
            text=found["text"],
            line=text.count("\n", 0, found.start("text")) + 1,
            not_run=None if found["reason"] is None else found["reason"].strip(),
            file=found["file"],
        )
        for found in BLOCK.finditer(text)
    ]


def write_files_of_others(text, path):
    """Write the files that a document uses and another one has."""
    for use in USES.finditer(text):
        other = blocks_of((path.parent / use["document"]).read_text("utf-8"))
        texts = [block.text for block in other if block.file == use["file"]]
        assert len(texts) == 1, f"{path.name}: {use['document']} has {len(texts)} blocks of the file {use['file']}"
        Path(use["file"]).write_text(texts[0], "utf-8")


def commands_of(text):
    """The commands of a bash block, each split into words, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command]


def run_l5kit(words):
    from l5kit.cli.main import run

    before, code = sys.argv, 0
    sys.argv = ["l5kit", *words]
    try:
        run()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before
    assert code in (None, 0), f"`l5kit {' '.join(words)}` ended with exit code {code}"


def make_targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))


def check_command(words):
    if words[0] == "l5kit":
        run_l5kit(words[1:])
    elif words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        assert targets, "make without a target"
        assert set(targets) <= make_targets(), f"the Makefile lacks one of {targets}"
    elif words[0] in ("pip", "pip3"):
        assert not any(re.match(r"l5kit($|[^2])", word) for word in words), "on the index, l5kit is the old 1.5"
    else:
        assert words[0] in NEEDS_NO_PROOF, f"do not know how to prove {words[0]!r}"


def run_block(block, path, namespace):
    where = f"{path.name}:{block.line}"
    if block.file is not None:
        Path(block.file).write_text(block.text, "utf-8")
    if block.not_run is not None:
        assert block.not_run, f"{where}: a block that is not run needs a reason"
    elif block.language == "python":
        exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)
    elif block.language == "bash":
        for words in commands_of(block.text):
            check_command(words)
    else:
        assert block.language in FOR_READING, f"{where}: name the language of the block, or mark it as text"


@pytest.fixture(scope="session")
def made_city(tmp_path_factory):
    from support.cities import small_city

    path = tmp_path_factory.mktemp("docs") / "city"
    small_city(path)
    return path


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.long) if path.name in LONG else path for path in DOCUMENTS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_what_the_documents_say_to_type_works(path, tmp_path, monkeypatch, request):
    text = path.read_text("utf-8")
    blocks = blocks_of(text)
    if any(block.language in ("python", "bash") and "city" in block.text for block in blocks):
        shutil.copytree(request.getfixturevalue("made_city"), tmp_path / "city")
    monkeypatch.chdir(tmp_path)
    write_files_of_others(text, path)
    environment = dict(os.environ)
    namespace = {"__name__": "__main__"}
    try:
        for block in blocks:
            run_block(block, path, namespace)
    finally:
        os.environ.clear()
        os.environ.update(environment)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_import_from_packages_not_from_their_modules(path):
    code = [block.text for block in blocks_of(path.read_text("utf-8")) if block.language == "python"]
    assert DEEP_IMPORT.findall("\n".join(code)) == []


def test_blocks_are_found_with_their_lines():
    lines = [
        "A",
        "",
        "```python",
        "x = 1",
        "```",
        "",
        "<!-- not run: needs the real data -->",
        "```bash",
        "l5kit info X",
    ]
    text = "\n".join([*lines, "```", "```", "plain", "```", ""])
    assert blocks_of(text) == [
        Block("python", "x = 1\n", 4, None),
        Block("bash", "l5kit info X\n", 9, "needs the real data"),
        Block("", "plain\n", 12, None),
    ]


def test_files_of_other_documents_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.md").write_text("<!-- file: a.yaml -->\n```yaml\nx: 1\n```\n", "utf-8")
    write_files_of_others("A\n<!-- uses: a.yaml of other.md -->\nB\n", tmp_path / "this.md")
    assert (tmp_path / "a.yaml").read_text("utf-8") == "x: 1\n"
    with pytest.raises(AssertionError, match="0 blocks of the file b"):
        write_files_of_others("<!-- uses: b.yaml of other.md -->", tmp_path / "this.md")


def test_commands_are_joined_and_rid_of_comments():
    assert commands_of("# first\nl5kit info \\\n  'a b'  # second\n\nmake test\n") == [
        ["l5kit", "info", "a b"],
        ["make", "test"],
    ]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(Block("python", "assert x == 2\n", 1, None), id="wrong code"),
        pytest.param(Block("python", "def broken(:\n", 1, None), id="no code"),
        pytest.param(Block("bash", "make nothing\n", 1, None), id="no such target"),
        pytest.param(Block("bash", "make\n", 1, None), id="no target"),
        pytest.param(Block("bash", "rm -rf /tmp/x\n", 1, None), id="unknown command"),
        pytest.param(Block("bash", "pip install l5kit\n", 1, None), id="the old package"),
        pytest.param(Block("bash", "pip install 'l5kit[viz]'\n", 1, None), id="an extra of the old package"),
        pytest.param(Block("", "x\n", 1, None), id="no language"),
        pytest.param(Block("python", "x\n", 1, ""), id="left out without a reason"),
    ],
)
def test_the_checker_finds(block):
    with pytest.raises((AssertionError, SyntaxError)):
        run_block(block, Path("X.md"), {"x": 1})


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(Block("python", "x += 1\nassert x == 2\n", 1, None), id="right code"),
        pytest.param(Block("bash", "git clone X\nmake test ARGS='-k x'\npip install l5kit2\n", 1, None), id="commands"),
        pytest.param(Block("text", "anything\n", 1, None), id="for reading"),
        pytest.param(Block("python", "1 / 0\n", 1, "shows an error"), id="left out with a reason"),
    ],
)
def test_the_checker_allows(block):
    run_block(block, Path("X.md"), {"x": 1})
