"""Experiments: one message by several algorithms in virtual time, as ``alfirk run``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from alfirk.command import execute, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd


@dataclass(frozen=True)
class Row:
    """Result of one algorithm."""

    algorithm: str
    #: Nanoseconds from the post of the message until the last receiver has it.
    completion_ns: int
    #: Gigabits per second of the message at each receiver; `None` if not all have it.
    goodput_gbps: float | None
    #: Whether each receiver holds the right bytes (SHA-256).
    verified: bool
    receivers: int
    receivers_verified: int
    #: Bytes of all frames that the source has sent.
    sender_tx_bytes: int
    #: Number of frames on all links.
    wire_packets: int
    #: Number of packets sent again.
    retransmissions: int
    #: Number of packets that links or switches have dropped.
    dropped_packets: int
    #: All values of the report (`alfirk run --json`).
    values: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Row:
        """Read a row of the report."""
        named = {item.name: values.get(item.name) for item in fields(cls) if item.name != "values"}
        return cls(**named, values=values)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Result:
    """Results of a run: a row for each algorithm, in the order of the request."""

    rows: tuple[Row, ...]
    #: The whole report (`alfirk run --json`).
    report: dict[str, Any] = field(repr=False, compare=False)

    def __getitem__(self, algorithm: str) -> Row:
        """Return the row of an algorithm."""
        for row in self.rows:
            if row.algorithm == algorithm:
                return row
        names = ", ".join(row.algorithm for row in self.rows)
        message = f"no row for {algorithm!r}; the run has {names}"
        raise KeyError(message)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame, with a column for each value of the report.

        Values of nested objects get columns such as `sender.window`.

        Raises:
            ImportError: pandas is not installed.

        """
        import pandas as pd  # noqa: PLC0415 - only here

        return pd.json_normalize([row.values for row in self.rows])


def run(algorithms: Sequence[str] | None = None, **flags: object) -> Result:
    """Send one message by each algorithm, and compare their times.

    Flags are those of ``alfirk run``, with `_` for `-`: `topology="fat-tree:8"`, `size="16MiB"`, `group=16`,
    `loss=0.001`, `seed=7`, `kill=["h2@20us"]`; `True` for a flag without a value. Same flags and seed, same
    result.

    Raises:
        AlfirkError: a flag is wrong, or the run cannot begin.

    """
    arguments = ["run", "--json"]
    if algorithms is not None:
        arguments += ["--algorithms", ",".join(algorithms)]
    for name, value in flags.items():
        arguments += _flag(name, value)
    done = execute(arguments)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        raise failure(done) from None
    # A receiver without the right bytes is a result, too: exit code 1, and `verified` is false.
    return Result(rows=tuple(Row.of(row) for row in report["results"]), report=report)


def _flag(name: str, value: object) -> list[str]:
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in (flag, str(item))]
    return [flag, str(value)]
