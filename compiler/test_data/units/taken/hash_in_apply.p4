#include "before.p4"
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;

    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a16 = hash.get({hdr.d.a32, hdr.d.b32});
    }
}

#include "after.p4"
