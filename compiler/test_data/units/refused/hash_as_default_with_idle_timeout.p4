#include "before.p4"
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;

    action h() {
        hdr.d.a16 = hash.get({hdr.d.a32, hdr.d.b32});
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { h; }
        default_action = h(); // refused
        size = 256;
        idle_timeout = true;
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
