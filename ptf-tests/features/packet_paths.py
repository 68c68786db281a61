"""Packet paths other than unicast forwarding: cloning, multicast, resubmission and recirculation."""

from __future__ import annotations

from dataclasses import replace

from alfirk_ptf.features import FeatureTest
from alfirk_ptf.group import MulticastGroup
from alfirk_ptf.live import CPU_PORT
from alfirk_ptf.probes import Op, Probe

_SESSION = 7
_KEPT = 0xABCD


class IngressClonesContainTheReceivedPacket(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_clone_session(_SESSION, (3,))
        sent = Probe(Op.CLONE_INGRESS, key=_SESSION, other=_KEPT, port=2)
        self.probe(sent, p2=replace(sent, mark=1), p3=replace(sent, result=_KEPT))


class EgressClonesContainTheModifiedPacket(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_clone_session(_SESSION, (3,))
        sent = Probe(Op.CLONE_EGRESS, key=_SESSION, other=_KEPT, port=2)
        self.probe(sent, p2=replace(sent, mark=1), p3=replace(sent, mark=1, result=_KEPT))


class ClonesGoToAllPortsAndMayBeTruncated(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_clone_session(_SESSION, (3, 4), length=40)
        sent = Probe(Op.CLONE_INGRESS, key=_SESSION, other=_KEPT, port=2)
        clone = replace(sent, result=_KEPT).frame()[:40]
        self.expect(1, sent.frame(), p2=replace(sent, mark=1).frame(), p3=clone, p4=clone)


class UnknownSessionMakesNoClone(FeatureTest):
    def runTest(self) -> None:
        sent = Probe(Op.CLONE_INGRESS, key=_SESSION + 1, other=_KEPT, port=2)
        self.probe(sent, p2=replace(sent, mark=1))


class ClonesReachTheController(FeatureTest):
    def runTest(self) -> None:
        self.switch.add_clone_session(_SESSION, (CPU_PORT,))
        sent = Probe(Op.CLONE_INGRESS, key=_SESSION, other=_KEPT, port=2)
        self.probe(sent, p2=replace(sent, mark=1))
        self.assertEqual(self.switch.packet_in().payload, replace(sent, result=_KEPT).frame())


class MulticastCopiesHaveTheirInstance(FeatureTest):
    def runTest(self) -> None:
        # The ingress port gets a copy as well; two copies for one port differ by instance.
        self.switch.insert_multicast(MulticastGroup(5, ((1, 10), (2, 20), (3, 30), (3, 31))))
        sent = Probe(Op.MULTICAST, key=5)
        frames = {port: [replace(sent, result=10 * port).frame()] for port in (1, 2, 3)}
        frames[3].append(replace(sent, result=31).frame())
        got = self.exchange(1, sent.frame())
        self.assert_frames({port: sorted(copies) for port, copies in got.items()}, frames)


class UnknownGroupMakesNoCopies(FeatureTest):
    def runTest(self) -> None:
        self.expect_no_frame(Probe(Op.MULTICAST, key=6))


class ResubmittedPacketsAreParsedAgainUnmodified(FeatureTest):
    def runTest(self) -> None:
        sent = Probe(Op.RESUBMIT, other=_KEPT, port=2)
        # The mark of the first pass is gone, and the metadata is preserved.
        self.expect_result(sent, 2, _KEPT)


class RecirculatedPacketsKeepModifications(FeatureTest):
    def runTest(self) -> None:
        rounds = 5
        sent = Probe(Op.RECIRCULATE, key=rounds, other=3, port=2)
        self.send(1, sent.frame())
        got = self.collect(1, rounds=rounds + 1)
        self.assert_frames(got, {2: [replace(sent, key=0, result=3 * rounds).frame()]})


class TruncatedPacketsHaveTheGivenLength(FeatureTest):
    def runTest(self) -> None:
        for length in (20, 40, 60):
            sent = Probe(Op.TRUNCATE, key=length, port=2).frame()
            self.expect(1, sent, p2=sent[:length])
        whole = Probe(Op.TRUNCATE, key=1000, port=2).frame()
        self.expect(1, whole, p2=whole)


class ParserAcceptsMembersOfAValueSet(FeatureTest):
    def runTest(self) -> None:
        self.addCleanup(self.switch.set_value_set, "probe_kinds", ())
        sent = Probe(Op.FORWARD, port=2, kind=0x1234)
        # It is not parsed as a probe, so constant entries forward it.
        self.probe(sent, p4=sent)
        self.switch.set_value_set("probe_kinds", (0x4321, 0x1234))
        self.probe(sent, p2=sent)
        self.switch.set_value_set("probe_kinds", (0x4321,))
        self.probe(sent, p4=sent)
