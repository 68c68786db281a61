"""Constants and headers of ``p4src/v1model/main.p4``.

Written by ``alfirk p4c --constants-files``; change them there.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

#: EtherType of IPv4 (IEEE 802 numbers)
ETHERTYPE_IPV4 = 0x800
#: EtherType of ARP (RFC 826)
ETHERTYPE_ARP = 0x806
#: EtherType of C-VLAN tags (IEEE 802.1Q), also of priority tags (VLAN 0)
ETHERTYPE_C_TAG = 0x8100
#: EtherType of S-VLAN tags (IEEE 802.1ad)
ETHERTYPE_S_TAG = 0x88A8
#: length of a VLAN tag in bytes
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
#: UDP port of RoCEv2 (IBTA vol. 1, annex A17.3.1)
UDP_PORT_ROCEV2 = 0x12B7
#: UDP port of Alfirk's registration protocol (MRP)
UDP_PORT_MRP = 0x12B6
#: BTH opcode of SEND First; OPCODE_RC_* are those of the reliable connection service (IBTA vol. 1,
#: table 38).
OPCODE_RC_SEND_FIRST = 0
#: BTH opcode of RDMA WRITE First
OPCODE_RC_WRITE_FIRST = 6
#: BTH opcode of RDMA WRITE Last
OPCODE_RC_WRITE_LAST = 8
#: BTH opcode of RDMA WRITE Only
OPCODE_RC_WRITE_ONLY = 10
#: BTH opcode of RDMA WRITE Only with Immediate
OPCODE_RC_WRITE_ONLY_IMM = 11
#: BTH opcode of RDMA READ Request
OPCODE_RC_READ_REQUEST = 12
#: BTH opcode of Acknowledge: an ACK or NAK
OPCODE_RC_ACKNOWLEDGE = 17
#: BTH opcode of the atomic operation CmpSwap
OPCODE_RC_COMPARE_SWAP = 19
#: BTH opcode of the atomic operation FetchAdd
OPCODE_RC_FETCH_ADD = 20
#: BTH opcode of SEND Last with Invalidate
OPCODE_RC_SEND_LAST_INV = 22
#: BTH opcode of SEND Only with Invalidate
OPCODE_RC_SEND_ONLY_INV = 23
#: BTH opcode of FLUSH
OPCODE_RC_FLUSH = 28
#: BTH opcode of ATOMIC WRITE
OPCODE_RC_ATOMIC_WRITE = 29
#: BTH opcode of RoCEv2's congestion notification packet (IBTA annex A17.9.3)
OPCODE_CNP = 129
#: Upper three bits of the BTH opcodes of unreliable datagrams (UD; IBTA vol. 1, table 38).
OPCODE_CLASS_UD = 3
#: Destination queue pair number of datagrams to a multicast group (IBTA vol. 1, section 10.5).
MULTICAST_QPN = 0xFFFFFF
#: upper four bits of IPv4 multicast addresses, 224.0.0.0/4
IPV4_MULTICAST = 14
#: first 24 bits of the MAC addresses of IPv4 multicast (RFC 1112, section 6.4)
MULTICAST_MAC = 0x1005E
#: Upper three bits of the AETH syndrome of an ACK (IBTA vol. 1, section 9.7.5.1.4); the lower five
#: are the credit count.
AETH_ACK = 0
#: upper three bits of the AETH syndrome of an RNR NAK; the lower five are the timer code
AETH_RNR_NAK = 1
#: upper three bits of the AETH syndrome of a NAK; the lower five are the NAK code
AETH_NAK = 3
#: NAK code of a PSN sequence error
NAK_PSN_SEQUENCE_ERROR = 0
#: NAK code of an invalid request
NAK_INVALID_REQUEST = 1
#: NAK code of a remote operational error
NAK_REMOTE_OPERATIONAL = 3
#: NAK code of a selective NAK, which the specification reserves. It is accepted only if the group's
#: entry enables
#: selective repeat (selective_nak.p4). In a selective NAK of a receiver, the PSN is that of the
#: lost packet, and the MSN
#: is the number of reports by this receiver, 1 to 255. In the one that the source gets, the PSN is
#: the one after the
#: last acknowledged PSN, and the MSN is the lost PSN.
NAK_SELECTIVE = 31
#: AETH syndrome of an ACK without end-to-end credits (credit field 31), as Soft-RoCE sends it.
SYNDROME_ACK_NO_CREDITS = 31


class MinPsn(IntEnum):
    """How a switch finds the minimum acknowledged PSN of a group (parameter min_psn of set_group)."""

    #: by a tournament tree in registers, in one pass of the ACK (min_psn_tree.p4)
    TREE = 0
    #: by recirculation of the ACK (min_psn_walk.p4)
    WALK = 1
    #: by the controller, to which switches pass ACKs
    PUNT = 2


class IcrcMode(IntEnum):
    """How the ICRC of data stays valid when headers are rewritten (parameter icrc of set_group)."""

    #: two other header fields are changed by XOR constants, so that the ICRC stays the same
    NEUTRAL = 0
    #: the pipeline recomputes the ICRC; the McstID must be in RECOMPUTE_NETWORK
    RECOMPUTE = 1
    #: the controller recomputes the ICRC
    PUNT = 2


#: Network of the McstIDs of groups with IcrcMode.RECOMPUTE. Parsers have no group table, so they
#: parse payloads by address.
RECOMPUTE_NETWORK = 0xAFF8000
#: netmask of RECOMPUTE_NETWORK: 17 bits
RECOMPUTE_MASK = 0xFFFF8000
#: R_Key of a WRITE Only that carries a memory region for a leaf switch (memory_regions.p4).
MR_INFO_RKEY = 0xA1F14B31
#: UDP length of a WRITE Only that carries a memory region (MR_INFO_RKEY): UDP (8) + BTH (12) + RETH
#: (16) + XOR
#: differences (16) + ICRC (4).
MR_INFO_UDP_BYTES = 56
#: UDP length of a WRITE Only without payload, which hosts get in place of an announced memory
#: region.
EMPTY_WRITE_UDP_BYTES = 40
#: IPv4 total length of a WRITE Only without payload, EMPTY_WRITE_UDP_BYTES + 20
EMPTY_WRITE_IPV4_BYTES = 60
#: UDP length of a packet with BTH but without RETH, less its payload: UDP, BTH and ICRC.
UDP_OVERHEAD_BYTES = 24
#: UDP length of a packet with a RETH, less its payload: UDP, BTH, RETH and ICRC.
UDP_OVERHEAD_WITH_RETH_BYTES = 40
#: Window if the group's entry (set_group) has none: the number of packets that a source may send
#: beyond the last
#: acknowledged one. It is more than queue pairs have outstanding (128 in Linux' rdma_rxe), and less
#: than 2^23, the limit
#: of serial comparison.
DEFAULT_WINDOW = 0x10000
#: Maximum increase of the MSN by the first ACK after a controller has restored the registers,
#: because it writes only a
#: lower bound of the MSN (last_acked.p4).
UNKNOWN_MSN_ROOM = 0x8000
#: Timeout in microseconds of a search for the minimum PSN by recirculation (table walk); its packet
#: is then taken as lost.
WALK_TIMEOUT_US = 0x3E8
#: ECN code point of a packet whose transport does not support ECN (RFC 3168).
ECN_NOT_ECT = 0
#: ECN code point "congestion experienced" (RFC 3168)
ECN_CE = 3
#: Destination queue pair number of members' packets to a group whose entry (set_group) has none.
FIXED_VIRTUAL_QPN = 1
#: Partition of all groups: the default P_Key without its membership bit (IBTA vol. 1, section
#: 10.9).
DEFAULT_PARTITION = 0x7FFF
#: MAC address of the fabric, to which hosts send packets for groups.
VIRTUAL_MAC = 0x2A1F14C0001
#: length of an Ethernet header without VLAN tags
ETHERNET_BYTES = 14
#: Offset of the UDP header in an IPv4 packet, 20: packets of groups have no IPv4 options.
UDP_OFFSET_BYTES = 20
#: IPv4 total length of an ACK or NAK: IPv4 (20) + UDP (8) + BTH (12) + AETH (4) + ICRC (4).
ACK_IPV4_BYTES = 48
#: UDP length of an ACK or NAK
ACK_UDP_BYTES = 28
#: length of an ACK or NAK from the Ethernet header to the ICRC, without VLAN tags
ACK_FRAME_BYTES = 62
#: TTL of an ACK that a switch creates from data.
ACK_TTL = 64
#: TTL of ACKs, NAKs and CNPs that a switch merges or forwards: that of a member attached to this
#: switch.
FEEDBACK_TTL = 63
#: UDP source port of ACKs, NAKs and CNPs from switches, before the exit half of the bridge
#: (bridge_exit.p4) rewrites it.
FEEDBACK_UDP_SOURCE_PORT = 0xC000
#: IPv4 total length of a CNP: IPv4 (20) + UDP (8) + BTH (12) + 16 reserved bytes + ICRC (4) (IBTA
#: annex A17.9.3).
CNP_IPV4_BYTES = 60
#: UDP length of a CNP
CNP_UDP_BYTES = 40
#: length of a CNP from the Ethernet header to the ICRC, without VLAN tags
CNP_FRAME_BYTES = 74
#: Length of a PacketIn with reason PROBE: the headers packet_in (3) and feedback (10), then an ACK
#: frame (62).
PROBE_PACKET_IN_BYTES = 75
#: Length of a PacketIn with reason FATAL_NAK: the header packet_in (3), then a NAK frame (62).
FATAL_NAK_PACKET_IN_BYTES = 65
#: Maximum length of a PacketIn with reason MRP: the header packet_in (3), then Ethernet (14) and an
#: IPv4 packet (1,500).
MRP_PACKET_IN_BYTES = 0x5ED
#: Path index in words of the min-PSN tree that a sender's own data writes. It is the largest index,
#: so a receiver with
#: the same PSN wins the tie, and the MSN of that receiver is used.
PATH_OF_SENDER = 255


class PacketOutKind(IntEnum):
    """What the pipeline does with a PacketOut: the field packet_out.kind."""

    #: send the frame that follows to packet_out.egress_port
    FORWARD = 0
    #: execute the register control header that follows
    REGISTERS = 1
    #: send the ACK or NAK that follows the feedback header
    FEEDBACK = 2


class PacketInReason(IntEnum):
    """Why a switch passes a packet to the controller: the field packet_in.reason."""

    #: the reply to a register control header
    REGISTERS = 1
    #: a registration packet of a host
    MRP = 2
    #: an ACK or NAK of a group whose minimum PSN the controller computes (MinPsn.PUNT)
    FEEDBACK = 3
    #: an ACK of the PSN of retransmitted data in a MinPsn.PUNT group, to be sent if all paths have
    #: it
    PROBE = 4
    #: data whose ICRC the controller computes; `ingress_port` is its egress port
    ICRC = 5
    #: a NAK from a receiver whose queue pair is in the error state
    FATAL_NAK = 6


class RegisterOp(IntEnum):
    """Operation on registers that the controller requests: the field register_control.op."""

    #: initialise all registers of a group
    INIT_GROUP = 1
    #: read one register
    READ = 2
    #: write one register
    WRITE = 3
    #: clear the memory regions announced to receivers
    INIT_REGIONS = 4


class RegisterStatus(IntEnum):
    """Result of a register operation: the field register_control.status of a reply."""

    #: the operation is complete
    OK = 0
    #: the operation is unknown
    BAD_OP = 1
    #: the register is unknown
    BAD_REGISTER = 2
    #: group, path or count exceeds the pipeline's sizes
    OUT_OF_RANGE = 3


class RegisterName(IntEnum):
    """Registers that the controller can read and write: the field register_control.reg."""

    #: PSN and MSN last acknowledged to the source: PSN << 24 | MSN
    AGG = 1
    #: pending NAK: AETH syndrome << 24 | PSN; 0 without one; bit 31 is set if it was sent to the
    #: source
    NAK = 2
    #: port that leads to the source, 0 if there was none
    SRC_PORT = 3
    #: per path: newest acknowledged PSN << 8 | path; to write, also the bit mask of absent tree
    #: nodes << 32
    ACK = 4
    #: per path: lower 16 bits of the MSN; to be written before RegisterName.ACK, which propagates
    #: it up the tree
    MSN = 5
    #: per path: newest acknowledged PSN, as stored in egress for the retransmission filter
    FILTER = 6
    #: per receiver: XOR difference of virtual addresses to its announced memory region
    #: (memory_regions.p4)
    REGION_VA = 7
    #: per receiver: XOR differences of R_Key << 32 | IPv4 identification << 16 | UDP source port
    REGION_KEYS = 8
    #: per receiver: PSN of the WRITE that announced its memory region
    REGION_ANNOUNCED_AT = 9
    #: newest PSN sent by a source
    SENT = 10
    #: per path, read only: newest PSN in its ACKs and NAKs, even if newer than SENT
    CLAIMED = 11


class Drop(IntEnum):
    """Reasons why a packet is dropped: indexes of the counters ingress.drops and egress.drops."""

    #: not dropped
    NONE = 0
    #: the parser rejected the packet
    PARSER_ERROR = 1
    #: wrong IPv4 header checksum
    IPV4_CHECKSUM = 2
    #: neither IPv4 nor ARP
    UNKNOWN_ETHERTYPE = 3
    #: an ARP packet that is not a request, or not for an address of the fabric
    ARP_NOT_FOR_US = 4
    #: no route to the destination address
    NO_ROUTE = 5
    #: the TTL is 0 or 1
    TTL_EXPIRED = 6
    #: a group packet on a port outside the group's tree
    NOT_A_PATH = 7
    #: a group packet from a host that is not the member on that port
    NOT_A_MEMBER = 8
    #: a packet whose destination queue pair number is not the group's, such as that of an earlier
    #: group
    WRONG_QPN = 9
    #: an opcode that is neither of a reliable connection nor a CNP, or not allowed on this port
    UNSUPPORTED_OPCODE = 10
    #: an ACK, NAK or CNP with a wrong ICRC
    FEEDBACK_ICRC = 11
    #: an ACK or NAK that updated registers and is not forwarded to the source
    FEEDBACK_MERGED = 12
    #: a CNP or fatal NAK before any data, so that the port of the source is unknown
    NO_SOURCE = 13
    #: the multicast copy for the port that the packet came from
    OWN_COPY = 14
    #: the copy of a retransmission for a path that has acknowledged its PSN
    ALREADY_ACKED = 15
    #: PacketOut of an unknown kind
    BAD_CONTROL = 16
    #: the mirror of a forwarded ACK, after the retransmission filter has stored its PSN
    FEEDBACK_RECORDED = 17
    #: a packet from a host with a source address that is not its own
    SPOOFED_SOURCE = 18
    #: data to be rewritten whose ICRC was wrong on arrival
    DATA_ICRC = 19
    #: a CNP from a path that is not the most congested one of the group
    CNP_FILTERED = 20
    #: a copy that was passed to the controller, which computes the ICRC and forwards it
    ICRC_PUNTED = 21
    #: a packet recirculating to find the minimum, replaced by a newer packet
    WALK_TAKEN_OVER = 22
    #: data from a member that is not the source, with a PSN other than the next one
    NOT_THE_SOURCE = 23
    #: a group packet in IP fragments or with IP options
    FRAGMENT = 24
    #: an ACK or NAK of a PSN that no source has sent
    BEYOND_SENT = 25
    #: a NAK that was already sent to the source, which has not yet resent its PSN
    NAK_ALREADY_SENT = 26
    #: a packet from a member with a P_Key of another partition
    WRONG_PKEY = 27
    #: data from a member that may only receive
    MAY_NOT_SEND = 28
    #: a READ or atomic shortly after another one of the same host was refused
    REFUSAL_LIMITED = 29
    #: a packet to the controller beyond the port's rate limit (punt_limit.p4)
    PUNT_LIMITED = 30
    #: a multicast datagram whose destination MAC address does not match its IPv4 address
    WRONG_MULTICAST_MAC = 31
    #: an ACK or NAK with an AETH syndrome that IBTA reserves, or that the group does not use
    RESERVED_SYNDROME = 32
    #: data beyond the window of the source
    BEYOND_WINDOW = 33
    #: a request whose lengths, padding or transport version are wrong
    MALFORMED = 34
    #: a CNP from the source itself (IBTA annex A17.9.3)
    OWN_CNP = 35
    #: a CNP beyond the rate limit of its path
    CNP_LIMITED = 36
    #: a fatal NAK for a PSN that its path has acknowledged
    STALE_NAK = 37


#: cells of ingress.drops and egress.drops
SIZE_DROP_REASONS = 64


class Work(IntEnum):
    """Costs of finding the minimum PSN: counter cells 8 * MinPsn + Work of ack_aggregate.work."""

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
#: `index` on. Announcements with
#: PSN value[23:0] or newer are accepted from then on
#: While INIT_GROUP recirculates, `index` is the number of initialised paths. For registers with a
#: cell per receiver, `group` ++
#: `index` is the receiver's slot.
@dataclass(frozen=True)
class RegisterControl:
    """The header `register_control_t`."""

    #: operation, a RegisterOp
    op: int = 0
    #: result of the operation, a RegisterStatus, in replies
    status: int = 0
    #: register to read or write, a RegisterName
    reg: int = 0
    #: number of paths or receivers to initialise
    count: int = 0
    #: index of the group
    group: int = 0
    #: path index; while INIT_GROUP recirculates, number of initialised paths
    index: int = 0
    #: value read or to be written
    value: int = 0
    #: number chosen by the controller to match the reply with its request
    cookie: int = 0

    #: Length of the header in bytes.
    SIZE: ClassVar[int] = 20

    def pack(self) -> bytes:
        """Encode the header; a field's bits beyond its width are dropped."""
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
        """Decode the header from the first 20 bytes."""
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


#: Header before an ACK or NAK to or from the controller, for groups whose minimum PSN it computes
#: (MinPsn.PUNT).
#: PacketIn `port` leads to the source (0: none yet); PSN and MSN are those last acknowledged to it
#: PacketOut the switch sends the ACK or NAK through `port`, or if that is 0 through the port of the
#: source
@dataclass(frozen=True)
class Feedback:
    """The header `feedback_t`."""

    #: index of the group
    group: int = 0
    #: in PacketIn the port of the source, in PacketOut the egress port
    port: int = 0
    #: PSN last acknowledged to the source
    agg_psn: int = 0
    #: MSN last acknowledged to the source
    agg_msn: int = 0

    #: Length of the header in bytes.
    SIZE: ClassVar[int] = 10

    def pack(self) -> bytes:
        """Encode the header; a field's bits beyond its width are dropped."""
        value = 0
        value = value << 16 | self.group & 0xFFFF
        value = value << 16 | self.port & 0xFFFF
        value = value << 24 | self.agg_psn & 0xFFFFFF
        value = value << 24 | self.agg_msn & 0xFFFFFF
        return value.to_bytes(10, "big")

    @classmethod
    def unpack(cls, data: bytes) -> "Feedback":
        """Decode the header from the first 10 bytes."""
        value = int.from_bytes(data[:10], "big")
        return cls(
            group=value >> 64 & 0xFFFF,
            port=value >> 48 & 0xFFFF,
            agg_psn=value >> 24 & 0xFFFFFF,
            agg_msn=value >> 0 & 0xFFFFFF,
        )


class Kind(IntEnum):
    """Kind of a packet of a group, from its transport headers (classify.p4)."""

    #: not a packet of a group
    NONE = 0
    #: SEND or WRITE
    DATA = 1
    #: positive acknowledgement
    ACK = 2
    #: NAK of a PSN sequence error, or RNR NAK
    NAK = 3
    #: NAK after which the receiver's queue pair is in the error state
    FATAL_NAK = 4
    #: congestion notification packet
    CNP = 5
    #: READ or ATOMIC, which a group cannot execute
    READ = 6
    #: an ACK that recirculates to find the minimum
    MIN_SEARCH = 7
    #: an ACK or NAK that the controller sends
    COMMAND = 8
    #: register control header from the controller
    REGISTERS = 9
    #: NAK of one lost packet; acknowledges nothing
    SELECTIVE_NAK = 10
    #: on Tofino: a recirculated record of an ACK that advances the window of the source
    WINDOW = 11


class Verdict(IntEnum):
    """What the egress pipeline does with a packet or a clone of it."""

    #: nothing: the packet is dropped, or not cloned
    NONE = 0
    #: send the packet as ingress has left it: unicast, ARP replies, and frames of the controller
    FORWARD = 1
    #: replicate a datagram: one copy for each port but its own
    DATAGRAM = 2
    #: replicate data: one copy for each path that needs it
    REPLICATE = 3
    #: forward a CNP, a selective or a fatal NAK to the source
    PASS = 4
    #: send a merged ACK or NAK to the source
    FEEDBACK = 5
    #: send the ACK or NAK that a request has become to its sender
    ANSWER = 6
    #: update only the retransmission filter, by an ACK that does not advance the minimum
    RECORD = 7
    #: the same, by a clone of an ACK that is forwarded
    MIRROR = 8
    #: update the retransmission filter, and recirculate the ACK to find the minimum
    WALK = 9
    #: recirculate an ACK again
    CONTINUE_WALK = 10
    #: turn old data into an ACK, and recirculate that to find the minimum
    PROBE_WALK = 11
    #: update the retransmission filter, and pass the ACK to the controller, which computes the
    #: minimum
    PUNT = 12
    #: turn old data into an ACK, and pass that to the controller
    PROBE_PUNT = 13
    #: execute a register access of the controller, and reply to it
    REGISTERS = 14
    #: pass the packet to the controller
    TO_CONTROLLER = 15


class Role(IntEnum):
    """Purpose of a packet that searches for the minimum by recirculation, chosen by the ingress pipeline."""

    #: neither WALK nor PROBE
    NONE = 0
    #: an ACK that searches for the minimum PSN, node by node
    WALK = 1
    #: a clone of retransmitted data that searches for the minimum; the data is acknowledged if all
    #: paths have it
    PROBE = 2


class SearchState(IntEnum):
    """State of a packet's search for the minimum PSN by recirculation (the papers' table walk)."""

    #: the packet does not search
    IDLE = 0
    #: the packet recirculates once more
    ON = 1
    #: the search is complete: meta.optional.walk_word is the minimum
    DONE = 2
    #: the search is abandoned: a newer packet searches instead
    LOST = 3


class TreeOp(IntEnum):
    """Operation on the tournament tree of the paths' words (PSN, path, MSN; word_t in types.p4)."""

    #: no operation: the packet concerns no path
    NONE = 0
    #: store the word that the path has acknowledged or sent, if it is newer than the stored one
    UPDATE = 1
    #: read the minimum without an update
    KEEP = 2
    #: compute the minimum again, after the controller has set the word of the path
    FORCE = 3
    #: initialise all paths of the node with the word's PSN
    INIT = 4


#: Maximum number of paths of a group on a switch. A path is a port in the group's tree.
MAX_PATHS = 64
#: Maximum number of groups on a switch.
MAX_GROUPS = 0x400
#: Maximum number of datagram multicast groups on a switch. Their PRE multicast group ids follow
#: those of reliable groups.
MAX_DATAGRAM_GROUPS = 0x400
#: PRE multicast group id of the datagram group with index 0
FIRST_DATAGRAM_PRE_GROUP = 0x401
#: bits of a lost packet's PSN that select its slot in selective_nak.p4
LOSS_MASK = 63
#: cells of registers with one cell per path
SIZE_PATHS = 0x10000
#: maximum number of entries of the table arp_targets
SIZE_ARP_TARGETS = 0x400
#: maximum number of entries of the table routes
SIZE_ROUTES = 0x2000
#: maximum number of entries of the table next_hops
SIZE_NEXT_HOPS = 0x1000
#: number of possible port numbers, 2^PORT_BITS
SIZE_PORTS = 0x200
#: Number of cells per port in the meter of packets to the controller: one for each PacketInReason,
#: rounded up to a power
#: of two.
PUNT_KINDS = 8
#: number of cells of the meter of packets to the controller
SIZE_PUNT_RATES = 0x1000
#: Maximum number of members attached to a switch, summed over all groups: the size of the table
#: members.
SIZE_MEMBERS = 0x4000
#: Maximum number of entries of the table receivers; each has a cell in the registers of
#: memory_regions.p4.
SIZE_RECEIVERS = 0x4000
#: Register cell for receivers without announced memory regions (memory_regions.p4); it follows the
#: others and is never
#: written.
NO_SLOT = 0x4000
#: Path index of a packet that concerns no path.
PATH_NONE = 255
#: Port between pipeline and controller: BMv2 must be started with --cpu-port 510.
CPU_PORT = 0x1FE
#: Value of standard_metadata.instance_type of a clone made in ingress (BMv2's simple_switch
#: document, "intrinsic
#: metadata").
INSTANCE_INGRESS_CLONE = 1
#: instance_type of a clone made in egress
INSTANCE_EGRESS_CLONE = 2
#: instance_type of a recirculated packet
INSTANCE_RECIRCULATED = 4
