"""Generator of embedded descriptors and type stubs: ``python -m l5kit.data.proto.generate [FILE.proto]``.

The files are written next to the schema, by default ``road_network.proto``. It needs grpcio-tools, which only
developers of l5kit have to install, and only after a change of a schema.
"""

import base64
import importlib
import re
import sys
import tempfile
import textwrap
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from l5kit.errors import L5KitError, MissingDependencyError

ROAD_NETWORK = Path(__file__).parent / "road_network.proto"

_DESCRIPTOR_TEMPLATE = '''"""Compiled ``{name}``, written by ``python -m l5kit.data.proto.generate``."""

FILE_DESCRIPTOR_BASE64 = """
{lines}
"""
'''

_STUB_HEAD = """# Types of {name}_pb2.py, written by `python -m l5kit.data.proto.generate`.
# ruff: noqa
# fmt: off
"""

_STUB_EMPTY = """
class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
"""


def _strip_json_names(message: DescriptorProto) -> None:
    """Remove the derived JSON names, which not every version of protoc writes."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _strip_json_names(nested)


def generate(schema: Path = ROAD_NETWORK) -> dict[str, str]:
    """Return the texts generated from a schema, by file name.

    Raises:
        MissingDependencyError: grpcio-tools is not installed.
        L5KitError: protoc refuses the schema.
    """
    try:
        protoc = importlib.import_module("grpc_tools.protoc")
    except ImportError as error:
        raise MissingDependencyError("generating the schema needs protoc: pip install grpcio-tools") from error
    includes = [f"-I{schema.parent}", f"-I{Path(str(protoc.__file__)).parent / '_proto'}"]
    with tempfile.TemporaryDirectory() as folder:
        descriptor_set = Path(folder) / "descriptor_set"
        outputs = [f"--descriptor_set_out={descriptor_set}", f"--pyi_out={folder}"]
        if protoc.main(["protoc", *includes, *outputs, schema.name]):
            raise L5KitError(f"protoc refused {schema}; see its message above")
        file = FileDescriptorSet.FromString(descriptor_set.read_bytes()).file[0]
        generated = (Path(folder) / f"{schema.stem}_pb2.pyi").read_text(encoding="utf-8")
    for message in file.message_type:
        _strip_json_names(message)
    encoded = base64.b64encode(file.SerializeToString(deterministic=True)).decode("ascii")

    # adapt protoc's stub: the Empty class of this schema's own pool if it needs one, and strict types
    lines = [line for line in generated.splitlines() if not re.match(r"from google\.protobuf import \w+_pb2 ", line)]
    text = "\n".join(lines).replace("_empty_pb2.Empty", "Empty")
    text = re.sub(r"_Mapping(?=\])", "_Mapping[str, object]", text)
    head, first_class = text.split("DESCRIPTOR: _descriptor.FileDescriptor\n", maxsplit=1)
    empty = _STUB_EMPTY if "import empty_pb2" in generated else ""
    stub_head = f"{_STUB_HEAD.format(name=schema.stem)}{head}"
    return {
        f"{schema.stem}_descriptor.py": _DESCRIPTOR_TEMPLATE.format(
            name=schema.name, lines="\n".join(textwrap.wrap(encoded, 116))
        ),
        f"{schema.stem}_pb2.pyi": f"{stub_head}DESCRIPTOR: _descriptor.FileDescriptor\n{empty}{first_class}\n",
    }


def main() -> None:
    """Write the generated files next to the schema."""
    schema = Path(sys.argv[1]) if len(sys.argv) > 1 else ROAD_NETWORK
    for name, text in generate(schema).items():
        (schema.parent / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
