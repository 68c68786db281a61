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

// Maximum number of paths of a group on a switch. A path is a port in the group's tree.
const bit<32> MAX_PATHS = 32w1 << PATH_BITS;
// Maximum number of groups on a switch.
const bit<32> MAX_GROUPS = 32w1 << GROUP_BITS;

// Maximum number of datagram multicast groups on a switch. Their PRE multicast group ids follow those of reliable groups.
const bit<32> MAX_DATAGRAM_GROUPS = 1024;
const bit<16> FIRST_DATAGRAM_PRE_GROUP = (bit<16>)MAX_GROUPS + 1;  // PRE multicast group id of the datagram group with index 0

// Losses of a group that were reported to the source (selective_nak.p4): 4 bytes each, 256 KiB for
// 1,024 groups.
#ifndef LOSS_BITS
#define LOSS_BITS 6
#endif
const bit<24> LOSS_MASK = (24w1 << LOSS_BITS) - 1;  // bits of a lost packet's PSN that select its slot in selective_nak.p4

const bit<32> SIZE_PATHS = MAX_PATHS * MAX_GROUPS;  // cells of registers with one cell per path
const bit<32> SIZE_ARP_TARGETS = 1024;  // maximum number of entries of the table arp_targets
const bit<32> SIZE_ROUTES = 8192;  // maximum number of entries of the table routes
const bit<32> SIZE_NEXT_HOPS = 4096;  // maximum number of entries of the table next_hops
#define PORT_BITS 9
// Ports of hosts and switches are below this number. On v1model it is the CPU port, and the next number is BMv2's drop port.
#define END_OF_PORTS 510
const bit<32> SIZE_PORTS = 32w1 << PORT_BITS;  // number of possible port numbers, 2^PORT_BITS
// Number of cells per port in the meter of packets to the controller: one for each PacketInReason, rounded up to a power
// of two.
const bit<32> PUNT_KINDS = 8;
const bit<32> SIZE_PUNT_RATES = PUNT_KINDS * SIZE_PORTS;  // number of cells of the meter of packets to the controller
// Maximum number of members attached to a switch, summed over all groups: the size of the table members.
const bit<32> SIZE_MEMBERS = MAX_GROUPS << LOCAL_BITS;
// Maximum number of entries of the table receivers; each has a cell in the registers of memory_regions.p4.
const bit<32> SIZE_RECEIVERS = MAX_GROUPS << LOCAL_BITS;
// Register cell for receivers without announced memory regions (memory_regions.p4); it follows the others and is never
// written.
const slot_t NO_SLOT = (slot_t)SIZE_RECEIVERS;

#endif  // ALFIRK_SIZES_P4
