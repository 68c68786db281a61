"""Protobuf messages of BfRuntime, and the calls of its service.

No package of PyPI has them, so they are declared here: those that the client needs. Names, numbers and types
are those of p4runtime/proto/bfrt_proto/bfruntime.proto. They are in a descriptor pool of their own, so a test
may also import the generated classes of another client.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.rpc import status_pb2

PACKAGE = "bfrt_proto"
SERVICE = f"{PACKAGE}.BfRuntime"

#: Fields of each message in the notation of protobuf. `name:` in front of fields is the oneof that has them.
MESSAGES = {
    "TargetDevice": "uint32 device_id = 1; uint32 pipe_id = 2; uint32 direction = 3; uint32 prsr_id = 4",
    "Entity": "entity: TableEntry table_entry = 1",
    "TableEntry": "uint32 table_id = 1; value: TableKey key = 2; value: uint32 handle_id = 7;"
    " TableData data = 3; bool is_default_entry = 4; TargetDevice entry_tgt = 8; TableFlags table_flags = 9",
    "TableKey": "repeated KeyField fields = 1",
    "KeyField": "uint32 field_id = 1; match_type: Exact exact = 2; match_type: Ternary ternary = 3;"
    " match_type: LPM lpm = 4; match_type: Range range = 5; match_type: Optional optional = 6",
    "KeyField.Exact": "bytes value = 1",
    "KeyField.Ternary": "bytes value = 1; bytes mask = 2",
    "KeyField.LPM": "bytes value = 1; int32 prefix_len = 2",
    "KeyField.Range": "bytes low = 1; bytes high = 2",
    "KeyField.Optional": "bytes value = 1; bool is_valid = 2",
    "TableData": "uint32 action_id = 1; repeated DataField fields = 2",
    "DataField": "uint32 field_id = 1; value: bytes stream = 2; value: float float_val = 3;"
    " value: string str_val = 4; value: IntArray int_arr_val = 5; value: BoolArray bool_arr_val = 6;"
    " value: bool bool_val = 8; value: StrArray str_arr_val = 9",
    "DataField.IntArray": "repeated uint32 val = 1",
    "DataField.BoolArray": "repeated bool val = 1",
    "DataField.StrArray": "repeated string val = 1",
    "TableFlags": "bool from_hw = 1; bool key_only = 2; bool mod_del = 3; bool reset_ttl = 4;"
    " bool reset_stats = 5",
    "Update": "Type type = 1; Entity entity = 2",
    "WriteRequest": "TargetDevice target = 1; uint32 client_id = 2; repeated Update updates = 3;"
    " Atomicity atomicity = 4; string p4_name = 5",
    "WriteResponse": "repeated Error status = 1",
    "ReadRequest": "TargetDevice target = 1; uint32 client_id = 2; repeated Entity entities = 3;"
    " string p4_name = 4",
    "ReadResponse": "repeated Entity entities = 1; repeated Error status = 2",
    "Error": "int32 canonical_code = 1; string message = 2; string space = 3; int32 code = 4",
    "StreamMessageRequest": "uint32 client_id = 1; update: Subscribe subscribe = 2",
    "Subscribe": "uint32 device_id = 2; Notifications notifications = 3; .google.rpc.Status status = 4",
    "Subscribe.Notifications": "bool enable_learn_notifications = 1;"
    " bool enable_idletimeout_notifications = 2; bool enable_port_status_change_notifications = 3;"
    " bool enable_entry_active_notifications = 4;"
    " bool enable_selector_update_change_notifications = 5",
    "StreamMessageResponse": "update: Subscribe subscribe = 1",
    "SetForwardingPipelineConfigRequest": "uint32 device_id = 1; uint32 client_id = 2; Action action = 3;"
    " string base_path = 5; repeated ForwardingPipelineConfig config = 6",
    "SetForwardingPipelineConfigResponse": "",
    "GetForwardingPipelineConfigRequest": "uint32 device_id = 1; uint32 client_id = 2",
    "GetForwardingPipelineConfigResponse": "repeated ForwardingPipelineConfig config = 1;"
    " NonP4Config non_p4_config = 2",
    "ForwardingPipelineConfig": "string p4_name = 1; bytes bfruntime_info = 2; repeated Profile profiles = 3",
    "ForwardingPipelineConfig.Profile": "string profile_name = 1; bytes context = 2; bytes binary = 3;"
    " repeated uint32 pipe_scope = 4",
    "NonP4Config": "bytes bfruntime_info = 1",
}

#: Names of each enumeration, with numbers from 0.
ENUMS = {
    "Update.Type": "UNSPECIFIED INSERT MODIFY MODIFY_INC DELETE INSERT_OR_MODIFY RESET",
    "WriteRequest.Atomicity": "CONTINUE_ON_ERROR ROLLBACK_ON_ERROR DATAPLANE_ATOMIC",
    "SetForwardingPipelineConfigRequest.Action": "BIND VERIFY VERIFY_AND_WARM_INIT_BEGIN"
    " VERIFY_AND_WARM_INIT_BEGIN_AND_END WARM_INIT_END RECONCILE_AND_WARM_INIT_END",
}

#: Calls of the service: kind, request and response.
CALLS = {
    "Write": ("unary_unary", "WriteRequest", "WriteResponse"),
    "Read": ("unary_stream", "ReadRequest", "ReadResponse"),
    "SetForwardingPipelineConfig": (
        "unary_unary",
        "SetForwardingPipelineConfigRequest",
        "SetForwardingPipelineConfigResponse",
    ),
    "GetForwardingPipelineConfig": (
        "unary_unary",
        "GetForwardingPipelineConfigRequest",
        "GetForwardingPipelineConfigResponse",
    ),
    "StreamChannel": ("stream_stream", "StreamMessageRequest", "StreamMessageResponse"),
}

_Field = descriptor_pb2.FieldDescriptorProto


class Stub:
    """The calls of the service at a channel of gRPC, each an attribute."""

    def __init__(self, channel: Any) -> None:
        for call, (kind, request, response) in CALLS.items():
            method = getattr(channel, kind)(
                f"/{SERVICE}/{call}",
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(response).FromString,
            )
            setattr(self, call, method)

    def __getattr__(self, call: str) -> Any:
        """Reject a call that the service does not have."""
        raise AttributeError(call)


def message(name: str) -> Any:
    """Return the class of a message."""
    return _CLASSES[name]


def file_descriptor() -> Any:
    """Return the declarations as the descriptor of a file, in dependency order of their names."""
    file = descriptor_pb2.FileDescriptorProto(name="bfruntime.proto", package=PACKAGE, syntax="proto3")
    file.dependency.append("google/rpc/status.proto")
    declared: dict[str, Any] = {}
    for name, fields in MESSAGES.items():
        outer, _, own = name.rpartition(".")
        place = declared[outer].nested_type if outer else file.message_type
        declared[name] = place.add(name=own)
        for field in filter(None, (part.strip() for part in fields.split(";"))):
            _add_field(declared[name], name, field)
    for name, values in ENUMS.items():
        outer, _, own = name.rpartition(".")
        enum = declared[outer].enum_type.add(name=own)
        for number, value in enumerate(values.split()):
            enum.value.add(name=value, number=number)
    return file


def _add_field(declared: Any, outer: str, text: str) -> None:
    """Add a field to the message `outer`."""
    oneof, colon, rest = text.rpartition(":")
    repeated = rest.split()[0] == "repeated"
    kind, name, _, number = rest.split()[repeated:]
    label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    field = declared.field.add(name=name, number=int(number), label=label)
    if kind.islower() and not kind.startswith("."):
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    else:
        nested = f"{outer}.{kind}"
        field.type = _Field.TYPE_ENUM if nested in ENUMS else _Field.TYPE_MESSAGE
        own = nested if nested in ENUMS or nested in MESSAGES else kind
        field.type_name = kind if kind.startswith(".") else f".{PACKAGE}.{own}"
    if colon:
        names = [one.name for one in declared.oneof_decl]
        if oneof not in names:
            declared.oneof_decl.add(name=oneof)
            names.append(oneof)
        field.oneof_index = names.index(oneof)


def _classes() -> dict[str, Any]:
    pool: Any = descriptor_pool.DescriptorPool()
    for other in (any_pb2, status_pb2):
        pool.AddSerializedFile(other.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    # The function of protobuf 4.22 and newer, else that of older versions.
    of: Any = getattr(message_factory, "GetMessageClass", None)
    if of is None:
        of = message_factory.MessageFactory(pool).GetPrototype
    return {name: of(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}


_CLASSES = _classes()
