"""Numbers of the contract between pipeline and controller, by the names of `p4src/shared/constants.p4`.

`tests/contract_test.py` compares them.
"""

from __future__ import annotations

from enum import IntEnum

VIRTUAL_MAC = "02:a1:f1:4c:00:01"
#: R_Key of a WRITE that carries a memory region.
MR_INFO_RKEY = 0xA1F1_4B31


class MinPsn(IntEnum):
    """How a group's minimum PSN is found: MIN_PSN_*."""

    TREE = 0
    WALK = 1
    PUNT = 2


class IcrcMode(IntEnum):
    """How the ICRC of a group's data is kept right: ICRC_*."""

    NEUTRAL = 0
    RECOMPUTE = 1
    PUNT = 2


class Drop(IntEnum):
    """Why a packet ended, cells of the counters ingress.drops and egress.drops: DROP_*."""

    PARSER_ERROR = 1
    IPV4_CHECKSUM = 2
    UNKNOWN_ETHERTYPE = 3
    ARP_NOT_FOR_US = 4
    NO_ROUTE = 5
    TTL_EXPIRED = 6
    NOT_A_PATH = 7
    NOT_A_MEMBER = 8
    WRONG_QPN = 9
    UNSUPPORTED_OPCODE = 10
    FEEDBACK_ICRC = 11
    FEEDBACK_MERGED = 12
    NO_SOURCE = 13
    OWN_COPY = 14
    ALREADY_ACKED = 15
    BAD_CONTROL = 16
    FEEDBACK_RECORDED = 17
    SPOOFED_SOURCE = 18
    DATA_ICRC = 19
    CNP_FILTERED = 20
    ICRC_PUNTED = 21
    WALK_TAKEN_OVER = 22
    NOT_THE_SOURCE = 23
    FRAGMENT = 24
    BEYOND_SENT = 25
    NAK_TOLD = 26
    WRONG_PKEY = 27
    MAY_NOT_SEND = 28
    REFUSAL_LIMITED = 29
    PUNT_LIMITED = 30


class Work(IntEnum):
    """What a strategy costs, cells of ingress.ack_aggregate.work, eight for each: WORK_*."""

    FEEDBACK = 0
    TOLD = 1
    RECIRCULATIONS = 2
    PUNTS = 3


class PacketOutKind(IntEnum):
    """packet_out.kind: PACKET_OUT_*."""

    FORWARD = 0
    REGISTERS = 1
    FEEDBACK = 2


class PacketInReason(IntEnum):
    """packet_in.reason: PACKET_IN_*."""

    REGISTERS = 1
    MRP = 2
    FEEDBACK = 3
    PROBE = 4
    ICRC = 5
    FATAL_NAK = 6
