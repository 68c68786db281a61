// Types and arithmetic shared by all targets.

#ifndef ALFIRK_TYPES_P4
#define ALFIRK_TYPES_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9> port_t;
// A port as the controller sees it: in keys, action parameters, PacketIn and PacketOut. The controller's numbers are those of the data
// plane. Another mapping (P4Runtime, "PSA Metadata Translation") is a change of this line: a wider number, a string, or
// @p4runtime_translation_mappings.
@p4runtime_translation("", 9)
type bit<9> port_id_t;
typedef bit<24> psn_t;
typedef bit<24> qpn_t;
typedef bit<24> msn_t;
typedef bit<16> group_t;
typedef bit<8> path_t;
// Number of a member at a switch, unique over all groups.
typedef bit<24> slot_t;

// Operand of the tournament tree: PSN (24 bits) ++ path (8) ++ MSN (16).
//
// The PSN is in the upper bits, so that the sign of a wrapped 32-bit difference is the sign of the PSNs' serial
// difference; the path breaks ties. The MSN has the lower 16 bits of the MSN in the path's newest acknowledgement. It is
// used if the path is at the minimum, which is less than 2^16 messages beyond the MSN last acknowledged to the source.
typedef bit<48> word_t;

// Serial arithmetic in 24 bits: PSN_LT(a, b) is a != b and (b - a) mod 2^24 < 2^23. Macros, because they are
// used only in conditions.
#define PSN_LT(a, b) ((a) != (b) && ((b) - (a))[23:23] == 1w0)
// Whether word a is older than word b, or of the same age and a lower path.
#define WORD_LT(a, b) (((a)[47:16] - (b)[47:16])[31:31] == 1w1)
#define WORD_PSN(w) ((w)[47:24])
#define WORD_PATH(w) ((w)[23:16])
#define WORD_MSN(w) ((w)[15:0])
// The MSN nearest to `known` whose lower 16 bits are `short`: the sign of their difference is extended.
#define MSN_NEAR(known, short) \
    ((known) + (bit<24>)(((short) - (known)[15:0]) ^ 16w0x8000) - 24w0x8000)

// The text with its macros expanded, as a string literal for annotations.
#define QUOTED_UNEXPANDED(text) #text
#define QUOTED(text) QUOTED_UNEXPANDED(text)

#endif  // ALFIRK_TYPES_P4
