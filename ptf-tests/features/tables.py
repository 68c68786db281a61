"""Tables of every match kind: which entry matches, and which action is executed."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf.client import Group, Member, OneShot, Rule
from alfirk_ptf.features import FeatureTest, hit
from alfirk_ptf.probes import Op, Probe
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

_KEY = "hdr.probe.key"
_OTHER = "hdr.probe.other"


class ExactKeysMatchInAllFields(FeatureTest):
    def runTest(self) -> None:
        self.switch.add(
            Rule("exact_table", {_KEY: 7, _OTHER: 1}, hit(2, 71)),
            Rule("exact_table", {_KEY: 7, _OTHER: 2}, hit(3, 72)),
        )
        self.expect_result(Probe(Op.EXACT, 7, 1), 2, 71)
        self.expect_result(Probe(Op.EXACT, 7, 2), 3, 72)
        self.expect_no_frame(Probe(Op.EXACT, 7, 3))
        self.expect_no_frame(Probe(Op.EXACT, 1, 7))


class LongestPrefixWins(FeatureTest):
    def runTest(self) -> None:
        self.switch.add(
            Rule("lpm_table", {}, hit(2, 1)),
            Rule("lpm_table", {_KEY: (0x0A000000, 8)}, hit(3, 2)),
            Rule("lpm_table", {_KEY: (0x0A010000, 16)}, hit(4, 3)),
            Rule("lpm_table", {_KEY: (0x0A010203, 32)}, hit(2, 4)),
        )
        for key, port, result in (
            (0x0B000000, 2, 1),
            (0x0A020000, 3, 2),
            (0x0A01FFFF, 4, 3),
            (0x0A010203, 2, 4),
        ):
            self.expect_result(Probe(Op.LPM, key), port, result)


class HighestPriorityWins(FeatureTest):
    def runTest(self) -> None:
        self.switch.add(
            Rule("ternary_table", {_KEY: (0x10, 0xF0)}, hit(2, 1), priority=10),
            Rule("ternary_table", {_KEY: (0x11, 0xFF)}, hit(3, 2), priority=20),
            Rule("ternary_table", {_OTHER: (5, 0xFFFFFFFF)}, hit(4, 3), priority=15),
        )
        self.expect_result(Probe(Op.TERNARY, 0xFFFFFF1A, 0), 2, 1)
        self.expect_result(Probe(Op.TERNARY, 0x11, 5), 3, 2)
        self.expect_result(Probe(Op.TERNARY, 0x12, 5), 4, 3)
        self.expect_no_frame(Probe(Op.TERNARY, 0x20, 4))


class RangesIncludeBothBounds(FeatureTest):
    def runTest(self) -> None:
        self.switch.add(
            Rule("range_table", {_KEY: (10, 20)}, hit(2, 1), priority=1),
            Rule("range_table", {_KEY: (15, 15)}, hit(3, 2), priority=2),
        )
        for key in (10, 14, 16, 20):
            self.expect_result(Probe(Op.RANGE, key), 2, 1)
        self.expect_result(Probe(Op.RANGE, 15), 3, 2)
        for key in (9, 21):
            self.expect_no_frame(Probe(Op.RANGE, key))


class OmittedOptionalKeysMatchEveryValue(FeatureTest):
    def runTest(self) -> None:
        self.switch.add(
            Rule("optional_table", {_KEY: 1, _OTHER: 2}, hit(2, 12), priority=30),
            Rule("optional_table", {_KEY: 1}, hit(3, 10), priority=20),
            Rule("optional_table", {_OTHER: 2}, hit(4, 2), priority=10),
        )
        self.expect_result(Probe(Op.OPTIONAL, 1, 2), 2, 12)
        self.expect_result(Probe(Op.OPTIONAL, 1, 9), 3, 10)
        self.expect_result(Probe(Op.OPTIONAL, 9, 2), 4, 2)
        self.expect_no_frame(Probe(Op.OPTIONAL, 9, 9))


class ConstEntriesMatchHeaderValidity(FeatureTest):
    def runTest(self) -> None:
        ethernet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:ff")
        for layers, port in (
            (IP(src="10.0.0.1", dst="10.0.0.2") / Raw(b"x" * 40), 2),
            (IPv6(src="fd00::1", dst="fd00::2") / Raw(b"x" * 40), 3),
            (Raw(b"x" * 60), 4),
        ):
            frame = bytes(ethernet / layers)
            self.expect(1, frame, **{f"p{port}": frame})


class EntriesCanBeModifiedAndDeleted(FeatureTest):
    def runTest(self) -> None:
        rule = Rule("exact_table", {_KEY: 8, _OTHER: 0}, hit(2, 1))
        probe = Probe(Op.EXACT, 8)
        mark = self.switch.mark()
        self.switch.add(rule)
        self.expect_result(probe, 2, 1)
        self.switch.modify(replace(rule, action=hit(3, 2)))
        self.expect_result(probe, 3, 2)
        self.switch.undo(mark)
        self.expect_no_frame(probe)


class EntriesShareTheMembersOfAProfile(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_members("profile", {1: hit(2, 11), 2: hit(3, 12)})
        self.switch.add(
            Rule("profile_table", {_KEY: 1}, Member(1)),
            Rule("profile_table", {_KEY: 2}, Member(1)),
            Rule("profile_table", {_KEY: 3}, Member(2)),
        )
        self.expect_result(Probe(Op.PROFILE, 1), 2, 11)
        self.expect_result(Probe(Op.PROFILE, 2), 2, 11)
        self.expect_result(Probe(Op.PROFILE, 3), 3, 12)
        self.switch.modify_member("profile", 1, hit(4, 13))
        for key in (1, 2):
            self.expect_result(Probe(Op.PROFILE, key), 4, 13)
        self.expect_result(Probe(Op.PROFILE, 3), 3, 12)


class SelectorTest(FeatureTest):
    def flows_by_port(self, others: range) -> dict[int, int]:
        """Send two packets of each flow; return the number of flows by egress port."""
        flows: dict[int, int] = {}
        for other in others:
            probe = Probe(Op.SELECTOR, 1, other).frame()
            got = self.exchange(1, probe, probe)
            ((port, frames),) = got.items()
            self.assertEqual(len(frames), 2, "both packets of a flow take the same path")
            flows[port] = flows.get(port, 0) + 1
        return flows


class SelectorsSpreadFlowsOverTheMembersOfAGroup(SelectorTest):
    def runTest(self) -> None:
        self.switch.add_members("selector", {1: hit(2, 1), 2: hit(3, 2), 3: hit(4, 3)})
        self.switch.add_group("selector", 1, (1, 2, 3))
        self.switch.add(Rule("selector_table", {_KEY: 1}, Group(1)))
        flows = self.flows_by_port(range(60))
        self.assertEqual(sorted(flows), [2, 3, 4])
        # Expected are 20 flows for each port.
        self.assertGreaterEqual(min(flows.values()), 8)
        self.switch.modify_group("selector", 1, (1, 3))
        self.assertEqual(sorted(self.flows_by_port(range(20))), [2, 4])


class OneShotSelectorsSpreadFlowsByWeight(SelectorTest):
    def runTest(self) -> None:
        shots = OneShot(((hit(2, 1), 3), (hit(3, 2), 1)))
        self.switch.add(Rule("selector_table", {_KEY: 1}, shots))
        flows = self.flows_by_port(range(80))
        self.assertEqual(sorted(flows), [2, 3])
        # Expected are 60 and 20 flows.
        self.assertGreater(flows[2], 2 * flows[3])
