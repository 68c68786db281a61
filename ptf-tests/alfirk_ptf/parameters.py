"""PTF's test parameters, under the names that P4Runtime tests of other projects use.

`grpcaddr`: address of the P4Runtime server; `device_id`; `p4info`: path of the P4Info, as text;
`config`: path of the pipeline, BMv2 JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ptf import testutils

if TYPE_CHECKING:
    from alfirk_ptf.p4runtime import Client

_Client = TypeVar("_Client", bound="Client")


def connect(client: type[_Client]) -> _Client:
    """Connect to the switch of the parameters, as the primary controller."""
    return client(
        testutils.test_param_get("grpcaddr"),
        int(testutils.test_param_get("device_id", 0)),
        Path(testutils.test_param_get("p4info")),
    )


def pipeline() -> Path:
    """Return the path of the pipeline."""
    return Path(testutils.test_param_get("config"))
