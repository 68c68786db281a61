"""Alfirk from Python: run multicast experiments, compile P4 programs, and send packets through a P4 switch.

    >>> import alfirk
    >>> result = alfirk.run(algorithms=["alfirk", "chain"], size="64KiB")
    >>> result["alfirk"].receivers_verified
    15

Everything runs in virtual time in a child process, the ``alfirk`` command: without root and interfaces.
"""

from alfirk.command import AlfirkError, find_command
from alfirk.experiment import Result, Row, run
from alfirk.program import Program, compile  # noqa: A004 - the name of the operation
from alfirk.switch import Counter, Packet, Step, Switch, Trace, trace

__all__ = [
    "AlfirkError",
    "Counter",
    "Packet",
    "Program",
    "Result",
    "Row",
    "Step",
    "Switch",
    "Trace",
    "compile",
    "find_command",
    "run",
    "trace",
]
