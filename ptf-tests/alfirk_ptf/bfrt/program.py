"""The base class of packet tests that use BfRuntime: your own, and those of `alfirk new ptf --arch tna`."""

from __future__ import annotations

import ptf
from ptf import testutils
from ptf.base_tests import BaseTest

from alfirk_ptf.bfrt.client import BfRtClient
from alfirk_ptf.bfrt.schema import BfRtError


class BfRtTest(BaseTest):
    """A test on one switch, which starts with the program as loaded: without entries, registers as declared.

    `switch` writes and reads tables by their names in the BfRuntime schema; `dataplane` is that of PTF, for
    `ptf.testutils.send_packet` and `verify_packet`.
    """

    _client: BfRtClient | None = None

    def setUp(self) -> None:
        """Connect, load the program, and discard packets that earlier tests left on the links."""
        super().setUp()
        if BfRtTest._client is None:
            BfRtTest._client = _connect()
        self.switch = BfRtTest._client
        self.switch.reload()
        self.addCleanup(self.switch.undo, self.switch.mark())
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()


def _connect() -> BfRtClient:
    """Connect to the switch of the test parameters."""
    address = testutils.test_param_get("bfrtaddr")
    if not address:
        msg = "the switch does not serve BfRuntime: `alfirk ptf` needs --arch tna or --arch t2na"
        raise BfRtError(msg)
    return BfRtClient(address)
