"""Checks a program of the lab "replicate" on a live switch."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from alfirk_labs.bench import live
from alfirk_labs.outcome import Lab, Outcome, Setting, part
from alfirk_ptf.group import Entry, MulticastGroup
from alfirk_ptf.packets import Roce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alfirk_labs.bench import Bench, Live

PORTS = (1, 2, 3, 4)
#: Members' ports by McstID; paths are numbered in this order, from 1.
GROUPS = {"10.255.0.1": (1, 2, 3), "10.255.0.2": (2, 3, 4)}
UNKNOWN_GROUP = "10.255.0.9"
PATHS = {
    (mcst_id, port): number
    for number, (mcst_id, port) in enumerate(
        ((mcst_id, port) for mcst_id, members in GROUPS.items() for port in members), start=1
    )
}


def send(bench: Bench, port: int, mcst_id: str, psn: int) -> tuple[int, ...]:
    """Send a packet to a group; return the output port of each copy."""
    frame = Roce(src=f"10.0.0.{port}", dst=mcst_id, psn=psn, body=b"one for all").frame()
    return tuple(out for out, got in sorted(bench.exchange(port, frame).items()) for _ in got)


def comes_out(sent: str, got: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    """Describe where copies left, if not as expected."""
    if got == wanted:
        return None
    return f"{sent}: copies should leave {_ports(wanted)}, they left {_ports(got)}"


def _ports(ports: tuple[int, ...]) -> str:
    return f"port{'s'[: len(ports) != 1]} {', '.join(map(str, ports))}" if ports else "nowhere"


def register(switch: Live) -> None:
    """Bring the switch to its initial state, and register the groups."""
    switch.restart()
    for number, (mcst_id, members) in enumerate(GROUPS.items(), start=1):
        replicas = tuple((port, PATHS[mcst_id, port]) for port in members)
        switch.client.insert_multicast(MulticastGroup(number, replicas))
        match = {"mcst_id": int(IPv4Address(mcst_id))}
        switch.client.insert(Entry("groups", match, "replicate", {"multicast_group": number}))


def check(setting: Setting) -> Iterator[Outcome]:
    """Register two groups, and send to them and to an unknown one."""
    with live(setting, PORTS) as switch:
        bench, client = switch.bench, switch.client

        def result(claim: str, problem: str | None, hint: str) -> Outcome:
            trace = [] if problem is None else bench.trace()
            # The next part begins with a switch that has processed no packet.
            register(switch)
            return part(claim, problem, hint, trace)

        def sends(port: int, mcst_id: str, members: tuple[int, ...], psn: int) -> str | None:
            wanted = tuple(out for out in members if out != port)
            got = send(bench, port, mcst_id, psn)
            # Copies back to the sender are checked in another part.
            kept = tuple(out for out in got if out != port)
            return comes_out(f"host {port} sent to {mcst_id}", kept, wanted)

        register(switch)
        (first, members), (second, others) = GROUPS.items()
        problem = sends(1, first, members, 0)
        yield result("a packet for a group reaches its other members", problem, "TODO 1")
        problem = sends(4, second, others, 0) or sends(3, second, others, 1)
        yield result(
            "each McstID has members of its own",
            problem,
            "TODO 1: the table's entry says which multicast group, not the program",
        )

        got = send(bench, 1, UNKNOWN_GROUP, 0)
        counted = client.counters("unknown_groups").get(0, 0)
        problem = comes_out(f"host 1 sent to {UNKNOWN_GROUP}, which is not a group", got, ())
        if problem is None and counted != 1:
            problem = f"1 packet for an unknown group was sent, `unknown_groups` counted {counted}"
        yield result("a packet for an unknown group is dropped and counted", problem, "TODO 2")

        back = next((port for port in members if port in send(bench, port, first, 1)), None)
        problem = f"host {back} sent to {first} and got its own packet back" if back else None
        yield result(
            "no sender gets its own packet back",
            problem,
            "TODO 3: compare the copy's port with the packet's ingress port",
        )

        expected: Counter[int] = Counter()
        for mcst_id, ports in GROUPS.items():
            for psn, port in enumerate(ports):
                send(bench, port, mcst_id, psn)
                expected.update(PATHS[mcst_id, out] for out in ports if out != port)
        copies = client.counters("copies")
        wrong = [path for path in sorted(expected.keys() | copies) if expected[path] != copies.get(path, 0)]
        problem = None
        if wrong:
            path = wrong[0]
            problem = (
                f"path {path}: {expected[path]} copies were expected, {copies.get(path, 0)} were counted"
            )
        yield result(
            "each copy that leaves is counted on its path",
            problem,
            "TODO 4: after TODO 3, as dropped copies do not leave",
        )


LAB = Lab("starter.p4", "solution.p4", check)
