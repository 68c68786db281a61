"""What the switch under test is, and how the tables of both targets differ (p4src/v1model, p4src/tna)."""

from __future__ import annotations

import os
from enum import Enum
from unittest import SkipTest

from alfirk_ptf import contract

#: Says for which target the program is compiled.
TARGET_VARIABLE = "ALFIRK_TARGET"


class Target(Enum):
    """A data plane in p4src."""

    V1MODEL = "v1model"
    TNA = "tna"
    #: p4src/tna as well, for Tofino 2.
    T2NA = "t2na"

    @property
    def is_tofino(self) -> bool:
        """Whether it is one for Tofino."""
        return self is not Target.V1MODEL

    @property
    def folder(self) -> str:
        """Name the folder of its program in p4src."""
        return "tna" if self.is_tofino else self.value

    @property
    def path_bits(self) -> int:
        """For how many paths it is compiled unless it is said otherwise, as p4src/shared/sizes.p4 has it."""
        return 5 if self is Target.TNA else contract.MAX_PATHS.bit_length() - 1

    @property
    def recirculation_ports(self) -> range:
        """Give the ports whose packets come into ingress again."""
        return {Target.V1MODEL: range(0), Target.TNA: range(68, 72), Target.T2NA: range(6, 8)}[self]

    @property
    def first_local_ack_session(self) -> int:
        """Give the number behind the mirror sessions of ports: there are 1,024 on Tofino, 256 on Tofino 2."""
        return 128 if self is Target.T2NA else 512

    @property
    def last_session(self) -> int:
        """Give the largest number of a mirror session: registrations have it on Tofino."""
        return 2 * self.first_local_ack_session - 1

    def session_of(self, port: int) -> int:
        """Give the mirror session that leads to a port: its number, in as many bits as sessions have."""
        return port % 256 if self is Target.T2NA else port

    @property
    def punt_gress(self) -> str:
        """Where it meters what goes to the controller."""
        return "egress" if self.is_tofino else "ingress"

    def flags(self, cpu_port: int) -> list[str]:
        """List what the compiler is given besides the program."""
        return ["--arch", self.value, f"-DCPU_PORT={cpu_port}"] if self.is_tofino else []


#: That of this run.
TARGET = Target(os.environ.get(TARGET_VARIABLE, Target.V1MODEL.value))

#: Mirror sessions for answers on Tofino: their numbers begin here, and they cut a packet behind the BTH.
FIRST_LOCAL_ACK_SESSION = TARGET.first_local_ack_session
LOCAL_ACK_BYTES = 20 + 54 + 8
#: Those for feedback end behind the ICRC of a frame with two tags, those for registrations behind 1,500
#: bytes of IPv4.
FEEDBACK_BYTES = 20 + 62 + 8
REGISTRATION_BYTES = 20 + 14 + 8 + 1500
#: So an untagged frame for the controller has these bytes more.
UNTAGGED_SURPLUS = 8 if TARGET.is_tofino else 0


def only_v1model(what: str) -> None:
    """End a test of something that Tofino's data plane does not have."""
    if TARGET.is_tofino:
        msg = f"of v1model alone: {what}"
        raise SkipTest(msg)


#: Where the EtherType of an untagged frame is, and of IEEE 802.1 tags how long each is.
_ETHERTYPE = 12
_TAG_BYTES = 4
_TAGS = (b"\x81\x00", b"\x88\xa8")
_ACKNOWLEDGE = 17


def _ip(frame: bytes) -> int | None:
    """Find the IPv4 header of a frame."""
    at = _ETHERTYPE
    while frame[at : at + 2] in _TAGS:
        at += _TAG_BYTES
    return at + 2 if frame[at : at + 2] == b"\x08\x00" else None


def _may_differ(frame: bytes, ip: int | None) -> bool:
    """Whether a frame may be an answer of Tofino's."""
    return TARGET.is_tofino and ip is not None and frame[ip + 28 : ip + 29] == bytes([_ACKNOWLEDGE])


def as_received(frame: bytes) -> bytes:
    """Give a frame without what is behind its IPv4 packet.

    Tofino makes answers of packets that it cuts: what is left behind one is padding to its receiver.
    """
    ip = _ip(frame)
    if not _may_differ(frame, ip) or ip is None:
        return frame
    return frame[: ip + int.from_bytes(frame[ip + 2 : ip + 4], "big")]
