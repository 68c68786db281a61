"""The base class of packet tests of any program: what `alfirk new ptf` writes, and tests of your own."""

from __future__ import annotations

import ptf
from ptf.base_tests import BaseTest

from alfirk_ptf.client import ProgramClient
from alfirk_ptf.parameters import connect, pipeline


class ProgramTest(BaseTest):
    """A test on one switch, which starts with the program as loaded: without entries, all registers 0.

    `switch` writes and reads tables and other objects of the program by their names in P4Info; `dataplane` is
    that of PTF, for `ptf.testutils.send_packet` and `verify_packet`.
    """

    _client: ProgramClient | None = None

    def setUp(self) -> None:
        """Connect, load the program, and discard packets that earlier tests left on the links."""
        super().setUp()
        if ProgramTest._client is None:
            ProgramTest._client = connect(ProgramClient)
        self.switch = ProgramTest._client
        self.switch.push(pipeline())
        self.addCleanup(self.switch.undo, self.switch.mark())
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
