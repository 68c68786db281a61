"""Checks a program of the lab "the neutral ICRC": by arithmetic, and with cards that receive its packets."""

from __future__ import annotations

import random
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from alfirk_labs.covered import FREE, LENGTH, place
from alfirk_labs.group import MCST_ID, SENDERS_IP, broadcast, refused_by_linux
from alfirk_labs.outcome import Lab, Outcome, Setting, part
from alfirk_labs.python import Program, problem_of
from alfirk_ptf.icrc import icrc
from alfirk_ptf.packets import Roce

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alfirk_labs.cards import GroupOfCards
    from alfirk_labs.group import Params
    from alfirk_ptf.group import Member

MESSAGES = 3
BRIDGE = Path(__file__).with_name("bridge.p4")
_ETHERNET, _TRAILER = 14, 4


def linear(program: Program) -> str | None:
    """Return a change for which register() is not the linear part of the CRC."""
    source = random.Random(2)
    nothing = program.call("register", bytes(LENGTH))
    if nothing != 0:
        return f"register() of no change is {nothing!r}; it must be 0"
    for _ in range(50):
        old, change = source.randbytes(LENGTH), source.randbytes(LENGTH)
        new = bytes(a ^ b for a, b in zip(old, change, strict=True))
        wanted, got = crc32(old) ^ crc32(new), program.call("register", change)
        if got != wanted:
            return f"a change changed a CRC by {wanted:#010x}, register() returns {got!r}"
    return None


def reach(program: Program) -> str | None:
    """Return a column that does not match its bit."""
    got = program.call("columns")
    if not isinstance(got, list) or len(got) != 32:
        return f"there are 32 free bits, columns() returns {len(got) if isinstance(got, list) else got!r}"
    bits = [(field, bit) for field in FREE for bit in reversed(range(16))]
    for index, (field, bit) in enumerate(bits):
        change = place(field, 1 << bit)
        if got[index] != crc32(change) ^ crc32(bytes(LENGTH)):
            return f"column {index} is not what bit {bit} of the {field} changes"
    return None


def solves(program: Program) -> str | None:
    """Return a system that solve() does not solve correctly."""
    source = random.Random(3)
    for size in (1, 4, 32):
        for _ in range(20):
            matrix = [source.getrandbits(size) for _ in range(size)]
            reached = {0}
            if size <= 4:
                for column in matrix:
                    reached |= {value ^ column for value in reached}
            wanted = source.getrandbits(size)
            if size > 4:
                # A sum of columns, so that a solution exists.
                wanted = 0
                for column in source.sample(matrix, 16):
                    wanted ^= column
            has_solution = size > 4 or wanted in reached
            chosen = program.call("solve", matrix, wanted)
            shown = f"solve({matrix}, {wanted})" if size <= 4 else "solve() of 32 columns"
            if chosen is None:
                if has_solution:
                    return f"{shown} is None, but a solution exists"
                continue
            total = 0
            for index in chosen:
                total ^= matrix[index]
            if total != wanted:
                return f"{shown} returns columns whose XOR is {total}, not {wanted}"
            if len(set(chosen)) != len(chosen):
                return f"{shown} returns a column twice"
    return None


def keeps(program: Program) -> str | None:
    """Return a payload for which the ICRC changes."""
    source = random.Random(4)
    for length in (0, 4, 64, 1024, 4096):
        old = Roce(body=source.randbytes(length), psn=source.getrandbits(24), ident=source.getrandbits(16))
        ip, qpn = f"10.0.0.{source.randrange(2, 250)}", source.getrandbits(24)
        changes = {
            "source address": _number(old.src) ^ _number(old.dst),
            "destination address": _number(old.dst) ^ _number(ip),
            "destination queue pair": old.dqpn ^ qpn,
        }
        id_xor, sport_xor = program.call("constants", changes)
        new = Roce(
            body=old.body,
            psn=old.psn,
            src=old.dst,
            dst=ip,
            dqpn=qpn,
            ident=old.ident ^ id_xor,
            sport=old.sport ^ sport_xor,
        )
        before, after = (icrc(packet.frame()[_ETHERNET:-_TRAILER]) for packet in (old, new))
        if before != after:
            return f"payload of {length} bytes: the ICRC was {before.hex()}, the copy needs {after.hex()}"
    return None


def params_of(program: Program) -> Params:
    """Return the action parameters for a receiver, with the program's constants."""

    def params(member: Member, group: GroupOfCards) -> dict[str, int]:
        changes = {
            "source address": _number(SENDERS_IP) ^ _number(MCST_ID),
            "destination address": _number(MCST_ID) ^ _number(member.ip),
            "destination queue pair": group.virtual_qpn ^ member.qpn,
        }
        id_xor, sport_xor = program.call("constants", changes)
        return {
            "mac": int(member.mac.replace(":", ""), 16),
            "ip": _number(member.ip),
            "qpn": member.qpn,
            "id_xor": id_xor,
            "sport_xor": sport_xor,
        }

    return params


def accepted(setting: Setting, program: Program, trace: list[str]) -> str | None:
    """Return which card drops the copies of a switch that does not compute CRCs.

    The trace of the packet whose copy was dropped is added to `trace`.
    """
    with broadcast(setting, BRIDGE, MESSAGES, params_of(program)) as sent:
        for number in range(MESSAGES):
            for port, why in sent.send(number).items():
                trace += sent.trace(port)
                return f"host {port} drops message {number + 1}; its card counts it as {why}"
        problem = sent.complete()
        if problem is not None:
            trace += sent.trace()
        return problem


def check(setting: Setting) -> Iterator[Outcome]:
    """Test each function, then all together on a switch."""
    program = Program(setting.program)
    for claim, judge, hint in (
        (
            "register() gives the effect of a change on a CRC",
            linear,
            "TODO 1: a CRC starts from ones and ends with their complement; remove that constant part",
        ),
        ("columns() has all 32 free bits", reach, "TODO 2: 16 bits of each field, the highest one first"),
        (
            "solve() finds columns for every sum, or returns None",
            solves,
            "TODO 3: keep one reduced column for each highest bit, and the set of columns that it combines",
        ),
        (
            "constants() keep the ICRC for every payload",
            keeps,
            "TODO 4: identification first: it is the upper half of the 32 bits",
        ),
    ):
        yield part(claim, problem_of(partial(judge, program)), hint)
    trace: list[str] = []
    yield part(
        "cards accept the copies of a switch that does not compute CRCs",
        problem_of(lambda: accepted(setting, program, trace)),
        "the constants are for all changes of a copy together: both addresses and the queue pair",
        trace,
    )
    image = setting.guest_image
    if image is not None:
        yield part(
            "Linux's own RDMA stack accepts them, too",
            problem_of(lambda: refused_by_linux(setting, image, BRIDGE, MESSAGES, params_of(program))),
            "it accepts what the other cards accept: first complete the other parts",
        )


def _number(ip: str) -> int:
    return int(IPv4Address(ip))


LAB = Lab("starter.py", "solution.py", check, has_guest=True)
