#include "before.p4"
    Register<bit<16>, bit<16>>(1024) cells;

    // The field has the name of the parameter.
    RegisterAction<bit<16>, bit<16>, bit<16>>(cells) access = {
        void apply(inout bit<16> value) {
            value = value + 1;
            value = hdr.tag.value;
        }
    };

    apply {
        ig_tm_md.ucast_egress_port = 1;
        access.execute(0);
    }
}

#include "after.p4"
