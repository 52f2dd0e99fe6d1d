"""Secrets in addresses: users, passwords and signatures are never stored, printed or shown."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from l5kit.cli.output import print_facts, print_json, print_table
from l5kit.closedloop.setup import ClosedLoopSetup
from l5kit.data.dataset_files import DatasetFiles
from l5kit.data.download.addresses import parse_address
from l5kit.data.jobs.data_record import DataRecord
from l5kit.data.progress import tell
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import CorruptedDataError, InvalidArgumentError, UnreachableDataError, without_secrets

SECRET = "s3cr3t"
QUERIES = ["X-Amz-Signature={0}&X-Amz-Date=2026", "sig={0}&se=2026", "token={0}", "a=1&access_token={0}", "{0}"]
USERS = ["{0}@", "me:{0}@", ":{0}@", "me:{0}%40@", "a@b:{0}@"]


def generated(number):
    """Return an address with at least one secret, and its name."""
    rng = random.Random(number)
    scheme = rng.choice(["https://", "http://", "s3://", "gs://", "zip::https://", "simplecache::s3://", "ftp://"])
    server = rng.choice(["server", "127.0.0.1:8080", "[::1]:80", "bucket.s3.amazonaws.com"])
    path = rng.choice(["/sample.zarr", "/data/city/scenes/sample.zarr", "/a.zarr.zip", "/with%20space.zarr", "/ä.zarr"])
    user = rng.choice(["", *USERS])
    query = rng.choice(QUERIES if not user else ["", *QUERIES])
    address = f"{scheme}{user}{server}{path}{'?' if query else ''}{query}".replace("{0}", SECRET)
    return address, f"{scheme}{server}{path}"


@pytest.mark.parametrize("number", range(60))
def test_no_secret_of_an_address_gets_out(number, capsys):
    address, name = generated(number)
    assert without_secrets(address) == name
    assert without_secrets(f"'{address}', and {address} \"{address}\"") == f"'{name}', and {name} \"{name}\""
    collapsed = address.replace("://", ":/")  # as pathlib writes it
    assert without_secrets(collapsed) == name.replace("://", ":/")
    told = [
        *(str(error(f"{address} does not answer")) for error in (CorruptedDataError, UnreachableDataError)),
        str(InvalidArgumentError(f"path is {address!r}")),
        repr(ChunkedDataset(address)),
        json.dumps(DataRecord.of(address, num_scenes=1).as_dict()),
    ]
    print_json({"log": address, "list": [address]})
    print_facts(f"Scenes of {address}", {"log": address})
    print_table("Files", ("name",), [[without_secrets(address)]])
    tell(f"error: {address} does not answer")
    if address.startswith("http"):
        told += [parse_address(address).name]
    printed = capsys.readouterr()
    for text in (*told, printed.out, printed.err):
        assert SECRET not in text
    for text in told[:3]:
        assert name in text


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (f"http://me:pa#{SECRET}@server/a.zarr", "http://server/a.zarr"),
        (f"http://me:pa?{SECRET}@server/a.zarr", "http://server/a.zarr"),
        (f"http://server/a.zarr?sig=a'{SECRET}", "http://server/a.zarr"),
        (f"http://server/a.zarr;tok={SECRET}", "http://server/a.zarr"),
        (f"http://server/a.zarr?x=1::{SECRET}", "http://server/a.zarr"),
        (f"zip://in.zarr::s3://me:{SECRET}@bucket/a.zip?sig={SECRET}", "zip://in.zarr::s3://bucket/a.zip"),
    ],
)
def test_addresses_that_are_not_escaped_keep_their_secrets(address, name):
    assert without_secrets(address) == name
    assert without_secrets(f"path is {address!r}; see it") in (f"path is {name!r}; see it", f'path is "{name}"; see it')
    assert without_secrets(f"there is none at {address}, or it is gone").startswith(f"there is none at {name}")
    assert SECRET not in without_secrets(f"there is none at {address}, or it is gone")


@pytest.mark.parametrize(
    "text",
    [
        "C:/data/a@b/x?.zarr",
        "/data/me@home/city",
        "a ratio of 3:4?",
        "abfs://container@account.dfs.core.windows.net/city",
        "see note: /home/me@x",
        "https://server/a.zip#sha256=00&size=1",
        "http://127.0.0.1:8000/#scene=3",
    ],
)
def test_what_is_no_secret_stays(text):
    assert without_secrets(text) == text


@dataclass(frozen=True)
class Named:
    """Fakes of planner, traffic and options in a setup."""

    name: str = "idm"
    fallback: str | None = None

    def as_facts(self, _):
        return {}


def test_what_was_simulated_is_stored_without_secrets():
    url = f"https://me:{SECRET}@server/city/scenes/sample.zarr"
    setup = object.__new__(ClosedLoopSetup)
    for name, value in {
        "files": DatasetFiles(Path(url), None, None, None, ()),
        "truth": None,
        "data": DataRecord.of(url, num_scenes=2),
        "digests": {},
        "scenes": None,
        **dict.fromkeys(("planner", "agents", "options"), Named()),
    }.items():
        object.__setattr__(setup, name, value)
    assert SECRET not in json.dumps(setup.facts)
    assert setup.facts["files"]["log"] == setup.facts["data"]["path"] == "https://server/city/scenes/sample.zarr"
