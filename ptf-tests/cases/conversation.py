"""Random runs over one switch with loss on every link: guarantees to senders and receivers."""

from __future__ import annotations

import random

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest, with_each_min_psn
from alfirk_ptf.endpoint import Endpoint, distance, psn_of
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.live import MAX_PATHS, SWITCH_PORTS

#: Steps after which a conversation will not end any more.
_STEPS = 2000


class ConversationTest(GroupTest):
    """Members take turns as the source.

    A turn begins when all members have the earlier packets. The previous source need not have received
    that ACK yet.
    """

    paths = 4
    turns = 3
    #: Messages of a turn, one packet each.
    messages = 6
    loss = 0.1
    first_msn = 0xFFFA
    seed = 0

    def start_group(self) -> None:
        self.ports = SWITCH_PORTS[: self.paths]
        self.watched = self.ports
        super().start_group()
        self.hosts = {
            port: Endpoint(port, HOSTS[port], self.group, self.first_psn, self.first_msn)
            for port in self.ports
        }
        self.random = random.Random(self.seed)
        self.source: Endpoint | None = None
        self.last_acked_msn = 0

    def converse(self) -> None:
        said: list[bytes] = []
        for turn in range(self.turns):
            source = self.hosts[self.random.choice(self.ports)]
            self.run_until(source, all_have=True)
            words = [f"turn {turn} word {n}".encode() for n in range(self.messages)]
            self.source, self.last_acked_msn = source, source.msn
            source.start_sending(words)
            said += words
        self.run_until(*self.hosts.values())
        for host in self.hosts.values():
            self.assertEqual(host.received, said, f"port {host.port}")

    def run_until(self, *hosts: Endpoint, all_have: bool = False) -> None:
        """Continue until these members have all packets, and the ACKs of all packets that they sent.

        With `all_have` until the others have it as well.
        """
        end = max(
            (host.expected for host in self.hosts.values()), key=lambda psn: distance(psn, self.first_psn)
        )
        for _ in range(_STEPS):
            must_have = self.hosts.values() if all_have else hosts
            if all(host.is_done for host in hosts) and all(host.expected == end for host in must_have):
                return
            self.step()
        state = "; ".join(
            f"port {host.port}: expects {host.expected}, unacked {host.unacked}, next {host.next}"
            for host in self.hosts.values()
        )
        self.fail(f"nothing comes to an end: {state}")

    def step(self) -> None:
        """Send a frame of any host that has one; if no host has one, the timers of all senders expire."""
        able = [host for host in self.hosts.values() if host.replies]
        senders = [host for host in self.hosts.values() if not host.is_done]
        host = self.random.choice(able + senders) if able or senders else None
        if host is None:
            return
        frame = None
        if host.replies and (host.is_done or self.random.random() < 0.6):
            frame = host.replies.popleft()
        else:
            frame = host.poll()
        if frame is None:
            if not able:
                for sender in senders:
                    sender.timeout()
            return
        if self.random.random() < self.loss:
            return
        for port, frames in self.exchange(host.port, frame).items():
            for got in frames:
                self.is_allowed(port, got)
                if self.random.random() >= self.loss:
                    self.hosts[port].handle(got)

    def is_allowed(self, port: int, frame: bytes) -> None:
        """Check what reaches a host, whether it gets lost on the last link or not."""
        self.assertTrue(is_icrc_valid(frame[14:]))
        host = self.hosts[port]
        if frame[42] != packets.ACKNOWLEDGE:
            return
        acked = psn_of(frame) - (1 if frame[54] == packets.NAK_SEQUENCE else 0)
        for other in self.hosts.values():
            behind = distance(acked % packets.PSN_LIMIT, other.expected)
            if other is not host and behind >= 0:
                self.fail(
                    f"port {port} got an ACK of {acked}, but port {other.port} waits for {other.expected}"
                )
        if host is self.source:
            # Each packet is a message, so the PSN says how many there are. The count may lag, never fall.
            # (To a former source the switch can say no more than what its path has counted since.)
            count = self.first_msn + 1 + distance(acked % packets.PSN_LIMIT, self.first_psn)
            msn = int.from_bytes(frame[55:58], "big")
            self.assertLessEqual(msn, count, f"port {port}, PSN {acked}")
            if distance(acked, host.unacked) >= 0:
                # News to it: not of the tail of a source before.
                self.assertGreaterEqual(msn, self.last_acked_msn, f"port {port}, PSN {acked}")
                self.last_acked_msn = msn


@with_each_min_psn
class EveryMessageArrivesOnceInOrder(ConversationTest):
    first_psn = packets.PSN_LIMIT - 11

    def runTest(self) -> None:
        for paths, seed in ((2, 1), (3, 3), (4, 6), (min(6, MAX_PATHS), 8)):
            with self.subTest(paths=paths, seed=seed):
                self.paths, self.seed = paths, seed
                self.start_group()
                self.converse()
