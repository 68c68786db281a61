// No port may keep the controller busy for all others.
//
//   packet_in_reason ──┐
//   origin port ───────┴──> a meter: green passes, the rest ends here
//
// What hosts can make the switch hand up is metered by kind and port: registrations, fatal NAKs, and of groups whose
// minimum PSN or ICRC is the controller's to find their feedback, old data, data and CNPs. Of the source's old data only the
// question is left out. A cell that the controller has set no rate for lets everything pass.
//
// The rule of main.p4 that goes with it: what is dropped is not cloned, and all that goes to the controller is cut to what
// the controller reads. Only data whose ICRC the controller computes goes up whole.
//
// Fatal NAKs are not only handed up here but by every switch on their way to the source, so beyond the rate they end as
// a whole.

#ifndef ALFIRK_PUNT_LIMIT_P4
#define ALFIRK_PUNT_LIMIT_P4

control PuntLimit(inout metadata_t meta) {
    // By PacketInReason and port.
    @id(1) meter(SIZE_PUNT_RATES, MeterType.packets) rates;
    // What was beyond the rate, by PacketInReason.
    @id(4) counter(PUNT_KINDS, CounterType.packets) limited;
    bit<8> reason;
    bit<8> color;

    apply {
        reason = meta.packet_in_reason;
        if (meta.icrc_mode == IcrcMode.PUNT
            && (meta.verdict == Verdict.REPLICATE || (meta.verdict == Verdict.PASS && meta.kind == Kind.CNP))) {
            // Each copy of it goes to the controller.
            reason = PacketInReason.ICRC;
        }
        if (reason != 0) {
            rates.execute_meter(((bit<32>)reason << PORT_BITS) | (bit<32>)meta.origin_port, color);
            if (color != V1MODEL_METER_COLOR_GREEN) {
                limited.count((bit<32>)reason);
                if (reason == PacketInReason.PROBE && meta.verdict == Verdict.REPLICATE) {
                    meta.packet_in_reason = 0;
                } else {
                    meta.drop_reason = Drop.PUNT_LIMITED;
                }
            }
        }
    }
}

#endif  // ALFIRK_PUNT_LIMIT_P4
