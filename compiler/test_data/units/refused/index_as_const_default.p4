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

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { n; a; }
        const default_action = a(); // refused
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
