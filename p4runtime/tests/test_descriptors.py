"""The descriptors of this crate equal those of the official `p4runtime` package.

Compared are every message, field (name, number, type, label, oneof), enum value and
service method of the four P4Runtime files and of the two google.rpc files, in both directions.
"""

import importlib.metadata
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2 as pb
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2, p4types_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2

OFFICIAL = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (p4types_pb2, p4info_pb2, p4data_pb2, p4runtime_pb2, code_pb2, status_pb2)
}

# P4Runtime 1.6 adds two names to 1.5, for selectors with a group action.
SINCE_1_6 = {
    "p4.config.v1.ActionRef.Scope.GROUP_ACTION",
    "p4.v1.ActionProfileActionSet.group_action",
}

Fact = tuple[str, object]


def enum_facts(scope: str, enum: pb.EnumDescriptorProto) -> Iterator[Fact]:
    for value in enum.value:
        yield f"{scope}.{enum.name}.{value.name}", ("value", value.number)


def message_facts(scope: str, message: pb.DescriptorProto) -> Iterator[Fact]:
    name = f"{scope}.{message.name}"
    yield name, ("message", message.options.map_entry)
    for field in message.field:
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
        yield (
            f"{name}.{field.name}",
            (
                field.number,
                pb.FieldDescriptorProto.Type.Name(field.type),
                field.type_name,
                pb.FieldDescriptorProto.Label.Name(field.label),
                oneof,
                field.proto3_optional,
            ),
        )
    for nested in message.nested_type:
        yield from message_facts(name, nested)
    for enum in message.enum_type:
        yield from enum_facts(name, enum)


def file_facts(file: pb.FileDescriptorProto) -> dict[str, object]:
    facts: list[Fact] = [("syntax", file.syntax), ("package", file.package)]
    for message in file.message_type:
        facts.extend(message_facts(file.package, message))
    for enum in file.enum_type:
        facts.extend(enum_facts(file.package, enum))
    for service in file.service:
        for method in service.method:
            facts.append(
                (
                    f"{file.package}.{service.name}.{method.name}",
                    (
                        method.input_type,
                        method.output_type,
                        method.client_streaming,
                        method.server_streaming,
                    ),
                )
            )
    assert len(dict(facts)) == len(facts)
    return dict(facts)


@pytest.fixture(scope="session")
def ours() -> dict[str, pb.FileDescriptorProto]:
    room = Path(__file__).parent.parent
    command = ["cargo", "run", "--quiet", "--example", "descriptors"]
    encoded = subprocess.run(command, cwd=room, check=True, stdout=subprocess.PIPE).stdout
    return {file.name: file for file in pb.FileDescriptorSet.FromString(encoded).file}


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_descriptors_equal_the_official_ones(name: str, ours: dict[str, pb.FileDescriptorProto]) -> None:
    official = pb.FileDescriptorProto()
    OFFICIAL[name].CopyToProto(official)
    expected = file_facts(official)
    actual = file_facts(ours[name])
    if importlib.metadata.version("p4runtime").startswith("1.5."):
        actual = {key: fact for key, fact in actual.items() if key not in SINCE_1_6}
    assert len(expected) > 5
    assert actual == expected
