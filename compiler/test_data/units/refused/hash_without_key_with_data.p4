#include "before.p4"
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;

    action h(bit<8> value) {
        hdr.d.a16 = hash.get({hdr.d.a32, hdr.d.b32});
        hdr.d.a8 = value;
    }

    table t {
        actions = {
            h; // refused
        }
        default_action = h(3);
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
