#include "before.p4"
    Register<bit<32>, bit<16>>(65536) cells;

    RegisterAction<bit<32>, bit<16>, bit<32>>(cells) access = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = value + 1;
            result = value;
        }
    };

    action a() {
        hdr.d.a32 = access.execute(hdr.d.a16);
    }

    table t {
        key = { hdr.d.a8 & 0x3f: exact @name("low"); }
        actions = { a; }
        default_action = a();
        size = 64;
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
