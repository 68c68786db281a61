// Types and arithmetic that every target shares.

#ifndef ALFIRK_TYPES_P4
#define ALFIRK_TYPES_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9> port_t;
typedef bit<24> psn_t;
typedef bit<24> qpn_t;
typedef bit<24> msn_t;
typedef bit<16> group_t;
typedef bit<8> path_t;

// What the tournament tree compares: a PSN in the upper 24 bits, so that the sign
// of a wrapped 32-bit difference is the sign of the PSNs' serial difference, and
// below it the path that reported it. The path breaks ties and tells whose MSN
// belongs to the minimum.
typedef bit<32> word_t;

// Serial arithmetic in 24 bits (design: psn_lt(a, b) is a != b and
// (b - a) mod 2^24 < 2^23). Macros rather than functions, because a condition is
// the only place where they are used.
#define PSN_LT(a, b) ((a) != (b) && ((b) - (a))[23:23] == 1w0)
// Is word a older than word b, or as old and of a smaller path?
#define WORD_LT(a, b) (((a) - (b))[31:31] == 1w1)
#define WORD_PSN(w) ((w)[31:8])
#define WORD_PATH(w) ((w)[7:0])
// The MSN nearest to `known` whose lower 16 bits are `short`: the sign of their difference is extended.
#define MSN_NEAR(known, short) \
    ((known) + (bit<24>)(((short) - (known)[15:0]) ^ 16w0x8000) - 24w0x8000)
// Serial arithmetic in 16 bits, for copies of PSNs that are never far from the truth.
#define SHORT_LT(a, b) ((a) != (b) && ((b) - (a))[15:15] == 1w0)

#endif  // ALFIRK_TYPES_P4
