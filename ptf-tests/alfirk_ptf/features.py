"""The base class of the tests of `programs/features.p4`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from alfirk_ptf.client import Action, ProgramClient
from alfirk_ptf.collect import SENTINEL_MARK, CollectingTest
from alfirk_ptf.parameters import connect, pipeline
from alfirk_ptf.probes import Op, Probe


def hit(port: int, result: int) -> Action:
    """Build the action that sends a probe to a port and writes the result into it."""
    return Action("hit", {"port": port, "result": result})


class FeatureTest(CollectingTest):
    """A test on a switch that runs `programs/features.p4`."""

    _client: ProgramClient | None = None

    def setUp(self) -> None:
        """Connect, and load the program once for all tests of a run."""
        super().setUp()
        if FeatureTest._client is None:
            FeatureTest._client = connect(ProgramClient)
            FeatureTest._client.push(pipeline())
        self.switch = FeatureTest._client
        self.addCleanup(self.switch.undo, self.switch.mark())

    def sentinel(self, into: int, out: int) -> bytes:
        """Build a probe that asks to be forwarded to a port, without its serial number."""
        del into
        return _sentinel(out)

    def probe(self, sent: Probe, **out: Probe) -> None:
        """Send a probe into port 1 and check all frames that leave: ``p2=probe`` expects one at port 2."""
        frames = {port: probe.frame() for port, probe in out.items()}
        self.expect(1, sent.frame(), **frames)

    def expect_result(self, sent: Probe, port: int, result: int) -> None:
        """Send a probe into port 1; check that only this port sends it, with this result."""
        self.probe(sent, **{f"p{port}": replace(sent, result=result)})

    def expect_no_frame(self, sent: Probe) -> None:
        """Send a probe into port 1; check that no port sends a frame."""
        self.probe(sent)


@cache
def _sentinel(out: int) -> bytes:
    return Probe(Op.FORWARD, port=out, payload=SENTINEL_MARK.ljust(40, b".")).frame()
