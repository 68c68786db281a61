// Register access of the controller to the announced memory regions of receivers (memory_regions.p4), and to other registers of
// optional parts.
//
// INIT_REGIONS clears the regions of one receiver per pass, and recirculates until all are done.

#ifndef ALFIRK_OPTIONAL_REGION_CONTROL_P4
#define ALFIRK_OPTIONAL_REGION_CONTROL_P4

#include "registers.p4"

#define REGISTER_SLOT(hdr) (hdr.register_control.group ++ hdr.register_control.index)

// Whether the access is to cells indexed by receivers of this switch. Sets the status of one out of range.
control CheckRegionControl(inout headers_t hdr, inout metadata_t meta, out bool is_of_receivers) {
    apply {
        is_of_receivers = hdr.register_control.op == RegisterOp.INIT_REGIONS
            || ((hdr.register_control.op == RegisterOp.READ || hdr.register_control.op == RegisterOp.WRITE)
                && hdr.register_control.reg >= RegisterName.REGION_VA
                && hdr.register_control.reg <= RegisterName.REGION_ANNOUNCED_AT);
        meta.optional.is_of_receivers = 0;
        if (!is_of_receivers) {
            // An access to registers of a group.
        } else if (REGISTER_SLOT(hdr) >= SIZE_RECEIVERS) {
            hdr.register_control.status = RegisterStatus.OUT_OF_RANGE;
        } else {
            meta.optional.is_of_receivers = 1;
        }
    }
}

// Registers of walks and of tags, as the controller initialises and sets a group.
control OptionalRegisters(in headers_t hdr) {
    bit<32> group;
    bit<64> walk;

    apply {
        group = (bit<32>)hdr.register_control.group;
        if (hdr.register_control.op == RegisterOp.INIT_GROUP) {
            walks.write(group, 32w0 ++ PATH_NONE ++ (hdr.register_control.value[23:0] - 1));
            data_tags.write(group, 0);
        } else if (hdr.register_control.op == RegisterOp.WRITE && hdr.register_control.reg == RegisterName.AGG) {
            walks.read(walk, group);
            walks.write(group, walk[63:24] ++ hdr.register_control.value[47:24]);
        }
    }
}

// Registers of memory regions. Sets `is_more` if there are more receivers, and increments the upper part of the cell's index.
control RegionRegisters(inout headers_t hdr, in metadata_t meta, inout bool is_more) {
    bit<32> cell;
    bit<64> value;
    psn_t psn;
    bit<32> rkey;
    bit<32> neutral;

    apply {
        if (meta.optional.is_of_receivers == 1) {
            cell = REGISTER_SLOT(hdr);
            value = hdr.register_control.value;
            if (hdr.register_control.op == RegisterOp.INIT_REGIONS) {
                region_va.write(cell, 0);
                region_rkey.write(cell, 0);
                region_neutral.write(cell, 0);
                region_announced_at.write(cell, value[23:0] - 1);
                if (hdr.register_control.count > 1) {
                    is_more = true;
                    hdr.register_control.count = hdr.register_control.count - 1;
                    if (hdr.register_control.index == 0xffff) {
                        hdr.register_control.group = hdr.register_control.group + 1;
                    }
                }
            } else if (hdr.register_control.op == RegisterOp.WRITE) {
                if (hdr.register_control.reg == RegisterName.REGION_VA) {
                    region_va.write(cell, value);
                } else if (hdr.register_control.reg == RegisterName.REGION_ANNOUNCED_AT) {
                    region_announced_at.write(cell, value[23:0]);
                } else {
                    region_rkey.write(cell, value[63:32]);
                    region_neutral.write(cell, value[31:0]);
                }
            } else {
                if (hdr.register_control.reg == RegisterName.REGION_VA) {
                    region_va.read(value, cell);
                } else if (hdr.register_control.reg == RegisterName.REGION_ANNOUNCED_AT) {
                    region_announced_at.read(psn, cell);
                    value = (bit<64>)psn;
                } else {
                    region_rkey.read(rkey, cell);
                    region_neutral.read(neutral, cell);
                    value = rkey ++ neutral;
                }
                hdr.register_control.value = value;
            }
        }
    }
}

#undef REGISTER_SLOT

#endif  // ALFIRK_OPTIONAL_REGION_CONTROL_P4
