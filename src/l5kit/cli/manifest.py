"""``l5kit manifest`` and ``l5kit verify``: digests of the files of a dataset, and comparison of a copy with them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from l5kit.cli.options import AddressOption, Engine, EngineOption, JobOption, JsonOption, ReadersOption
from l5kit.cli.output import print_json, print_line, remark, require_writable
from l5kit.cli.workers import RequestedWorkers
from l5kit.data.digests.manifest import Manifest
from l5kit.data.digests.verification import verify as verify_files
from l5kit.data.progress import show_progress
from l5kit.data.stores.store import is_url
from l5kit.errors import InvalidArgumentError

FilesArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="Dataset folder, one .zarr (folder or zip file) in it, another file, or a URL."
    ),
]


def manifest(
    path: FilesArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file, outside of PATH.")],
    workers: ReadersOption = 0,
    engine: EngineOption = Engine.THREADS,
    address: AddressOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the manifest of a dataset: size and SHA-256 of every file, and the digest of the whole, as JSON.

    The digest identifies the data regardless of its location: a copy, or a zip file of the same files, has the same
    digest.

    Examples:
        l5kit manifest city --out city.json
        l5kit manifest city/scenes/sample.zarr --out sample.json --json
    """
    require_writable(out, option="--out")
    if not is_url(path) and out.resolve().is_relative_to(Path(path).resolve()):
        raise InvalidArgumentError(
            f"--out {str(out)!r} lies in {path!r}, and would be one of its files; choose another"
        )
    with (
        RequestedWorkers(engine, address, workers, job).opened("manifest", path=_as_address(path)) as carriers,
        show_progress("Reading", visible=True, in_bytes=True) as progress,
    ):
        made = Manifest.of(path, workers=carriers, progress=progress)
    made.write(out)
    if as_json:
        print_json({"path": _as_address(path), "manifest": out, **_facts_of(made)})
    else:
        print_line(f"{out}: {_size_of(made)}, digest {made.digest}")


def verify(
    path: FilesArgument,
    manifest: Annotated[
        Path, typer.Option(metavar="FILE", help="Manifest, written by `l5kit manifest PATH --out FILE`.")
    ],
    workers: ReadersOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Read all files again, even those checked by a stopped run.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a dataset with its manifest, and list files that are missing, changed, extra or unreadable.

    The exit status is 1 if there are any. A stopped run continues.

    Examples:
        l5kit verify copy --manifest city.json
        l5kit verify city --manifest city.json --fresh --json
    """
    wanted = Manifest.read(manifest)
    with show_progress("Verifying", visible=True, in_bytes=True) as progress:
        result = verify_files(
            path,
            wanted,
            fresh=fresh,
            workers=workers,
            progress=progress,
            tell=lambda num_known, num_files: remark(
                f"resuming: {num_known:,} of {num_files:,} files are already checked (--fresh checks them again)"
            ),
        )
    differences = vars(result.differences)
    if as_json:
        problems = {**differences, "unreadable": result.unreadable, "is_equal": result.is_equal}
        print_json({"path": _as_address(path), "manifest": manifest, **_facts_of(wanted), **problems})
    else:
        for name, files in differences.items():
            for file in files:
                print_line(f"{name:<11}{file}")
        for file, problem in result.unreadable.items():
            print_line(f"unreadable {file}: {problem}")
        counts = {name: len(files) for name, files in differences.items()} | {"unreadable": len(result.unreadable)}
        counted = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        outcome = "as in" if result.is_equal else f"{counted}; compared with"
        print_line(f"{path}: {outcome} {manifest} ({_size_of(wanted)}, digest {wanted.digest})")
    if not result.is_equal:
        raise typer.Exit(1)


def _facts_of(manifest: Manifest) -> dict[str, object]:
    return {"digest": manifest.digest, "num_files": len(manifest.files), "num_bytes": manifest.num_bytes}


def _size_of(manifest: Manifest) -> str:
    return f"{len(manifest.files):,} files, {manifest.num_bytes:,} bytes"


def _as_address(path: str) -> str:
    return path if is_url(path) else os.path.abspath(path)
