// Counters of the cost of each strategy (Work of ../../shared/constants.p4).

#ifndef ALFIRK_OPTIONAL_WORK_P4
#define ALFIRK_OPTIONAL_WORK_P4

@name("ingress.ack_aggregate.work")
@id(COUNTER_ID_WORK)
counter(SIZE_WORK, CounterType.packets) work;

control CountWork(in metadata_t meta, in decision_t decision) {
    bit<32> slot;

    apply {
        slot = (bit<32>)meta.optional.min_psn << 3;
        if (meta.is_feedback == 1) {
            work.count(slot + Work.FEEDBACK);
        }
        if (decision.verdict == Verdict.FEEDBACK) {
            work.count(slot + Work.FORWARDED);
        } else if (decision.verdict == Verdict.WALK || decision.verdict == Verdict.CONTINUE_WALK
                   || decision.verdict == Verdict.PROBE_WALK || decision.clone == Verdict.PROBE_WALK) {
            work.count(slot + Work.RECIRCULATIONS);
        } else if (decision.verdict == Verdict.PUNT || decision.packet_in_reason == PacketInReason.PROBE) {
            work.count(slot + Work.PUNTS);
        }
    }
}

#endif  // ALFIRK_OPTIONAL_WORK_P4
