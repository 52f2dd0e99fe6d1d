"""``l5kit download``: where to get the dataset, and a data folder from given addresses."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from l5kit.cli.options import JsonOption
from l5kit.cli.output import print_facts, print_json, print_line, remark
from l5kit.cli.validate import check_files, findings_as_json, print_findings
from l5kit.configs.texts import read_text
from l5kit.data.dataset_files import find_dataset_files
from l5kit.data.progress import show_progress

if TYPE_CHECKING:
    from l5kit.data.download.addresses import Address

_STANDARD_INPUT = "-"


def download(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ADDRESS]...",
            help="https:// addresses of files, folders, archives, or URLs such as s3://bucket/prefix; - reads them "
            "from standard input. ADDRESS#sha256=HEX checks the file.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Data folder to create or to extend.")] = None,
    listed: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File with more addresses, one per line; - for standard input."),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Manifest by `l5kit manifest`; files that differ from it are refused."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files that differ.")] = False,
    workers: Annotated[int, typer.Option(min=0, help="Files copied at the same time; 0 for one per core.")] = 8,
    as_json: JsonOption = False,
) -> None:
    """Download a dataset from addresses that you have; without any, print where to get the data.

    Archives are unpacked, files are laid out like the published dataset, and each zarr is checked as by `l5kit
    validate`. A stopped download continues with the next call.

    Examples:
        l5kit download
        l5kit download https://server/sample.tar https://server/semantic_map.tar --out prediction-dataset
        l5kit download --from addresses.txt --out prediction-dataset --manifest manifest.json
        l5kit download s3://bucket/prediction-dataset --out prediction-dataset
    """
    if not addresses and listed is None:
        _print_published(as_json)
        return
    if out is None:
        raise typer.BadParameter("--out is missing: the folder for the dataset")
    from l5kit.data.digests.manifest import Manifest
    from l5kit.data.download.downloading import download_dataset

    done = download_dataset(
        _read_addresses(addresses or [], listed),
        out,
        manifest=None if manifest is None else Manifest.read(manifest),
        overwrite=overwrite,
        workers=workers,
        stage=lambda title: show_progress(title, visible=True),
    )
    for path in done.placed if not as_json else ():
        print_line(f"placed {done.folder / path}")
    for path in done.present if not as_json else ():
        print_line(f"was there {done.folder / path}")
    if done.extra:
        remark(f"note: {len(done.extra)} files are not in the manifest, such as {done.extra[0]}")
    # check all logs, as l5kit validate does, before printing the first: JSON is one object
    checked = [(files := find_dataset_files(dataset), check_files(files, workers=0)) for dataset in done.datasets]
    if as_json:
        by_state = {"placed": done.placed, "present": done.present, "not_in_manifest": done.extra}
        texts = {name: [str(path) for path in some] for name, some in by_state.items()}
        print_json({"folder": done.folder, **texts, "datasets": [findings_as_json(*pair) for pair in checked]})
    else:
        for files, findings in checked:
            print_findings(files, findings)
    if any(findings for _, findings in checked):
        raise typer.Exit(1)


def _print_published(as_json: bool) -> None:
    from l5kit.data.download.published_layout import PUBLISHED_DATASET

    facts = asdict(PUBLISHED_DATASET)
    if as_json:
        print_json(facts)
        return
    shown = facts | {"layout": "\n".join(PUBLISHED_DATASET.layout)}
    print_facts("The real data", {name.replace("_", " ").capitalize(): value for name, value in shown.items()})
    print_line("With addresses: l5kit download ADDRESS... --out FOLDER. Without data: l5kit synth city")


def _read_addresses(addresses: list[str], listed: Path | None) -> "list[Address]":
    from l5kit.data.download.addresses import parse_address, parse_addresses

    parsed: list[Address] = []
    for address in addresses:
        parsed += parse_addresses(sys.stdin.read()) if address == _STANDARD_INPUT else [parse_address(address)]
    if listed is not None:
        is_input = str(listed) == _STANDARD_INPUT
        parsed += parse_addresses(sys.stdin.read() if is_input else read_text(listed, called="--from"))
    return parsed
