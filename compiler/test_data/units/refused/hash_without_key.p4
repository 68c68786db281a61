#include "before.p4"
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;

    action h() {
        hdr.d.a16 = hash.get({hdr.d.a32, hdr.d.b32});
    }

    action n() {
        hdr.d.a16 = 0;
    }

    table t {
        actions = {
            h; // refused
            n;
        }
        default_action = n();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
