#include "before.p4"
    Register<bit<32>, bit<10>>(1024) cells;

    RegisterAction<bit<32>, bit<10>, bit<32>>(cells) access = {
        void apply(inout bit<32> value, out bit<32> result) {
            result = 1;
            if (value == 3) {
                result = 2; // refused
            }
            value = value + 1;
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a32 = access.execute(0);
    }
}

#include "after.p4"
