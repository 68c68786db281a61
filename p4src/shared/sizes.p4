// Table and register sizes, one place for every target.
//
// PATH_BITS and GROUP_BITS may be given on the compiler's command line
// (-DPATH_BITS=4) to trade group size against memory. PATH_BITS is at least 2, because
// four paths share a leaf node (min_psn_tree.p4), and at most 7: path index 0xff is
// taken (see word_t in types.p4).

#ifndef ALFIRK_SIZES_P4
#define ALFIRK_SIZES_P4

#ifndef PATH_BITS
#define PATH_BITS 6
#endif

#ifndef GROUP_BITS
#define GROUP_BITS 10
#endif

#if PATH_BITS < 2 || PATH_BITS > 7
#error "PATH_BITS must be between 2 and 7"
#endif

// Paths (ports of a group's tree) per group and switch.
const bit<32> MAX_PATHS = 32w1 << PATH_BITS;
// Groups per switch.
const bit<32> MAX_GROUPS = 32w1 << GROUP_BITS;

const bit<32> SIZE_PATHS = MAX_PATHS * MAX_GROUPS;
const bit<32> SIZE_ARP_TARGETS = 1024;
const bit<32> SIZE_ROUTES = 8192;
const bit<32> SIZE_NEXT_HOPS = 4096;
#define PORT_BITS 9
const bit<32> SIZE_PORTS = 32w1 << PORT_BITS;
// Kinds of packets for the controller: PACKET_IN_*.
const bit<32> PUNT_KINDS = 8;
const bit<32> SIZE_PUNT_RATES = PUNT_KINDS * SIZE_PORTS;
// A switch port leads to one host at most, so there are no more members than ports times groups.
const bit<32> SIZE_MEMBERS = 16384;

#endif  // ALFIRK_SIZES_P4
