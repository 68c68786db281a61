// Rate limit of packets to the controller, so that no port can overload it.
//
//   PacketInReason ────┐
//   origin port ───────┴──> meter: green packets pass, all others are dropped
//
// Packets of hosts to the controller are metered by kind and port: registrations and fatal NAKs; feedback, old data, data and
// CNPs of groups whose minimum PSN or ICRC the controller computes. Over the limit, old data of the source is forwarded,
// but its probe is not sent. If the controller computes both, old data is metered twice, as data and as its probe. A cell without
// a rate set by the controller passes all packets.
//
// Related rules: dropped packets are not cloned (execute.p4), and packets to the controller are truncated to what it reads
// (to_controller.p4).
//
// Every switch on the way to the source sends a copy of a fatal NAK to the controller, so over the limit the NAK itself is
// dropped as well.

#ifndef ALFIRK_PUNT_LIMIT_P4
#define ALFIRK_PUNT_LIMIT_P4

control PuntLimit(inout metadata_t meta, inout decision_t decision) {
    // Indexed by PacketInReason and port.
    @name(".punt_limit.rates")
    @id(METER_ID_PUNT_RATES)
    meter(SIZE_PUNT_RATES, MeterType.packets) rates;
    // Packets over the limit, indexed by PacketInReason.
    @name(".punt_limit.limited")
    @id(COUNTER_ID_LIMITED)
    counter(PUNT_KINDS, CounterType.packets) limited;
    bit<8> color;

#define METER(reason) rates.execute_meter(((bit<32>)(reason) << PORT_BITS) | (bit<32>)meta.origin_port, color)

    apply {
        if (decision.copies_reason != 0) {
            METER(decision.copies_reason);
            if (color != V1MODEL_METER_COLOR_GREEN) {
                limited.count((bit<32>)decision.copies_reason);
                meta.drop_reason = Drop.PUNT_LIMITED;
            }
        }
        if (meta.drop_reason == Drop.NONE && decision.packet_in_reason != 0) {
            METER(decision.packet_in_reason);
            if (color != V1MODEL_METER_COLOR_GREEN) {
                limited.count((bit<32>)decision.packet_in_reason);
                if (decision.clone == Verdict.PROBE_PUNT) {
                    decision.clone = Verdict.NONE;
                    decision.packet_in_reason = 0;
                } else {
                    meta.drop_reason = Drop.PUNT_LIMITED;
                }
            }
        }
    }
#undef METER
}

#endif  // ALFIRK_PUNT_LIMIT_P4
