"""A host's queue pair as far as a switch can tell: go-back-N one way, acknowledgements the other.

Pure: takes frames and gives frames.  It does what an unmodified RC stack does: one NAK for each gap, the
newest PSN for a duplicate, nothing for an acknowledgement of what it never sent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alfirk_ptf import packets
from alfirk_ptf.packets import PSN_LIMIT, Roce, feedback

if TYPE_CHECKING:
    from alfirk_ptf.group import Group, Member

_BTH, _PSN, _AETH, _PAYLOAD = 42, 51, 54, 54
#: Packets that may be under way.
WINDOW = 8


def psn_of(frame: bytes) -> int:
    """Read the PSN of a RoCEv2 frame."""
    return int.from_bytes(frame[_PSN : _PSN + 3], "big")


def distance(later: int, earlier: int) -> int:
    """Count the packets from one PSN to another: negative if the other comes first."""
    ahead = (later - earlier) % PSN_LIMIT
    return ahead if ahead < PSN_LIMIT // 2 else ahead - PSN_LIMIT


@dataclass
class Endpoint:
    """One member's queue pair."""

    port: int
    member: Member
    group: Group
    #: As responder: the PSN that it waits for, the messages it has, and whether it has has_sent_nak of a gap.
    expected: int
    msn: int = 0
    has_sent_nak: bool = False
    received: list[bytes] = field(default_factory=list)
    #: As requester: what is to be sent, by PSN; the oldest that is not acknowledged; the next to send.
    outbox: dict[int, bytes] = field(default_factory=dict)
    unacked: int = 0
    next: int = 0
    #: Acknowledgements on their way to the switch.
    replies: deque[bytes] = field(default_factory=deque)

    def start_sending(self, messages: list[bytes]) -> None:
        """Become the source: PSNs and messages go on where what it has received ends (and so at all ends)."""
        self.unacked = self.next = self.expected
        self.outbox = {(self.expected + n) % PSN_LIMIT: body for n, body in enumerate(messages)}
        self.expected = (self.expected + len(messages)) % PSN_LIMIT
        self.received += messages
        self.msn += len(messages)
        self.has_sent_nak = False

    @property
    def is_done(self) -> bool:
        """Tell whether all that it sent has been acknowledged."""
        return self.unacked not in self.outbox

    def poll(self) -> bytes | None:
        """Send the next packet, if the window allows."""
        if self.next not in self.outbox or distance(self.next, self.unacked) >= WINDOW:
            return None
        psn, self.next = self.next, (self.next + 1) % PSN_LIMIT
        return Roce(
            eth_src=self.member.mac,
            src=self.member.ip,
            dst=self.group.mcst_id,
            ident=0x2000 + psn % 0x1000,
            ackreq=1,
            psn=psn,
            body=self.outbox[psn],
        ).frame()

    def timeout(self) -> None:
        """Go back to the oldest packet that is not acknowledged."""
        self.next = self.unacked

    def handle(self, frame: bytes) -> None:
        """Take a frame from the switch."""
        if frame[_BTH] == packets.ACKNOWLEDGE:
            self._acknowledged(psn_of(frame), frame[_AETH])
        else:
            self._data(psn_of(frame), frame[_PAYLOAD:-4])

    def _data(self, psn: int, body: bytes) -> None:
        ahead = distance(psn, self.expected)
        if ahead == 0:
            self.received.append(body)
            self.expected = (self.expected + 1) % PSN_LIMIT
            self.msn += 1
            self.has_sent_nak = False
        elif ahead > 0:
            if not self.has_sent_nak:
                self.has_sent_nak = True
                self._reply(packets.NAK_SEQUENCE, self.expected)
            return
        self._reply(packets.ACK, (self.expected - 1) % PSN_LIMIT)

    def _reply(self, syndrome: int, psn: int) -> None:
        self.replies.append(feedback(self.member, self.group, syndrome, psn, self.msn).frame())

    def _acknowledged(self, psn: int, syndrome: int) -> None:
        is_nak = syndrome == packets.NAK_SEQUENCE
        upto = psn if is_nak else (psn + 1) % PSN_LIMIT
        if distance(upto, self.unacked) < 0 or upto not in self._window():
            # Not of what it has sent.
            return
        self.unacked = upto
        if is_nak or distance(self.next, upto) < 0:
            self.next = upto

    def _window(self) -> set[int]:
        sent = {psn for psn in self.outbox if distance(psn, self.unacked) >= 0}
        return sent | {(psn + 1) % PSN_LIMIT for psn in sent} | {self.unacked}
