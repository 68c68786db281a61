//! Events and client requests that the controller receives, and the effects and replies that it returns.

use std::net::Ipv4Addr;
use std::sync::Arc;

use alfirk_p4runtime::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, WriteRequest,
};
use alfirk_p4runtime::Status;
use alfirk_roce::wire::mrp::{Node, Region, NODE_ONLY_RECEIVES};
use alfirk_roce::wire::{Psn, QpNum};

use super::error::{GroupError, SwitchError};
use super::status::StatusReport;
use crate::strategy::Strategies;
use crate::tables::Counts;
use crate::topology::{LinkIndex, SwitchIndex};

/// Event that the driver (gRPC client or simulator) reports to the controller.
#[derive(Clone, Debug)]
pub enum Event {
    /// The connection to a switch and its stream are open. The state of the switch is unknown.
    SwitchUp {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
    },
    /// The connection to a switch has ended. Pending requests get no reply.
    SwitchDown {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Cause of the disconnection, for messages.
        why: String,
    },
    /// Reply to an [`Effect::Request`].
    Reply {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Id of the request.
        request: RequestId,
        /// Response of the switch, or the gRPC status of a failure.
        result: Result<Response, Status>,
    },
    /// A message from the switch's stream.
    Stream {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Message of the P4Runtime stream.
        message: StreamMessageResponse,
    },
    /// A link has gone down or come up.
    Link {
        /// Index of the link in the topology.
        link: LinkIndex,
        /// Whether the link carries packets.
        is_up: bool,
    },
    /// A request through the control service.
    Api(ApiRequest),
    /// The time of [`super::Controller::poll_timeout`] is reached.
    Timeout,
}

/// Action that the controller requests of its driver: a message to a switch, or a reply to clients.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A call to a switch; the driver passes its result as [`Event::Reply`].
    Request {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Id to return in the reply.
        request: RequestId,
        /// The call and its message.
        body: Request,
    },
    /// A message for the switch's stream.
    Stream {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Message of the P4Runtime stream.
        message: StreamMessageRequest,
    },
    /// A reply or notification to clients.
    Api(ApiReply),
}

/// Id of a call; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// P4Runtime call of the controller on a switch (P4Runtime, section 16).
#[derive(Clone, Debug)]
pub enum Request {
    /// The call `GetForwardingPipelineConfig`, which requests only the cookie of the running pipeline.
    GetPipeline(GetForwardingPipelineConfigRequest),
    /// The call `SetForwardingPipelineConfig`, which loads the pipeline: the request without config, and the config, which
    /// the calls to all switches share.
    SetPipeline(
        Box<SetForwardingPipelineConfigRequest>,
        Arc<ForwardingPipelineConfig>,
    ),
    /// The call `Write`, with updates of entries. Shared with the controller, which describes rejected updates.
    Write(Arc<WriteRequest>),
    /// The call `Read`, of entries or counters.
    Read(ReadRequest),
}

/// Responses to the calls of [`Request`].
#[derive(Clone, Debug)]
pub enum Response {
    /// Cookie of the running pipeline; `None` without a pipeline.
    Pipeline(Option<u64>),
    /// The pipeline is loaded.
    SetPipeline,
    /// Every update was applied.
    Write,
    /// All messages of the response stream.
    Read(Vec<ReadResponse>),
}

/// Id of a client's request; chosen by the client, returned in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Request of a client.
#[derive(Clone, Debug)]
pub enum ApiRequest {
    /// Create a group. Reply: [`ApiReply::GroupReady`] or [`ApiReply::Failed`].
    Register {
        /// Id to return in the reply.
        tag: Tag,
        /// Parameters of the group.
        group: RegisterGroup,
    },
    /// Remove a group. Reply: [`ApiReply::GroupRemoved`] or [`ApiReply::Failed`].
    Deregister {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// Add a member between two messages. Reply: [`ApiReply::MemberJoined`] or [`ApiReply::Failed`].
    ///
    /// No member may send until the reply; the request fails if the group is not idle.
    Join {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// The new member: address, queue pair and memory region.
        member: MemberSpec,
    },
    /// Remove members, at any time. Reply: [`ApiReply::MembersLeft`] or [`ApiReply::Failed`].
    Leave {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Addresses of the members to remove; at least two others must remain.
        members: Vec<Ipv4Addr>,
    },
    /// Find failed members or links, when a sender gets no acknowledgements. Reply: [`ApiReply::Probing`] or
    /// [`ApiReply::Failed`]. Results are reported by [`ApiReply::MembersLost`] and [`ApiReply::GroupRerouted`].
    Suspect {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// Renew the lease of a group, as groups without traffic need. Reply: [`ApiReply::Refreshed`] or [`ApiReply::Failed`].
    Refresh {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// Add a host to a multicast group of unreliable datagrams. Reply: [`ApiReply::DatagramGroup`] or [`ApiReply::Failed`].
    JoinDatagrams {
        /// Id to return in the reply.
        tag: Tag,
        /// Address of the group, in 224.0.0.0/4.
        group: Ipv4Addr,
        /// IPv4 address of a host of the topology.
        host: Ipv4Addr,
    },
    /// Remove a host from a datagram group. A group without members is removed. Reply as for `JoinDatagrams`.
    LeaveDatagrams {
        /// Id to return in the reply.
        tag: Tag,
        /// IPv4 address of the group.
        group: Ipv4Addr,
        /// IPv4 address of the host.
        host: Ipv4Addr,
    },
    /// Read the counters of all switches. Reply: [`ApiReply::Counted`].
    Count {
        /// Id to return in the reply.
        tag: Tag,
    },
    /// Report the state of switches and groups. Reply: [`ApiReply::Status`].
    Status {
        /// Id to return in the reply.
        tag: Tag,
    },
}

/// Parameters of a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterGroup {
    /// Address of the group, inside the configured range; `None` for any unused one.
    pub mcst_id: Option<Ipv4Addr>,
    /// Virtual queue pair number that members address; `None` for one chosen by the controller and returned in its reply. It
    /// must differ from that of the last group with the same address.
    pub virtual_qpn: Option<QpNum>,
    /// Members, at least two. The first one is the leader: the tree starts at its switch.
    pub members: Vec<MemberSpec>,
    /// PSN of the group's first packet, the same for all members.
    pub initial_psn: Psn,
    /// How switches aggregate ACKs and NAKs, and how ICRCs are kept valid although switches rewrite headers.
    pub strategies: Strategies,
}

/// One member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// IPv4 address of a host of the topology.
    pub ip: Ipv4Addr,
    /// Number of the member's queue pair.
    pub qpn: QpNum,
    /// Destination of WRITEs at this member. Without a region the member rejects WRITEs of the group.
    pub region: Option<MemoryRegion>,
    /// Whether the member may be the source. If false, the switch to which it is attached drops the data that it sends.
    pub may_send: bool,
}

impl MemberSpec {
    /// Describes this member in the format of registration packets. A region that they cannot represent is left out.
    pub fn node(&self) -> Node {
        Node {
            ip: self.ip,
            qpn: self.qpn,
            flags: match self.may_send {
                true => 0,
                false => NODE_ONLY_RECEIVES,
            },
            region: self
                .region
                .and_then(|region| Region::new(region.va, region.rkey, region.len)),
        }
    }
}

/// A memory region, as destination of a group's WRITEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Virtual address, a multiple of the smallest power of two that is not below `len`.
    pub va: u64,
    /// Remote key (R_Key).
    pub rkey: u32,
    /// Length in bytes, at least 1.
    pub len: u64,
}

/// A reply or notification to clients.
#[derive(Clone, Debug)]
pub enum ApiReply {
    /// A switch is ready: the controller has written its pipeline, routes and groups.
    SwitchReady {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
    },
    /// A switch cannot be used until it connects again.
    SwitchFailed {
        /// Index of the switch in the topology.
        switch: SwitchIndex,
        /// Cause of the failure.
        error: SwitchError,
    },
    /// All switches are ready. Sent again whenever a switch was not ready meanwhile.
    Ready,
    /// A group is created.
    GroupReady {
        /// Id of the request.
        tag: Tag,
        /// Addressing parameters of the group.
        group: GroupInfo,
    },
    /// A group has been created that a leader host had registered in band, by packets on the network.
    GroupFormed {
        /// Addressing parameters of the group.
        group: GroupInfo,
    },
    /// A group that a leader host had registered in band, by packets on the network, has been removed.
    GroupDissolved {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// A member has joined.
    MemberJoined {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// IPv4 address of the member.
        ip: Ipv4Addr,
        /// Remote queue pair number for the member's queue pair.
        remote_qpn: QpNum,
        /// Initial PSN of the member's queue pair in both directions: the next PSN of the group.
        psn: Psn,
    },
    /// Members have left.
    MembersLeft {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// Members that did not respond were removed, so that the group can proceed.
    MembersLost {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
        /// Addresses of the removed members.
        members: Vec<Ipv4Addr>,
    },
    /// The tree of a group was rerouted around a failure.
    GroupRerouted {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// The group is monitored until it makes progress.
    Probing {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// The lease of a group is renewed.
    Refreshed {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// A group was removed because its lease expired.
    GroupExpired {
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// A group is removed.
    GroupRemoved {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group (McstID).
        mcst_id: Ipv4Addr,
    },
    /// A request failed. No state remains on switches, unless the error reports it.
    Failed {
        /// Id of the request.
        tag: Tag,
        /// Cause of the failure.
        error: GroupError,
    },
    /// The members of a datagram group are updated, on every switch that is ready.
    DatagramGroup {
        /// Id of the request.
        tag: Tag,
        /// IPv4 address of the group.
        group: Ipv4Addr,
        /// Number of members.
        members: usize,
    },
    /// Counters of the switches.
    Counted {
        /// Id of the request.
        tag: Tag,
        /// Sums over all switches that could be read.
        counts: Counts,
    },
    /// State of switches and groups.
    Status {
        /// Id of the request.
        tag: Tag,
        /// State at the time of the request.
        report: StatusReport,
    },
}

impl ApiReply {
    /// Whether the reply reports a change of the set of groups, their members or their trees.
    pub fn changes_groups(&self) -> bool {
        matches!(
            self,
            ApiReply::GroupReady { .. }
                | ApiReply::GroupFormed { .. }
                | ApiReply::MemberJoined { .. }
                | ApiReply::MembersLeft { .. }
                | ApiReply::MembersLost { .. }
                | ApiReply::GroupRerouted { .. }
                | ApiReply::GroupDissolved { .. }
                | ApiReply::GroupExpired { .. }
                | ApiReply::GroupRemoved { .. }
                | ApiReply::Failed { .. }
        )
    }
}

/// How members address a group: each connects its queue pair to (`mcst_id`, `remote_qpn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// The remote address of every member's queue pair.
    pub mcst_id: Ipv4Addr,
    /// Number of the (virtual) remote queue pair to which every member's queue pair connects.
    pub remote_qpn: QpNum,
    /// The PSN of the first packet.
    pub initial_psn: Psn,
    /// Virtual address that members put into WRITEs for the first byte of the destination; switches replace it by that of
    /// each receiver's region.
    pub remote_va: u64,
    /// R_Key that members put into WRITEs; switches replace it by that of each receiver's region.
    pub remote_rkey: u32,
    /// Number of members.
    pub members: usize,
    /// Number of switches in the group's tree.
    pub switches: usize,
}
