"""`p4.tmp.P4DeviceConfig`: the message in which clients of BMv2 may wrap a program for P4Runtime.

p4lang's PI installs a module of this name, and `p4runtime_lib` of p4lang/tutorials imports it; no package of
PyPI has it. The names and numbers are those of PI's p4config.proto.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, reflection

_PACKAGE = "p4.tmp"
_MESSAGE = "P4DeviceConfig"


def _declare() -> Any:
    """Declare the file in the default pool, and return the class of its message."""
    fields = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package=_PACKAGE, syntax="proto3")
    message = file.message_type.add(name=_MESSAGE)
    optional = fields.LABEL_OPTIONAL
    message.field.add(name="reassign", number=1, label=optional, type=fields.TYPE_BOOL)
    message.field.add(
        name="extras",
        number=2,
        label=optional,
        type=fields.TYPE_MESSAGE,
        type_name=f".{_PACKAGE}.{_MESSAGE}.Extras",
    )
    message.field.add(name="device_data", number=3, label=optional, type=fields.TYPE_BYTES)
    extras = message.nested_type.add(name="Extras")
    extras.field.add(
        name="kv",
        number=1,
        label=fields.LABEL_REPEATED,
        type=fields.TYPE_MESSAGE,
        type_name=f".{_PACKAGE}.{_MESSAGE}.Extras.KvEntry",
    )
    entry = extras.nested_type.add(name="KvEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=optional, type=fields.TYPE_STRING)
    entry.field.add(name="value", number=2, label=optional, type=fields.TYPE_STRING)
    pool: Any = descriptor_pool.Default()  # type: ignore[no-untyped-call]
    pool.AddSerializedFile(file.SerializeToString())
    made = pool.FindMessageTypeByName(f"{_PACKAGE}.{_MESSAGE}")
    return reflection.MakeClass(made)  # type: ignore[no-untyped-call]


P4DeviceConfig = _declare()
