"""Manifests: their content, refused files, and comparison with another copy."""

import hashlib
import json

import pytest

from l5kit.data.digests.digest import FileDigest, dataset_digest
from l5kit.data.digests.manifest import Manifest, ManifestDifferences
from l5kit.errors import ConfigError, InvalidArgumentError

A, B = hashlib.sha256(b"a").hexdigest(), hashlib.sha256(b"bb").hexdigest()


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "city"
    (place / "maps").mkdir(parents=True)
    (place / "maps" / "b").write_bytes(b"bb")
    (place / "ä").write_bytes(b"a")
    return place


@pytest.fixture
def manifest(folder):
    return Manifest.of(folder)


def test_it_holds_every_file_sorted(manifest, folder):
    assert manifest.files == (FileDigest("maps/b", 2, B), FileDigest("ä", 1, A))
    assert manifest.num_bytes == 3
    assert manifest.digest == dataset_digest(folder)
    assert Manifest(manifest.files[::-1]) == manifest == Manifest.of(folder, workers=1)


def test_as_json_it_is_the_same_again(manifest, tmp_path):
    content = json.loads(manifest.to_json())
    assert list(content) == ["format", "version", "digest", "num_files", "num_bytes", "files"]
    assert content["files"][1] == {"path": "ä", "size": 1, "sha256": A}
    assert (content["format"], content["version"], content["num_files"]) == ("l5kit-manifest", 1, 2)
    assert len(manifest.to_json().splitlines()) == 9 + 2  # a line for each file
    assert Manifest.from_json(manifest.to_json()) == manifest
    manifest.write(tmp_path / "m.json")
    assert Manifest.read(tmp_path / "m.json") == manifest
    with pytest.raises(FileNotFoundError):
        Manifest.read(tmp_path / "nowhere.json")


def test_no_files_are_a_manifest_too():
    empty = Manifest(())
    assert empty.digest == hashlib.sha256(b"").hexdigest()
    assert Manifest.from_json(empty.to_json()) == empty


def set_of(file, **values):
    return lambda content: content["files"][file].update(values)


DAMAGES = {
    "no JSON": (lambda content: None, "is not valid JSON"),
    "another format": (lambda content: content.update(format="x"), "is not a manifest of l5kit"),
    "a later version": (lambda content: content.update(version=2), "of version 2, but this l5kit reads 1"),
    "a lost key": (lambda content: content.pop("digest"), "lacks digest"),
    "an unknown key": (lambda content: content.update(note=""), "has the unknown note"),
    "a lost key of a file": (lambda content: content["files"][1].pop("size"), r"files\[1\] lacks size"),
    "no list": (lambda content: content.update(files={}), "files must be a list, got dict"),
    "no file": (lambda content: content.update(files=[1]), r"files\[0\] must be an object, got 1"),
    "a lost file": (lambda content: content["files"].pop(), "num_files is 2, but its files give 1"),
    "another size": (set_of(1, size=2), "num_bytes is 3, but its files give 4"),
    "another content": (set_of(1, sha256=B), "digest is .* but its files give"),
    "another name": (set_of(1, path="o"), "digest is .* but its files give"),
    "another digest": (lambda content: content.update(digest=A), f"digest is '{A}', but its files give"),
    "a negative size": (set_of(0, size=-1), "'maps/b': its size is -1"),
    "a size that is true": (set_of(0, size=True), "an integer as size"),
    "a short sha256": (set_of(0, sha256="ab"), "'maps/b': its sha256 is 'ab'"),
    "an upper-case sha256": (set_of(0, sha256=B.upper()), "64 lower-case"),
    "a path twice": (set_of(0, path="ä"), "files has 'ä': it occurs twice"),
    "a path out of the folder": (set_of(0, path="../x"), "files has '../x': it must be a relative path"),
    "an absolute path": (set_of(0, path="/etc/passwd"), "files has '/etc/passwd': it must be a relative"),
    "a path of Windows": (set_of(0, path="a\\b"), "must not contain backslashes"),
    "half a letter": (set_of(0, path="\ud800"), "UTF-8"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_manifest_that_was_damaged_or_changed_by_hand_is_refused(manifest, damage, message):
    content = json.loads(manifest.to_json())
    text = "{" if damage(content) is None and message == "is not valid JSON" else json.dumps(content)
    with pytest.raises(ConfigError, match=message) as caught:
        Manifest.from_json(text, called="manifest m.json")
    assert str(caught.value).startswith("manifest m.json")


def test_files_are_checked_in_python_as_well():
    with pytest.raises(InvalidArgumentError, match="'a': it occurs twice"):
        Manifest((FileDigest("a", 1, A), FileDigest("a", 1, B)))


def test_differences_are_told_by_name(manifest, folder):
    assert manifest.compare(manifest) == ManifestDifferences((), (), ())
    assert not manifest.compare(manifest)
    (folder / "maps" / "b").write_bytes(b"BB")
    (folder / "ä").unlink()
    (folder / "new").write_bytes(b"")
    differences = manifest.compare(Manifest.of(folder))
    assert differences == ManifestDifferences(missing=("ä",), changed=("maps/b",), extra=("new",))
    assert differences


def test_an_agents_mask_that_was_stored_since_is_not_extra(folder):
    (folder / ".zgroup").write_bytes(b"{}")
    before = Manifest.of(folder)
    (folder / "agents_mask" / "0.5").mkdir(parents=True)
    (folder / "agents_mask" / "0.5" / "0").write_bytes(b"mask")
    after = Manifest.of(folder)
    assert (after.digest, len(after.files)) == (before.digest, len(before.files) + 1)
    assert not before.compare(after)
    assert after.compare(before).missing == ("agents_mask/0.5/0",)
