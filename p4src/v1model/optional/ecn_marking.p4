// ECN marking of packets that waited in a long queue (RFC 3168), with the profile of DCQCN:
//
//   marking probability              0 up to k_min packets, 1 from k_max packets on,
//     1 ┤        ┌──────             and rising to p_max in between
//       │        │
// p_max ┤      ／
//     0 ┼────／─────────── queue     slope = p_max * 2^16 / (k_max - k_min)
//          k_min k_max
//
// The ICRC does not cover the ECN bits, and the IPv4 checksum is recomputed.

#ifndef ALFIRK_ECN_MARKING_P4
#define ALFIRK_ECN_MARKING_P4

control EcnMarking(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    bit<19> k_min = 0;
    bit<19> k_max = 0;
    bit<32> slope = 0;
    bit<16> dice;

    @id(ACTION_ID_PROFILE)
    action profile(bit<19> min, bit<19> max, bit<32> rise) {
        k_min = min;
        k_max = max;
        slope = rise;
    }

    @id(ACTION_ID_NO_MARKS)
    action no_marks() {}

    @id(TABLE_ID_PROFILES)
    table profiles {
        key = { (port_id_t)standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { profile; @defaultonly no_marks; }
        const default_action = no_marks();
        size = SIZE_PORTS;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT && hdr.ipv4.ecn != ECN_CE && profiles.apply().hit) {
            if (standard_metadata.deq_qdepth >= k_max) {
                hdr.ipv4.ecn = ECN_CE;
            } else if (standard_metadata.deq_qdepth > k_min) {
                random(dice, 0, 0xffff);
                if ((bit<32>)dice < (bit<32>)(standard_metadata.deq_qdepth - k_min) * slope) {
                    hdr.ipv4.ecn = ECN_CE;
                }
            }
        }
    }
}

#endif  // ALFIRK_ECN_MARKING_P4
