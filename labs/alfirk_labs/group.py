"""A group of three cards on a lab's switch, and the results of packets sent to it."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from alfirk_ptf.fields import differences
from alfirk_ptf.group import VIRTUAL_QPN, Entry, MulticastGroup
from alfirk_ptf.packets import ACKNOWLEDGE, Roce

from alfirk_labs.bench import live
from alfirk_labs.cards import TIMEOUT, GroupOfCards, SilentError, cards, guest_card

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from alfirk_ptf.group import Member

    from alfirk_labs.bench import Live
    from alfirk_labs.cards import Card
    from alfirk_labs.outcome import Setting

SENDER, RECEIVERS = 1, (2, 3, 4)
MCST_ID = "10.255.0.1"
SENDERS_IP = f"10.0.0.{SENDER}"
FIRST_PSN = 0xFFFFFE
#: Bytes of a message, which is one packet.
MESSAGE = 252

_OPCODE = 42


class Broadcast:
    """Messages from one host to three cards."""

    def __init__(
        self,
        alfirk: Path,
        switch: Live,
        receivers: list[Card],
        members: Mapping[int, Member],
        group: GroupOfCards,
    ) -> None:
        self._alfirk = alfirk
        self._members = members
        source = random.Random(1)
        self._switch = switch
        self._receivers = receivers
        self._group = group
        self._messages = [source.randbytes(MESSAGE) for _ in range(group.messages)]
        self._copies: Mapping[int, list[bytes]] = {}
        self._acknowledged: set[int] = set()

    def send(self, number: int) -> dict[int, str]:
        """Send a message; return the hosts whose cards dropped it, with the reason."""
        self.post(number)
        fates = {card.port: card.fate(number + 1) for card in self._receivers}
        return {port: fate for port, fate in fates.items() if fate is not None}

    def post(self, number: int) -> None:
        """Send a message without waiting for the result."""
        self._copies = self._switch.bench.exchange(SENDER, self._packet(number).frame())
        self._note(self._copies)

    def _packet(self, number: int) -> Roce:
        """Return the packet of a message."""
        return Roce(
            src=SENDERS_IP,
            dst=MCST_ID,
            dqpn=self._group.virtual_qpn,
            ident=0x1234 + 0x111 * number,
            psn=(self._group.first_psn + number) % (1 << 24),
            ackreq=1,
            body=self._messages[number],
        )

    def explain(self, number: int, port: int) -> list[str]:
        """Describe the wrong fields of the last message's copy at a port, and how the switch made it."""
        member = self._members[port]
        packet = self._packet(number)
        wanted = replace(packet, eth_dst=member.mac, src=MCST_ID, dst=member.ip, dqpn=member.qpn).frame()
        lines = []
        # Cards send ARP packets, too.
        copies = [frame for frame in self._copies.get(port, []) if frame[12:14] == wanted[12:14]]
        for frame in copies[:1]:
            lines = [f"the copy at port {port} differs from the expected packet:"]
            lines += [f"  {line}" for line in differences(str(self._alfirk), wanted, frame)]
        return [*lines, *self._switch.bench.trace(port)]

    def trace(self, port: int | None = None) -> list[str]:
        """Describe how the switch processed the last message; with a port, only copies that left by it."""
        return self._switch.bench.trace(port)

    def complete(self) -> str | None:
        """Return what is missing after all messages: data, or an acknowledgement."""
        wanted = hashlib.sha256(b"".join(self._messages)).hexdigest()
        for card in self._receivers:
            if card.event("done")["sha256"] != wanted:
                return f"host {card.port} holds other bytes than were sent"
        deadline = time.monotonic() + TIMEOUT
        while silent := [card.port for card in self._receivers if card.port not in self._acknowledged]:
            if time.monotonic() > deadline:
                return f"no acknowledgement arrived from host {silent[0]}"
            self._note(self._switch.bench.exchange(SENDER))
        return None

    def _note(self, frames: Mapping[int, list[bytes]]) -> None:
        for frame in frames.get(SENDER, []):
            if frame[_OPCODE : _OPCODE + 1] == bytes((ACKNOWLEDGE,)):
                self._acknowledged.add(frame[29])


Params = Callable[["Member", GroupOfCards], Mapping[str, int]]


@contextmanager
def broadcast(setting: Setting, program: Path, messages: int, params: Params) -> Iterator[Broadcast]:
    """Run a program with a table `receivers`, and an entry with these parameters for each card."""
    with live(setting, (SENDER, *RECEIVERS), program) as switch:
        interfaces = {port: switch.interfaces[port] for port in RECEIVERS}
        with cards(setting, interfaces) as receivers:
            yield _joined(setting, switch, receivers, messages, params)


def refused_by_linux(
    setting: Setting, image: Path, program: Path, messages: int, params: Params
) -> str | None:
    """Do the same with one receiver, a guest with Linux's RDMA stack; return whether it lacks messages."""
    port = RECEIVERS[0]
    with (
        live(setting, (SENDER, port), program, taps=(port,)) as switch,
        guest_card(setting, image, port, switch.interfaces[port]) as guest,
    ):
        sent = _joined(setting, switch, [guest], messages, params)
        for number in range(messages):
            sent.post(number)
        try:
            return sent.complete()
        except SilentError:
            return f"host {port}, a guest, has not received all messages within {TIMEOUT:.0f} s"


def _joined(
    setting: Setting, switch: Live, receivers: list[Card], messages: int, params: Params
) -> Broadcast:
    group = GroupOfCards(MCST_ID, VIRTUAL_QPN, FIRST_PSN, MESSAGE * messages, messages)
    members = (SENDERS_IP, *(card.ip for card in receivers))
    replicas = tuple((card.port, card.port) for card in receivers)
    switch.client.insert_multicast(MulticastGroup(1, replicas))
    joined = {}
    for rank, card in enumerate(receivers, start=1):
        member = joined[card.port] = card.prepare(group, members, rank)
        entry = Entry("receivers", {"egress_port": card.port}, "deliver", params(member, group))
        switch.client.insert(entry)
        card.join()
    return Broadcast(setting.alfirk, switch, receivers, joined, group)
