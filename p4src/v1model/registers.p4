// Register arrays that the controller can access, by PacketOut (register_control.p4). Those of optional parts are in
// optional/registers.p4.
//
// They are declared here, because two controls use each of them: the step that owns it, for packets of the protocol, and the
// register access of the controller. `@name` is the name in P4Info, with the owner.

#ifndef ALFIRK_REGISTERS_P4
#define ALFIRK_REGISTERS_P4

// Newest PSN that each path claims to have (sender.p4).
@name("ingress.ack_aggregate.sender.acked") register<psn_t>(SIZE_PATHS) claimed_psns;

// Port of the source, 0 if there was none ++ newest PSN sent (sender.p4).
@name("ingress.ack_aggregate.sender.senders") register<bit<40>>(MAX_GROUPS) senders;

// Newest word of each path, in one array per child of a leaf node (min_psn_tree.p4).
@name("ingress.ack_aggregate.leaves.child_0") register<word_t>(SIZE_PATHS >> 2) leaf_0;
@name("ingress.ack_aggregate.leaves.child_1") register<word_t>(SIZE_PATHS >> 2) leaf_1;
@name("ingress.ack_aggregate.leaves.child_2") register<word_t>(SIZE_PATHS >> 2) leaf_2;
@name("ingress.ack_aggregate.leaves.child_3") register<word_t>(SIZE_PATHS >> 2) leaf_3;

// AckPSN at the last increase of the MSN (last_acked.p4).
@name("ingress.ack_aggregate.last_acked.msn_bases") register<psn_t>(MAX_GROUPS) msn_bases;

// Position last acknowledged to the source: AckPSN ++ MSN (ack_aggregate.p4).
@name("ingress.ack_aggregate.agg") register<bit<48>>(MAX_GROUPS) last_positions;

// Pending NAK: sent to the source (1 bit) ++ lower 7 bits of the syndrome ++ PSN; 0 if there is none (waiting_nak.p4).
@name("ingress.ack_aggregate.waiting_nak.nak") register<bit<32>>(MAX_GROUPS) pending_naks;

// Newest PSN that each path has acknowledged, for the copies in egress (retransmission_filter.p4).
@name("egress.retransmission_filter.acked") register<psn_t>(SIZE_PATHS) filter_psns;

#endif  // ALFIRK_REGISTERS_P4
