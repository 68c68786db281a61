"""The target of the data plane under test, and differences between v1model and Tofino (p4src/tna)."""

from __future__ import annotations

import os
from enum import Enum
from unittest import SkipTest

from alfirk_ptf import contract

#: Environment variable for the target.
TARGET_VARIABLE = "ALFIRK_TARGET"


class Target(Enum):
    """A data plane in p4src."""

    V1MODEL = "v1model"
    TNA = "tna"
    #: Tofino 2, with the program of p4src/tna.
    T2NA = "t2na"

    @property
    def is_tofino(self) -> bool:
        """Whether the target is Tofino or Tofino 2."""
        return self is not Target.V1MODEL

    @property
    def folder(self) -> str:
        """The folder of the program in p4src."""
        return "tna" if self.is_tofino else self.value

    @property
    def path_bits(self) -> int:
        """The default of PATH_BITS, as in p4src/shared/sizes.p4."""
        return 5 if self is Target.TNA else contract.MAX_PATHS.bit_length() - 1

    @property
    def recirculation_ports(self) -> range:
        """The ports that recirculate packets."""
        return {Target.V1MODEL: range(0), Target.TNA: range(68, 72), Target.T2NA: range(6, 8)}[self]

    @property
    def first_local_ack_session(self) -> int:
        """The first mirror session after those of ports; Tofino has 1,024 sessions, Tofino 2 has 256."""
        return 128 if self is Target.T2NA else 512

    @property
    def last_session(self) -> int:
        """The last mirror session, which is that of registrations."""
        return 2 * self.first_local_ack_session - 1

    def session_of(self, port: int) -> int:
        """Return the mirror session of a port: its number, truncated to the width of session ids."""
        return port % 256 if self is Target.T2NA else port

    @property
    def punt_gress(self) -> str:
        """The gress that meters packets to the controller."""
        return "egress" if self.is_tofino else "ingress"

    def flags(self, cpu_port: int) -> list[str]:
        """Return the compiler flags of the target."""
        return ["--arch", self.value, f"-DCPU_PORT={cpu_port}"] if self.is_tofino else []


#: Environment variable for the profile.
PROFILE_VARIABLE = "ALFIRK_PROFILE"


class Profile(Enum):
    """A profile of v1model's data plane (p4src/v1model/profile.p4)."""

    FULL = "full"
    CORE = "core"

    def flags(self) -> list[str]:
        """Return the compiler flags of the profile."""
        return [f"-DALFIRK_PROFILE=PROFILE_{self.name}"] if self is Profile.CORE else []


class Feature(Enum):
    """An optional part of v1model's data plane (p4src/v1model/features.p4), which the core does not have."""

    STRATEGIES = "other strategies of the minimum and of the ICRC"
    CONGESTION = "CNPs and ECN marks"
    SELECTIVE_REPEAT = "selective NAKs"
    REFUSALS = "NAKs to unsupported requests"
    TAGS = "VLAN tags, and the DSCP of feedback"
    MEMORY_REGIONS = "announced memory regions"
    DATAGRAMS = "datagram multicast"
    WORK = "counters of the cost of a strategy"


#: The target and the profile of this run.
TARGET = Target(os.environ.get(TARGET_VARIABLE, Target.V1MODEL.value))
PROFILE = Profile(os.environ.get(PROFILE_VARIABLE, Profile.FULL.value))
#: Whether groups can have other strategies than a tree and neutral constants.
HAS_STRATEGIES = PROFILE is Profile.FULL and not TARGET.is_tofino
#: Whether an ACK that a switch makes of data has the DSCP of the data.
LOCAL_ACK_HAS_DSCP = PROFILE is Profile.FULL and not TARGET.is_tofino

#: First mirror session of local ACKs on Tofino, and the length to which it truncates: after the BTH.
FIRST_LOCAL_ACK_SESSION = TARGET.first_local_ack_session
LOCAL_ACK_BYTES = 20 + 54 + 8
#: Length of mirrored feedback, with the ICRC of a frame with two tags, and of registrations, with 1,500 bytes
#: of IPv4.
FEEDBACK_BYTES = 20 + 62 + 8
REGISTRATION_BYTES = 20 + 14 + 8 + 1500
#: Number of bytes after an untagged frame for the controller, which the length of two tags leaves.
UNTAGGED_SURPLUS = 8 if TARGET.is_tofino else 0


def needs(*features: Feature) -> None:
    """Skip a test of features that the profile does not have."""
    if features and PROFILE is Profile.CORE:
        msg = f"the core profile does not have: {', '.join(feature.value for feature in features)}"
        raise SkipTest(msg)


def only_v1model(what: str) -> None:
    """Skip a test of something that Tofino's data plane does not have."""
    if TARGET.is_tofino:
        msg = f"only v1model has: {what}"
        raise SkipTest(msg)


#: Offset of the EtherType in an untagged frame, length of an IEEE 802.1Q tag, and EtherTypes of tags.
_ETHERTYPE = 12
_TAG_BYTES = 4
_TAGS = (b"\x81\x00", b"\x88\xa8")
_ACKNOWLEDGE = 17


def _ip(frame: bytes) -> int | None:
    """Return the offset of the IPv4 header of a frame."""
    at = _ETHERTYPE
    while frame[at : at + 2] in _TAGS:
        at += _TAG_BYTES
    return at + 2 if frame[at : at + 2] == b"\x08\x00" else None


def _may_have_surplus(frame: bytes, ip: int | None) -> bool:
    """Return whether a frame may be an acknowledgement that Tofino made of a truncated packet."""
    return TARGET.is_tofino and ip is not None and frame[ip + 28 : ip + 29] == bytes([_ACKNOWLEDGE])


def as_received(frame: bytes) -> bytes:
    """Remove the bytes after the IPv4 packet of an acknowledgement.

    Tofino makes acknowledgements of truncated packets; receivers take the rest of such a packet as padding.
    """
    ip = _ip(frame)
    if not _may_have_surplus(frame, ip) or ip is None:
        return frame
    return frame[: ip + int.from_bytes(frame[ip + 2 : ip + 4], "big")]
