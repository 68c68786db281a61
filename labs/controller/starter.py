"""Lab "controller": the start. It loads the pipeline without being the primary controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

if TYPE_CHECKING:
    from alfirk_labs.plan import Plan

#: Time limit in seconds of the switch's replies.
TIMEOUT = 10


def canonical(value: int) -> bytes:
    """Encode a number for P4Runtime: big-endian, without leading zero bytes, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def find(things: Any, name: str) -> Any:
    """Find a table, an action or a packet header of P4Info by its name."""
    return next(thing for thing in things if name in (thing.preamble.name, thing.preamble.alias))


def register(switch: str, plan: Plan) -> None:
    """Register a group on the switch whose P4Runtime server is at an address."""
    info = text_format.Parse(plan.p4info.read_text(encoding="utf-8"), p4info_pb2.P4Info())
    election_id = p4runtime_pb2.Uint128(low=plan.election_id)
    with grpc.insecure_channel(switch) as channel:
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)

        # TODO 1: open the stream (stub.StreamChannel of an iterator of requests), send a
        # MasterArbitrationUpdate with the election id, and wait for a response with status OK.

        # TODO 2: this works for the primary controller only.
        config = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=plan.device_id,
            election_id=election_id,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        config.config.p4info.CopyFrom(info)
        config.config.p4_device_config = plan.program.read_bytes()
        stub.SetForwardingPipelineConfig(config, timeout=TIMEOUT)

        # TODO 3: send plan.init_group as a PacketOut, and wait for the PacketIn that replies to it.

        # TODO 4: write the PRE's group and the table entries (stub.Write of updates of type INSERT).

        # TODO 5: the entry of plan.last_table in a Write of its own, after all others.
