"""Lab "controller": one solution."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alfirk_labs.plan import Plan
    from alfirk_ptf.group import Entry

#: Time limit in seconds of the switch's replies.
TIMEOUT = 10


def canonical(value: int) -> bytes:
    """Encode a number for P4Runtime: big-endian, without leading zero bytes, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def find(things: Any, name: str) -> Any:
    """Find a table, an action or a packet header of P4Info by its name."""
    return next(thing for thing in things if name in (thing.preamble.name, thing.preamble.alias))


def table_entry(info: Any, entry: Entry) -> Any:
    """Convert a table entry from names to P4Runtime ids."""
    table, action = find(info.tables, entry.table), find(info.actions, entry.action)
    message = p4runtime_pb2.TableEntry(table_id=table.preamble.id)
    message.action.action.action_id = action.preamble.id
    for field in table.match_fields:
        value = entry.match[field.name]
        match = message.match.add(field_id=field.id)
        if isinstance(value, tuple):
            match.lpm.value, match.lpm.prefix_len = canonical(value[0]), value[1]
        else:
            match.exact.value = canonical(value)
    for param in action.params:
        message.action.action.params.add(param_id=param.id, value=canonical(entry.params[param.name]))
    return message


def register(switch: str, plan: Plan) -> None:
    """Register a group on the switch whose P4Runtime server is at an address."""
    info = text_format.Parse(plan.p4info.read_text(encoding="utf-8"), p4info_pb2.P4Info())
    election_id = p4runtime_pb2.Uint128(low=plan.election_id)
    with grpc.insecure_channel(switch) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)

        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        answers = stub.StreamChannel(iter(requests.get, None), timeout=TIMEOUT)
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = plan.device_id
        request.arbitration.election_id.CopyFrom(election_id)
        requests.put(request)
        status = next(answers).arbitration.status
        if status.code != code_pb2.OK:
            message = f"another controller is primary: {status.message}"
            raise RuntimeError(message)

        config = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=plan.device_id,
            election_id=election_id,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        config.config.p4info.CopyFrom(info)
        config.config.p4_device_config = plan.program.read_bytes()
        stub.SetForwardingPipelineConfig(config, timeout=TIMEOUT)

        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = plan.init_group
        for field in find(info.controller_packet_metadata, "packet_out").metadata:
            value = plan.init_metadata.get(field.name, 0)
            request.packet.metadata.add(metadata_id=field.id, value=canonical(value))
        requests.put(request)
        wait_for(answers, plan.init_group[-4:])

        def write(*entities: Any) -> None:
            updates = [
                p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT, entity=entity) for entity in entities
            ]
            stub.Write(
                p4runtime_pb2.WriteRequest(
                    device_id=plan.device_id, election_id=election_id, updates=updates
                ),
                timeout=TIMEOUT,
            )

        group = p4runtime_pb2.Entity()
        replication = group.packet_replication_engine_entry.multicast_group_entry
        replication.multicast_group_id = plan.multicast.group_id
        for port, instance in plan.multicast.replicas:
            replication.replicas.add(egress_port=port, instance=instance)
        write(group)
        last = [entry for entry in plan.entries if entry.table == plan.last_table]
        first = [entry for entry in plan.entries if entry not in last]
        for entries in (first, last):
            write(*(p4runtime_pb2.Entity(table_entry=table_entry(info, entry)) for entry in entries))
        requests.put(None)


def wait_for(answers: Iterator[Any], ending: bytes) -> None:
    """Wait for the PacketIn that replies to the PacketOut."""
    for answer in answers:
        if answer.WhichOneof("update") == "packet" and answer.packet.payload.endswith(ending):
            return
