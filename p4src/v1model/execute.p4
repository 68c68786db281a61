// Execution of the decision: the only place of ingress that meters, drops and clones. Every packet passes it.

#ifndef ALFIRK_EXECUTE_P4
#define ALFIRK_EXECUTE_P4

#include "punt_limit.p4"

@name("ingress.drops")
@id(COUNTER_ID_INGRESS_DROPS)
counter(SIZE_DROP_REASONS, CounterType.packets) ingress_drops;

control Execute(inout metadata_t meta, inout standard_metadata_t standard_metadata, inout decision_t decision) {
    PuntLimit() punt_limit;
    bit<32> clone_session;

    apply {
        if (meta.drop_reason == Drop.NONE) {
            punt_limit.apply(meta, decision);
        }
        if (meta.drop_reason != Drop.NONE) {
            ingress_drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        } else {
            meta.verdict = decision.verdict;
            meta.clone_verdict = decision.clone;
            meta.packet_in_reason = decision.packet_in_reason;
            standard_metadata.egress_spec = decision.port;
            standard_metadata.mcast_grp = decision.group;
            if (IS_PROBE(decision.verdict)) {
                // The data is dropped; the packet continues as a query whether all paths have the data.
                ingress_drops.count((bit<32>)(bit<8>)Drop.NOT_THE_SOURCE);
            }
            if (decision.clone != Verdict.NONE) {
                // The clone session of a port has the port's number and leads back to it.
                clone_session = (bit<32>)meta.origin_port;
                if (decision.packet_in_reason != 0) {
                    clone_session = (bit<32>)CPU_PORT;
                }
                clone_preserving_field_list(CloneType.I2E, clone_session, FIELD_LIST_CARRIED);
            }
        }
    }
}

#endif  // ALFIRK_EXECUTE_P4
