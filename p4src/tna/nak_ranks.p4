// Ranks of NAKs for the same PSN: the NAK with the smallest rank is sent to the source.
//
//   1        RNR, longest timer (code 0)
//   2 .. 32  RNR, codes 31 .. 1, decreasing timers
//   33       PSN sequence error
//
// The order is that of v1model/waiting_nak.p4: an immediate resend would meet the same busy receiver. Of RNR timer codes 1 is the
// shortest and 0 the longest (IBTA vol. 1, table 45).

#ifndef ALFIRK_NAK_RANKS_P4
#define ALFIRK_NAK_RANKS_P4

// Expands to ROW(kind, code, rank) for each NAK: upper three and lower five bits of its AETH syndrome, and its rank.
#define NAK_RANKS(ROW) \
    ROW(AETH_NAK, NAK_PSN_SEQUENCE_ERROR, 33) \
    ROW(AETH_RNR_NAK, 0, 1) \
    ROW(AETH_RNR_NAK, 31, 2) \
    ROW(AETH_RNR_NAK, 30, 3) \
    ROW(AETH_RNR_NAK, 29, 4) \
    ROW(AETH_RNR_NAK, 28, 5) \
    ROW(AETH_RNR_NAK, 27, 6) \
    ROW(AETH_RNR_NAK, 26, 7) \
    ROW(AETH_RNR_NAK, 25, 8) \
    ROW(AETH_RNR_NAK, 24, 9) \
    ROW(AETH_RNR_NAK, 23, 10) \
    ROW(AETH_RNR_NAK, 22, 11) \
    ROW(AETH_RNR_NAK, 21, 12) \
    ROW(AETH_RNR_NAK, 20, 13) \
    ROW(AETH_RNR_NAK, 19, 14) \
    ROW(AETH_RNR_NAK, 18, 15) \
    ROW(AETH_RNR_NAK, 17, 16) \
    ROW(AETH_RNR_NAK, 16, 17) \
    ROW(AETH_RNR_NAK, 15, 18) \
    ROW(AETH_RNR_NAK, 14, 19) \
    ROW(AETH_RNR_NAK, 13, 20) \
    ROW(AETH_RNR_NAK, 12, 21) \
    ROW(AETH_RNR_NAK, 11, 22) \
    ROW(AETH_RNR_NAK, 10, 23) \
    ROW(AETH_RNR_NAK, 9, 24) \
    ROW(AETH_RNR_NAK, 8, 25) \
    ROW(AETH_RNR_NAK, 7, 26) \
    ROW(AETH_RNR_NAK, 6, 27) \
    ROW(AETH_RNR_NAK, 5, 28) \
    ROW(AETH_RNR_NAK, 4, 29) \
    ROW(AETH_RNR_NAK, 3, 30) \
    ROW(AETH_RNR_NAK, 2, 31) \
    ROW(AETH_RNR_NAK, 1, 32)

#endif  // ALFIRK_NAK_RANKS_P4
