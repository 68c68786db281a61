"""A P4 switch without interfaces: packets in, packets out, in virtual time."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk.command import AlfirkError, find_command
from alfirk.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self


@dataclass(frozen=True)
class Packet:
    """A packet that has left the switch."""

    #: Egress port.
    port: int
    #: The frame, from the Ethernet header.
    data: bytes


@dataclass(frozen=True)
class Counter:
    """Value of a counter."""

    packets: int
    bytes: int


@dataclass(frozen=True)
class Step:
    """One step of a packet through the program."""

    #: Kind of the step: `in`, `parsed`, `table`, `changed`, `queued`, `out`, `dropped` and others.
    event: str
    #: Number of the packet; copies have the number of the original.
    packet: int
    #: Its values: of a table, for example, `table`, `key`, `hit`, `entry`, `action`, `data`.
    values: dict[str, Any]
    #: The step as a line of text.
    text: str = field(repr=False, default="")


@dataclass(frozen=True)
class Trace:
    """How a packet was processed."""

    steps: tuple[Step, ...]
    #: Packets that have left the switch.
    packets: tuple[Packet, ...]

    def __str__(self) -> str:
        """Return the trace as text, a line for each step."""
        return "\n".join(step.text for step in self.steps)

    @property
    def drop_reason(self) -> str | None:
        """Why the packet, or the last of its copies that was dropped, was dropped; `None` if none was."""
        reasons = [step.values["reason"] for step in self.steps if step.event == "dropped"]
        return reasons[-1] if reasons else None


class Switch:
    """A switch that runs a program.

    >>> with Switch("router.p4") as switch:
    ...     switch.add("ipv4_lpm", "forward", {"port": 2}, keys={"hdr.ipv4.dstAddr": "10.0.2.0/24"})
    ...     switch.send(1, bytes(Ether() / IP(dst="10.0.2.7")))
    [Packet(port=2, data=b'...')]

    Names of tables, actions, registers and counters may be cut at the front where that is unambiguous.
    Values of keys and arguments are numbers, IPv4 or MAC addresses, `VALUE/LENGTH` for prefixes,
    `VALUE &&& MASK` for ternary keys and `LOW..HIGH` for ranges, as in p4c's STF language.
    """

    def __init__(
        self,
        program: str | Path | Program,
        *,
        arch: str = "v1model",
        include: Sequence[str | Path] = (),
        seed: int = 0,
        trace: bool = False,
    ) -> None:
        """Start a switch.

        Args:
            program: a P4 source file, a BMv2 JSON file, or a compiled program.
            arch: the program's architecture, if it is a source file.
            include: folders that are searched for included files.
            seed: of the switch's random numbers.
            trace: whether each packet is traced; see `trace`.

        Raises:
            AlfirkError: the program has errors.

        """
        self._folder = tempfile.TemporaryDirectory()
        if isinstance(program, Program):
            program = program.save(self._folder.name)
        flags = ["--arch", arch, "--seed", str(seed), *(f"-I{folder}" for folder in include)]
        flags += ["--trace"] if trace else []
        self._errors = (Path(self._folder.name) / "errors").open("w+", encoding="utf-8")
        self._child = subprocess.Popen(
            [str(find_command()), "stf", "--interactive", *flags, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            bufsize=1,
        )
        self._traces = trace
        self._last: dict[str, Any] = {}
        try:
            # A command that changes nothing: the program is loaded when its answer comes.
            self.command("dump")
        except AlfirkError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the switch."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the switch."""
        self.close()

    def close(self) -> None:
        """Stop the switch. Its state is gone."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self._child.wait()
        self._errors.close()
        self._folder.cleanup()

    def command(self, line: str) -> dict[str, Any]:
        """Execute a command of p4c's STF language, such as `mc_mgrp_create 1`; return its result as it is.

        Raises:
            AlfirkError: the switch does not execute it, or has ended.

        """
        if "\n" in line:
            message = "a command is one line"
            raise AlfirkError(message)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()
            answer = self._child.stdout.readline()
        except (BrokenPipeError, ValueError):
            answer = ""
        if not answer:
            raise AlfirkError(self._end())
        self._last = json.loads(answer)
        if "error" in self._last:
            raise AlfirkError(self._last["error"])
        return self._last

    def _end(self) -> str:
        if self._errors.closed:
            return "the switch is closed"
        self._child.wait()
        self._errors.seek(0)
        return self._errors.read().strip() or f"the switch has ended with exit code {self._child.returncode}"

    def send(self, port: int, frame: object) -> list[Packet]:
        """Send a frame into a port; return the packets that have left the switch.

        Args:
            port: ingress port.
            frame: bytes, or what `bytes()` converts, such as a scapy packet.

        Raises:
            AlfirkError: the program makes endless copies.

        """
        answer = self.command(f"packet {port} {bytes(frame).hex()}")  # type: ignore[call-overload]
        return _packets(answer)

    def trace(self, port: int, frame: object) -> Trace:
        """Send a frame into a port; return how it was processed. The switch was started with `trace=True`.

        Raises:
            AlfirkError: as `send`, or the switch does not trace.

        """
        if not self._traces:
            message = "this switch does not trace; start it with Switch(..., trace=True)"
            raise AlfirkError(message)
        packets = self.send(port, frame)
        steps = []
        for values in self._last.get("trace", []):
            rest = {key: value for key, value in values.items() if key not in {"event", "packet", "text"}}
            steps.append(Step(values["event"], values["packet"], rest, values["text"]))
        return Trace(tuple(steps), tuple(packets))

    def add(
        self,
        table: str,
        action: str,
        arguments: Mapping[str, object] | None = None,
        *,
        keys: Mapping[str, object] | None = None,
        priority: int | None = None,
        handle: str | None = None,
    ) -> None:
        """Insert a table entry.

        Args:
            table: the table.
            action: the entry's action.
            arguments: its arguments by name of the parameter.
            keys: key elements by name; one that is left out matches 0 if it is exact, else every value.
            priority: of entries of tables with ternary or range keys, the largest wins.
            handle: a name for `remove`.

        Raises:
            AlfirkError: there is no such name, or the value does not fit.

        """
        words = ["add", f'"{table}"', *([] if priority is None else [str(priority)])]
        words += [f'"{name}":{value}' for name, value in (keys or {}).items()]
        words.append(_action(action, arguments))
        words += [] if handle is None else [f"= ${handle}"]
        self.command(" ".join(words))

    def set_default(self, table: str, action: str, arguments: Mapping[str, object] | None = None) -> None:
        """Set the default action of a table.

        Raises:
            AlfirkError: there is no such name, or the value does not fit.

        """
        self.command(f'setdefault "{table}" {_action(action, arguments)}')

    def remove(self, handle: str) -> None:
        """Delete the entry that was added with this handle.

        Raises:
            AlfirkError: there is none.

        """
        self.command(f"remove ${handle}")

    def clear(self) -> None:
        """Delete the entries of all tables, except const ones."""
        self.command("remove all")

    def read_register(self, name: str, index: int = 0) -> int:
        """Return the value of a register.

        Raises:
            AlfirkError: there is no such register.

        """
        return int(self.command(f'register_read "{name}" {index}')["value"] or "0", 16)

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set a register.

        Raises:
            AlfirkError: there is no such register, or the value does not fit.

        """
        self.command(f'register_write "{name}" {index} {value}')

    def read_counter(self, name: str, index: int = 0) -> Counter:
        """Return the value of a counter.

        Raises:
            AlfirkError: there is no such counter.

        """
        counter = self.command(f'counter_read "{name}" {index}')["counter"]
        return Counter(counter["packets"], counter["bytes"])


def trace(
    program: str | Path | Program, port: int, frame: object, *, commands: Sequence[str] = (), **options: Any
) -> Trace:
    """Send one frame into a new switch, and return how it was processed.

    Args:
        program: as for `Switch`.
        port: ingress port.
        frame: bytes, or what `bytes()` converts.
        commands: executed before, such as `add` in p4c's STF language.
        options: of `Switch`.

    Raises:
        AlfirkError: the program or a command has errors.

    """
    with Switch(program, trace=True, **options) as switch:
        for command in commands:
            switch.command(command)
        return switch.trace(port, frame)


def _action(name: str, arguments: Mapping[str, object] | None) -> str:
    values = ", ".join(f"{key}:{value}" for key, value in (arguments or {}).items())
    return f'"{name}"({values})'


def _packets(answer: dict[str, Any]) -> list[Packet]:
    return [Packet(packet["port"], bytes.fromhex(packet["data"])) for packet in answer.get("packets", [])]
