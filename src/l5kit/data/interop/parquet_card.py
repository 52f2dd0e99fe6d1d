"""Card of a folder of Parquet tables: a README for people, by which Hugging Face datasets, too, know the tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from l5kit.data.records import SCENE_ARRAY_KEY

if TYPE_CHECKING:
    import pyarrow as pa


def card_of_tables(schemas: "Mapping[str, pa.Schema]") -> str:
    """Return the text of the card.

    Args:
        schemas: Schema of each table, by its name.
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
            # types as people say them: what a list holds, and that a column of names is text
            kind = str(field.type).replace("fixed_size_list<item: ", "list<")
            if kind.startswith("dictionary"):
                kind = "string"
            metadata = {name.decode(): text.decode() for name, text in (field.metadata or {}).items()}
            cells = [metadata.get(name, "") for name in ("units", "frame_of_reference", "long_name")]
            lines.append(" | ".join(["| `" + field.name + "`", f"`{kind}`", *cells]) + " |")
    return "\n".join(lines) + "\n"
