"""Exercises every P4Runtime feature of finsy.

usage: finsy_client.py ADDRESS DEVICE_ID P4INFO JSON
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import finsy as fy
from finsy.p4entity import P4ValueSetMember

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FRAME = bytes.fromhex("0200000000010200000000029000") + b"from the controller"
DESTINATION = 0x020000000001


async def main(address: str, device: str, p4info: str, program: str) -> None:
    """Push the program, write one entity of each kind, read it back, and delete it."""
    options = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(program), device_id=int(device))
    async with fy.Switch("alfirk", address, options) as switch:
        await tables(switch)
        await atomic_writes(switch)
        await selector(switch)
        await counters_and_meters(switch)
        await registers(switch)
        await replication(switch)
        await value_set(switch)
        await packets(switch)
        await digests(switch)


async def read_all(switch: fy.Switch, entity: object) -> list:
    """Read all entities that match a wildcard request."""
    return [found async for found in switch.read(entity)]


MATCHES = {
    "exact_table": {"ethernet.destination": DESTINATION},
    "lpm_table": {"ipv4.destination": "10.1.0.0/16"},
    "ternary_table": {"ipv4.source": "10.0.0.0/&255.0.0.0"},
    "range_table": {"ipv4.length": "64...128"},
    "optional_table": {"ipv4.protocol": 17},
}


async def tables(switch: fy.Switch) -> None:
    """Insert, read, modify and delete in a table of each kind."""
    for table, match in MATCHES.items():
        action = "metered" if table == "ternary_table" else "forward"
        priority = 0 if table in {"exact_table", "lpm_table"} else 10
        fields = {f"hdr.{key}": value for key, value in match.items()}

        def entry(port: int, **more: int) -> fy.P4TableEntry:
            return fy.P4TableEntry(
                table,  # noqa: B023 - used within this iteration
                match=fy.P4TableMatch(fields),  # noqa: B023
                action=fy.P4TableAction(action, port=port),  # noqa: B023
                priority=priority,  # noqa: B023
                **more,
            )

        await switch.insert([entry(3)])
        await switch.modify([entry(4)])
        (found,) = await read_all(switch, fy.P4TableEntry(table))
        assert found.action.args["port"] == 4, found
        assert found.priority == priority, found
        await switch.delete([entry(4)])
        assert await read_all(switch, fy.P4TableEntry(table)) == []
    default = fy.P4TableEntry("lpm_table", is_default_action=True, action=fy.P4TableAction("drop"))
    await switch.modify([default])
    (found,) = await read_all(switch, fy.P4TableEntry("lpm_table", is_default_action=True))
    assert found.action.name == "drop", found


def exact(number: int, port: int) -> fy.P4TableEntry:
    """Return an entry of the exact table."""
    return fy.P4TableEntry(
        "exact_table",
        match=fy.P4TableMatch({"hdr.ethernet.destination": number}),
        action=fy.P4TableAction("forward", port=port),
    )


async def atomic_writes(switch: fy.Switch) -> None:
    """Write a batch; the error names the rejected update, and the others are applied."""
    many = [exact(number, number % 8) for number in range(1, 501)]
    await switch.insert(many)
    assert len(await read_all(switch, fy.P4TableEntry("exact_table"))) == len(many)
    refused: list[int] = []
    try:
        await switch.insert([exact(1001, 1), exact(7, 1), exact(1002, 1)])
    except fy.P4ClientError as error:
        refused = list(error.details)
    assert refused == [1]
    assert len(await read_all(switch, fy.P4TableEntry("exact_table"))) == len(many) + 2
    await switch.delete([*many, exact(1001, 1), exact(1002, 1)])


async def selector(switch: fy.Switch) -> None:
    """Write members, a group of them, and one-shot entries."""
    members = [
        fy.P4ActionProfileMember("next_hops", member_id=n, action=fy.P4TableAction("forward", port=n))
        for n in (1, 2)
    ]
    group = fy.P4ActionProfileGroup(
        "next_hops", group_id=1, max_size=4, members=[fy.P4Member(1, weight=1), fy.P4Member(2, weight=2)]
    )
    await switch.insert([*members])
    await switch.insert([group])
    assert len(await read_all(switch, fy.P4ActionProfileMember("next_hops"))) == 2
    (found,) = await read_all(switch, fy.P4ActionProfileGroup("next_hops"))
    assert [member.weight for member in found.members] == [1, 2], found
    for action in (fy.P4IndirectAction(group_id=1), fy.P4IndirectAction(member_id=2)):
        await selected(switch, action)
    await switch.delete([group])
    await switch.delete([*members])
    # A selector allows either groups or one-shots at a time.
    shots = [(3, fy.P4TableAction("forward", port=1)), (1, fy.P4TableAction("NoAction"))]
    await selected(switch, fy.P4IndirectAction(shots))


async def selected(switch: fy.Switch, action: fy.P4IndirectAction) -> None:
    """Write an entry that uses the selector."""
    entry = fy.P4TableEntry("selected_table", match=fy.P4TableMatch({"hdr.ipv4.ttl": 64}), action=action)
    await switch.insert([entry])
    (found,) = await read_all(switch, fy.P4TableEntry("selected_table"))
    assert found.action == action, found
    await switch.delete([entry])


async def counters_and_meters(switch: fy.Switch) -> None:
    """Read and write counters and meters, by index and with table entries."""
    data = fy.P4CounterData(byte_count=700, packet_count=7)
    await switch.modify([fy.P4CounterEntry("port_packets", index=3, data=data)])
    counters = await read_all(switch, fy.P4CounterEntry("port_packets"))
    assert len(counters) == 16
    assert (counters[3].packet_count, counters[3].byte_count) == (7, 700), counters[3]
    config = fy.P4MeterConfig(cir=10, cburst=11, pir=20, pburst=21)
    await switch.modify([fy.P4MeterEntry("port_rates", index=2, config=config)])
    (found,) = await read_all(switch, fy.P4MeterEntry("port_rates", index=2))
    assert found.config == config, found
    await switch.insert([exact(DESTINATION, 1)])
    (found,) = await read_all(switch, fy.P4DirectCounterEntry("exact_packets"))
    assert found.packet_count == 0, found
    await switch.delete([exact(DESTINATION, 1)])
    entry = fy.P4TableEntry(
        "ternary_table",
        match=fy.P4TableMatch({"hdr.ipv4.source": "10.0.0.0/&255.0.0.0"}),
        action=fy.P4TableAction("metered", port=1),
        priority=1,
        meter_config=config,
    )
    await switch.insert([entry])
    (found,) = await read_all(switch, fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("ternary_table")))
    assert found.config == config, found
    await switch.delete([entry])


async def registers(switch: fy.Switch) -> None:
    """Read and write registers, which official BMv2 does not implement."""
    await switch.modify([fy.P4RegisterEntry("last_seen", index=5, data=0xC0FFEE)])
    cells = await read_all(switch, fy.P4RegisterEntry("last_seen"))
    assert [cell.data for cell in cells] == [0] * 5 + [0xC0FFEE] + [0] * 10, cells


async def replication(switch: fy.Switch) -> None:
    """Write a multicast group and a clone session."""
    group = fy.P4MulticastGroupEntry(5, replicas=[1, (2, 7)])
    await switch.insert([group])
    (found,) = await read_all(switch, fy.P4MulticastGroupEntry(5))
    assert len(found.replicas) == 2, found
    await switch.delete([group])
    session = fy.P4CloneSessionEntry(9, replicas=[2], packet_length_bytes=64)
    await switch.insert([session])
    (found,) = await read_all(switch, fy.P4CloneSessionEntry(9))
    assert found.packet_length_bytes == 64, found
    await switch.delete([session])


async def value_set(switch: fy.Switch) -> None:
    """Write the value set of the parser."""
    members = [P4ValueSetMember(0x0800)]
    entry = fy.P4ValueSetEntry("ip_kinds", members=members)
    await switch.modify([entry])
    (found,) = await read_all(switch, fy.P4ValueSetEntry("ip_kinds", members=[]))
    assert len(found.members) == 1, found


async def packets(switch: fy.Switch) -> None:
    """Receive a packet from the tables: once, by multicast and by a clone."""
    port = 510
    group = fy.P4MulticastGroupEntry(5, replicas=[(port, 1), (port, 2)])
    session = fy.P4CloneSessionEntry(9, replicas=[(port, 1)])
    await switch.insert([group, session])
    for action, copies in (
        (fy.P4TableAction("to_controller"), 1),
        (fy.P4TableAction("multicast", group=5), 2),
        (fy.P4TableAction("mirror", session=9), 1),
    ):
        entry = fy.P4TableEntry(
            "exact_table",
            match=fy.P4TableMatch({"hdr.ethernet.destination": DESTINATION}),
            action=action,
        )
        await switch.insert([entry])
        incoming = switch.read_packets()
        packet = await answer(switch, incoming)
        for copy in range(copies):
            if copy > 0:
                packet = await asyncio.wait_for(anext(incoming), 10)
            assert packet.payload == FRAME, packet
            # The metadata of a clone without field list are zero.
            assert packet["ingress_port"] == (0 if action.name == "mirror" else port), packet
        await switch.delete([entry])
    await switch.delete([group, session])


async def answer(switch: fy.Switch, incoming: AsyncIterator) -> object:
    """Send a packet into the tables, and wait for the result."""
    # finsy delivers only messages that arrive while a call waits.
    waiting = asyncio.ensure_future(anext(incoming))
    await asyncio.sleep(0)
    await switch.write([fy.P4PacketOut(FRAME, egress_port=0, padding=0)])
    return await asyncio.wait_for(waiting, 10)


async def digests(switch: fy.Switch) -> None:
    """Receive digests."""
    config = fy.P4DigestEntry("learned_t", max_list_size=1)
    await switch.insert([config])
    entry = fy.P4TableEntry(
        "exact_table",
        match=fy.P4TableMatch({"hdr.ethernet.destination": DESTINATION}),
        action=fy.P4TableAction("learn"),
    )
    await switch.insert([entry])
    lists = switch.read_digests("learned_t")
    digest = await answer(switch, lists)
    assert digest[0]["source"] == 0x020000000002, digest
    await switch.delete([entry])
    await switch.delete([config])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
