"""Numbers of ``p4src/v1model/main.p4``.

Written by ``alfirk p4c --constants-files``; change them there.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

#: EtherType of IPv4 (IEEE 802 numbers)
ETHERTYPE_IPV4 = 0x800
#: EtherType of ARP (RFC 826)
ETHERTYPE_ARP = 0x806
#: IEEE 802.1Q, also priority tags (VLAN 0)
ETHERTYPE_C_TAG = 0x8100
#: IEEE 802.1ad
ETHERTYPE_S_TAG = 0x88A8
#: length of a VLAN tag
TAG_BYTES = 4
#: ARP hardware type of Ethernet (RFC 826)
ARP_HTYPE_ETHERNET = 1
#: ARP operation of a request (RFC 826)
ARP_OPER_REQUEST = 1
#: ARP operation of a reply (RFC 826)
ARP_OPER_REPLY = 2
#: IPv4 protocol number of TCP
IP_PROTOCOL_TCP = 6
#: IPv4 protocol number of UDP
IP_PROTOCOL_UDP = 17
#: UDP ports of RoCEv2 (IBTA vol. 1, annex A17.3.1) and of Alfirk's registration protocol.
UDP_PORT_ROCEV2 = 0x12B7
#: UDP port of Alfirk's registration protocol (MRP)
UDP_PORT_MRP = 0x12B6
#: BTH opcodes of the reliable connection service (IBTA vol. 1, table 38).
OPCODE_RC_SEND_FIRST = 0
#: RDMA WRITE First
OPCODE_RC_WRITE_FIRST = 6
#: RDMA WRITE Only
OPCODE_RC_WRITE_ONLY = 10
#: RDMA WRITE Only with Immediate
OPCODE_RC_WRITE_ONLY_IMM = 11
#: RDMA READ Request
OPCODE_RC_READ_REQUEST = 12
#: Acknowledge: an ACK or NAK
OPCODE_RC_ACKNOWLEDGE = 17
#: atomic CmpSwap
OPCODE_RC_COMPARE_SWAP = 19
#: atomic FetchAdd
OPCODE_RC_FETCH_ADD = 20
#: SEND Last with Invalidate
OPCODE_RC_SEND_LAST_INV = 22
#: SEND Only with Invalidate
OPCODE_RC_SEND_ONLY_INV = 23
#: FLUSH
OPCODE_RC_FLUSH = 28
#: ATOMIC WRITE
OPCODE_RC_ATOMIC_WRITE = 29
#: congestion notification packet of RoCEv2 (IBTA annex A17.9.3)
OPCODE_CNP = 129
#: The upper three bits of the opcodes of unreliable datagrams (the same table).
OPCODE_CLASS_UD = 3
#: Multicast of datagrams: queue pair number of all receivers (IBTA vol. 1, section 10.5), prefix of
#: IPv4 group addresses, and the
#: first 24 bits of their MAC addresses; a zero bit and the lower 23 bits of the IPv4 address follow
#: (RFC 1112, section 6.4).
MULTICAST_QPN = 0xFFFFFF
#: upper four bits of IPv4 multicast addresses, 224.0.0.0/4
IPV4_MULTICAST = 14
#: first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112)
MULTICAST_MAC = 0x1005E
#: AETH syndromes (IBTA vol. 1, section 9.7.5.1.4): two type bits after a zero, then a value.
AETH_ACK = 0
#: type bits of an RNR NAK; the value is the timer code
AETH_RNR_NAK = 1
#: type bits of a NAK; the value is the NAK code
AETH_NAK = 3
#: NAK code of a PSN sequence error
NAK_PSN_SEQUENCE_ERROR = 0
#: NAK code of an invalid request
NAK_INVALID_REQUEST = 1
#: NAK code of a remote operational error
NAK_REMOTE_OPERATIONAL = 3
#: Selective NAK: a code reserved by the specification, accepted only if the group's entry enables
#: selective repeat
#: (selective_nak.p4). Between receivers and switches the PSN is that of the lost packet, and the
#: MSN is the number of reports
#: by its receiver, 1 to 255. A source gets it with the PSN after the last acknowledged one, and the
#: lost PSN as MSN.
NAK_SELECTIVE = 31
#: ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
SYNDROME_ACK_NO_CREDITS = 31


class MinPsn(IntEnum):
    """Strategies for a group's minimum PSN (parameter min_psn of set_group)."""

    #: in one pass (min_psn_tree.p4)
    TREE = 0
    #: by recirculation (min_psn_walk.p4)
    WALK = 1
    #: by the controller
    PUNT = 2


class IcrcMode(IntEnum):
    """Strategies for the ICRC of a group's data (parameter icrc of set_group)."""

    #: by the constants of the bridge
    NEUTRAL = 0
    #: in the pipeline; the McstID must lie in the range below
    RECOMPUTE = 1
    #: by the controller
    PUNT = 2


#: The payload of data is parsed only for McstIDs of this network, as parsers have no group table.
RECOMPUTE_NETWORK = 0xAFF8000
#: netmask of RECOMPUTE_NETWORK: 17 bits
RECOMPUTE_MASK = 0xFFFF8000
#: R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
MR_INFO_RKEY = 0xA1F14B31
#: UDP length of such a packet, and of the empty WRITE that hosts get instead: UDP (8) + BTH (12) +
#: RETH (16) + ICRC (4), and 16 bytes of XOR differences.
MR_INFO_UDP_BYTES = 56
#: UDP length of the empty WRITE
EMPTY_WRITE_UDP_BYTES = 40
#: IPv4 total length of the empty WRITE
EMPTY_WRITE_IPV4_BYTES = 60
#: Part of the UDP length that is not payload: UDP, BTH and ICRC, and those with a RETH.
UDP_OVERHEAD_BYTES = 24
#: UDP, BTH, RETH and ICRC
UDP_OVERHEAD_WITH_RETH_BYTES = 40
#: Default window: packets that a source may send beyond the last acknowledged one, if the group's
#: entry (set_group) has none.
#: More than queue pairs have outstanding (128 in Linux' rdma_rxe), and far below 2^23, the limit of
#: serial comparison.
DEFAULT_WINDOW = 0x10000
#: Messages by which the next MSN may be ahead of the one that a controller has written after a loss
#: of registers (last_acked.p4).
UNKNOWN_MSN_ROOM = 0x8000
#: Timeout of a walk in microseconds, after which its packet is taken as lost.
WALK_TIMEOUT_US = 0x3E8
#: ECN code points (RFC 3168).
ECN_NOT_ECT = 0
#: congestion experienced
ECN_CE = 3
#: Virtual queue pair number of groups without their own one.
FIXED_VIRTUAL_QPN = 1
#: The default P_Key without its membership bit (IBTA vol. 1, section 10.9): groups are in this
#: partition.
DEFAULT_PARTITION = 0x7FFF
#: MAC address of the fabric, as hosts see it.
VIRTUAL_MAC = 0x2A1F14C0001
#: length of an Ethernet header without tags
ETHERNET_BYTES = 14
#: Length of the IPv4 header: groups' packets have no options.
UDP_OFFSET_BYTES = 20
#: IPv4 length of an ACK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
ACK_IPV4_BYTES = 48
#: UDP length of an ACK
ACK_UDP_BYTES = 28
#: length of an ACK from the Ethernet header to the ICRC, without tags
ACK_FRAME_BYTES = 62
#: TTL of an ACK that a switch creates from data.
ACK_TTL = 64
#: TTL of feedback that a switch merges or forwards: as if the member were at this switch.
FEEDBACK_TTL = 63
#: UDP source port of all feedback of switches, before the exit half of the bridge.
FEEDBACK_UDP_SOURCE_PORT = 0xC000
#: IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA annex A17.9.3).
CNP_IPV4_BYTES = 60
#: UDP length of a CNP
CNP_UDP_BYTES = 40
#: length of a CNP from the Ethernet header to the ICRC, without tags
CNP_FRAME_BYTES = 74
#: A probe after packet_in (3) and feedback (10).
PROBE_PACKET_IN_BYTES = 75
#: A fatal NAK after packet_in (3).
FATAL_NAK_PACKET_IN_BYTES = 65
#: A registration packet after packet_in (3): Ethernet (14) and at most 1,500 bytes of IPv4.
MRP_PACKET_IN_BYTES = 0x5ED
#: Path index in words written by a sender's own data: the largest one, so that it loses every tie
#: and the MSN of a
#: receiver is used.
PATH_OF_SENDER = 255


class PacketOutKind(IntEnum):
    """packet_out.kind."""

    #: a frame for packet_out.egress_port
    FORWARD = 0
    #: a register control header
    REGISTERS = 1
    #: an ACK or NAK that the controller sends
    FEEDBACK = 2


class PacketInReason(IntEnum):
    """packet_in.reason."""

    #: the reply to a register control header
    REGISTERS = 1
    #: a registration packet of a host
    MRP = 2
    #: an ACK or NAK of a group of MinPsn.PUNT
    FEEDBACK = 3
    #: old data of such a group, as an ACK of its PSN, to be acknowledged if all paths have it
    PROBE = 4
    #: data to egress port `ingress_port`, whose ICRC the controller computes
    ICRC = 5
    #: a NAK of a receiver whose queue pair is in the error state
    FATAL_NAK = 6


class RegisterOp(IntEnum):
    """register_control.op."""

    #: initialise all registers of a group
    INIT_GROUP = 1
    #: read one register
    READ = 2
    #: write one register
    WRITE = 3
    #: clear the memory regions announced to receivers
    INIT_REGIONS = 4


class RegisterStatus(IntEnum):
    """register_control.status."""

    #: the operation is complete
    OK = 0
    #: the operation is unknown
    BAD_OP = 1
    #: the register is unknown
    BAD_REGISTER = 2
    #: group, path or count exceeds the pipeline's sizes
    OUT_OF_RANGE = 3


class RegisterName(IntEnum):
    """register_control.reg: registers that can be read and written."""

    #: agg_psn << 24 | agg_msn
    AGG = 1
    #: nak_syndrome << 24 | nak_psn, 0 if no NAK is pending; bit 31 is set if it was sent to the
    #: source
    NAK = 2
    #: port of the source, 0 if there was none
    SRC_PORT = 3
    #: of a path: ack_psn << 8 | path; to write, absent << 32 | that
    ACK = 4
    #: of a path, its lower 16 bits; to be written before RegisterName.ACK, which propagates it up
    #: the tree
    MSN = 5
    #: of a path: the egress copy of ack_psn, for the retransmission filter
    FILTER = 6
    #: of a receiver: XOR difference of the virtual address (memory_regions.p4)
    REGION_VA = 7
    #: of a receiver: the same for R_Key << 32 | identification << 16 | source port
    REGION_KEYS = 8
    #: of a receiver: the PSN of the WRITE that announced both
    REGION_ANNOUNCED_AT = 9
    #: newest PSN sent by a source
    SENT = 10
    #: of a path, read only: newest PSN that its feedback has acknowledged, even beyond SENT
    CLAIMED = 11


class Drop(IntEnum):
    """Drop reasons, each an index of the counter arrays ingress.drops and egress.drops."""

    #: not dropped
    NONE = 0
    #: the parser rejected the packet
    PARSER_ERROR = 1
    #: wrong IPv4 header checksum
    IPV4_CHECKSUM = 2
    #: neither IPv4 nor ARP
    UNKNOWN_ETHERTYPE = 3
    #: an ARP packet without a reply: not a request, or not for an address of the fabric
    ARP_NOT_FOR_US = 4
    #: no route to the destination address
    NO_ROUTE = 5
    #: the TTL is 0 or 1
    TTL_EXPIRED = 6
    #: a group packet on a port outside the group's tree
    NOT_A_PATH = 7
    #: a group packet of a host that is not the member on that port
    NOT_A_MEMBER = 8
    #: a packet for another queue pair than the group's, or of an earlier group's
    WRONG_QPN = 9
    #: an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    UNSUPPORTED_OPCODE = 10
    #: an ACK, NAK or CNP with a wrong ICRC
    FEEDBACK_ICRC = 11
    #: an ACK or NAK that only updated registers
    FEEDBACK_MERGED = 12
    #: a CNP or fatal NAK before any data
    NO_SOURCE = 13
    #: the copy for the port that the packet came from
    OWN_COPY = 14
    #: retransmission filter: the path has acknowledged this PSN
    ALREADY_ACKED = 15
    #: PacketOut of an unknown kind
    BAD_CONTROL = 16
    #: the mirror of a forwarded ACK, after the filter took its PSN
    FEEDBACK_RECORDED = 17
    #: a host used an address that is not its own
    SPOOFED_SOURCE = 18
    #: data that was to be changed had a wrong ICRC
    DATA_ICRC = 19
    #: a CNP of a path that is not the most congested one
    CNP_FILTERED = 20
    #: the controller has the copy, and sends it on
    ICRC_PUNTED = 21
    #: a search packet that returned after another walk had begun
    WALK_TAKEN_OVER = 22
    #: data of a host that is not the source, and not the next PSN
    NOT_THE_SOURCE = 23
    #: a group packet in IP fragments or with IP options
    FRAGMENT = 24
    #: an ACK or NAK of a PSN that no source has sent
    BEYOND_SENT = 25
    #: a NAK that was sent to the source, which has not yet resent its PSN
    NAK_ALREADY_SENT = 26
    #: a member's packet of another partition
    WRONG_PKEY = 27
    #: data of a member that may only receive
    MAY_NOT_SEND = 28
    #: a READ or ATOMIC shortly after another one of the host was refused
    REFUSAL_LIMITED = 29
    #: beyond the port's rate limit of packets to the controller (punt_limit.p4)
    PUNT_LIMITED = 30
    #: a datagram to a group with a MAC address that is not the group's
    WRONG_MULTICAST_MAC = 31
    #: an AETH syndrome that IBTA reserves, or that the group does not use
    RESERVED_SYNDROME = 32
    #: data beyond the window of the source
    BEYOND_WINDOW = 33
    #: a request whose lengths, padding or transport version are wrong
    MALFORMED = 34
    #: a CNP of the source itself (IBTA annex A17.9.3)
    OWN_CNP = 35
    #: a CNP beyond the rate limit of its path
    CNP_LIMITED = 36
    #: a fatal NAK of a request that its path has acknowledged
    STALE_NAK = 37


#: cells of ingress.drops and egress.drops
SIZE_DROP_REASONS = 64


class Work(IntEnum):
    """Cells of the counter array ingress.ack_aggregate.work; those of a strategy begin at cell 8 * MinPsn."""

    #: ACKs and NAKs received
    FEEDBACK = 0
    #: ACKs and NAKs forwarded to the source
    FORWARDED = 1
    #: passes through the pipeline after the first one
    RECIRCULATIONS = 2
    #: packets punted to the controller
    PUNTS = 3


#: cells of ingress.ack_aggregate.work
SIZE_WORK = 32


#: Register access by PacketOut, which works on every target: the P4Runtime server of
#: BMv2 rejects RegisterEntry. The reply is the same header in a PacketIn.
#: INIT_GROUP initialises `group` with `count` paths: the next PSN is value[23:0], the MSN
#: value[47:24]; on Tofino the port of the
#: source is value[63:48], on v1model the sender of the next data becomes the source
#: READ value := reg of `group` (and of path `index`, if it has a cell per path)
#: WRITE reg of `group` (and of path `index`) := value
#: INIT_REGIONS clears the memory regions announced to `count` receivers, from slot `group` ++
#: `index` on, as before PSN value[23:0]
#: While INIT_GROUP recirculates, `index` is the number of initialised paths. For registers with a
#: cell per receiver, `group` ++
#: `index` is the receiver's slot.
@dataclass(frozen=True)
class RegisterControl:
    """The header `register_control_t`."""

    #: RegisterOp
    op: int = 0
    #: RegisterStatus, in replies
    status: int = 0
    #: RegisterName, for READ and WRITE
    reg: int = 0
    #: number of paths or receivers to initialise
    count: int = 0
    #: index of the group
    group: int = 0
    #: path, or number of initialised paths
    index: int = 0
    #: value read or to be written
    value: int = 0
    #: chosen by the controller, repeated in the reply
    cookie: int = 0

    #: Bytes on the wire.
    SIZE: ClassVar[int] = 20

    def pack(self) -> bytes:
        """Give the bytes; of each field the bits that it has on the wire count."""
        value = 0
        value = value << 8 | self.op & 255
        value = value << 8 | self.status & 255
        value = value << 8 | self.reg & 255
        value = value << 8 | self.count & 255
        value = value << 16 | self.group & 0xFFFF
        value = value << 16 | self.index & 0xFFFF
        value = value << 64 | self.value & 0xFFFFFFFFFFFFFFFF
        value = value << 32 | self.cookie & 0xFFFFFFFF
        return value.to_bytes(20, "big")

    @classmethod
    def unpack(cls, data: bytes) -> "RegisterControl":
        """Read the first 20 bytes."""
        value = int.from_bytes(data[:20], "big")
        return cls(
            op=value >> 152 & 255,
            status=value >> 144 & 255,
            reg=value >> 136 & 255,
            count=value >> 128 & 255,
            group=value >> 112 & 0xFFFF,
            index=value >> 96 & 0xFFFF,
            value=value >> 32 & 0xFFFFFFFFFFFFFFFF,
            cookie=value >> 0 & 0xFFFFFFFF,
        )


#: Header before an ACK or NAK to or from the controller (MinPsn.PUNT).
#: PacketIn `port` is that of the source (0: none yet); PSN and MSN are those last acknowledged to
#: it
#: PacketOut the feedback to send through `port`; 0 means the port of the source
@dataclass(frozen=True)
class Feedback:
    """The header `feedback_t`."""

    #: index of the group
    group: int = 0
    #: port of the source, or egress port
    port: int = 0
    #: PSN last acknowledged to the source
    agg_psn: int = 0
    #: MSN last acknowledged to the source
    agg_msn: int = 0

    #: Bytes on the wire.
    SIZE: ClassVar[int] = 10

    def pack(self) -> bytes:
        """Give the bytes; of each field the bits that it has on the wire count."""
        value = 0
        value = value << 16 | self.group & 0xFFFF
        value = value << 16 | self.port & 0xFFFF
        value = value << 24 | self.agg_psn & 0xFFFFFF
        value = value << 24 | self.agg_msn & 0xFFFFFF
        return value.to_bytes(10, "big")

    @classmethod
    def unpack(cls, data: bytes) -> "Feedback":
        """Read the first 10 bytes."""
        value = int.from_bytes(data[:10], "big")
        return cls(
            group=value >> 64 & 0xFFFF,
            port=value >> 48 & 0xFFFF,
            agg_psn=value >> 24 & 0xFFFFFF,
            agg_msn=value >> 0 & 0xFFFFFF,
        )


class Kind(IntEnum):
    """Kind of a packet in terms of the protocol (classify.p4)."""

    #: not a packet of a group
    NONE = 0
    #: SEND or WRITE
    DATA = 1
    #: positive acknowledgement
    ACK = 2
    #: PSN sequence error, or RNR
    NAK = 3
    #: the receiver's queue pair is in the error state
    FATAL_NAK = 4
    #: congestion notification
    CNP = 5
    #: READ or ATOMIC, which a group cannot execute
    READ = 6
    #: an ACK that recirculates to find the minimum
    MIN_SEARCH = 7
    #: an ACK or NAK that the controller sends
    COMMAND = 8
    #: register control
    REGISTERS = 9
    #: report of one lost packet; acknowledges nothing
    SELECTIVE_NAK = 10
    #: on Tofino: a recirculated record, which advances the window of the source
    WINDOW = 11


class Verdict(IntEnum):
    """Decision of ingress on a group's packet, which egress executes."""

    #: no verdict: the packet is not of a group, or is dropped
    NONE = 0
    #: data: one copy for each path
    REPLICATE = 1
    #: to the source: a CNP, a selective or fatal NAK
    PASS = 2
    #: a merged ACK or NAK to the source
    FEEDBACK = 3
    #: a request turned into an ACK or NAK to its sender
    ANSWER = 4
    #: an ACK that does not advance the minimum: only the filter is updated
    RECORD = 5
    #: an ACK that recirculates to find the minimum
    WALK = 6
    #: an ACK to the controller, which computes the minimum
    PUNT = 7


class Role(IntEnum):
    """Roles of clones and recirculated packets, chosen by ingress."""

    #: any other packet
    NONE = 0
    #: searches the minimum, node by node
    WALK = 1
    #: the same on behalf of old data, which is acknowledged if all paths have it
    PROBE = 2


class SearchState(IntEnum):
    """State of the search for the minimum (the papers' table walk), as far as this packet is concerned."""

    #: the packet does not search
    IDLE = 0
    #: the packet recirculates once more
    ON = 1
    #: meta.walk_word is the minimum
    DONE = 2
    #: another walk has taken over
    LOST = 3


class TreeOp(IntEnum):
    """Operation of the tournament tree on a path's word."""

    #: none: the packet concerns no path
    NONE = 0
    #: the path has acknowledged or sent the word: the newer one is stored
    UPDATE = 1
    #: read only: the minimum is needed without an update
    KEEP = 2
    #: the controller sets the word, older or newer
    FORCE = 3
    #: initialise all paths of the node with the word's PSN
    INIT = 4
    #: read the oldest word of the node
    LOOK = 5


#: Paths (ports of a group's tree) per group and switch.
MAX_PATHS = 64
#: Groups per switch.
MAX_GROUPS = 0x400
#: Groups of datagrams per switch; their PRE groups are numbered behind those of reliable groups,
#: which begin with 1.
MAX_DATAGRAM_GROUPS = 0x400
#: PRE group of datagram group 0
FIRST_DATAGRAM_PRE_GROUP = 0x401
#: PSN bits that select the slot of a loss
LOSS_MASK = 63
#: cells of registers with one cell per path
SIZE_PATHS = 0x10000
#: entries of arp_targets
SIZE_ARP_TARGETS = 0x400
#: entries of routes
SIZE_ROUTES = 0x2000
#: entries of next_hops
SIZE_NEXT_HOPS = 0x1000
#: number of port numbers
SIZE_PORTS = 0x200
#: Kinds of packets for the controller, from 0: PacketInReason.
PUNT_KINDS = 8
#: cells of the meter of packets to the controller
SIZE_PUNT_RATES = 0x1000
#: Members next to the switch, all groups together: those that send to it, and those that it
#: delivers to, each of which
#: has a cell of its own for the memory announced for it (memory_regions.p4).
SIZE_MEMBERS = 0x4000
#: entries of receivers, and cells of registers per receiver
SIZE_RECEIVERS = 0x4000
#: The cell after these, for receivers without announcements; never written.
NO_SLOT = 0x4000
#: The port between pipeline and controller: start the switch with --cpu-port 510.
CPU_PORT = 0x1FE
#: standard_metadata.instance_type as BMv2 sets it (simple_switch document, "intrinsic metadata").
INSTANCE_INGRESS_CLONE = 1
#: clone made in egress
INSTANCE_EGRESS_CLONE = 2
#: recirculated packet
INSTANCE_RECIRCULATED = 4
#: copy made by the replication engine
INSTANCE_REPLICATION = 5
#: Path index that means no path.
PATH_NONE = 255
