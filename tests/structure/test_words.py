"""Identifiers use the terms of the field: invented words are forbidden, except for those in ``words.json``.

``kept`` are names that stay, by word and file, each with its reason. ``not_yet`` are packages whose names are still to
be changed, each with its words, or with the identifiers of other packages that it uses. Both lists only shrink: an
exception that is no longer needed fails, too.
"""

import ast
import functools
import json
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "l5kit"
WORDS = frozenset(("place", "places", "found", "asked", "told", "worth", "ways", "numbers"))
"""An index, slot, path, position or device; matches or a result; requested; reported; a reward; paths; parameters."""

EXCEPTIONS = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))


def identifiers_in(source):
    """Every identifier of a source, those in f-strings too; of dotted names each part."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Constant):
            for _, value in ast.iter_fields(node):
                names = value if isinstance(value, list) else [value]
                yield from (part for name in names if isinstance(name, str) for part in name.split("."))


def words_in(identifier):
    return WORDS.intersection(identifier.split("_"))


@functools.cache
def uses_of_words():
    """Every (file, identifier, word) of the source, the names of folders and files among the identifiers."""
    uses = []
    for file in sorted(SOURCE.rglob("*.py*")):
        if file.suffix in (".py", ".pyi") and not file.stem.endswith("_pb2"):  # those of protobuf are generated
            path = file.relative_to(SOURCE)
            for identifier in {*path.with_suffix("").parts, *identifiers_in(file.read_text("utf-8"))}:
                uses += [(path, identifier, word) for word in words_in(identifier)]
    return uses


def exceptions_for(path, identifier, word):
    """The exceptions that allow a word in an identifier of a file, as (list, key, entry)."""
    kept, not_yet = EXCEPTIONS["kept"].get(word, ()), EXCEPTIONS["not_yet"].get(path.parts[0], ())
    of_file = {("kept", word, path.as_posix())} if path.as_posix() in kept else set()
    return of_file | {("not_yet", path.parts[0], entry) for entry in (word, identifier) if entry in not_yet}


def test_no_identifier_has_a_word_of_our_own():
    unexplained = {f"{path}: {name}" for path, name, word in uses_of_words() if not exceptions_for(path, name, word)}
    assert sorted(unexplained) == [], "rename these, or give the reason in words.json"


def test_every_exception_is_needed():
    needed = {exception for use in uses_of_words() for exception in exceptions_for(*use)}
    listed = {(kind, key, entry) for kind, lists in EXCEPTIONS.items() for key, some in lists.items() for entry in some}
    assert sorted(listed - needed) == [], "take these out of words.json"


def test_every_kept_name_has_a_reason():
    reasons = [reason for files in EXCEPTIONS["kept"].values() for reason in files.values()]
    assert [reason for reason in reasons if len(reason.split()) < 3] == []


@pytest.mark.parametrize(
    "source",
    [
        "places = 1",
        "def f(of_places): ...",
        "f(places_m=1)",
        "import a.places.b",
        "from a import b as places",
        "f'{x.places:.1f}'",
        "def f():\n    global _places",
        "class places: ...",
    ],
)
def test_a_word_is_found_wherever_a_name_can_be(source):
    assert [name for name in identifiers_in(source) if words_in(name) == {"places"}]


@pytest.mark.parametrize("source", ["replace = 1", "'places'", "# places", "placed = 1", "PLACES = 1", "{'places': 1}"])
def test_other_words_strings_and_constants_are_free(source):
    assert not [name for name in identifiers_in(source) if words_in(name)]
