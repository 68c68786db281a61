"""Stream messages between switch and controller: packets, digests, idle timeouts."""

from __future__ import annotations

from alfirk_ptf.client import Rule
from alfirk_ptf.features import FeatureTest, hit
from alfirk_ptf.live import CPU_PORT
from alfirk_ptf.probes import Op, Probe

_KEY = "hdr.probe.key"
_OTHER = "hdr.probe.other"
_SECOND = 1_000_000_000


class PacketInsHaveMetadata(FeatureTest):
    def runTest(self) -> None:
        sent = Probe(Op.PACKET_IN, key=5)
        for port in (1, 4):
            self.assert_frames(self.exchange(port, sent.frame()), {})
            packet = self.switch.packet_in()
            self.assertEqual(packet.payload, sent.frame())
            self.assertEqual(packet.metadata["ingress_port"], port)


class PacketOutsLeaveThroughTheGivenPort(FeatureTest):
    def runTest(self) -> None:
        frame = Probe(Op.EXACT).frame()
        for port in self.watched:
            # The second frame arrives after the first was processed, because the switch keeps their order.
            self.switch.packet_out(frame, egress_port=port)
            self.switch.packet_out(frame, egress_port=CPU_PORT)
            self.assertEqual(self.switch.packet_in().payload, frame)
            self.assert_frames(self.collect(1), {port: [frame]})


class DigestsAreSentOnceUntilAcknowledged(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_digest("learned_t", ack_timeout=3600 * _SECOND)
        first, second = (Probe(Op.DIGEST, key=key, port=2, source=0x02_00_00_00_00_44) for key in (1, 2))
        self.probe(first, p2=first)
        fields, ack = self.switch.digest()
        self.assertEqual(fields, [first.source, 1, 1])
        # An equal message is suppressed; another message is sent.
        self.probe(first, p2=first)
        self.probe(second, p2=second)
        fields, _ = self.switch.digest()
        self.assertEqual(fields, [second.source, 2, 1])
        self.switch.acknowledge(ack)
        # The switch handles stream messages in order, so the acknowledgement takes effect before this packet.
        self.switch.packet_out(first.frame(), egress_port=CPU_PORT)
        self.switch.packet_in()
        self.probe(first, p2=first)
        fields, _ = self.switch.digest()
        self.assertEqual(fields, [first.source, 1, 1])


class IdleEntriesAreReported(FeatureTest):
    def runTest(self) -> None:
        idle, other = (
            Rule(
                "exact_table", {"hdr.probe.key": key, "hdr.probe.other": 0}, hit(2, key), idle_timeout=timeout
            )
            for key, timeout in ((1, _SECOND // 5), (2, 3600 * _SECOND))
        )
        self.switch.add(idle, other)
        (notified,) = self.switch.idle_entries()
        self.assertTrue(self.switch.is_of(notified, idle), notified)
        # The entry still exists and matches.
        self.expect_result(Probe(Op.EXACT, 1), 2, 1)
