// Announced memory regions: see v1model/optional/memory_regions.p4.
//
// Four register arrays in two stages: first the PSN of the announcement, which decides whether this one is newer, then its
// content. A register word has 32 bits here, so the virtual address needs two.
//
// Receivers without announcements have no cell in their entry of `receivers` (../shared/bridge_exit.p4), and are skipped.

#ifndef ALFIRK_MEMORY_REGIONS_P4
#define ALFIRK_MEMORY_REGIONS_P4

typedef bit<(GROUP_BITS + LOCAL_BITS)> receiver_cell_t;

// `owner_difference`: 0 if the packet announces the region of this receiver.
control MemoryRegions(inout headers_t hdr, inout egress_metadata_t meta, in receiver_cell_t cell, in bool has_region) {
    Register<psn_word_t, receiver_cell_t>(SIZE_RECEIVERS) announced_at;
    Register<bit<32>, receiver_cell_t>(SIZE_RECEIVERS) va_high;
    Register<bit<32>, receiver_cell_t>(SIZE_RECEIVERS) va_low;
    Register<bit<32>, receiver_cell_t>(SIZE_RECEIVERS) rkey;
    Register<bit<32>, receiver_cell_t>(SIZE_RECEIVERS) neutral;
    bit<1> is_announced = 0;
    bit<32> neutral_xor = 0;
    bit<32> neutral_announced = 0;

    // New data of its sender is always accepted, whatever was announced before.
    RegisterAction<psn_word_t, receiver_cell_t, bit<1>>(announced_at) announce_new = {
        void apply(inout psn_word_t value, out bit<1> is_newer) {
            value = meta.psn;
            is_newer = 1;
        }
    };
    RegisterAction<psn_word_t, receiver_cell_t, bit<1>>(announced_at) announce_again = {
        void apply(inout psn_word_t value, out bit<1> is_newer) {
            if (meta.psn - value > 0) {
                value = meta.psn;
                is_newer = 1;
            } else {
                is_newer = 0;
            }
        }
    };

    RegisterAction<psn_word_t, receiver_cell_t, bit<1>>(announced_at) init_announced = {
        void apply(inout psn_word_t value) {
            value = meta.psn - PSN_WORD_ONE;
        }
    };

    action init() {
        init_announced.execute(cell);
    }

    action note_new() {
        is_announced = announce_new.execute(cell);
    }

    action note_again() {
        is_announced = announce_again.execute(cell);
    }

#define REGION(array, write, clear, read, field) \
    RegisterAction<bit<32>, receiver_cell_t, bit<32>>(array) write = { \
        void apply(inout bit<32> value) { value = field; } \
    }; \
    RegisterAction<bit<32>, receiver_cell_t, bit<32>>(array) clear = { \
        void apply(inout bit<32> value) { value = 0; } \
    }; \
    RegisterAction<bit<32>, receiver_cell_t, bit<32>>(array) read = { \
        void apply(inout bit<32> value, out bit<32> difference) { difference = value; } \
    };

    REGION(va_high, write_va_high, clear_va_high, read_va_high, hdr.mr_info.va_xor[63:32])
    REGION(va_low, write_va_low, clear_va_low, read_va_low, hdr.mr_info.va_xor[31:0])
    REGION(rkey, write_rkey, clear_rkey, read_rkey, hdr.mr_info.rkey_xor)
    REGION(neutral, write_neutral, clear_neutral, read_neutral, neutral_announced)

    // One table per array has all accesses to it, because an array belongs to one stage.
#define REGION_TABLE(name, write, clear, use) \
    action do_##write() { write.execute(cell); } \
    action do_##clear() { clear.execute(cell); } \
    table name { \
        key = { \
            meta.carried.kind: ternary; \
            hdr.mr_info.isValid(): ternary; \
            is_announced: ternary; \
        } \
        actions = { do_##write; do_##clear; use; NoAction; } \
        const default_action = NoAction(); \
        const entries = { \
            (Kind.REGISTERS, _, _): do_##clear(); \
            (_, true, 1): do_##write(); \
            (_, false, _): use(); \
        } \
        size = 4; \
    }

    action use_va_high() {
        hdr.reth.va[63:32] = hdr.reth.va[63:32] ^ read_va_high.execute(cell);
    }

    action use_va_low() {
        hdr.reth.va[31:0] = hdr.reth.va[31:0] ^ read_va_low.execute(cell);
    }

    action use_rkey() {
        hdr.reth.r_key = hdr.reth.r_key ^ read_rkey.execute(cell);
    }

    action use_neutral() {
        neutral_xor = read_neutral.execute(cell);
    }

    REGION_TABLE(va_highs, write_va_high, clear_va_high, use_va_high)
    REGION_TABLE(va_lows, write_va_low, clear_va_low, use_va_low)
    REGION_TABLE(rkeys, write_rkey, clear_rkey, use_rkey)
    REGION_TABLE(neutrals, write_neutral, clear_neutral, use_neutral)

    table news {
        key = {
            meta.carried.kind: ternary;
            hdr.mr_info.isValid(): ternary;
            meta.owner_difference: ternary;
            meta.carried.is_new: ternary;
        }
        actions = { init; note_new; note_again; NoAction; }
        const default_action = NoAction();
        const entries = {
            (Kind.REGISTERS, _, _, _): init();
            (_, true, 0, 1): note_new();
            (_, true, 0, 0): note_again();
        }
        size = 4;
    }

    action empty_write() {
        hdr.mr_info.setInvalid();
        hdr.reth.dma_length = 0;
        hdr.ipv4.total_len = EMPTY_WRITE_IPV4_BYTES;
        hdr.udp.length = EMPTY_WRITE_UDP_BYTES;
    }

    // Nested conditions of one stage each, so that other steps can share the stages (ack_aggregate.p4).
    apply {
        if (hdr.mr_info.isValid()) {
            neutral_announced = hdr.mr_info.id_xor ++ hdr.mr_info.sport_xor;
        }
        if (has_region) {
            news.apply();
        }
        if (has_region) {
            va_highs.apply();
            va_lows.apply();
            rkeys.apply();
            neutrals.apply();
        }
        if (has_region && hdr.mr_info.isValid()) {
            empty_write();
        }
        if (has_region && hdr.reth.isValid()) {
            hdr.ipv4.identification = hdr.ipv4.identification ^ neutral_xor[31:16];
            hdr.udp.src_port = hdr.udp.src_port ^ neutral_xor[15:0];
        }
    }
}

#endif  // ALFIRK_MEMORY_REGIONS_P4
