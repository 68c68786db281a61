"""Checks a program of the lab "controller": its P4Runtime messages, and a transfer through its group."""

from __future__ import annotations

import hashlib
import random
import socket
import time
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import grpc
from alfirk_labs.cards import TIMEOUT, TRANSFER, GroupOfCards, cards
from alfirk_labs.outcome import Lab, LabError, Outcome, Setting, part
from alfirk_labs.plan import Plan
from alfirk_labs.python import Program, problem_of
from alfirk_labs.recorder import recorder
from alfirk_ptf.contract import PacketOutKind, RegisterControl, RegisterOp, RegisterStatus
from alfirk_ptf.group import VIRTUAL_QPN, Entry, Group, Path
from alfirk_ptf.live import DEVICE_ID, MAIN_PROGRAM, SWITCH_LOG, compile_program, switch, veth_pairs
from alfirk_ptf.packets import VIRTUAL_MAC, Roce
from alfirk_ptf.trace import TraceFile
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from alfirk_labs.cards import Card
    from alfirk_labs.recorder import Record
    from alfirk_ptf.group import Member

PORTS = (1, 2, 3, 4)
MCST_ID = "10.255.0.1"
ELECTION_ID = 7
COOKIE = 0x5EED0001
GROUP = GroupOfCards(MCST_ID, VIRTUAL_QPN, first_psn=0x123456, size=100_000, messages=5)


def plan_for(members: list[Member], program: pathlib.Path) -> Plan:
    """Compute the state that a group of hosts needs, as a controller does."""
    paths = tuple(Path(port, member) for port, member in zip(PORTS, members, strict=True))
    group = Group(MCST_ID, index=3, paths=paths, virtual_qpn=GROUP.virtual_qpn)
    control = RegisterControl(
        RegisterOp.INIT_GROUP,
        count=len(paths),
        group=group.index,
        value=GROUP.first_psn,
        cookie=COOKIE,
    )
    arp = Entry(
        "ingress.arp_responder.arp_targets",
        {"target_ip": (int(IPv4Address("10.255.0.0")), 16)},
        "ingress.arp_responder.reply",
        {"mac": int(VIRTUAL_MAC.replace(":", ""), 16)},
    )
    guards = [
        Entry(
            "ingress.source_guard.hosts",
            {"ingress_port": port},
            "ingress.source_guard.attached",
            {"ip": int(IPv4Address(member.ip))},
        )
        for port, member in zip(PORTS, members, strict=True)
    ]
    entries = [arp, *guards, *group.entries()]
    # Shuffled, so that no order is correct by chance.
    random.Random(5).shuffle(entries)
    return Plan(
        device_id=DEVICE_ID,
        election_id=ELECTION_ID,
        program=program,
        p4info=program.with_suffix(".p4info.txtpb"),
        init_group=control.pack(),
        init_metadata={"kind": PacketOutKind.REGISTERS},
        multicast=group.multicast(),
        entries=tuple(entries),
        last_table="ingress.group_lookup.groups",
    )


class Names:
    """Names of the ids in P4Info."""

    def __init__(self, p4info: pathlib.Path) -> None:
        self._info = text_format.Parse(p4info.read_text(encoding="utf-8"), p4info_pb2.P4Info())
        self.tables = {table.preamble.id: table for table in self._info.tables}
        self._actions = {action.preamble.id: action for action in self._info.actions}

    def entry(self, message: Any) -> Entry:
        """Convert an entry from ids to names."""
        table = self.tables[message.table_id]
        action = self._actions[message.action.action.action_id]
        fields = {field.id: field.name for field in table.match_fields}
        params = {param.id: param.name for param in action.params}
        match: dict[str, int | tuple[int, int]] = {}
        for field in message.match:
            if field.WhichOneof("field_match_type") == "lpm":
                match[fields[field.field_id]] = (_number(field.lpm.value), field.lpm.prefix_len)
            else:
                match[fields[field.field_id]] = _number(field.exact.value)
        values = {params[p.param_id]: _number(p.value) for p in message.action.action.params}
        return Entry(table.preamble.name, match, action.preamble.name, values)


def is_primary(record: Record) -> str | None:
    """Return which step of the session is missing."""
    if not any(m.WhichOneof("update") == "arbitration" for _, m in record.of("sent")):
        return "no MasterArbitrationUpdate was sent on a stream"
    responses = [m.arbitration for _, m in record.of("received") if m.WhichOneof("update") == "arbitration"]
    if not responses:
        return "the response to the MasterArbitrationUpdate was not awaited"
    if responses[0].status.code:
        return f"the switch's response: {responses[0].status.message}"
    if responses[0].election_id.low != ELECTION_ID:
        return "the election id is not that of the plan"
    return None


def is_loaded(record: Record) -> str | None:
    """Return a problem if no pipeline was loaded."""
    done = record.of("SetForwardingPipelineConfig")
    return None if done else "the switch has not accepted a SetForwardingPipelineConfig"


def is_initialised(record: Record, plan: Plan) -> str | None:
    """Return a problem if the registers were set too late or not at all."""
    sent = [m for _, m in record.of("sent") if m.WhichOneof("update") == "packet"]
    if not any(m.packet.payload == plan.init_group for m in sent):
        return "plan.init_group was not sent as a PacketOut"
    answered = [
        place
        for place, m in record.of("received")
        if m.WhichOneof("update") == "packet"
        and (control := RegisterControl.unpack(m.packet.payload)).cookie == COOKIE
        and control.status == RegisterStatus.OK
    ]
    if not answered:
        return "the pipeline has not replied; a PacketOut needs a value for each of its metadata"
    writes = [place for place, _ in record.of("Write")]
    if writes and writes[0] < answered[0]:
        return "entries were written before the reply had arrived"
    return None


def is_written(plan: Plan, names: Names, stub: Any) -> str | None:
    """Return which entry is missing or surplus in the switch."""
    request = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID)
    request.entities.add().packet_replication_engine_entry.multicast_group_entry.SetInParent()
    for table in names.tables:
        request.entities.add().table_entry.table_id = table
    entities = [entity for answer in stub.Read(request) for entity in answer.entities]
    replicas = {
        entry.multicast_group_id: {(_egress_port(r), r.instance) for r in entry.replicas}
        for entity in entities
        if (entry := entity.packet_replication_engine_entry.multicast_group_entry).multicast_group_id
    }
    if replicas.get(plan.multicast.group_id) != set(plan.multicast.replicas):
        return f"the PRE has {replicas or 'no groups'}, not group {plan.multicast.group_id} of the plan"
    there = [
        names.entry(e.table_entry)
        for e in entities
        if e.HasField("table_entry") and not (e.table_entry.is_default_action or _is_const(names, e))
    ]
    missing = [entry for entry in plan.entries if entry not in there]
    if missing:
        return f"{len(missing)} of {len(plan.entries)} entries are missing, one of {missing[0].table}"
    surplus = [entry for entry in there if entry not in plan.entries]
    return f"an entry of {surplus[0].table} is not in the plan" if surplus else None


def is_in_order(record: Record, plan: Plan, names: Names) -> str | None:
    """Return what was written after the entry that activates the group, or together with it."""
    writes = [
        [
            names.tables[update.entity.table_entry.table_id].preamble.name
            if update.entity.HasField("table_entry")
            else "the PRE"
            for update in request.updates
        ]
        for _, request in record.of("Write")
    ]
    if not any(plan.last_table in tables for tables in writes):
        return f"nothing was written to {plan.last_table}"
    known = False
    for tables in writes:
        others = [table for table in tables if table != plan.last_table]
        if plan.last_table in tables and others:
            return f"an entry of {others[0]} is in the same Write as that of {plan.last_table}"
        if known and others:
            return f"{others[0]} was written after {plan.last_table}, which must be last"
        known = known or plan.last_table in tables
    return None


def is_in_use(hosts: list[Card], setting: Setting) -> str | None:
    """Send a file from the first host to the others."""
    data = random.Random(6).randbytes(GROUP.size)
    file = setting.work / "message"
    file.write_bytes(data)
    for host in hosts:
        host.join()
    hosts[0].ask("start", transfer=TRANSFER, file=str(file))
    wanted = hashlib.sha256(data).hexdigest()
    for host in hosts:
        if host.event("done")["sha256"] != wanted:
            return f"host {host.port} holds other bytes than were sent"
    return None


def trace_of_data(setting: Setting, interface: str, sender: Member) -> list[str]:
    """Send a packet of data from the first host, and describe how the switch processed it."""
    packet = Roce(
        src=sender.ip, dst=MCST_ID, dqpn=GROUP.virtual_qpn, psn=GROUP.first_psn, ackreq=1, body=bytes(64)
    )
    frame = packet.frame()
    traces = TraceFile(setting.work / SWITCH_LOG)
    traces.discard()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as opened:
        opened.bind((interface, 0))
        opened.send(frame)
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for arrival, steps in traces.newest():
            if (arrival.port, arrival.length) == (PORTS[0], len(frame)) and steps is not None:
                lines = [f"trace of a packet of data, sent into port {arrival.port}:"]
                return lines + [f"  {line}" for line in steps.shown()]
        time.sleep(0.02)
    return ["the switch received no packet of data"]


def check(setting: Setting) -> Iterator[Outcome]:
    """Let the program register a group of four hosts, and use the group."""
    student = Program(setting.program)
    program = compile_program(setting.alfirk, MAIN_PROGRAM, setting.work)
    command = [str(setting.alfirk), "switch", "--trace"]
    trace: list[str] = []
    with veth_pairs(PORTS) as pairs, switch(command, setting.work, pairs, log=False) as address:
        interfaces = {port: ends[1] for port, ends in pairs.items()}
        with cards(setting, interfaces) as hosts, recorder(address) as (recording, record):
            ips = [host.ip for host in hosts]
            members = [host.prepare(GROUP, ips, rank) for rank, host in enumerate(hosts)]
            plan = plan_for(members, program)
            names = Names(plan.p4info)

            def run() -> None:
                student.call("register", recording, plan)

            ended = problem_of(run)
            with grpc.insecure_channel(address) as channel:
                stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
                loaded = is_loaded(record)
                found = [
                    is_primary(record),
                    loaded,
                    is_initialised(record, plan),
                    "no pipeline is loaded" if loaded else is_written(plan, names, stub),
                    is_in_order(record, plan, names),
                ]
            if any(found):
                found.append("not tried: the group is not complete")
                if loaded is None:
                    trace = trace_of_data(setting, interfaces[PORTS[0]], members[0])
            else:
                try:
                    found.append(is_in_use(hosts, setting))
                except LabError as error:
                    found.append(str(error))
    claims = (
        (
            "the program is the switch's primary controller",
            "TODO 1: a stream, a MasterArbitrationUpdate with device and election id, and its response",
        ),
        ("the pipeline is loaded", "TODO 2: only the primary controller may; section 6 of the specification"),
        (
            "the group's registers are set before entries are written",
            "TODO 3: they may hold state of an earlier group; wait for the PacketIn",
        ),
        (
            "the switch has the PRE group and all entries of the plan, and no others",
            "TODO 4: ids are found by name in P4Info; values are canonical()",
        ),
        (
            "no packet is processed by a partly written group",
            "TODO 5: updates of one Write have no order; write the entry that activates the group last",
        ),
        ("a file reaches all members", None),
    )
    for number, ((claim, hint), problem) in enumerate(zip(claims, found, strict=True)):
        problem_text = problem
        if problem_text is not None and ended is not None:
            problem_text, ended = f"{problem_text}; register() ended with {ended}", None
        # Wrong entries, registers and groups show in what the switch does with a packet; sessions do not.
        yield part(claim, problem_text, hint, trace if number >= 2 else ())
    if ended is not None:
        yield Outcome("register() returns", f"it ended with {ended}")


def _egress_port(replica: Any) -> int:
    port: int = replica.egress_port or _number(replica.port)
    return port


def _is_const(names: Names, entity: Any) -> bool:
    return bool(names.tables[entity.table_entry.table_id].is_const_table)


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


LAB = Lab("starter.py", "solution.py", check)
