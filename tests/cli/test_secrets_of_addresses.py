"""Commands on an address with a password or a signature: the secret appears in no file and no output."""

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import _registry

pytest.importorskip("torch")

from support.networks import save_network

pytestmark = pytest.mark.filterwarnings("ignore")

SECRET = "s3cr3t"
LOG = "/scenes/sample.zarr"


class Vault(LocalFileSystem):
    """Files of this machine, under addresses with a server."""

    protocol = "vault"

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = str(path).partition("?")[0]
        return super()._strip_protocol("/" + path.partition("://")[2].partition("/")[2] if "://" in path else path)


@pytest.fixture(autouse=True)
def _vault():
    fsspec.register_implementation("vault", Vault, clobber=True)
    yield
    _registry.pop("vault", None)


def calls_of(url, city, folder):
    """Return calls that read an address and write into a folder."""
    network = save_network("vector_planner", city, folder.parent)
    simulated = ("simulate", url, "--scenes", "0:1", "--frames", 3)
    calls = [
        ("info", url),
        ("info", url, "--json"),
        ("validate", url),  # it misses the aerial picture, which it looks for on another server
        ("cache", url),
        ("cache", "--list", "--json"),
        (*simulated, "--planner", "standing", "--out", folder / "simulated"),
        (*simulated, "--planner", network, "--out", folder / "driven", "--json"),
        ("export", url, folder / "columns"),
        ("export", url, folder / "parquet", "--layout", "parquet"),
        ("export", url, folder / "py123d", "--layout", "py123d"),
        ("view", url, "--export", folder / "page.html"),
        ("manifest", url, "--out", folder / "manifest.json"),
    ]
    if url.endswith(LOG):  # the others name a folder, which an address with a query cannot
        data = ("--data", url.removesuffix(LOG), "--set", f"val_data_loader.key={LOG[1:]}")
        trained = (
            *("train_data_loader.key=scenes/sample.zarr", "train_data_loader.batch_size=2"),
            *("train_params.max_num_steps=1", "val_data_loader.max_num_batches=1"),
        )
        changes = [word for value in trained for word in ("--set", value)]
        calls += [
            ("evaluate", network, *data, "--max-samples", 2, "--worst", 1, "--out", folder / "evaluated"),
            ("train", "vector_planner", *data, *changes, "--out", folder / "trained"),
        ]
    return calls


@pytest.mark.parametrize(
    ("before", "after"), [(f"me:{SECRET}@", ""), ("", f"?X-Amz-Signature={SECRET}&sig={SECRET}")], ids=["user", "query"]
)
def test_no_secret_of_an_address_gets_out_of_a_command(l5kit, city, tmp_path, before, after):
    folder = tmp_path / "out"
    folder.mkdir()
    for call in calls_of(f"vault://{before}host{city}{LOG}{after}", city, folder):
        done = l5kit(*call)
        assert done.exit_code == (call[0] == "validate"), (call, done.stdout, done.stderr)
        assert SECRET not in done.stdout + done.stderr, call
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    refused = l5kit("info", f"vault://{before}host{city}/nowhere.zarr{after}")
    assert refused.exit_code == 1
    assert SECRET not in refused.stdout + refused.stderr
