// ECN marking (RFC 3168) by queue length with DCQCN's parameters, with the same entries as v1model/optional/ecn_marking.p4.
//
// Between k_min and k_max the marking probability rises with the queue length. The ALUs cannot multiply, so the extern Wred is
// used: it has a probability per port and range of a value. The value is the queue length when the packet was dequeued.

#ifndef ALFIRK_ECN_MARKING_P4
#define ALFIRK_ECN_MARKING_P4

// Looks the packet up whether it is capable of ECN or not, so that no condition delays the first stage.
control EcnLookup(in egress_intrinsic_metadata_t eg_intr_md, out bit<8> is_marked) {
    // Indexed by port; result 1 means that the packet is marked.
    @name(".egress.ecn_marking.profiles") Wred<bit<19>, port_t>(SIZE_PORTS, 1, 0) profiles;

    action look_up() {
        is_marked = profiles.execute(eg_intr_md.deq_qdepth, eg_intr_md.egress_port);
    }

    apply {
        look_up();
    }
}

control EcnMarking(inout headers_t hdr, in bit<8> is_marked) {
    apply {
        if (is_marked == 1 && hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT) {
            hdr.ipv4.ecn = ECN_CE;
        }
    }
}

#endif  // ALFIRK_ECN_MARKING_P4
