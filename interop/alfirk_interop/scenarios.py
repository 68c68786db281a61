"""The scenarios: runs of ``alfirk run`` with guests as hosts, and the checks of each."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alfirk_interop.acknowledged import acknowledgements, false_acknowledgement
from alfirk_interop.library import example
from alfirk_interop.perftest import beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alfirk_interop.outcome import Outcome

#: AETH syndromes that no responder sends: NAK codes 4 to 31.
_RESERVED = range(0x64, 0x80)

ROOT = Path(__file__).resolve().parents[2]

#: Returns the failure of a run, or None.
Check: TypeAlias = "Callable[[Outcome], str | None]"


@dataclass(frozen=True)
class Scenario:
    """A run of ``alfirk run`` with guests as hosts, and its checks."""

    #: Name in the report, by which ``--only`` selects scenarios.
    name: str
    #: Flags of ``alfirk run``.
    flags: str
    #: Hosts that are guests: names with commas, or ``all``.
    guests: str = "h1,h2,h3"
    #: The network: the name of a file in topologies, or arguments of `alfirk topology`.
    topology: str = "testbed"
    #: Additional checks; each returns its failure or None.
    checks: Sequence[Check] = ()
    #: Whether the run must succeed with valid packets.
    good: bool = True
    #: Concurrent action in guests, given the run's folder and alfirk; returns its failure or None.
    meanwhile: Callable[[Path, Path], str | None] | None = None
    #: Whether it is one of the quick scenarios, which run for every change.
    quick: bool = False
    #: Time limit of the run in seconds.
    limit: float = field(default=120)

    @property
    def hostile(self) -> frozenset[str]:
        """The hosts that send packets to harm the group."""
        flags = shlex.split(self.flags)
        named = (hosts for flag, hosts in pairwise(flags) if flag == "--hostile")
        return frozenset(host for hosts in named for host in hosts.split(","))

    @property
    def only_v1model(self) -> bool:
        """Whether it needs a strategy or a program that only v1model has."""
        return any(flag in self.flags for flag in ("--min-psn", "--icrc", "--p4src"))


def resent(outcome: Outcome) -> str | None:
    """Require retransmissions of the source."""
    sent, needed = outcome.data_from(outcome.source), outcome.packets_of_message
    return None if sent > needed else f"the source sent {sent} data packets: no retransmissions"


def each_once(outcome: Outcome) -> str | None:
    """Require that each byte crossed the source's link once."""
    sent, needed = outcome.data_from(outcome.source), outcome.packets_of_message
    return None if sent == needed else f"the source sent {sent} data packets, expected {needed}"


def by_datagrams(outcome: Outcome) -> str | None:
    """Require that datagrams carried each byte to every guest, with acknowledgements over connections."""
    least = outcome.packets_of_message
    sent = outcome.opcode_from(outcome.source, "UdSendOnly")
    if sent < least:
        return f"the source sent {sent} datagrams, expected at least {least}"
    for guest in (guest for guest in outcome.guests if guest != outcome.source):
        got = outcome.opcode_to(guest, "UdSendOnly")
        if got < least:
            return f"{guest} was sent {got} datagrams, expected at least {least}"
        if not outcome.opcode_from(guest, "SendOnly"):
            return f"{guest} has sent no acknowledgement"
    return None


def repaired(outcome: Outcome) -> str | None:
    """Require a repair of lost datagrams over a connection."""
    senders = [host for host in outcome.guests if outcome.opcode_from(host, "SendFirst")]
    return None if senders else "no repair was sent"


def from_hostile(host: str) -> Check:
    """Require that a member sent hostile packets without effect on others: no false acknowledgement."""

    def check(outcome: Outcome) -> str | None:
        sent = list(acknowledgements(outcome.capture(host, "in")))
        reserved = [packet for packet in sent if packet.syndrome in _RESERVED]
        if not outcome.opcode_from(host, "ReadRequest") or not reserved:
            return f"{host} sent no READ, or no NAK with a reserved code"
        others = [guest for guest in outcome.guests if guest not in (host, outcome.source)]
        naks = [guest for guest in others if outcome.naks_from(guest)]
        if naks:
            return f"unexpected NAKs from {', '.join(naks)}"
        from_source, to_source = (outcome.capture(outcome.source, way) for way in ("in", "out"))
        receivers = {guest: outcome.capture(guest, "in") for guest in others}
        return false_acknowledgement(from_source, to_source, receivers)

    return check


def lost(name: str) -> Check:
    """Require that the group continued without this member."""

    def check(outcome: Outcome) -> str | None:
        found = outcome.row.get("lost", [])
        return None if found == [name] else f"lost members: {found}, expected only {name}"

    return check


def nak_from(host: str) -> Check:
    """Require a NAK from a guest."""

    def check(outcome: Outcome) -> str | None:
        return None if outcome.naks_from(host) else f"{host} sent no NAK"

    return check


def no_nak_from(host: str) -> Check:
    """Require that no NAK of a guest reached the captures; those that a port loses are not captured."""

    def check(outcome: Outcome) -> str | None:
        count = outcome.naks_from(host)
        return f"{count} unexpected NAKs from {host}" if count else None

    return check


def not_ready(*hosts: str) -> Check:
    """Require RNR NAKs from guests, and one to the source."""

    def check(outcome: Outcome) -> str | None:
        quiet = [host for host in hosts if not outcome.rnr_naks_from(host)]
        if quiet:
            return f"no RNR NAK from {', '.join(quiet)}"
        forwarded = outcome.captures(outcome.source, "out")["rnr_naks"]
        return None if forwarded else "no RNR NAK was sent to the source"

    return check


def refused(words: str) -> Check:
    """Require that the run failed with these words in its error."""

    def check(outcome: Outcome) -> str | None:
        return (
            None if words in outcome.errors else f"expected `{words}` in the error, found: {outcome.errors}"
        )

    return check


def silent(*hosts: str) -> Check:
    """Require that guests acknowledged nothing, and that the captures show invalid ICRCs."""

    def check(outcome: Outcome) -> str | None:
        acks = {host: outcome.opcode_from(host, "Acknowledge") for host in hosts}
        if any(acks.values()):
            return f"guests acknowledged packets with an invalid ICRC: {acks}"
        wrong = {host: outcome.captures(host, "out")["bad_icrc"] for host in hosts}
        if not all(wrong.values()):
            return f"no invalid ICRC was found in the captures: {wrong}"
        return None

    return check


#: Two racks of two hosts each, for algorithms that need racks.
RACKS = "leaf-spine --leaves 2 --spines 1 --hosts 2"

SCENARIOS = [
    Scenario("SEND of 1 B to two", "--group 3 --size 1B", checks=[each_once]),
    Scenario("SEND of 64 KiB to two", "--group 3 --size 64KiB", checks=[each_once], quick=True),
    Scenario("SEND of 1 MiB to two", "--group 3 --size 1MiB"),
    Scenario("SEND of 64 KiB to three", "--group 4 --size 64KiB", guests="all"),
    Scenario(
        "SEND of 256 KiB over two tiers",
        "--group 4 --size 256KiB",
        guests="h1,h2,h3",
        topology=RACKS,
    ),
    Scenario("WRITE to aligned regions", "--group 3 --size 64KiB --op write --write aligned", quick=True),
    Scenario("WRITE to regions announced by packet", "--group 3 --size 64KiB --op write --write per-request"),
    Scenario(
        "WRITE to uniform regions is refused",
        "--group 3 --size 64KiB --op write --write uniform",
        checks=[refused("key")],
        good=False,
    ),
    Scenario("WRITE with immediate", "--group 3 --size 64KiB --op write-imm"),
    Scenario(
        "data lost before one receiver",
        "--group 3 --size 256KiB --lose h2:to:data:5",
        checks=[resent, nak_from("h2")],
        quick=True,
    ),
    Scenario(
        "data lost before both, at different places",
        "--group 3 --size 256KiB --lose h2:to:data:5,h3:to:data:20",
        checks=[resent, nak_from("h2")],
    ),
    Scenario("ACK of one receiver lost", "--group 3 --size 64KiB --lose h2:from:ack:1", checks=[resent]),
    Scenario(
        "NAK lost",
        "--group 3 --size 256KiB --lose h2:to:data:5,h2:from:nak:1",
        checks=[resent, no_nak_from("h2")],
    ),
    Scenario("last ACK of the group lost", "--group 3 --size 64KiB --lose h1:to:ack:1", checks=[resent]),
    Scenario("1 % of all frames lost", "--group 3 --size 512KiB --loss 0.01 --seed 5"),
    Scenario(
        "receives posted too late",
        "--group 3 --size 256KiB --messages 64 --receives 1",
        checks=[resent, not_ready("h2", "h3")],
    ),
    Scenario("PSNs wrap round", "--group 3 --size 256KiB --initial-psn 16777200", quick=True),
    Scenario("the source changes, and back", "--group 3 --size 192KiB --switch-source 3"),
    Scenario(
        "a guest is killed in the middle",
        "--group 4 --size 8MiB --kill h3@300ms --time-limit 90s",
        checks=[lost("h3")],
        limit=180,
    ),
    Scenario(
        "a hostile guest harms no other member",
        "--group 4 --size 4MiB --hostile h3 --time-limit 90s",
        checks=[from_hostile("h3")],
        quick=True,
        limit=180,
    ),
    *(
        Scenario(
            f"a hostile member harms no guest, minimum by {name}",
            f"--group 4 --size 2MiB --hostile h4 --time-limit 90s --min-psn {flag}",
            checks=[from_hostile("h4")],
            limit=180,
        )
        for name, flag in {"the tree": "tree", "walks": "walk", "the controller": "punt"}.items()
    ),
    Scenario(
        "a hostile member and losses",
        "--group 4 --size 1MiB --hostile h4 --time-limit 90s --loss 0.005 --seed 5",
        checks=[resent],
        limit=180,
    ),
    Scenario("minimum by walks", "--group 3 --size 256KiB --min-psn walk"),
    Scenario("minimum by the controller", "--group 3 --size 256KiB --min-psn punt"),
    Scenario("ICRC by the pipeline", "--group 3 --size 256KiB --icrc recompute"),
    Scenario("ICRC by the controller", "--group 3 --size 64KiB --icrc punt"),
    Scenario("registration in band", "--group 3 --size 64KiB --registration mrp"),
    Scenario(
        "mixed group, a guest sends", "--group 4 --size 256KiB --loss 0.005", guests="h1,h2", quick=True
    ),
    Scenario("mixed group, another host sends", "--group 4 --size 256KiB --source h3", guests="h1,h2"),
    Scenario(
        "chain, binomial and unicast",
        "--group 3 --size 256KiB --algorithms chain,binomial,unicast",
    ),
    Scenario(
        "every algorithm of broadcasts",
        "--group 4 --size 128KiB --algorithms all",
        guests="all",
        topology=RACKS,
        limit=300,
    ),
    *(
        Scenario(
            f"every algorithm of {name}s",
            f"--group 4 --collective {name} --algorithms all {flags}",
            guests="all",
            topology=RACKS,
            limit=180,
        )
        for name, flags in {"scatter": "--size 64KiB", "allgather": "--size 64KiB", "barrier": ""}.items()
    ),
    Scenario(
        "a guest is killed among senders of datagrams",
        "--group 4 --size 4MiB --algorithms binomial-ack --kill h3@300ms --time-limit 90s",
        guests="all",
        checks=[lost("h3")],
        limit=180,
    ),
    Scenario(
        "datagrams with acknowledgements",
        "--group 4 --size 256KiB --algorithms binomial-ack",
        guests="all",
        checks=[by_datagrams],
        quick=True,
    ),
    Scenario(
        "datagrams, 2 % of all frames lost",
        "--group 4 --size 512KiB --algorithms binomial-ack --loss 0.02 --seed 5",
        guests="all",
        checks=[repaired],
        limit=180,
    ),
    Scenario(
        "datagrams in a mixed group, a guest sends",
        "--group 4 --size 256KiB --algorithms binomial-ack",
        guests="h1,h2",
        checks=[by_datagrams],
    ),
    Scenario(
        "datagrams in a mixed group, another host sends",
        "--group 4 --size 256KiB --algorithms binomial-ack --source h3",
        guests="h1,h2",
    ),
    Scenario("Alfirk's endpoint in guests", "--group 3 --size 64KiB --guest-rdma alfirk"),
    Scenario(
        "perftest beside a group",
        "--group 2 --size 40MiB --time-limit 100s --algorithms alfirk,unicast",
        guests="h2,h3,h4",
        meanwhile=beside("h3", "h4"),
        limit=180,
    ),
    Scenario(
        "the C library beside a group",
        "--group 2 --size 40MiB --time-limit 100s --algorithms alfirk,unicast,chain,binomial",
        guests="h2,h3,h4",
        meanwhile=example("h2", "h3", "h4"),
        limit=180,
    ),
    Scenario(
        "the source changes in a mixed group",
        "--group 4 --size 64KiB --switch-source 5 --loss 0.005",
        guests="h1,h3",
    ),
    Scenario(
        "wrong ICRCs are dropped and found",
        f"--group 3 --size 16KiB --time-limit 4s --fallback none --p4src {ROOT}/interop/unrepaired.p4",
        checks=[silent("h2", "h3")],
        good=False,
    ),
]
