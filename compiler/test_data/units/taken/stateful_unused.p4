#include "before.p4"
    Register<bit<32>, bit<16>>(1024) cells;

    RegisterAction<bit<32>, bit<16>, bit<32>>(cells) count = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = value + 1;
            result = value;
        }
    };

    RegisterAction<bit<32>, bit<16>, bit<32>>(cells) triple = {
        void apply(inout bit<32> value) {
            value = value * 3;
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.b32 = count.execute(0);
    }
}

#include "after.p4"
