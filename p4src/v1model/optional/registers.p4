// Register arrays of optional parts that the controller can access, by PacketOut.

#ifndef ALFIRK_OPTIONAL_REGISTERS_P4
#define ALFIRK_OPTIONAL_REGISTERS_P4

// State of the walk: busy ++ dirty ++ start in microseconds (0 if no walk runs) ++ tri_path ++ minimum found by the last walk
// (min_psn_walk.p4).
@name("ingress.ack_aggregate.walk.walks") register<bit<64>>(MAX_GROUPS) walks;

// DSCP and tags of the source's data: DSCP ++ whether there is an outer tag ++ whether it is an S-VLAN tag ++ its 16 bits ++ whether
// there is an inner tag, a C-VLAN tag ++ its 16 bits (source_tags.p4). Software switches process up to 64 bits as one word.
@name("ingress.ack_aggregate.source_tags.tags") register<bit<41>>(MAX_GROUPS) data_tags;

// Announced memory region of each receiver (memory_regions.p4): differences of the virtual address, of the R_Key, of the
// identification ++ of the UDP source port, and the PSN of the announcement.
@name("egress.memory_regions.va") register<bit<64>>(SIZE_RECEIVERS + 1) region_va;
@name("egress.memory_regions.rkey") register<bit<32>>(SIZE_RECEIVERS + 1) region_rkey;
@name("egress.memory_regions.neutral") register<bit<32>>(SIZE_RECEIVERS + 1) region_neutral;
@name("egress.memory_regions.announced_at") register<psn_t>(SIZE_RECEIVERS + 1) region_announced_at;

#endif  // ALFIRK_OPTIONAL_REGISTERS_P4
