"""Exercises every P4Runtime feature of p4runtime-shell.

usage: shell.py ADDRESS DEVICE_ID P4INFO JSON
"""

from __future__ import annotations

import sys

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException


def main(address: str, device: str, p4info: str, program: str) -> None:
    """Push the program, write one entity of each kind, read it back, and delete it."""
    sh.setup(
        device_id=int(device),
        grpc_addr=address,
        election_id=(0, 1),
        config=sh.FwdPipeConfig(p4info, program),
    )
    try:
        tables()
        default_entry()
        selector()
        counters_and_meters()
        replication()
        packets()
        digests()
    finally:
        sh.teardown()
    # The pipeline is set already, so a second client need not push it.
    sh.setup(device_id=int(device), grpc_addr=address, election_id=(0, 2))
    try:
        assert {table.name for table in sh.P4Objects(sh.P4Type.table)} >= set(KEYS)
    finally:
        sh.teardown()


#: Tables with one key each, a match on it, and the same as it is read back.
KEYS = {
    "EntityIngress.exact_table": ("hdr.ethernet.destination", "02:00:00:00:00:01"),
    "EntityIngress.lpm_table": ("hdr.ipv4.destination", "10.1.0.0/16"),
    "EntityIngress.ternary_table": ("hdr.ipv4.source", "10.0.0.0&&&255.0.0.0"),
    "EntityIngress.range_table": ("hdr.ipv4.length", "64..128"),
    "EntityIngress.optional_table": ("hdr.ipv4.protocol", "17"),
}


def table_entry(table: str) -> sh.TableEntry:
    """Return an entry of a table with its match set."""
    action = "EntityIngress.metered" if "ternary" in table else "EntityIngress.forward"
    entry = sh.TableEntry(table)(action=action)
    key, match = KEYS[table]
    entry.match[key] = match
    entry.action["port"] = "3"
    if "exact" not in table and "lpm" not in table:
        entry.priority = 10
    return entry


def tables() -> None:
    """Insert, read, modify and delete in a table of each kind."""
    for table in KEYS:
        entry = table_entry(table)
        entry.insert()
        assert len(list(sh.TableEntry(table).read())) == 1, table
        entry.action["port"] = "4"
        entry.modify()
        found = next(iter(table_entry(table).read()))
        assert found.action["port"].value == b"\x04", found
        assert found.match[KEYS[table][0]] == entry.match[KEYS[table][0]], found
        entry.delete()
        assert list(sh.TableEntry(table).read()) == [], table
    why = ""
    try:
        table_entry("EntityIngress.exact_table").delete()
    except P4RuntimeWriteException as error:
        why = str(error)
    assert "NOT_FOUND" in why, why


def default_entry() -> None:
    """Modify the default entry, and reset it."""
    entry = sh.TableEntry("EntityIngress.lpm_table")(action="EntityIngress.drop", is_default=True)
    entry.modify()
    read = sh.TableEntry("EntityIngress.lpm_table")(is_default=True)
    assert "EntityIngress.drop" in str(next(iter(read.read())))


def selector() -> None:
    """Write members, a group of them, and one-shot entries."""
    members = []
    for number, port in enumerate((1, 2), start=1):
        member = sh.ActionProfileMember("EntityIngress.next_hops")(
            member_id=number, action="EntityIngress.forward"
        )
        member.action["port"] = str(port)
        member.insert()
        members.append(member)
    group = sh.ActionProfileGroup("EntityIngress.next_hops")(group_id=1, max_size=4)
    group.add(1, 1)
    group.add(2, 2)
    group.insert()
    assert len(list(sh.ActionProfileMember("EntityIngress.next_hops").read())) == len(members)
    read = next(iter(sh.ActionProfileGroup("EntityIngress.next_hops").read()))
    assert len(read.members) == len(members), read
    entry = sh.TableEntry("EntityIngress.selected_table")(group_id=1)
    entry.match["hdr.ipv4.ttl"] = "64"
    entry.insert()
    assert next(iter(sh.TableEntry("EntityIngress.selected_table").read())).group_id == 1
    entry.delete()
    group.delete()
    for member in members:
        member.delete()
    oneshot = sh.TableEntry("EntityIngress.selected_table")
    oneshot.match["hdr.ipv4.ttl"] = "63"
    action = sh.Action("EntityIngress.forward")
    action["port"] = "1"
    oneshot.oneshot.add(action, weight=3)
    oneshot.insert()
    assert next(iter(sh.TableEntry("EntityIngress.selected_table").read())).oneshot is not None
    oneshot.delete()


def counters_and_meters() -> None:
    """Read and write counters and meters, by index and with table entries."""
    counter = sh.CounterEntry("EntityIngress.port_packets")
    counter.index = 3
    counter.packet_count = 7
    counter.byte_count = 700
    counter.modify()
    counter = sh.CounterEntry("EntityIngress.port_packets")
    counter.index = 3
    found = next(iter(counter.read()))
    assert (found.packet_count, found.byte_count) == (7, 700), found
    assert len(list(sh.CounterEntry("EntityIngress.port_packets").read())) == 16

    meter = sh.MeterEntry("EntityIngress.port_rates")
    meter.index = 2
    meter.cir, meter.cburst, meter.pir, meter.pburst = 10, 11, 20, 21
    meter.modify()
    meter = sh.MeterEntry("EntityIngress.port_rates")
    meter.index = 2
    found = next(iter(meter.read()))
    assert (found.cir, found.cburst, found.pir, found.pburst) == (10, 11, 20, 21), found

    entry = table_entry("EntityIngress.exact_table")
    entry.insert()
    direct = sh.DirectCounterEntry("EntityIngress.exact_packets")
    direct.table_entry.match["hdr.ethernet.destination"] = "02:00:00:00:00:01"
    assert next(iter(direct.read())).packet_count == 0
    entry.delete()

    entry = table_entry("EntityIngress.ternary_table")
    entry.insert()
    direct = sh.DirectMeterEntry("EntityIngress.ternary_rates")
    direct.table_entry.match["hdr.ipv4.source"] = "10.0.0.0&&&255.0.0.0"
    direct.table_entry.priority = 10
    direct.cir, direct.cburst, direct.pir, direct.pburst = 1000, 2000, 3000, 4000
    direct.modify()
    found = next(iter(direct.read()))
    assert (found.cir, found.pburst) == (1000, 4000), found
    entry.delete()


def replication() -> None:
    """Write a multicast group and a clone session."""
    group = sh.MulticastGroupEntry(5).add(1, 1).add(2, 7)
    group.insert()
    found = next(iter(sh.MulticastGroupEntry(5).read()))
    assert len(found.replicas) == 2, found
    group.delete()
    session = sh.CloneSessionEntry(9).add(2, 1)
    session.insert()
    assert next(iter(sh.CloneSessionEntry(9).read())).session_id == 9
    session.delete()


FRAME = bytes.fromhex("0200000000010200000000029000") + b"from the controller"


def send(egress_port: int) -> None:
    """Send the frame to a port, or with 0 through the tables."""
    packet = sh.PacketOut(payload=FRAME)
    packet.metadata["egress_port"] = str(egress_port)
    packet.metadata["padding"] = "0"
    packet.send()


def packets() -> None:
    """Receive packets sent to the CPU port."""
    packet_in = sh.PacketIn()
    send(510)
    assert first(packet_in).packet.payload == FRAME
    entry = sh.TableEntry("EntityIngress.exact_table")(action="EntityIngress.to_controller")
    entry.match["hdr.ethernet.destination"] = "02:00:00:00:00:01"
    entry.insert()
    send(0)
    assert first(packet_in).packet.payload == FRAME
    direct = sh.DirectCounterEntry("EntityIngress.exact_packets")
    direct.table_entry.match["hdr.ethernet.destination"] = "02:00:00:00:00:01"
    assert next(iter(direct.read())).packet_count == 1
    entry.delete()


def digests() -> None:
    """Receive digests."""
    config = sh.DigestEntry("learned_t")
    config.max_list_size = 1
    config.insert()
    assert next(iter(sh.DigestEntry("learned_t").read())).max_list_size == 1
    entry = sh.TableEntry("EntityIngress.exact_table")(action="EntityIngress.learn")
    entry.match["hdr.ethernet.destination"] = "02:00:00:00:00:01"
    entry.insert()
    digest_list = sh.DigestList()
    send(0)
    learned = digest_list.digest_list_queue.get(timeout=10).digest.data[0].struct.members
    assert learned[0].bitstring == bytes.fromhex("020000000002"), learned
    entry.delete()
    config.delete()


def first(packet_in: sh.PacketIn) -> object:
    """Wait for a packet from the switch."""
    return packet_in.packet_in_queue.get(timeout=10)


if __name__ == "__main__":
    main(*sys.argv[1:])
