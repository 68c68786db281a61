//! Intrinsic metadata: fields that the architecture reads and writes.

use crate::exec::ops::Slot;

/// Locations of v1model's standard metadata fields in the packet's words. `None` for a field that the program lacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intrinsic {
    pub ingress_port: Option<Meta>,
    pub packet_length: Option<Meta>,
    pub instance_type: Option<Meta>,
    pub egress_spec: Option<Meta>,
    pub egress_port: Option<Meta>,
    pub parser_error: Option<Meta>,
    pub checksum_error: Option<Meta>,
    pub ingress_global_timestamp: Option<Meta>,
    pub egress_global_timestamp: Option<Meta>,
    pub mcast_grp: Option<Meta>,
    pub egress_rid: Option<Meta>,
    pub priority: Option<Meta>,
    pub queueing: Option<Queueing>,
    pub qid: Option<Meta>,
}

/// Locations of the queueing metadata. BMv2 fills them only if a program declares all four fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queueing {
    pub enq_timestamp: Meta,
    pub enq_qdepth: Meta,
    pub deq_timedelta: Meta,
    pub deq_qdepth: Meta,
}

/// Values of the fields that the switch sets before ingress, in the order of [`Intrinsic::ingress_fields`].
pub(crate) type IngressValues = [u64; 4];

/// Values of the fields that the switch sets before egress, in the order of [`Intrinsic::egress_fields`].
pub(crate) type EgressValues = [u64; 9];

impl Intrinsic {
    /// Returns the fields that the switch sets when a packet is received.
    pub fn ingress_fields(&self) -> [Option<Meta>; 4] {
        [
            self.ingress_port,
            self.packet_length,
            self.instance_type,
            self.ingress_global_timestamp,
        ]
    }

    /// Returns the fields that the switch sets when a packet enters egress.
    pub fn egress_fields(&self) -> [Option<Meta>; 9] {
        let queueing = self.queueing.as_ref();
        [
            self.egress_port,
            self.egress_spec,
            self.packet_length,
            self.egress_global_timestamp,
            queueing.map(|fields| fields.enq_timestamp),
            queueing.map(|fields| fields.enq_qdepth),
            queueing.map(|fields| fields.deq_timedelta),
            queueing.map(|fields| fields.deq_qdepth),
            queueing.and(self.qid),
        ]
    }
}

/// Location of a metadata field of at most 64 bits: its word, and a mask of its width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub slot: Slot,
    pub mask: u64,
}

/// Locations, in the packet's words, of the intrinsic metadata fields of Tofino's ingress. `None` for a field that the
/// program lacks.
#[derive(Clone, Debug)]
pub(crate) struct IngressMetadata {
    /// Number of the header with the metadata that the ingress parser finds in front of a packet.
    pub header: Option<u16>,
    pub ingress_port: Option<Meta>,
    pub resubmit_flag: Option<Meta>,
    pub mac_tstamp: Option<Meta>,
    pub global_tstamp: Option<Meta>,
    /// Error code of the parser. If the program does not read the field (`None`), packets with parser errors are
    /// dropped.
    pub parser_err: Option<Meta>,
    pub drop_ctl: Option<Meta>,
    pub mirror_type: Option<Meta>,
    pub resubmit_type: Option<Meta>,
    pub digest_type: Option<Meta>,
    pub ucast_egress_port: Option<Meta>,
    pub bypass_egress: Option<Meta>,
    pub qid: Option<Meta>,
    pub copy_to_cpu: Option<Meta>,
    pub mcast_grp_a: Option<Meta>,
    pub mcast_grp_b: Option<Meta>,
    pub level1_mcast_hash: Option<Meta>,
    pub level2_mcast_hash: Option<Meta>,
    pub level1_exclusion_id: Option<Meta>,
    pub level2_exclusion_id: Option<Meta>,
    pub rid: Option<Meta>,
}

/// Locations, in the packet's words, of the intrinsic metadata fields of Tofino's egress. `None` for a field that the
/// program lacks.
#[derive(Clone, Debug)]
pub(crate) struct EgressMetadata {
    pub header: Option<u16>,
    pub egress_port: Option<Meta>,
    pub enq_qdepth: Option<Meta>,
    pub enq_tstamp: Option<Meta>,
    pub deq_qdepth: Option<Meta>,
    pub deq_timedelta: Option<Meta>,
    pub egress_rid: Option<Meta>,
    pub egress_qid: Option<Meta>,
    pub pkt_length: Option<Meta>,
    pub global_tstamp: Option<Meta>,
    pub parser_err: Option<Meta>,
    pub drop_ctl: Option<Meta>,
    pub mirror_type: Option<Meta>,
}
