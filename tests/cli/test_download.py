"""``l5kit download``: its output without addresses, and a data folder with them."""

import json

import pytest

from l5kit.data.digests.manifest import Manifest


def test_without_addresses_it_tells_where_the_data_is_had_and_on_what_terms(l5kit, tmp_path):
    done = l5kit("download")
    assert done.exit_code == 0
    assert "https://woven.toyota/en/prediction-dataset" in done.stdout
    assert "CC BY-NC-SA 4.0" in done.stdout
    facts = json.loads(l5kit("download", "--json", "--out", tmp_path / "out").stdout)
    assert facts["page"] == "https://woven.toyota/en/prediction-dataset"
    assert not (tmp_path / "out").exists()


def test_a_folder_is_downloaded_and_validated(l5kit, city, tmp_path):
    done = l5kit("download", city, "--out", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "")
    out = tmp_path / "out"
    assert done.stdout.splitlines() == [
        *(f"placed {out / place}" for place in ("aerial_map/aerial_map.png", "city.json", "meta.json")),
        *(f"placed {out / place}" for place in ("scenes/sample.zarr", "semantic_map/semantic_map.pb")),
        f"{out / 'scenes/sample.zarr'}: nothing wrong found",
    ]
    again = json.loads(l5kit("download", city, "--out", out, "--json").stdout)
    assert again["placed"] == []
    assert again["present"][2] == "meta.json"
    assert again["datasets"] == [{"dataset": str(out / "scenes" / "sample.zarr"), "findings": []}]


def test_what_validate_finds_is_told(l5kit, city_copy, tmp_path):
    (city_copy / "scenes" / "sample.zarr" / "agents" / "0").write_bytes(b"damaged")
    done = l5kit("download", city_copy, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "nothing wrong" not in done.stdout
    report = json.loads(l5kit("download", city_copy, "--out", tmp_path / "out", "--json").stdout)
    assert {finding["file"] for finding in report["datasets"][0]["findings"]} == {
        str(tmp_path / "out" / "scenes" / "sample.zarr" / "agents" / "0")
    }


@pytest.mark.parametrize("source", ["option", "input by option", "input"])
def test_addresses_come_from_a_file_or_standard_input(city, tmp_path, source, monkeypatch):
    from typer.testing import CliRunner

    from l5kit.cli.main import make_app

    listed = tmp_path / "addresses.txt"
    listed.write_text(f"# mine\n\n  {city / 'meta.json'}\n{city / 'semantic_map'}/semantic_map.pb\n")
    words = {"option": ["--from", str(listed)], "input by option": ["--from", "-"], "input": ["-"]}[source]
    done = CliRunner().invoke(make_app(), ["download", *words, "--out", str(tmp_path / "out")], listed.read_text())
    assert done.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.*")) == ["meta.json", "semantic_map.pb"]


def test_a_manifest_is_kept_to(l5kit, city, tmp_path):
    manifest = Manifest.of(city)
    manifest.write(tmp_path / "manifest.json")
    assert l5kit("download", city, "--out", tmp_path / "out", "--manifest", tmp_path / "manifest.json").exit_code == 0
    Manifest(manifest.files[1:]).write(tmp_path / "other.json")
    done = l5kit("download", city, "--out", tmp_path / "out", "--manifest", tmp_path / "other.json")
    assert done.stderr == f"note: 1 files are not in the manifest, such as {manifest.files[0].path}\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["https://host/f.tar"], 2, "--out is missing"),
        (["nothing", "--out", "out"], 1, "there is nothing at 'nothing'"),
        (["https://host/", "--out", "out"], 1, "does not list its files"),
        (["--from", "nothing.txt", "--out", "out"], 1, "nothing.txt"),
        (["a", "--out", "out", "--manifest", "nothing.json"], 1, "nothing.json"),
    ],
)
def test_calls_that_make_no_sense(l5kit, words, code, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = l5kit("download", *words)
    assert done.exit_code == code
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
