"""What the runner passes to PTF's process for the reports of failures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Settings:
    """Paths for the reports."""

    #: Path of the alfirk command, which compares packets; empty for none.
    alfirk: str
    #: Path of the BMv2 JSON, whose headers name the fields of packets.
    program: str
    #: Path of the switch's output with traces; empty for a switch that does not trace.
    trace: str
    #: Path of the file for the results.
    results: str

    def text(self) -> str:
        """Write the settings as the argument of the platform."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `text` has written."""
        values = json.loads(text)
        return cls(**{field.name: str(values[field.name]) for field in fields(cls)})
