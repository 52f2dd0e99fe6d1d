"""Turn ``road_network.proto`` into the embedded descriptor and the type stub: ``python -m l5kit.data.proto.generate``.

Needs grpcio-tools, which only the developers of l5kit have to install, and only after a change of the schema.
"""

import base64
import importlib
import re
import tempfile
import textwrap
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from l5kit.errors import L5KitError, MissingDependencyError

HERE = Path(__file__).parent
PROTO_NAME = "road_network.proto"

_DESCRIPTOR_TEMPLATE = '''"""Compiled ``road_network.proto``, written by ``python -m l5kit.data.proto.generate``."""

FILE_DESCRIPTOR_BASE64 = """
{lines}
"""
'''

_STUB_HEAD = """# Types of road_network_pb2.py, written by `python -m l5kit.data.proto.generate`.
# ruff: noqa
# fmt: off
"""

_STUB_EMPTY = """
class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
"""


def _run_protoc(folder: Path) -> tuple[bytes, str]:
    """Return the serialized ``FileDescriptorSet`` of the schema and protoc's type stub."""
    try:
        protoc = importlib.import_module("grpc_tools.protoc")
    except ImportError as error:
        raise MissingDependencyError("generating the schema needs protoc: pip install grpcio-tools") from error
    includes = [f"-I{HERE}", f"-I{Path(str(protoc.__file__)).parent / '_proto'}"]
    descriptor_set = folder / "descriptor_set"
    if protoc.main(["protoc", *includes, f"--descriptor_set_out={descriptor_set}", f"--pyi_out={folder}", PROTO_NAME]):
        raise L5KitError(f"protoc refused {HERE / PROTO_NAME}; its message stands above")
    return descriptor_set.read_bytes(), (folder / "road_network_pb2.pyi").read_text(encoding="utf-8")


def _strip_json_names(message: DescriptorProto) -> None:
    """Remove the derived JSON names, which not every protoc writes."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _strip_json_names(nested)


def _descriptor_module(descriptor_set: bytes) -> str:
    file = FileDescriptorSet.FromString(descriptor_set).file[0]
    for message in file.message_type:
        _strip_json_names(message)
    encoded = base64.b64encode(file.SerializeToString(deterministic=True)).decode("ascii")
    return _DESCRIPTOR_TEMPLATE.format(lines="\n".join(textwrap.wrap(encoded, 116)))


def _stub(generated: str) -> str:
    """Make protoc's stub name the ``Empty`` class of this schema's own pool, and strictly typed."""
    lines = [line for line in generated.splitlines() if not re.match(r"from google\.protobuf import \w+_pb2 ", line)]
    text = "\n".join(lines).replace("_empty_pb2.Empty", "Empty")
    text = re.sub(r"_Mapping(?=\])", "_Mapping[str, object]", text)
    head, first_class = text.split("DESCRIPTOR: _descriptor.FileDescriptor\n", maxsplit=1)
    return f"{_STUB_HEAD}{head}DESCRIPTOR: _descriptor.FileDescriptor\n{_STUB_EMPTY}{first_class}\n"


def generate() -> dict[str, str]:
    """Return file name to text of everything made from the schema.

    Raises:
        MissingDependencyError: grpcio-tools is not installed.
        L5KitError: protoc refuses the schema.
    """
    with tempfile.TemporaryDirectory() as folder:
        descriptor_set, generated_stub = _run_protoc(Path(folder))
    return {
        "road_network_descriptor.py": _descriptor_module(descriptor_set),
        "road_network_pb2.pyi": _stub(generated_stub),
    }


def main() -> None:
    """Write the generated files beside the schema."""
    for name, text in generate().items():
        (HERE / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
