#include "before.p4"
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;

    action h() {
        hdr.d.a16 = hash.get({hdr.d.a32, hdr.d.b32});
    }

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { h; n; }
        default_action = h();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
    }
}

#include "after.p4"
