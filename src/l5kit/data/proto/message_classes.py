"""Message classes of a schema whose compiled descriptor is embedded, on every protobuf runtime from 4.25 on."""

import base64
from collections.abc import Iterable

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


def file_of_private_pool(descriptor_base64: str, *, imports: Iterable[FileDescriptor] = ()) -> FileDescriptor:
    """Return an embedded schema in a private pool that contains only the schema and the files it imports.

    Other copies of the same schema in the process do not conflict with it.
    """
    pool = DescriptorPool()
    for imported in imports:
        pool.AddSerializedFile(imported.serialized_pb)
    return pool.AddSerializedFile(base64.b64decode(descriptor_base64))


def build_class(descriptor: Descriptor, *, module: str, outer: str = "") -> type[Message]:
    """Return the message class with its nested messages, enums and enum values as attributes, on every runtime.

    Args:
        descriptor: The message.
        module: Name of the module that defines the class, for pickling.
        outer: The enclosing classes, each followed by a dot.
    """
    message_class = GetMessageClass(descriptor)
    message_class.__module__ = module
    message_class.__qualname__ = f"{outer}{descriptor.name}"
    for nested in descriptor.nested_types:
        setattr(message_class, nested.name, build_class(nested, module=module, outer=f"{message_class.__qualname__}."))
    for enum in descriptor.enum_types:
        setattr(message_class, enum.name, EnumTypeWrapper(enum))
        for value in enum.values:
            setattr(message_class, value.name, value.number)
    return message_class
