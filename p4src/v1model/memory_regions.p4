// Where a WRITE goes at each receiver, if it goes somewhere else each time.
//
// A sender that knows its receivers' memory regions before each WRITE sends, for each
// receiver, one WRITE Only of 16 bytes to the R_Key MR_INFO_RKEY; its virtual
// address is the receiver's IPv4 address, its payload what is to be XORed into the
// next WRITEs' headers there. The leaf switch of that receiver takes it. It belongs to
// the queue pair's stream like any message, so it is acknowledged, sent again when
// lost, and always before the WRITE that it serves (Gleam, section 3.3: "extra WRITE
// message"). Every receiver gets a WRITE of length 0 in its place, which touches no
// memory and is checked against none (IBTA vol. 1, C9-88).
// The sender waits for the acknowledgement before it posts that WRITE, and for the
// WRITE's before it announces the next regions: one slot per receiver is enough.
//
// Cells are per receiver of this switch, not per path: only ports that lead to hosts have them. Which one is a receiver's
// stands in its entry of bridge_exit.p4, so a group that is written anew beside the old one keeps its receivers' cells.
//
// The differences add to those of bridge_exit.p4, and so do the constants that keep the
// ICRC right, by linearity. A region registered once, on a boundary of a power of two,
// needs none of this; nor do members that all use the same address and key.

#ifndef ALFIRK_MEMORY_REGIONS_P4
#define ALFIRK_MEMORY_REGIONS_P4

// For copies with a RETH that go to a host, after the rest of the bridge; and for register control. `receiver` is its
// number, `owner` the host whose region a packet announces.
control MemoryRegions(inout headers_t hdr,
                      inout metadata_t meta,
                      in slot_t receiver,
                      in ipv4_addr_t owner) {
    register<bit<64>>(SIZE_RECEIVERS + 1) va;
    register<bit<32>>(SIZE_RECEIVERS + 1) rkey;
    // For the identification ++ for the UDP source port.
    register<bit<32>>(SIZE_RECEIVERS + 1) neutral;
    // Of the WRITE that brought them: one that comes late or twice changes nothing. What its sender has just
    // sent for the first time is neither, even if the last one was 2^23 packets ago.
    register<psn_t>(SIZE_RECEIVERS + 1) announced_at;
    RegisterAccess(RegisterName.REGION_VA, RegisterOp.INIT_REGIONS) access_va;
    RegisterAccess(RegisterName.REGION_KEYS, RegisterOp.INIT_REGIONS) access_keys;
    RegisterAccess(RegisterName.REGION_ANNOUNCED_AT, RegisterOp.INIT_REGIONS) access_announced_at;
    bit<32> slot;
    bit<64> va_xor;
    bit<32> rkey_xor;
    bit<32> neutral_xor;
    psn_t newest;
    bit<64> value;
    bool is_announced;

    apply {
        slot = (bit<32>)receiver;
        if (hdr.register_control.isValid()) {
            slot = REGISTER_SLOT(hdr);
        }
        va.read(va_xor, slot);
        rkey.read(rkey_xor, slot);
        neutral.read(neutral_xor, slot);
        announced_at.read(newest, slot);
        is_announced = false;
        if (hdr.register_control.isValid()) {
            is_announced = hdr.register_control.op != RegisterOp.READ;
            access_va.apply(hdr, 0, va_xor);
            value = rkey_xor ++ neutral_xor;
            access_keys.apply(hdr, 0, value);
            rkey_xor = value[63:32];
            neutral_xor = value[31:0];
            value = (bit<64>)newest;
            access_announced_at.apply(hdr, (bit<64>)INITIAL_PSN(hdr), value);
            newest = value[23:0];
        } else if (hdr.mr_info.isValid()) {
            is_announced = owner == hdr.ipv4.dst && receiver != NO_SLOT
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
            va.write(slot, va_xor);
            rkey.write(slot, rkey_xor);
            neutral.write(slot, neutral_xor);
            announced_at.write(slot, newest);
        }
    }
}

#endif  // ALFIRK_MEMORY_REGIONS_P4
