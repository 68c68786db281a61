// ECN marking (RFC 3168) by queue length with DCQCN's parameters, with the same entries as v1model/ecn_marking.p4.
//
// Between k_min and k_max the chance of a mark rises with the queue. Nothing multiplies here; a table of the driver's does
// (Wred): a drop probability for ranges of a value, for each port. Its value is the queue as the packet left it.

#ifndef ALFIRK_ECN_MARKING_P4
#define ALFIRK_ECN_MARKING_P4

control EcnMarking(inout headers_t hdr, in egress_intrinsic_metadata_t eg_intr_md) {
    // By port; 1 is a mark.
    Wred<bit<19>, port_t>(SIZE_PORTS, 1, 0) profiles;
    bit<8> is_marked = 0;

    action look_up() {
        is_marked = profiles.execute(eg_intr_md.deq_qdepth, eg_intr_md.egress_port);
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT) {
            look_up();
        }
        if (is_marked == 1) {
            hdr.ipv4.ecn = ECN_CE;
        }
    }
}

#endif  // ALFIRK_ECN_MARKING_P4
