"""Packets between pipeline and controller: register accesses, PacketOuts, registration packets."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf import registers
from alfirk_ptf.case import HOSTS, GroupTest, SwitchTest
from alfirk_ptf.collect import PORTS
from alfirk_ptf.contract import Drop, Feedback, MinPsn, PacketInReason, RegisterControl
from alfirk_ptf.group import GROUP_BITS, absent_children
from alfirk_ptf.live import MAX_PATHS, SWITCH_PORTS
from alfirk_ptf.packets import ACK, VIRTUAL_MAC, Roce, feedback
from alfirk_ptf.target import HAS_STRATEGIES, TARGET, only_v1model
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

_MRP_PORT = 4790
#: Ports per reason in the meter of packets to the controller.
_METERED_PORTS = 512
#: A group index that no other test uses.
_GROUP = 1000


class InitGroupSetsEveryPath(SwitchTest):
    def runTest(self) -> None:
        access = self.registers
        first, msn = 0x123456, 0x54321
        for paths in sorted({1, 2, min(5, MAX_PATHS), MAX_PATHS}):
            with self.subTest(paths=paths):
                access.init_group(_GROUP, paths, first, msn)
                for path in range(paths):
                    self.assertEqual(access.read(registers.ACK, _GROUP, path) >> 8, first - 1)
                    self.assertEqual(access.read(registers.FILTER, _GROUP, path), (first - 1) & 0xFFFFFF)
                    self.assertEqual(access.read(registers.MSN, _GROUP, path), msn & 0xFFFF)
                self.assertEqual(access.read(registers.AGG, _GROUP), (first - 1) << 24 | msn)
                self.assertEqual(access.read(registers.NAK, _GROUP), 0)
                self.assertEqual(access.read(registers.SRC_PORT, _GROUP), 0)


class InitGroupAtPsnZeroStartsBeforeTheWrap(SwitchTest):
    def runTest(self) -> None:
        access = self.registers
        access.init_group(_GROUP, 3, 0)
        self.assertEqual(access.read(registers.ACK, _GROUP, 2) >> 8, 0xFFFFFF)


class InitGroupDoesNotChangeOtherGroups(SwitchTest):
    def runTest(self) -> None:
        access = self.registers
        access.init_group(_GROUP, MAX_PATHS, 100)
        access.init_group(_GROUP + 1, MAX_PATHS, 200)
        access.init_group(_GROUP - 1, MAX_PATHS, 300)
        self.assertEqual({access.read(registers.ACK, _GROUP, path) >> 8 for path in range(MAX_PATHS)}, {99})


class WrittenRegistersAreReadBack(SwitchTest):
    def runTest(self) -> None:
        only_v1model("reading and writing registers by packets")
        access = self.registers
        access.init_group(_GROUP, MAX_PATHS, 7)
        values = {
            registers.AGG: 0x00ABCDEF_000123,
            registers.NAK: 0x60ABCDEF,
            registers.SRC_PORT: 3,
            registers.ACK: 0xABCDEF << 8 | MAX_PATHS - 1,
            registers.MSN: 0x1234,
            registers.FILTER: 0xFEDCBA,
            registers.SENT: 0x123456,
        }
        for reg, value in values.items():
            with self.subTest(reg=reg):
                index = MAX_PATHS - 1 if reg in (registers.ACK, registers.MSN, registers.FILTER) else 0
                written = RegisterControl(
                    registers.WRITE, reg=reg, group=_GROUP, index=index, value=value, cookie=9
                )
                self.assertEqual(access.execute(written), replace(written, status=registers.OK))
                self.assertEqual(access.read(reg, _GROUP, index), value)


class InvalidRegisterAccessReturnsItsStatus(SwitchTest):
    def runTest(self) -> None:
        only_v1model("reading and writing registers by packets")
        access = self.registers
        for control, status in (
            (RegisterControl(9), registers.BAD_OP),
            (RegisterControl(0), registers.BAD_OP),
            (RegisterControl(registers.READ, reg=0), registers.BAD_REGISTER),
            (RegisterControl(registers.WRITE, reg=11), registers.BAD_REGISTER),
            (RegisterControl(registers.READ, reg=registers.ACK, group=1024), registers.OUT_OF_RANGE),
            (RegisterControl(registers.READ, reg=registers.ACK, index=MAX_PATHS), registers.OUT_OF_RANGE),
            (RegisterControl(registers.INIT_GROUP, count=MAX_PATHS + 1), registers.OUT_OF_RANGE),
        ):
            with self.subTest(control):
                self.assertEqual(access.execute(control).status, status)


class RegistersReflectProcessedPackets(GroupTest):
    ports = (1, 2, 3)

    def runTest(self) -> None:
        index = self.group.index
        host = HOSTS[1]
        for psn in range(4):
            data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn, body=b"x")
            self.exchange(1, data.frame())
        self.exchange(2, feedback(HOSTS[2], self.group, ACK, 2, msn=3).frame())
        self.assertEqual(self.registers.read(registers.SRC_PORT, index), 1)
        psns = [self.registers.read(registers.ACK, index, path) >> 8 for path in range(3)]
        self.assertEqual(psns, [3, 2, 0xFFFFFF])
        self.assertEqual(self.registers.read(registers.MSN, index, 1), 3)
        self.assertEqual(self.registers.read(registers.FILTER, index, 1), 2)


class WritingTheAckOfAFailedPathUnblocksTheGroup(GroupTest):
    """For a failed receiver, the controller writes that it has received all packets of the source."""

    def runTest(self) -> None:
        for min_psn in (MinPsn.TREE, MinPsn.WALK):
            for paths in sorted({4, min(17, MAX_PATHS), MAX_PATHS}):
                with self.subTest(min_psn=min_psn.name, paths=paths):
                    self.min_psn = min_psn
                    self.ports = SWITCH_PORTS[:paths]
                    self.start_group()
                    self.check_acks_are_unblocked()

    def check_acks_are_unblocked(self) -> None:
        index, host, failed = self.group.index, HOSTS[1], len(self.ports) - 1
        data = [
            Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn, body=b"x")
            for psn in range(4)
        ]
        self.watched = self.ports
        self.exchange(1, *(packet.frame() for packet in data))
        self.watched = (1,)
        for port in self.ports[1:-1]:
            self.assert_frames(
                self.exchange(port, feedback(HOSTS[port], self.group, ACK, 3, msn=4).frame()), {}
            )
        absent = absent_children(failed, len(self.ports))
        self.registers.write(registers.ACK, index, absent << 32 | 3 << 8 | failed, failed)
        self.registers.write(registers.FILTER, index, 3, failed)
        self.assertEqual(self.registers.read(registers.ACK, index, failed), 3 << 8 | failed)
        self.watched = self.ports
        # The source's timer expires and it retransmits; the switch acknowledges, because all have the packet.
        ack = self.exchange(1, data[2].frame())
        self.assertEqual(list(ack), [1])
        self.assertEqual(ack[1][0][51:58], bytes.fromhex("000003 1f 000004"))
        self.assertEqual(self.registers.read(registers.AGG, index), 3 << 24 | 4)


class WritingAnOlderAckIsAllowed(GroupTest):
    """A path may start again with an older PSN; the group then waits for it."""

    ports = (1, 2, 3)

    def runTest(self) -> None:
        index, host = self.group.index, HOSTS[1]
        for psn in range(4):
            data = Roce(eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, psn=psn, body=b"x")
            self.exchange(1, data.frame())
        self.exchange(3, feedback(HOSTS[3], self.group, ACK, 3).frame())
        self.registers.write(registers.ACK, index, absent_children(2, 3) << 32 | 1 << 8 | 2, 2)
        self.exchange(2, feedback(HOSTS[2], self.group, ACK, 3).frame())
        self.assertEqual(self.registers.read(registers.AGG, index) >> 24, 1)


class FeedbackAffectsOnlyItsOwnGroup(GroupTest):
    """Two groups have the same members, ports and PSNs; feedback of one does not change the other."""

    ports = (1, 2)

    def runTest(self) -> None:
        groups = []
        for _ in range(2):
            self.start_group()
            data = Roce(eth_src=HOSTS[1].mac, src=HOSTS[1].ip, dst=self.group.mcst_id, body=b"x")
            self.exchange(1, data.frame())
            groups.append(self.group)
        self.exchange(2, feedback(HOSTS[2], groups[0], ACK, 0).frame())
        to_source = [self.registers.read(registers.AGG, group.index) >> 24 for group in groups]
        self.assertEqual(to_source, [0, 0xFFFFFF])


class LastGroupHasTheMaximumNumberOfPaths(GroupTest):
    """The last path of the last group uses the last cell of every register."""

    index: int | None = (1 << GROUP_BITS) - 1
    ports = SWITCH_PORTS[:MAX_PATHS]

    def runTest(self) -> None:
        data = Roce(eth_src=HOSTS[1].mac, src=HOSTS[1].ip, dst=self.group.mcst_id, body=b"x")
        self.exchange(1, data.frame())
        for port in self.ports[1:]:
            got = self.exchange(port, feedback(HOSTS[port], self.group, ACK, 0).frame())
            self.assertEqual(list(got), [1] if port == self.ports[-1] else [])
        self.assertEqual(self.registers.read(registers.FILTER, self.group.index, MAX_PATHS - 1), 0)


class InvalidPacketOutsAreDropped(GroupTest):
    ports = (1, 2)

    def runTest(self) -> None:
        only_v1model("feedback that the controller sends")
        ack = feedback(HOSTS[2], self.group, ACK, 0).frame()
        data = Roce(src=HOSTS[1].ip, dst=self.group.mcst_id, body=bytes(20)).frame()
        own = Feedback(self.group.index, port=0, agg_psn=0, agg_msn=1)
        # Without strategies the controller sends no feedback.
        without_source = Drop.NO_SOURCE if HAS_STRATEGIES else Drop.BAD_CONTROL
        for what, reason, kind, payload in (
            ("unknown kind", Drop.BAD_CONTROL, 9, ack),
            (
                "feedback of an invalid group",
                Drop.BAD_CONTROL,
                2,
                replace(own, group=1 << GROUP_BITS).pack() + ack,
            ),
            ("data as feedback", Drop.BAD_CONTROL, 2, own.pack() + data),
            ("feedback without a source", without_source, 2, own.pack() + ack),
            ("truncated feedback", Drop.PARSER_ERROR, 2, own.pack()[:6]),
            ("truncated register access", Drop.PARSER_ERROR, 1, bytes(10)),
        ):
            with self.subTest(what):
                before = self.drops(reason)
                self.switch.packet_out(payload, kind=kind, egress_port=1)
                self.assertEqual(self.registers.take_punted(), [])
                self.assertEqual(self.drops(reason) - before, 1)
        self.assert_frames(self.collect(1), {})


class PacketOutIsSentUnchanged(SwitchTest):
    def runTest(self) -> None:
        for port in PORTS:
            with self.subTest(port=port):
                frame = bytes(
                    Ether(src="02:00:00:00:00:aa", dst="02:00:00:00:00:bb", type=0x88B5) / b"as it is"
                )
                self.switch.packet_out(frame, kind=0, egress_port=port)
                found = self.dataplane.poll(0, port, timeout=10)
                self.assertIsInstance(found, self.dataplane.PollSuccess)
                self.assertEqual(bytes(getattr(found, "packet", b"")), frame)


class RegistrationReachesTheController(GroupTest):
    """Registration packets reach the controller before the group exists, and afterwards."""

    ports = (1, 2)

    def runTest(self) -> None:
        for destination in ("10.255.200.1", self.group.mcst_id):
            with self.subTest(destination):
                frame = bytes(
                    Ether(src=HOSTS[2].mac, dst=VIRTUAL_MAC)
                    / IP(src=HOSTS[2].ip, dst=destination)
                    / UDP(sport=_MRP_PORT, dport=_MRP_PORT)
                    / Raw(b"join me")
                )
                self.expect(2, frame)
                packet = self.switch.packet_in()
                self.assertEqual(packet.payload, frame)
                self.assertEqual(
                    (packet.metadata["reason"], packet.metadata["ingress_port"]), (PacketInReason.MRP, 2)
                )


class RegistrationsAreRateLimitedPerPort(SwitchTest):
    """Registrations above the rate are dropped; each port has its own rate."""

    def runTest(self) -> None:
        burst, sent = 10, 200
        for port in (1, 2):
            # The refill interval is longer than the test.
            cell = PacketInReason.MRP * _METERED_PORTS + port
            self.switch.set_rate("punt_limit.rates", cell, 1, burst)
        before = self.drops(Drop.PUNT_LIMITED, TARGET.punt_gress)
        self.assert_frames(self.exchange(1, *[self.registration(1, n) for n in range(sent)]), {})
        self.assert_frames(self.exchange(2, self.registration(2, 0)), {})
        ports = [packet.metadata["ingress_port"] for packet in self.registers.take_punted()]
        self.assertEqual(ports.count(2), 1)
        # On a slow machine sending takes more than a second, so that more of them pass.
        self.assertGreaterEqual(ports.count(1), burst)
        self.assertLess(ports.count(1), sent // 2)
        self.assertEqual(self.drops(Drop.PUNT_LIMITED, TARGET.punt_gress) - before, sent - ports.count(1))
        if TARGET.is_tofino:
            return
        limited = self.switch.counters("punt_limit.limited")
        self.assertGreaterEqual(limited[PacketInReason.MRP], sent - ports.count(1))

    def registration(self, port: int, number: int) -> bytes:
        return bytes(
            Ether(src=HOSTS[port].mac, dst=VIRTUAL_MAC)
            / IP(src=HOSTS[port].ip, dst="10.255.200.1", id=number)
            / UDP(sport=_MRP_PORT, dport=_MRP_PORT)
            / Raw(b"join me")
        )
