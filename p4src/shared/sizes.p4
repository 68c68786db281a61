// Table and register sizes for all targets.
//
// A group has up to 64 paths on a switch, on Tofino 32: one more tree level (min_psn_tree.p4) would need a 13th stage; the
// chip has 12.
//
// PATH_BITS and GROUP_BITS may be given on the compiler's command line
// (-DPATH_BITS=4) to trade group size against memory. PATH_BITS is at least 2, because
// four paths share a leaf node (min_psn_tree.p4), and at most 7: path index 0xff is
// reserved (see word_t in types.p4).
// LOCAL_BITS: binary logarithm of the average number of a group's members at one switch.

#ifndef ALFIRK_SIZES_P4
#define ALFIRK_SIZES_P4

#ifndef PATH_BITS
#if __TARGET_TOFINO__ == 1
#define PATH_BITS 5
#else
#define PATH_BITS 6
#endif
#endif

#ifndef GROUP_BITS
#define GROUP_BITS 10
#endif

#ifndef LOCAL_BITS
#if PATH_BITS < 4
#define LOCAL_BITS PATH_BITS
#else
#define LOCAL_BITS 4
#endif
#endif

#if PATH_BITS < 2 || PATH_BITS > 7
#error "PATH_BITS must be between 2 and 7"
#endif

// Paths (ports of a group's tree) per group and switch.
const bit<32> MAX_PATHS = 32w1 << PATH_BITS;
// Groups per switch.
const bit<32> MAX_GROUPS = 32w1 << GROUP_BITS;

// Groups of datagrams per switch; their PRE groups are numbered behind those of reliable groups, which begin with 1.
const bit<32> MAX_DATAGRAM_GROUPS = 1024;
const bit<16> FIRST_DATAGRAM_PRE_GROUP = (bit<16>)MAX_GROUPS + 1;  // PRE group of datagram group 0

// Losses of a group that were reported to the source (selective_nak.p4): 4 bytes each, 256 KiB for
// 1,024 groups.
#ifndef LOSS_BITS
#define LOSS_BITS 6
#endif
const bit<24> LOSS_MASK = (24w1 << LOSS_BITS) - 1;  // PSN bits that select the slot of a loss

const bit<32> SIZE_PATHS = MAX_PATHS * MAX_GROUPS;  // cells of registers with one cell per path
const bit<32> SIZE_ARP_TARGETS = 1024;  // entries of arp_targets
const bit<32> SIZE_ROUTES = 8192;  // entries of routes
const bit<32> SIZE_NEXT_HOPS = 4096;  // entries of next_hops
#define PORT_BITS 9
const bit<32> SIZE_PORTS = 32w1 << PORT_BITS;  // number of port numbers
// Kinds of packets for the controller, from 0: PacketInReason.
const bit<32> PUNT_KINDS = 8;
const bit<32> SIZE_PUNT_RATES = PUNT_KINDS * SIZE_PORTS;  // cells of the meter of packets to the controller
// Members next to the switch, all groups together: those that send to it, and those that it delivers to, each of which
// has a cell of its own for the memory announced for it (memory_regions.p4).
const bit<32> SIZE_MEMBERS = MAX_GROUPS << LOCAL_BITS;
const bit<32> SIZE_RECEIVERS = MAX_GROUPS << LOCAL_BITS;  // entries of receivers, and cells of registers per receiver
// The cell after these, for receivers without announcements; never written.
const slot_t NO_SLOT = (slot_t)SIZE_RECEIVERS;

#endif  // ALFIRK_SIZES_P4
