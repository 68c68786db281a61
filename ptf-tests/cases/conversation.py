"""Random runs on one switch with loss on every link: delivery once and in order, and valid ACKs."""

from __future__ import annotations

import random

from alfirk_ptf import packets
from alfirk_ptf.case import HOSTS, GroupTest, with_each_min_psn
from alfirk_ptf.endpoint import Endpoint, distance, psn_of
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.live import MAX_PATHS, SWITCH_PORTS

#: Maximum number of steps of a run; completed runs take fewer.
_STEPS = 2000


class ConversationTest(GroupTest):
    """Members take turns as the source.

    A turn begins when all members have received the earlier packets. The previous source may not have
    received the last ACK yet.
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

    def run_turns(self) -> None:
        sent: list[bytes] = []
        for turn in range(self.turns):
            source = self.hosts[self.random.choice(self.ports)]
            self.run_until(source, all_have=True)
            messages = [f"turn {turn} message {n}".encode() for n in range(self.messages)]
            self.source, self.last_acked_msn = source, source.msn
            source.start_sending(messages)
            sent += messages
        self.run_until(*self.hosts.values())
        for host in self.hosts.values():
            self.assertEqual(host.received, sent, f"port {host.port}")

    def run_until(self, *hosts: Endpoint, all_have: bool = False) -> None:
        """Run until these members have received all packets, and all packets that they sent are acknowledged.

        With `all_have`, run until the other members have received all packets as well.
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
        self.fail(f"not complete after {_STEPS} steps: {state}")

    def step(self) -> None:
        """Send a frame of any host that has one; if no host has one, the timers of all senders expire."""
        responders = [host for host in self.hosts.values() if host.replies]
        senders = [host for host in self.hosts.values() if not host.is_done]
        host = self.random.choice(responders + senders) if responders or senders else None
        if host is None:
            return
        frame = None
        if host.replies and (host.is_done or self.random.random() < 0.6):
            frame = host.replies.popleft()
        else:
            frame = host.poll()
        if frame is None:
            if not responders:
                for sender in senders:
                    sender.timeout()
            return
        if self.random.random() < self.loss:
            return
        for port, frames in self.exchange(host.port, frame).items():
            for got in frames:
                self.assert_valid(port, got)
                if self.random.random() >= self.loss:
                    self.hosts[port].handle(got)

    def assert_valid(self, port: int, frame: bytes) -> None:
        """Check a frame that the switch sends to a host, before the loss on that link."""
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
            # Each packet is a message, so the PSN gives the number of messages. The MSN may be smaller, but
            # does not decrease. (For a former source, the switch knows only the MSN of its path's reports.)
            count = self.first_msn + 1 + distance(acked % packets.PSN_LIMIT, self.first_psn)
            msn = int.from_bytes(frame[55:58], "big")
            self.assertLessEqual(msn, count, f"port {port}, PSN {acked}")
            if distance(acked, host.unacked) >= 0:
                # It acknowledges new packets, and is not left from an earlier source.
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
                self.run_turns()
