"""Memory regions announced in the stream: the leaf stores them, and later WRITEs go there."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from alfirk_ptf import packets, registers
from alfirk_ptf.case import HOSTS, GroupTest, SwitchTest, with_each_icrc
from alfirk_ptf.collect import Frames
from alfirk_ptf.contract import MR_INFO_RKEY, Drop, RegisterControl
from alfirk_ptf.group import RECEIVERS, Member
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import Roce, bridge_entry, bridge_exit, mr_info, reth
from alfirk_ptf.target import Feature, only_v1model

if TYPE_CHECKING:
    from collections.abc import Iterator

Region = tuple[int, int]

#: Virtual address and R_Key in the WRITEs of the sender.
_SENT = (0x5000_1230, 0xABCD)
#: Regions of hosts 2 and 3: those announced first, and those announced later. None is aligned.
_FIRST = {2: (0x7FEE_0123_4567, 0x1111_2222), 3: (0xFFFF_8000_0000_0001, 0x3333_4444)}
_LATER = {2: (0x1234_5678, 0x99), 3: (0xFEDC_BA98_7654_3210, 0xFFFF_FFFF)}


class RegionTest(GroupTest):
    """Host 1 writes to hosts 2 to 4; no region is announced for host 4.

    The registered regions of all members equal those that the sender uses.
    """

    features = (Feature.MEMORY_REGIONS,)
    va, r_key = _SENT

    def start_group(self) -> None:
        super().start_group()
        self.announced: dict[int, Region] = {}
        self.psns: Iterator[int] = (psn % packets.PSN_LIMIT for psn in count(self.first_psn))

    def member(self, port: int) -> Member:
        return replace(HOSTS[port], va=self.va, r_key=self.r_key)

    def write(self, psn: int, body: bytes, opcode: int = packets.WRITE_ONLY) -> Roce:
        host = HOSTS[1]
        return Roce(
            eth_src=host.mac, src=host.ip, dst=self.group.mcst_id, opcode=opcode, psn=psn, ackreq=1, body=body
        )

    def info(self, psn: int, port: int, region: Region) -> Roce:
        return self.write(psn, mr_info(HOSTS[port], _SENT, region))

    def expect_empty_writes(self, info: Roce) -> None:
        """Send an announcement; check that each host receives an empty WRITE instead, with a valid ICRC."""
        inside = bridge_entry(info, self.group, 1, self.member(1))
        # A WRITE of length zero accesses no memory, so address and R_Key are not checked.
        empty = replace(inside, body=info.body[:12] + bytes(4))
        self.expect_copies(info, empty, inside)

    def announce(self, port: int, region: Region) -> Roce:
        """Announce a region, and record it for `check_announced_destination`."""
        info = self.info(next(self.psns), port, region)
        self.expect_empty_writes(info)
        self.announced[port] = region
        return info

    def check_announced_destination(self, opcode: int = packets.WRITE_ONLY) -> None:
        """Send a WRITE; check that each host receives it with the region announced last."""
        payload = bytes(range(256)) * 2
        sent = self.write(next(self.psns), reth(*_SENT, 4096) + payload, opcode)
        got = self.exchange(1, sent.frame())
        inside = bridge_entry(sent, self.group, 1, self.member(1))
        expected: Frames = {}
        for port in (port for port in self.ports if port != 1):
            copy = (
                inside if port in self.uplinks else bridge_exit(inside, self.group, port, self.member(port))
            )
            if port in self.announced:
                info = mr_info(HOSTS[port], _SENT, self.announced[port])
                copy = replace(
                    copy,
                    ident=copy.ident ^ int.from_bytes(info[28:30], "big"),
                    sport=copy.sport ^ int.from_bytes(info[30:32], "big"),
                    body=_xor(copy.body, info[16:28]),
                )
            expected[port] = [copy.frame()]
        self.assert_frames(got, expected)
        self.assert_icrcs(got)

    def expect_copies(self, sent: Roce, to_hosts: Roce, to_switches: Roce) -> None:
        """Send a packet; compare the copies for hosts and for other switches."""
        got = self.exchange(1, sent.frame())
        expected = {
            port: [
                (
                    to_switches
                    if port in self.uplinks
                    else bridge_exit(to_hosts, self.group, port, self.member(port))
                ).frame()
            ]
            for port in self.ports
            if port != 1
        }
        self.assert_frames(got, expected)
        self.assert_icrcs(got)

    def acknowledge(self, psn: int) -> None:
        """Send an ACK of a PSN from every receiver."""
        for port in self.ports[1:]:
            self.exchange(port, packets.feedback(HOSTS[port], self.group, packets.ACK, psn).frame())

    def assert_icrcs(self, got: Frames) -> None:
        for frames in got.values():
            for frame in frames:
                self.assertTrue(is_icrc_valid(frame[14:]))


def _xor(body: bytes, differences: bytes) -> bytes:
    changed = bytes(a ^ b for a, b in zip(body, differences, strict=False))
    return changed + body[len(changed) :]


@with_each_icrc
class NextWriteGoesToTheAnnouncedRegion(RegionTest):
    def runTest(self) -> None:
        self.check_announced_destination()
        for port, region in _FIRST.items():
            self.announce(port, region)
        for opcode in (packets.WRITE_ONLY, packets.WRITE_FIRST, packets.WRITE_ONLY_IMM):
            with self.subTest(opcode=opcode):
                self.check_announced_destination(opcode)


class DeliveredRethHasTheAnnouncedRegion(RegionTest):
    """Checks bytes directly instead of by the model: the RETH is at offset 14 + 20 + 8 + 12."""

    def runTest(self) -> None:
        for port, region in _FIRST.items():
            self.announce(port, region)
        sent = self.write(next(self.psns), reth(*_SENT, 512) + bytes(512))
        got = self.exchange(1, sent.frame())
        for port, (va, r_key) in {**_FIRST, 4: _SENT}.items():
            self.assertEqual(got[port][0][54:66], va.to_bytes(8, "big") + r_key.to_bytes(4, "big"))


class PacketsWithoutRethAreNotChangedByRegions(RegionTest):
    def runTest(self) -> None:
        self.announce(2, _FIRST[2])
        for opcode in (packets.WRITE_MIDDLE, packets.WRITE_LAST, packets.SEND_ONLY):
            with self.subTest(opcode=opcode):
                sent = self.write(next(self.psns), bytes(256), opcode)
                inside = bridge_entry(sent, self.group, 1, self.member(1))
                self.expect_copies(sent, inside, inside)


class LaterRegionsReplaceEarlierOnes(RegionTest):
    first_psn = packets.PSN_LIMIT - 3

    def runTest(self) -> None:
        for regions in (_FIRST, _LATER, _FIRST):
            for port, region in regions.items():
                self.announce(port, region)
            self.check_announced_destination()


class OlderOrRepeatedRegionIsIgnored(RegionTest):
    """Of two regions of a host, that with the newer PSN is valid; retransmissions may arrive later."""

    first_psn = packets.PSN_LIMIT - 1

    def runTest(self) -> None:
        first = self.announce(2, _FIRST[2])
        second = self.announce(2, _LATER[2])
        for again in (first, second, first):
            self.expect_empty_writes(again)
        self.check_announced_destination()


class RegionAfterHalfThePsnSpaceIsAccepted(RegionTest):
    """More than half of all PSNs were used since the first region, whose PSN then seems to be newer."""

    window = (1 << 23) - 1

    def runTest(self) -> None:
        only_v1model("gaps in the PSNs of a source")
        self.announce(2, _FIRST[2])
        for psn in (0x70_0000, 0xE0_0000):
            self.psns = count(psn)
            self.check_announced_destination()
            self.acknowledge(psn)
        self.announce(2, _LATER[2])
        self.check_announced_destination()


class RegionAppliesOnlyToItsHost(RegionTest):
    def runTest(self) -> None:
        self.announce(3, _FIRST[3])
        self.check_announced_destination()
        # The region of a host that is attached to another leaf.
        remote = replace(HOSTS[2], ip="10.9.9.9")
        self.expect_empty_writes(self.write(next(self.psns), mr_info(remote, _SENT, _FIRST[2])))
        self.check_announced_destination()


class RegionIsForwardedUnchangedToSwitches(RegionTest):
    uplinks = (4,)

    def runTest(self) -> None:
        self.announce(2, _FIRST[2])
        remote = replace(HOSTS[2], ip="10.9.9.9")
        self.expect_empty_writes(self.write(next(self.psns), mr_info(remote, _SENT, _FIRST[3])))
        self.check_announced_destination()


@with_each_icrc
class RegionsAreAddedToThoseOfTheRegistration(RegionTest):
    """The registered regions differ from those that the sender uses; the differences add up."""

    va, r_key = 0x4000_0000, 0x55AA

    def member(self, port: int) -> Member:
        return HOSTS[port]

    def runTest(self) -> None:
        for port, region in _FIRST.items():
            self.announce(port, region)
        self.check_announced_destination()


class RegionWithAnInvalidIcrcIsDropped(RegionTest):
    """The empty WRITE gets a new ICRC, so the switch must check that of the announcement."""

    def runTest(self) -> None:
        frame = self.info(0, 2, _FIRST[2]).frame()
        for at in (60, 75, len(frame) - 1):
            with self.subTest(byte=at):
                self.expect_drop(Drop.DATA_ICRC, 1, frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :])
        self.check_announced_destination()


class OtherWritesToTheRegionKeyAreForwarded(RegionTest):
    """Only an RDMA WRITE Only with the exact length is an announcement."""

    def runTest(self) -> None:
        info = mr_info(HOSTS[2], _SENT, _FIRST[2])
        for opcode, body in (
            (packets.WRITE_FIRST, info),
            (packets.WRITE_ONLY, info + bytes(4)),
            (packets.WRITE_ONLY, reth(0, MR_INFO_RKEY, 0)),
            (packets.SEND_ONLY, info),
        ):
            with self.subTest(opcode=opcode, length=len(body)):
                sent = self.write(next(self.psns), body, opcode)
                inside = bridge_entry(sent, self.group, 1, self.member(1))
                self.expect_copies(sent, inside, inside)
        self.check_announced_destination()


class NewGroupHasNoRegions(RegionTest):
    def runTest(self) -> None:
        for port, region in _FIRST.items():
            self.announce(port, region)
        self.registers.init_group(self.group.index, len(self.ports), self.first_psn)
        self.registers.init_regions(self.group.slot(self.ports[0]), len(self.ports), self.first_psn)
        self.announced.clear()
        self.psns = count(self.first_psn)
        self.check_announced_destination()
        self.announce(2, _LATER[2])
        self.check_announced_destination()


class RegionIsAcknowledgedLikeAnyMessage(RegionTest):
    """If all have acknowledged an announcement, its retransmission is acknowledged and otherwise ignored."""

    def runTest(self) -> None:
        info = self.announce(2, _FIRST[2])
        self.acknowledge(0)
        inside = bridge_entry(info, self.group, 1, self.member(1))
        ack = packets.local_ack(inside, 0, msn=1)
        self.expect(1, info.frame(), p1=bridge_exit(ack, self.group, 1, self.member(1)).frame())
        self.check_announced_destination()


class RewrittenGroupKeepsAnnouncedRegions(RegionTest):
    """Initialising the registers of a group does not change those of its receivers."""

    def runTest(self) -> None:
        self.announce(2, _FIRST[2])
        slot = self.group.slot(2)
        cells = (registers.REGION_VA, registers.REGION_KEYS, registers.REGION_ANNOUNCED_AT)
        values = [self.registers.read_region(cell, slot) for cell in cells]
        info = mr_info(HOSTS[2], _SENT, _FIRST[2])
        self.assertEqual(values[0], int.from_bytes(info[16:24], "big"))
        self.assertEqual(values[1], int.from_bytes(info[24:32], "big"))
        self.assertEqual(values[2], self.first_psn)
        self.registers.init_group(self.group.index, len(self.group.paths), self.first_psn + 1)
        self.assertEqual([self.registers.read_region(cell, slot) for cell in cells], values)
        self.check_announced_destination()


class RegistersOfReceiversAreAccessedByNumber(SwitchTest):
    features = (Feature.MEMORY_REGIONS,)

    def runTest(self) -> None:
        access = self.registers
        cells = (registers.REGION_VA, registers.REGION_KEYS, registers.REGION_ANNOUNCED_AT)
        last = RECEIVERS - 1
        for slot in (0, 255, 256, last - 3, last):
            for cell in cells:
                access.write_region(cell, slot, cell << 8 | slot & 0xFF)
            for cell in cells:
                self.assertEqual(access.read_region(cell, slot), cell << 8 | slot & 0xFF)
        # Initialise two receivers; check that those before and after are unchanged.
        access.init_regions(last - 2, 2, 7)
        for slot, values in (
            (last - 3, [cell << 8 | (last - 3) & 0xFF for cell in cells]),
            (last - 2, [0, 0, 6]),
            (last - 1, [0, 0, 6]),
            (last, [cell << 8 | last & 0xFF for cell in cells]),
        ):
            with self.subTest(slot=slot):
                self.assertEqual([access.read_region(cell, slot) for cell in cells], values)
        for op in (registers.READ, registers.WRITE):
            beyond = RegisterControl(
                op, reg=registers.REGION_VA, group=RECEIVERS >> 16, index=RECEIVERS & 0xFFFF
            )
            self.assertEqual(access.execute(beyond).status, registers.OUT_OF_RANGE)
