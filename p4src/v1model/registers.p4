// Register arrays that the controller can access, by PacketOut (register_control.p4).
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
// Calls a method of the array that has the path's word.
#define OWN_LEAF(path, call) \
    if ((path)[1:0] == 0) { \
        leaf_0.call; \
    } else if ((path)[1:0] == 1) { \
        leaf_1.call; \
    } else if ((path)[1:0] == 2) { \
        leaf_2.call; \
    } else { \
        leaf_3.call; \
    }

// State of the walk: busy ++ dirty ++ start in microseconds (0 if no walk runs) ++ tri_path ++ minimum found by the last walk
// (min_psn_walk.p4).
@name("ingress.ack_aggregate.walk.walks") register<bit<64>>(MAX_GROUPS) walks;

// AckPSN at the last increase of the MSN (last_acked.p4).
@name("ingress.ack_aggregate.last_acked.msn_bases") register<psn_t>(MAX_GROUPS) msn_bases;

// Position last acknowledged to the source: AckPSN ++ MSN (ack_aggregate.p4).
@name("ingress.ack_aggregate.agg") register<bit<48>>(MAX_GROUPS) last_positions;

// Pending NAK: sent to the source (1 bit) ++ lower 7 bits of the syndrome ++ PSN; 0 if there is none (waiting_nak.p4).
@name("ingress.ack_aggregate.waiting_nak.nak") register<bit<32>>(MAX_GROUPS) pending_naks;

// Tags of the source's data: DSCP ++ number of tags ++ first EtherType ++ outer tag ++ second EtherType ++ inner tag
// (source_tags.p4).
@name("ingress.ack_aggregate.source_tags.tags") register<bit<72>>(MAX_GROUPS) data_tags;

// Newest PSN that each path has acknowledged, for the copies in egress (retransmission_filter.p4).
@name("egress.retransmission_filter.acked") register<psn_t>(SIZE_PATHS) filter_psns;

// Announced memory region of each receiver (memory_regions.p4): differences of the virtual address, of the R_Key, of the
// identification ++ of the UDP source port, and the PSN of the announcement.
@name("egress.memory_regions.va") register<bit<64>>(SIZE_RECEIVERS + 1) region_va;
@name("egress.memory_regions.rkey") register<bit<32>>(SIZE_RECEIVERS + 1) region_rkey;
@name("egress.memory_regions.neutral") register<bit<32>>(SIZE_RECEIVERS + 1) region_neutral;
@name("egress.memory_regions.announced_at") register<psn_t>(SIZE_RECEIVERS + 1) region_announced_at;

#endif  // ALFIRK_REGISTERS_P4
