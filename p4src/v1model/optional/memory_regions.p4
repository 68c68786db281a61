// Announced memory regions: destinations of WRITEs that change from one WRITE to the next.
//
// Before a WRITE, the sender announces the memory region of each receiver by a WRITE Only of 16 bytes with the R_Key
// MR_INFO_RKEY. Its virtual address is the receiver's IPv4 address; its payload are XOR differences for the headers of
// the next WRITEs there. The leaf switch of that receiver stores them. The announcement is a message of the queue
// pair's stream, so it is acknowledged, retransmitted when lost, and ordered before the WRITE that it serves (Gleam,
// section 3.3: "extra WRITE message"). Every receiver gets a WRITE of length 0 instead, which accesses no memory and
// needs no valid R_Key (IBTA vol. 1, C9-88).
// The sender waits for the acknowledgement before it posts that WRITE, and for the acknowledgement of the WRITE before
// it announces the next regions. So one slot per receiver is enough.
//
// Cells are indexed by receiver of this switch, not by path, because only ports to hosts need them. The index is a parameter
// of the receiver's entry of bridge_exit.p4, so a group that is rewritten under another index keeps its receivers' cells.
//
// The differences add to those of bridge_exit.p4, and so do the constants that keep the ICRC valid, by linearity. A
// region registered once on a boundary of a power of two needs no announcement; nor do members with equal
// addresses and keys.

#ifndef ALFIRK_MEMORY_REGIONS_P4
#define ALFIRK_MEMORY_REGIONS_P4

// Processes copies with a RETH to a host, after the exit half of the bridge. `receiver`: number of the host.
control MemoryRegions(inout headers_t hdr,
                      inout metadata_t meta,
                      in slot_t receiver) {
    bit<32> slot;
    bit<64> va_xor;
    bit<32> rkey_xor;
    bit<32> neutral_xor;
    psn_t newest;
    bool is_announced;

    apply {
        slot = (bit<32>)receiver;
        region_va.read(va_xor, slot);
        region_rkey.read(rkey_xor, slot);
        region_neutral.read(neutral_xor, slot);
        region_announced_at.read(newest, slot);
        is_announced = false;
        if (hdr.mr_info.isValid()) {
            is_announced = meta.optional.region_owner == hdr.ipv4.dst && receiver != NO_SLOT
                && (meta.is_retransmission == 0 || PSN_LT(newest, hdr.bth.psn));
            if (is_announced) {
                newest = hdr.bth.psn;
                va_xor = hdr.mr_info.va_xor;
                rkey_xor = hdr.mr_info.rkey_xor;
                neutral_xor = hdr.mr_info.id_xor ++ hdr.mr_info.sport_xor;
            }
            hdr.mr_info.setInvalid();
            hdr.reth.dma_length = 0;
            hdr.ipv4.total_len = EMPTY_WRITE_IPV4_BYTES;
            hdr.udp.length = EMPTY_WRITE_UDP_BYTES;
        } else {
            hdr.reth.va = hdr.reth.va ^ va_xor;
            hdr.reth.r_key = hdr.reth.r_key ^ rkey_xor;
            hdr.ipv4.identification = hdr.ipv4.identification ^ neutral_xor[31:16];
            hdr.udp.src_port = hdr.udp.src_port ^ neutral_xor[15:0];
        }
        if (is_announced) {
            region_va.write(slot, va_xor);
            region_rkey.write(slot, rkey_xor);
            region_neutral.write(slot, neutral_xor);
            region_announced_at.write(slot, newest);
        }
    }
}

#endif  // ALFIRK_MEMORY_REGIONS_P4
