"""Retransmissions: acknowledged if all paths have them, else sent only to paths that lack them."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf import packets, registers
from alfirk_ptf.case import HOSTS, GroupTest, with_each_icrc, with_each_min_psn
from alfirk_ptf.collect import Frames
from alfirk_ptf.contract import Feedback, MinPsn, PacketInReason
from alfirk_ptf.live import MAX_PATHS, SWITCH_PORTS
from alfirk_ptf.packets import ACK, Roce, bridge_entry, bridge_exit, feedback, local_ack, reth
from alfirk_ptf.target import LOCAL_ACK_HAS_DSCP


class RetransmissionTest(GroupTest):
    """Host 1 is the source and has sent ten packets."""

    def start_group(self) -> None:
        super().start_group()
        self.exchange(1, *(self.data(psn).frame() for psn in range(10)))

    def data(self, psn: int, opcode: int = packets.SEND_ONLY, body: bytes = b"again") -> Roce:
        host = HOSTS[1]
        return Roce(
            eth_src=host.mac,
            src=host.ip,
            dst=self.group.mcst_id,
            opcode=opcode,
            solicited=1,
            ackreq=1,
            tos=0x62,
            psn=(self.first_psn + psn) % packets.PSN_LIMIT,
            body=body,
        )

    def acknowledge(self, port: int, psn: int, msn: int = 1) -> Frames:
        at = (self.first_psn + psn) % packets.PSN_LIMIT
        return self.exchange(port, feedback(HOSTS[port], self.group, ACK, at, msn).frame())

    def copy(self, sent: Roce, port: int) -> bytes:
        return bridge_exit(bridge_entry(sent, self.group, 1, HOSTS[1]), self.group, port, HOSTS[port]).frame()

    def expected_ack(self, sent: Roce, psn: int, msn: int) -> bytes:
        inside = bridge_entry(sent, self.group, 1, HOSTS[1])
        at = (self.first_psn + psn) % packets.PSN_LIMIT
        # An ACK of a WRITE has no RETH, so it gets the constants of packets without RETH.
        # The DSCP is that of the source's data; on Tofino it is always 0.
        ack = replace(local_ack(inside, at, msn=msn), tos=sent.tos & 0xFC if LOCAL_ACK_HAS_DSCP else 0)
        return bridge_exit(ack, self.group, 1, HOSTS[1]).frame()


@with_each_min_psn
class DataAcknowledgedByAllGetsAnAckAndNoCopies(RetransmissionTest):
    def runTest(self) -> None:
        for port in (2, 3, 4):
            self.acknowledge(port, 6, msn=7)
        for psn in (6, 3, 0):
            with self.subTest(psn=psn):
                sent = self.data(psn)
                self.expect(1, sent.frame(), p1=self.expected_ack(sent, 6, msn=7))


@with_each_icrc
class LocalAckHasNoPayload(RetransmissionTest):
    def runTest(self) -> None:
        for port in (2, 3, 4):
            self.acknowledge(port, 9, msn=3)
        write = reth(self.group.va, self.group.r_key, 4096)
        for opcode, body in (
            (packets.SEND_FIRST, bytes(4096)),
            (packets.WRITE_ONLY, write + bytes(1024)),
            (packets.SEND_ONLY, b""),
        ):
            with self.subTest(opcode=opcode, length=len(body)):
                sent = self.data(5, opcode, body)
                self.expect(1, sent.frame(), p1=self.expected_ack(sent, 9, msn=3))


@with_each_min_psn
class CopiesGoOnlyToPathsThatLackThePacket(RetransmissionTest):
    def runTest(self) -> None:
        self.acknowledge(2, 9)
        self.acknowledge(3, 4)
        for psn, ports in ((3, (4,)), (4, (4,)), (5, (3, 4)), (9, (3, 4))):
            with self.subTest(psn=psn):
                sent = self.data(psn)
                self.assert_frames(self.exchange(1, sent.frame()), {p: [self.copy(sent, p)] for p in ports})


@with_each_min_psn
class ForwardedAckUpdatesTheFilter(RetransmissionTest):
    """The ACK that is forwarded to the source also updates the filter of its own path."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.acknowledge(2, 4)
        self.assertEqual(list(self.acknowledge(3, 7)), [1])
        sent = self.data(6)
        self.assert_frames(self.exchange(1, sent.frame()), {2: [self.copy(sent, 2)]})


@with_each_min_psn
class FilterWorksAcrossThePsnWrap(RetransmissionTest):
    first_psn = packets.PSN_LIMIT - 5

    def runTest(self) -> None:
        self.acknowledge(2, 7)
        self.acknowledge(3, 2)
        for psn, ports in ((4, (3, 4)), (7, (3, 4)), (8, (2, 3, 4)), (1, (4,))):
            with self.subTest(psn=psn):
                sent = self.data(psn)
                self.assert_frames(self.exchange(1, sent.frame()), {p: [self.copy(sent, p)] for p in ports})


@with_each_min_psn
class FilterWorksForPathsThatAreFarApart(RetransmissionTest):
    """Two ACKs of a path may be more than half of a 16-bit number space apart."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        self.exchange(1, self.data(40_000).frame())
        self.acknowledge(2, 40_000)
        self.acknowledge(3, 40_000)
        self.exchange(1, self.data(40_001).frame())
        self.acknowledge(3, 40_001)
        sent = self.data(40_001)
        self.assert_frames(self.exchange(1, sent.frame()), {2: [self.copy(sent, 2)]})


@with_each_min_psn
class UnacknowledgedDataIsReplicatedAgain(RetransmissionTest):
    """No member has acknowledged a packet, so all paths get a copy again."""

    def runTest(self) -> None:
        sent = self.data(3)
        self.assert_frames(self.exchange(1, sent.frame()), {p: [self.copy(sent, p)] for p in (2, 3, 4)})


@with_each_min_psn
class OldDataDoesNotMakeItsSenderTheSource(RetransmissionTest):
    """Not even the newest old packet does, so that feedback still reaches the present source."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        for port in (2, 3):
            self.acknowledge(port, 8)
        host = HOSTS[2]
        # Host 2 has received all packets and becomes the source; host 1 has not received the ACK of 9.
        self.acknowledge(2, 9)
        new = replace(self.data(10), eth_src=host.mac, src=host.ip)
        self.exchange(2, new.frame())
        for psn in (9, 8):
            self.exchange(1, self.data(psn).frame())
        self.acknowledge(1, 10)
        self.assertEqual(list(self.acknowledge(3, 10)), [2])


@with_each_min_psn
class FormerSourceGetsAnAckOfItsOwnPacketOnly(RetransmissionTest):
    """Its last ACK was lost; the present source's data has PSNs that the former source never sent."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        for port in (2, 3):
            self.acknowledge(port, 9, msn=10)
        host = HOSTS[2]
        new = replace(self.data(10), eth_src=host.mac, src=host.ip)
        self.exchange(2, new.frame())
        for port in (1, 3):
            self.acknowledge(port, 10, msn=11)
        # The MSN is that of the ACK that host 1 itself sent for 10.
        for psn in (9, 4):
            with self.subTest(psn=psn):
                sent = self.data(psn)
                self.expect(1, sent.frame(), p1=self.expected_ack(sent, psn, msn=11))


class ProbeTest(RetransmissionTest):
    """All receivers have all packets, but the source has only received an ACK of PSN 4."""

    def start_group(self) -> None:
        super().start_group()
        for port in self.ports[1:]:
            self.acknowledge(port, 9, msn=3)
        self.registers.write(
            registers.AGG, self.group.index, ((self.first_psn + 4) % packets.PSN_LIMIT) << 24 | 2
        )

    def probe_ack(self, sent: Roce, psn: int, msn: int) -> bytes:
        """Return the ACK for a packet that caused a probe: the probe is a clone from before the bridge."""
        inside = replace(sent, src=self.group.mcst_id)
        at = (self.first_psn + psn) % packets.PSN_LIMIT
        ack = replace(local_ack(inside, at, msn=msn), tos=sent.tos & 0xFC if LOCAL_ACK_HAS_DSCP else 0)
        return bridge_exit(ack, self.group, 1, HOSTS[1]).frame()


@with_each_icrc
class OldDataStartsAWalkForTheMinimum(ProbeTest):
    min_psn = MinPsn.WALK

    def runTest(self) -> None:
        for ports in (SWITCH_PORTS[:4], SWITCH_PORTS[: min(17, MAX_PATHS)]):
            for first in (0, packets.PSN_LIMIT - 7):
                with self.subTest(paths=len(ports), first=first):
                    self.ports, self.first_psn = ports, first
                    self.watched = self.ports
                    self.start_group()
                    sent = self.data(7, body=bytes(1024))
                    self.expect(1, sent.frame(), p1=self.probe_ack(sent, 9, msn=3))
                    # The switch now knows the minimum, and needs no walk.
                    sent = self.data(8)
                    self.expect(1, sent.frame(), p1=self.expected_ack(sent, 9, msn=3))


class OldDataIsSentToTheControllerAsAProbe(ProbeTest):
    min_psn = MinPsn.PUNT

    def runTest(self) -> None:
        sent = self.data(7, body=bytes(1024))
        self.send(1, sent.frame())
        # All receivers have the packet, so no copy is sent; the probe has PSN 7 and the last merged ACK.
        self.assert_frames(self.collect(1), {})
        (packet,) = self.registers.take_punted()
        self.assertEqual(packet.metadata["reason"], PacketInReason.PROBE)
        self.assertEqual(packet.metadata["ingress_port"], 1)
        header = Feedback.unpack(packet.payload)
        self.assertEqual(header, Feedback(self.group.index, port=1, agg_psn=4, agg_msn=2))
        inside = replace(sent, src=self.group.mcst_id)
        frame = local_ack(inside, 7, msn=0).frame()
        self.assertEqual(packet.payload[Feedback.SIZE : -4], frame[:-4])
        self.control(packet)
        self.registers.take_punted()
        self.assert_frames(self.collect(1), {1: [self.probe_ack(sent, 9, msn=3)]})
        self.assertEqual(self.registers.read(registers.AGG, self.group.index), 9 << 24 | 3)


@with_each_min_psn
class OldDataThatAReceiverLacksIsNotAcknowledged(RetransmissionTest):
    def runTest(self) -> None:
        self.acknowledge(2, 9)
        self.acknowledge(3, 9)
        self.acknowledge(4, 6)
        sent = self.data(7)
        self.assert_frames(self.exchange(1, sent.frame()), {4: [self.copy(sent, 4)]})
        # The walk that it caused does not suppress the next ACK.
        self.assertEqual(list(self.acknowledge(4, 9)), [1])
