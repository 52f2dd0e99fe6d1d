"""Export of a dataset as a folder of Parquet tables with a row group per scene, for selective reading."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from l5kit import __version__
from l5kit._types import Int64Array, JsonObject
from l5kit.data import layout
from l5kit.data.interop.arrow_columns import ArrowColumns, require_library
from l5kit.data.interop.export_folder import placed_export, require_export_target
from l5kit.data.interop.table_columns import choose_columns
from l5kit.data.interop.table_parts import NUMBER_COLUMNS, TablePart, parts_of_scene, with_scenes_in_memory
from l5kit.data.jobs.data_record import source_digest
from l5kit.data.jobs.job_folder import WritesFiles, require_shared
from l5kit.data.jobs.scene_jobs import KeptWorkers, Workers, map_scenes
from l5kit.data.labels import PERCEPTION_LABELS, TL_FACE_LABELS
from l5kit.data.progress import Progress
from l5kit.data.records import SCENE_ARRAY_KEY
from l5kit.data.scene_selection import SceneSelection, selected_scenes
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.errors import InvalidArgumentError, without_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

SCENES_PER_FILE = 50
"""Scenes per file of frames, agents or faces; those of the published dataset have a million agents together."""


def export_parquet(
    dataset: ChunkedDataset,
    out: str | os.PathLike[str],
    *,
    scenes: SceneSelection = None,
    overwrite: bool = False,
    nested: bool = True,
    label_names: bool = True,
    scenes_per_file: int = SCENES_PER_FILE,
    digest: str | None = None,
    progress: Progress | None = None,
    workers: Workers = 1,
) -> None:
    """Write a dataset as Parquet files to a new folder, atomically.

    The folder has ``scenes.parquet``, the folders ``frames``, ``agents`` and ``traffic_light_faces`` with files
    ``part-00000.parquet`` of some scenes each, and a ``README.md`` by which ``datasets.load_dataset`` finds the tables.
    They are those of :func:`~l5kit.data.interop.tables.to_arrow`. Each scene is a row group, whose statistics let
    readers of some scenes, frames or tracks skip the others. Columns that contain NaN in a file have no statistics, as
    readers would skip rows because of them.

    Metadata of columns give meaning, unit and frame of reference; the entry ``l5kit`` in the metadata of a file has the
    source, the facts of the log and the names of labels as JSON. Frames that belong to no scene are not written.

    Args:
        dataset: An opened dataset, a view, or one in memory.
        out: The folder.
        scenes: Scenes to write, without duplicates; None for all.
        overwrite: Replace an existing export or dataset.
        nested: Write fields of several values as lists; otherwise as a column per value, such as ``centroid_x``.
        label_names: Add the columns ``label`` of agents and ``status`` of faces.
        scenes_per_file: Number of scenes per file.
        digest: Digest of the dataset, stored in the metadata; the empty string for none. None computes it if the path
            of the dataset is on this machine, reading its files unless the digest is cached.
        progress: Called with the number of scenes written and their total.
        workers: Number of threads that write files at the same time, or an executor; the files do not depend on it.
            Each holds one scene in memory.

    Raises:
        CorruptedDataError: Rows cannot be read, or intervals of scenes are wrong.
        FileExistsError: ``out`` exists, and ``overwrite`` is False.
        IndexOutOfRangeError: There is no such scene.
        InvalidArgumentError: There are no scenes, a scene is named twice, ``out`` is not an export, or the parts kept
            by ``workers`` are of an export with other options.
        MissingDependencyError: pyarrow is not installed.
    """
    require_library("pyarrow", "an export to Parquet")
    scene_indices = _scenes_to_write(dataset, scenes)
    if scenes_per_file < 1:
        raise InvalidArgumentError(f"scenes_per_file must be 1 or more, got {scenes_per_file!r}")
    require_export_target(out, overwrite=overwrite)
    digest_of_source = source_digest(dataset, digest)
    if isinstance(workers, KeptWorkers):
        workers.job.require_same(
            "export",
            {"nested": nested, "label_names": label_names, "files": scenes_per_file, "digest": digest_of_source},
        )
    tables = {
        key: ArrowColumns(
            dtype,
            choose_columns(dtype, nested=nested, label_names=label_names),
            index_names=NUMBER_COLUMNS[key],
            metadata=_metadata_of(dataset, key, digest_of_source),
        )
        for key, (_, dtype, _) in layout.ARRAYS.items()
    }
    with placed_export(out, overwrite=overwrite) as folder:
        folder.mkdir()
        job = _WriteScenes(folder, with_scenes_in_memory(dataset), scene_indices, tables, scenes_per_file)
        with map_scenes(job, scene_indices, workers, block_size=scenes_per_file, progress=progress) as written:
            of_scenes = [part for parts in written for part in parts]
        columns = tables[SCENE_ARRAY_KEY]
        with _open_writer(folder / "scenes.parquet", columns.schema) as writer:
            writer.write_table(columns.table_of([columns.batch_of(part.rows, part.indices) for part in of_scenes]))
        (folder / "README.md").write_text(card_of_tables({key: table.schema for key, table in tables.items()}), "utf-8")


def _scenes_to_write(dataset: ChunkedDataset, scenes: SceneSelection) -> Int64Array:
    indices = selected_scenes(scenes, len(dataset))
    if len(indices) == 0:
        raise InvalidArgumentError(
            f"there are no scenes to write (scenes is {scenes!r}, {dataset.path or 'the log in memory'!r} has "
            f"{len(dataset)}); open() a dataset first"
        )
    unique, counts = np.unique(indices, return_counts=True)
    if len(unique) < len(indices):
        raise InvalidArgumentError(f"scenes names scene {unique[counts > 1][0]} more than once")
    return indices


@dataclass(frozen=True)
class _WriteScenes(WritesFiles):
    """Writes the files of successive scenes, and returns their scene records."""

    dataset: ChunkedDataset
    scenes: Int64Array
    tables: Mapping[str, ArrowColumns]
    scenes_per_file: int

    def __call__(self, scenes: Int64Array) -> list[TablePart]:
        require_shared(self.folder)
        of_scenes, with_nan = self._write(scenes, frozenset())
        if with_nan:  # DuckDB assumes that columns with statistics have no NaN, and skips rows
            of_scenes, _ = self._write(scenes, frozenset(with_nan))
        return of_scenes

    def _write(self, scenes: Int64Array, without: frozenset[str]) -> tuple[list[TablePart], set[str]]:
        """Write files without statistics of some columns; return scene records and columns that contain NaN."""
        import pyarrow as pa

        with_nan: set[str] = set()
        number = int(np.flatnonzero(self.scenes == scenes[0])[0]) // self.scenes_per_file
        of_scenes = []
        with ExitStack() as stack:
            writers = {
                key: stack.enter_context(
                    _open_writer(self.folder / key / f"part-{number:05}.parquet", table.schema, without)
                )
                for key, table in self.tables.items()
                if key != SCENE_ARRAY_KEY
            }
            for scene in scenes.tolist():
                parts = parts_of_scene(self.dataset, scene)
                of_scenes.append(parts[SCENE_ARRAY_KEY])
                for key, writer in writers.items():
                    if len(parts[key].rows):
                        batch = self.tables[key].batch_of(parts[key].rows, parts[key].indices)
                        floating = [each.name for each in batch.schema if pa.types.is_floating(each.type)]
                        for name in floating:
                            if np.isnan(batch.column(name).to_numpy(zero_copy_only=False)).any():
                                with_nan.add(name)
                        writer.write_batch(batch, row_group_size=len(parts[key].rows))
        return of_scenes, with_nan


def _open_writer(path: Path, schema: "pa.Schema", without: frozenset[str] = frozenset()) -> "pq.ParquetWriter":
    """Return a writer that uses dictionaries for all columns except floating-point numbers and lists.

    ``without`` names columns that get no statistics.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(exist_ok=True)  # create only the last folder: if the export was removed, it must not reappear
    is_written_as_it_is = (pa.types.is_fixed_size_list, pa.types.is_floating)
    repeating = [field.name for field in schema if not any(test(field.type) for test in is_written_as_it_is)]
    described: bool | list[str] = [field.name for field in schema if field.name not in without] if without else True
    return pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=repeating, write_statistics=described)


def _metadata_of(dataset: ChunkedDataset, key: str, digest: str | None) -> JsonObject:
    """Return the metadata of a table in its files."""
    return {
        "array": key,
        "source": without_secrets(dataset.path) or "memory",
        "digest": digest,
        "num_scenes": len(dataset),
        "l5kit_version": __version__,
        "perception_labels": PERCEPTION_LABELS,
        "traffic_light_face_labels": TL_FACE_LABELS,
        **dataset.facts.as_attributes(),
    }


def card_of_tables(schemas: "Mapping[str, pa.Schema]") -> str:
    """Return the README of a folder of tables, which also tells Hugging Face datasets where the tables are.

    Args:
        schemas: Schema of each table, by name.
    """
    lines = ["---", "configs:"]
    for key in schemas:
        files = f"{key}.parquet" if key == SCENE_ARRAY_KEY else f"{key}/*.parquet"
        lines += [f"- config_name: {key}", f"  data_files: {files}"]
    lines += [
        "---",
        "",
        "# A driving log as tables",
        "",
        "Written by l5kit. Each scene is a row group. `scene_index` counts scenes from 0, `frame_index` the frames of "
        "a scene; intervals count rows of the dataset that was exported. With DuckDB, for example:",
        "",
        "```sql",
        "select frame_index, count(*) from 'agents/*.parquet' where scene_index = 0 group by frame_index;",
        "```",
    ]
    for key, schema in schemas.items():
        lines += ["", f"## {key}", "", "| column | type | unit | frame | meaning |", "| --- | --- | --- | --- | --- |"]
        for field in schema:
            # readable types: the item type of a list, and text for a column of names
            kind = str(field.type).replace("fixed_size_list<item: ", "list<")
            if kind.startswith("dictionary"):
                kind = "string"
            metadata = {name.decode(): text.decode() for name, text in (field.metadata or {}).items()}
            cells = [metadata.get(name, "") for name in ("units", "frame_of_reference", "long_name")]
            lines.append(" | ".join(["| `" + field.name + "`", f"`{kind}`", *cells]) + " |")
    return "\n".join(lines) + "\n"
