// Rate limit of packets to the controller: see v1model/punt_limit.p4.
//
// On this target, hosts can cause registrations and fatal NAKs to be sent to the controller. The meter is in egress, because
// ingress has no free stage. Over the limit, only the controller's copy of a fatal NAK is dropped.

#ifndef ALFIRK_PUNT_LIMIT_P4
#define ALFIRK_PUNT_LIMIT_P4

control PuntLimit(inout egress_metadata_t meta, inout bit<8> color) {
    // Indexed by PacketInReason and port.
    @name(".punt_limit.rates")
    @id(METER_ID_PUNT_RATES) Meter<bit<12>>(SIZE_PUNT_RATES, MeterType_t.PACKETS) rates;
    bit<12> rate = 0;

    action choose() {
        @in_hash {
            rate = meta.carried.packet_in_reason[2:0] ++ meta.carried.ingress_port;
        }
    }

    action measure() {
        color = rates.execute(rate);
    }

    apply {
        choose();
        measure();
    }
}

#endif  // ALFIRK_PUNT_LIMIT_P4
