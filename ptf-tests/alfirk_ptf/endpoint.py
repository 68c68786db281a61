"""A model of a host's queue pair: go-back-N as requester, acknowledgements as responder.

It does no input or output: it takes and returns frames.  It behaves as an unmodified RC stack: it sends one
NAK for each gap, acknowledges the newest PSN when it receives a duplicate, and ignores acknowledgements of
packets that it has not sent.
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
#: Number of packets that may be unacknowledged.
WINDOW = 8


def psn_of(frame: bytes) -> int:
    """Read the PSN of a RoCEv2 frame."""
    return int.from_bytes(frame[_PSN : _PSN + 3], "big")


def distance(later: int, earlier: int) -> int:
    """Return how many packets `later` is after `earlier`; negative if it is before it."""
    ahead = (later - earlier) % PSN_LIMIT
    return ahead if ahead < PSN_LIMIT // 2 else ahead - PSN_LIMIT


@dataclass
class Endpoint:
    """One member's queue pair."""

    port: int
    member: Member
    group: Group
    #: Responder: the expected PSN, the number of completed messages, and whether a NAK of the present gap was
    #: sent.
    expected: int
    msn: int = 0
    has_sent_nak: bool = False
    received: list[bytes] = field(default_factory=list)
    #: Requester: messages by PSN, the oldest unacknowledged PSN, and the next PSN to send.
    outbox: dict[int, bytes] = field(default_factory=dict)
    unacked: int = 0
    next: int = 0
    #: Acknowledgements to send.
    replies: deque[bytes] = field(default_factory=deque)

    def start_sending(self, messages: list[bytes]) -> None:
        """Become the source: PSN and MSN continue after the last received packet, as at all members."""
        self.unacked = self.next = self.expected
        self.outbox = {(self.expected + n) % PSN_LIMIT: body for n, body in enumerate(messages)}
        self.expected = (self.expected + len(messages)) % PSN_LIMIT
        self.received += messages
        self.msn += len(messages)
        self.has_sent_nak = False

    @property
    def is_done(self) -> bool:
        """Return whether all messages are acknowledged."""
        return self.unacked not in self.outbox

    def poll(self) -> bytes | None:
        """Return the next packet to send, if there is one in the window."""
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
        """Continue with the oldest unacknowledged packet, as when the timer expires."""
        self.next = self.unacked

    def handle(self, frame: bytes) -> None:
        """Handle a received frame."""
        if frame[_BTH] == packets.ACKNOWLEDGE:
            self._handle_ack(psn_of(frame), frame[_AETH])
        else:
            self._handle_data(psn_of(frame), frame[_PAYLOAD:-4])

    def _handle_data(self, psn: int, body: bytes) -> None:
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

    def _handle_ack(self, psn: int, syndrome: int) -> None:
        is_nak = syndrome == packets.NAK_SEQUENCE
        upto = psn if is_nak else (psn + 1) % PSN_LIMIT
        if distance(upto, self.unacked) < 0 or upto not in self._window():
            # An older acknowledgement, or one of packets that were not sent.
            return
        self.unacked = upto
        if is_nak or distance(self.next, upto) < 0:
            self.next = upto

    def _window(self) -> set[int]:
        sent = {psn for psn in self.outbox if distance(psn, self.unacked) >= 0}
        return sent | {(psn + 1) % PSN_LIMIT for psn in sent} | {self.unacked}
