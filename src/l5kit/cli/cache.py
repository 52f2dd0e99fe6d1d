"""``l5kit cache``: decoded files of datasets, the fastest to read."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import JsonOption
from l5kit.cli.output import print_facts, print_json, print_line, print_texts
from l5kit.data.dataset_files import find_dataset
from l5kit.data.progress import show_progress
from l5kit.data.stores.decoded_store import stores_folder
from l5kit.data.stores.decoded_store_list import (
    ListedStore,
    build_decoded_store,
    list_stores,
    prune_stores,
    remove_store,
)
from l5kit.data.stores.store import file_name_of, is_url, path_of


def cache(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            help="Dataset folder, or one .zarr (folder or zip file) in it, or a URL.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Cache folder. Default: the user's, or L5KIT_CACHE_DIR."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the decoded files of all datasets.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the decoded files of PATH.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the decoded files of datasets that are gone or have changed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Decode a dataset into files that are fast to read and shared by all processes.

    ChunkedDataset(PATH).open(cached="mmap") reads from them. They are rebuilt when the dataset has changed.

    Examples:
        l5kit cache city
        l5kit cache city --folder /fast/disk
        l5kit cache --list
        l5kit cache --prune
    """
    if show_list + remove + prune > 1:
        raise typer.BadParameter("--list, --remove and --prune exclude each other; give one of them")
    if show_list or prune:
        if path is not None:
            raise typer.BadParameter("--list and --prune apply to all datasets; drop PATH")
        _print_stores(list_stores(folder) if show_list else prune_stores(folder), folder, prune, as_json)
        return
    if path is None:
        raise typer.BadParameter("PATH is missing: the dataset to decode; --list shows what is decoded already")
    if remove:
        # decoded files of a deleted dataset can be removed, too, so a path that does not exist is used as it is
        dataset = find_dataset(path) if path.exists() or is_url(path_of(path)) else path
        stores = remove_store(dataset, cache_folder=folder)
        num_bytes = sum(store.num_bytes for store in stores)
        if as_json:
            print_json({"dataset": dataset, "num_bytes": num_bytes, "removed": [store.folder for store in stores]})
        else:
            print_line(f"decoded files of {path_of(dataset)} removed: {_megabytes(num_bytes)} in {stores[0].folder}")
        return

    dataset = find_dataset(path)
    with show_progress(f"Decoding {file_name_of(dataset)}", visible=True) as progress:
        store, is_new = build_decoded_store(dataset, cache_folder=folder, progress=progress)
    rate = store.num_bytes / max(store.build_seconds, 1e-9)
    if as_json:
        facts = {"folder": store.folder, "num_bytes": store.num_bytes, "is_new": is_new}
        times = {"build_seconds": store.build_seconds, "bytes_per_second": rate}
        print_json({"dataset": dataset, **facts, **times})
        return
    built = "Built now in" if is_new else "Built before in"
    speed = f"{store.build_seconds:,.2f} s ({_megabytes(rate)}/s)"
    shown = {"Folder": store.folder, "Size": _megabytes(store.num_bytes), built: speed}
    print_facts(f"Decoded files of {path_of(dataset)}", shown)
    print_line(
        'To read from them: ChunkedDataset(path).open(cached="mmap"'
        + ("" if folder is None else ", cache_folder=...")
        + ")"
    )


def _print_stores(listed: list[ListedStore], folder: Path | None, are_removed: bool, as_json: bool) -> None:
    num_bytes, stores_path = sum(item.store.num_bytes for item in listed), stores_folder(folder)
    if as_json:
        stores = [
            {
                "dataset": item.store.source,
                "state": item.state,
                "folder": item.store.folder,
                "num_bytes": item.store.num_bytes,
                "last_used": _time_of(item),
            }
            for item in listed
        ]
        print_json({"folder": stores_path, "num_bytes": num_bytes, "removed" if are_removed else "stores": stores})
    elif not listed:
        print_line(f"nothing to remove in {stores_path}" if are_removed else f"no decoded files in {stores_path}")
    else:
        title = f"{'Removed from' if are_removed else 'Decoded files in'} {stores_path}: {_megabytes(num_bytes)}"
        words = {"current": "as decoded", "changed": "changed since", "gone": "gone", "unknown": "out of reach"}
        rows = [
            [
                item.store.source,
                words[item.state],
                _megabytes(item.store.num_bytes),
                _time_of(item)[:16].replace("T", " "),
            ]
            for item in listed
        ]
        print_texts(title, ("Dataset", "Now", "Size", "Last use"), rows)


def _time_of(item: ListedStore) -> str:
    return datetime.fromtimestamp(item.store.last_used).astimezone().isoformat(timespec="seconds")


def _megabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"
