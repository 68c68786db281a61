#include "before.p4"
    Register<bit<32>, bit<10>>(1024) cells;

    RegisterAction<bit<32>, bit<10>, bit<32>>(cells) access = {
        void apply(inout bit<32> value, out bit<32> result) {
            if (hdr.d.b32 == 1) {
                value = 5;
            }
            value = 6;
            result = value;
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a32 = access.execute(0);
    }
}

#include "after.p4"
