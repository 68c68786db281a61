//! What goes into the controller and what comes out.

use std::net::Ipv4Addr;

use alfirk_p4runtime::p4::v1::{
    GetForwardingPipelineConfigRequest, ReadRequest, ReadResponse,
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

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A connection to a switch is up and its stream is open; nothing is known about the switch's state.
    SwitchUp {
        /// The switch.
        switch: SwitchIndex,
    },
    /// The connection is gone; requests that were under way will not be answered.
    SwitchDown {
        /// The switch.
        switch: SwitchIndex,
        /// What ended it, for messages.
        why: String,
    },
    /// The answer to an [`Effect::Request`].
    Reply {
        /// The switch.
        switch: SwitchIndex,
        /// The request's id.
        request: RequestId,
        /// What the switch said.
        result: Result<Response, Status>,
    },
    /// A message on the switch's stream.
    Stream {
        /// The switch.
        switch: SwitchIndex,
        /// The message.
        message: StreamMessageResponse,
    },
    /// A link has gone down or come up.
    Link {
        /// The link.
        link: LinkIndex,
        /// Whether it carries packets.
        is_up: bool,
    },
    /// A request of a user.
    Api(ApiRequest),
    /// The time of [`super::Controller::poll_timeout`] has come.
    Timeout,
}

/// Something to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A call to a switch, to be answered by [`Event::Reply`].
    Request {
        /// The switch.
        switch: SwitchIndex,
        /// To be given back in the reply.
        request: RequestId,
        /// The call.
        body: Request,
    },
    /// A message for the switch's stream.
    Stream {
        /// The switch.
        switch: SwitchIndex,
        /// The message.
        message: StreamMessageRequest,
    },
    /// News for the users.
    Api(ApiReply),
}

/// Names a call; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The calls that the controller makes (P4Runtime § 16).
#[derive(Clone, Debug)]
pub enum Request {
    /// `GetForwardingPipelineConfig`, for the cookie alone.
    GetPipeline(GetForwardingPipelineConfigRequest),
    /// `SetForwardingPipelineConfig`
    SetPipeline(Box<SetForwardingPipelineConfigRequest>),
    /// `Write`
    Write(WriteRequest),
    /// `Read`
    Read(ReadRequest),
}

/// Their answers.
#[derive(Clone, Debug)]
pub enum Response {
    /// The cookie of the pipeline that the switch runs, if it has one.
    Pipeline(Option<u64>),
    /// The pipeline is loaded.
    SetPipeline,
    /// Every update was applied.
    Write,
    /// All messages of the response stream.
    Read(Vec<ReadResponse>),
}

/// Names a user's request; chosen by the user, given back in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What a user can ask for.
#[derive(Clone, Debug)]
pub enum ApiRequest {
    /// Make a group; answered by [`ApiReply::GroupReady`] or [`ApiReply::Failed`].
    Register {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        group: RegisterGroup,
    },
    /// Remove a group; answered by [`ApiReply::GroupRemoved`] or [`ApiReply::Failed`].
    Deregister {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// Add a member between two messages; answered by [`ApiReply::MemberJoined`] or [`ApiReply::Failed`].
    ///
    /// Nobody may send to the group until it is answered; a group that is not idle refuses.
    Join {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
        /// The new member.
        member: MemberSpec,
    },
    /// Take members out, at any time; answered by [`ApiReply::MembersLeft`] or [`ApiReply::Failed`].
    Leave {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
        /// Their addresses; two members or more must stay.
        members: Vec<Ipv4Addr>,
    },
    /// A sender gets no acknowledgements: find out who is dead; answered by [`ApiReply::Probing`] or
    /// [`ApiReply::Failed`].  What comes of it is reported by [`ApiReply::MembersLost`] and [`ApiReply::GroupRerouted`].
    Suspect {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// Keep a group that may have nothing to send for a while; answered by [`ApiReply::Refreshed`] or [`ApiReply::Failed`].
    Refresh {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// Have a host get what is sent to a multicast group of unreliable datagrams; answered by [`ApiReply::DatagramGroup`] or
    /// [`ApiReply::Failed`].
    JoinDatagrams {
        /// Given back in the reply.
        tag: Tag,
        /// An address of 224.0.0.0/4.
        group: Ipv4Addr,
        /// A host of the topology.
        host: Ipv4Addr,
    },
    /// The opposite; a group without members is gone.  Answered in the same way.
    LeaveDatagrams {
        /// Given back in the reply.
        tag: Tag,
        /// The group.
        group: Ipv4Addr,
        /// The host.
        host: Ipv4Addr,
    },
    /// Read what the switches count; answered by [`ApiReply::Counted`].
    Count {
        /// Given back in the reply.
        tag: Tag,
    },
    /// Tell about switches and groups; answered by [`ApiReply::Status`].
    Status {
        /// Given back in the reply.
        tag: Tag,
    },
}

/// A group to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterGroup {
    /// The address that stands for the group, inside the configured range; `None` takes an unused one.
    pub mcst_id: Option<Ipv4Addr>,
    /// The queue pair number that members address, not the one of the group that had the address before; `None` leaves the choice to
    /// the controller, whose answer says it.
    pub virtual_qpn: Option<QpNum>,
    /// At least two; the first one leads: the tree grows from its switch.
    pub members: Vec<MemberSpec>,
    /// The PSN of the group's first packet, the same at all members.
    pub initial_psn: Psn,
    /// How its feedback and ICRCs are handled.
    pub strategies: Strategies,
}

/// One queue pair of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// A host of the topology.
    pub ip: Ipv4Addr,
    /// Its queue pair.
    pub qpn: QpNum,
    /// Where WRITEs go at this member; without it WRITEs of the group fail there.
    pub region: Option<MemoryRegion>,
    /// Whether it may be the group's source; what it sends is dropped at its leaf switch if not.
    pub may_send: bool,
}

impl MemberSpec {
    /// The member as registration packets name it; without a region that they cannot name.
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

/// A memory region that a group writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Virtual address, a multiple of the smallest power of two that is not below `len`.
    pub va: u64,
    /// The remote key.
    pub rkey: u32,
    /// Bytes, 1 or more.
    pub len: u64,
}

/// News for the users.
#[derive(Clone, Debug)]
pub enum ApiReply {
    /// A switch has its pipeline, routes and groups.
    SwitchReady {
        /// The switch.
        switch: SwitchIndex,
    },
    /// A switch cannot be used until it connects again.
    SwitchFailed {
        /// The switch.
        switch: SwitchIndex,
        /// Why.
        error: SwitchError,
    },
    /// All switches are ready; said again after each time when one was not.
    Ready,
    /// A group is made.
    GroupReady {
        /// Of the request.
        tag: Tag,
        /// How members address it.
        group: GroupInfo,
    },
    /// A group is made in band, for a leader host.
    GroupFormed {
        /// How members address it.
        group: GroupInfo,
    },
    /// A group is gone that a leader host has had removed in band.
    GroupDissolved {
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A member is in.
    MemberJoined {
        /// Of the request.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
        /// The member.
        ip: Ipv4Addr,
        /// The remote queue pair of its queue pair.
        remote_qpn: QpNum,
        /// The PSN with which its queue pair starts, both ways: the next of the group.
        psn: Psn,
    },
    /// Members are out.
    MembersLeft {
        /// Of the request.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// Members that did not answer were taken out, so that the group goes on.
    MembersLost {
        /// The group.
        mcst_id: Ipv4Addr,
        /// Their addresses.
        members: Vec<Ipv4Addr>,
    },
    /// A group's tree was led around something that is broken.
    GroupRerouted {
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A group is being watched until it makes progress.
    Probing {
        /// Of the request.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A group's lease begins anew.
    Refreshed {
        /// Of the request.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A group is gone that showed no sign of life.
    GroupExpired {
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A group is gone.
    GroupRemoved {
        /// Of the request.
        tag: Tag,
        /// The group.
        mcst_id: Ipv4Addr,
    },
    /// A request could not be fulfilled, and left nothing behind unless the error says so.
    Failed {
        /// Of the request.
        tag: Tag,
        /// Why.
        error: GroupError,
    },
    /// The members of a group of datagrams are as asked for, on every switch that is ready.
    DatagramGroup {
        /// Of the request.
        tag: Tag,
        /// The group.
        group: Ipv4Addr,
        /// Hosts in it now.
        members: usize,
    },
    /// What the switches have counted.
    Counted {
        /// Of the request.
        tag: Tag,
        /// Over all switches that could be asked.
        counts: Counts,
    },
    /// How things are.
    Status {
        /// Of the request.
        tag: Tag,
        /// Switches and groups.
        report: StatusReport,
    },
}

impl ApiReply {
    /// Whether the groups in use are others than before.
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
    /// The remote queue pair of every member's queue pair.
    pub remote_qpn: QpNum,
    /// The PSN of the first packet.
    pub initial_psn: Psn,
    /// The virtual address at which WRITEs find the first byte of the members' regions.
    pub remote_va: u64,
    /// The R_Key of WRITEs.
    pub remote_rkey: u32,
    /// Members of the group.
    pub members: usize,
    /// Switches of its tree.
    pub switches: usize,
}
