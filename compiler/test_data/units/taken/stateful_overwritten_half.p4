#include "before.p4"
    Register<pair_t, bit<16>>(1024) cells;

    // The condition reads the other half.
    RegisterAction<pair_t, bit<16>, bit<32>>(cells) access = {
        void apply(inout pair_t value) {
            value.first = value.first + 1;
            if (value.second == 3) {
                value.first = 1;
            } else {
                value.first = 2;
            }
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        access.execute(0);
    }
}

#include "after.p4"
