#include "before.p4"
    Register<pair_t, bit<10>>(1024) cells;

    RegisterAction<pair_t, bit<10>, bit<32>>(cells) access = {
        void apply(inout pair_t value, out bit<32> result) {
            value.first = value.first + 1;
            value.second = value.second |+| hdr.d.b32;
            result = value.first;
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a32 = access.execute(0);
    }
}

#include "after.p4"
