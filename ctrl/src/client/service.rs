//! The control service: gRPC interface for programs that register groups.

use std::net::Ipv4Addr;
use std::pin::Pin;

use alfirk_roce::wire::{Psn, QpNum};
use clap::ValueEnum;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status};

use super::control::control_server::Control;
use super::control::{
    self, group_status, switch_status, CountRequest, CountResponse, DeregisterRequest,
    DeregisterResponse, JoinDatagramsRequest, JoinDatagramsResponse, JoinRequest, JoinResponse,
    LeaveDatagramsRequest, LeaveDatagramsResponse, LeaveRequest, LeaveResponse, Member,
    RefreshRequest, RefreshResponse, RegisterRequest, RegisterResponse, SetLinkRequest,
    SetLinkResponse, StatusRequest, StatusResponse, SuspectRequest, SuspectResponse, WatchRequest,
};
use super::runner::{GroupNotification, Handle};
use crate::controller::{
    GroupError, GroupState, MemberSpec, MemoryRegion, PuntStats, RegisterGroup, SwitchError,
    SwitchState, VirtualQpnError,
};
use crate::strategy::{MinPsn, Strategies, Window};
use crate::tables::Work;

/// The server side of `alfirk.ctrl.v1.Control`.
#[derive(Clone, Debug)]
pub struct ControlService {
    handle: Handle,
}

impl ControlService {
    /// Creates a service that forwards calls to a runner.
    pub fn new(handle: Handle) -> ControlService {
        ControlService { handle }
    }
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn register(
        &self,
        request: Request<RegisterRequest>,
    ) -> Result<Response<RegisterResponse>, Status> {
        let group = self
            .handle
            .register(register_group(request.into_inner())?)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(RegisterResponse {
            mcst_id: group.mcst_id.to_string(),
            remote_qpn: group.remote_qpn.get(),
            initial_psn: group.initial_psn.get(),
            remote_va: group.remote_va,
            remote_rkey: group.remote_rkey,
            switches: count(group.switches),
        }))
    }

    async fn deregister(
        &self,
        request: Request<DeregisterRequest>,
    ) -> Result<Response<DeregisterResponse>, Status> {
        let mcst_id = address("mcst_id", &request.into_inner().mcst_id)?;
        self.handle
            .deregister(mcst_id)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(DeregisterResponse {}))
    }

    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let request = request.into_inner();
        let mcst_id = address("mcst_id", &request.mcst_id)?;
        let member = request
            .member
            .ok_or_else(|| Status::invalid_argument("member: missing"))?;
        let (remote_qpn, psn) = self
            .handle
            .join(mcst_id, member_spec(member)?)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(JoinResponse {
            remote_qpn: remote_qpn.get(),
            initial_psn: psn.get(),
        }))
    }

    async fn leave(
        &self,
        request: Request<LeaveRequest>,
    ) -> Result<Response<LeaveResponse>, Status> {
        let request = request.into_inner();
        let mcst_id = address("mcst_id", &request.mcst_id)?;
        let members = request.members.iter().map(|ip| address("members", ip));
        self.handle
            .leave(mcst_id, members.collect::<Result<_, Status>>()?)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(LeaveResponse {}))
    }

    async fn join_datagrams(
        &self,
        request: Request<JoinDatagramsRequest>,
    ) -> Result<Response<JoinDatagramsResponse>, Status> {
        let request = request.into_inner();
        let group = address("group", &request.group)?;
        let host = address("host", &request.host)?;
        let joined = self.handle.join_datagrams(group, host).await;
        joined.ok_or_else(ended)?.map_err(|error| status(&error))?;
        Ok(Response::new(JoinDatagramsResponse {}))
    }

    async fn leave_datagrams(
        &self,
        request: Request<LeaveDatagramsRequest>,
    ) -> Result<Response<LeaveDatagramsResponse>, Status> {
        let request = request.into_inner();
        let group = address("group", &request.group)?;
        let host = address("host", &request.host)?;
        let left = self.handle.leave_datagrams(group, host).await;
        left.ok_or_else(ended)?.map_err(|error| status(&error))?;
        Ok(Response::new(LeaveDatagramsResponse {}))
    }

    async fn suspect(
        &self,
        request: Request<SuspectRequest>,
    ) -> Result<Response<SuspectResponse>, Status> {
        let mcst_id = address("mcst_id", &request.into_inner().mcst_id)?;
        self.handle
            .suspect(mcst_id)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(SuspectResponse {}))
    }

    async fn refresh(
        &self,
        request: Request<RefreshRequest>,
    ) -> Result<Response<RefreshResponse>, Status> {
        let mcst_id = address("mcst_id", &request.into_inner().mcst_id)?;
        self.handle
            .refresh(mcst_id)
            .await
            .ok_or_else(ended)?
            .map_err(|error| status(&error))?;
        Ok(Response::new(RefreshResponse {}))
    }

    async fn set_link(
        &self,
        request: Request<SetLinkRequest>,
    ) -> Result<Response<SetLinkResponse>, Status> {
        let SetLinkRequest { a, b, up } = request.into_inner();
        match self.handle.set_link(&a, &b, up).await.ok_or_else(ended)? {
            0 => Err(Status::not_found(format!(
                "the topology has no link between {a} and {b}"
            ))),
            _ => Ok(Response::new(SetLinkResponse {})),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<control::GroupNews, Status>> + Send>>;

    async fn watch(
        &self,
        _request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let notifications = self.handle.subscribe().await.ok_or_else(ended)?;
        let notifications = UnboundedReceiverStream::new(notifications)
            .map(|notification| Ok(group_notification(notification)));
        Ok(Response::new(Box::pin(notifications)))
    }

    async fn count(
        &self,
        _request: Request<CountRequest>,
    ) -> Result<Response<CountResponse>, Status> {
        let counts = self.handle.count().await.ok_or_else(ended)?;
        Ok(Response::new(CountResponse {
            tree: Some(work(counts.work(MinPsn::Tree))),
            walk: Some(work(counts.work(MinPsn::Walk))),
            punt: Some(work(counts.work(MinPsn::Punt))),
            cnps_filtered: counts.cnps_filtered,
            copies_filtered: counts.copies_filtered,
            punts_limited: counts.punts_limited,
        }))
    }

    async fn status(
        &self,
        _request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let report = self.handle.status().await.ok_or_else(ended)?;
        let is_ready =
            |switch: &crate::controller::SwitchStatus| switch.state == SwitchState::Ready;
        Ok(Response::new(StatusResponse {
            ready: report.switches.iter().all(is_ready),
            switches: report.switches.into_iter().map(switch_status).collect(),
            groups: report.groups.into_iter().map(group_status).collect(),
            avoided: report.avoided,
            registrations: Some(control::Registrations {
                accepted: report.registrations.accepted,
                again: report.registrations.repeated,
                wrong: report.registrations.wrong,
                refused: report.registrations.refused,
                limited: report.registrations.limited,
            }),
            punts: Some(punts(&report.punts)),
        }))
    }
}

fn work(work: Work) -> control::Work {
    control::Work {
        feedback: work.feedback,
        forwarded: work.forwarded,
        recirculations: work.recirculations,
        punts: work.punts,
    }
}

fn punts(stats: &PuntStats) -> control::Punts {
    control::Punts {
        feedback: stats.feedback,
        forwarded: stats.forwarded,
        probes: stats.probes,
        answered: stats.probe_replies,
        icrcs: stats.icrcs,
        wrong_icrcs: stats.wrong_icrcs,
        fatal_naks: stats.fatal_naks,
        strays: stats.strays,
    }
}

fn group_notification(notification: GroupNotification) -> control::GroupNews {
    let of = |mcst_id: Ipv4Addr| control::GroupNews {
        mcst_id: mcst_id.to_string(),
        ..control::GroupNews::default()
    };
    match notification {
        GroupNotification::Lost { mcst_id, members } => control::GroupNews {
            lost: members.iter().map(Ipv4Addr::to_string).collect(),
            ..of(mcst_id)
        },
        GroupNotification::Rerouted { mcst_id } => control::GroupNews {
            rerouted: true,
            ..of(mcst_id)
        },
        GroupNotification::Expired { mcst_id } => control::GroupNews {
            expired: true,
            ..of(mcst_id)
        },
    }
}

fn register_group(request: RegisterRequest) -> Result<RegisterGroup, Status> {
    let members = request.members.into_iter().map(member_spec);
    Ok(RegisterGroup {
        members: members.collect::<Result<_, Status>>()?,
        mcst_id: match request.mcst_id.as_str() {
            "" => None,
            text => Some(address("mcst_id", text)?),
        },
        virtual_qpn: match request.remote_qpn {
            0 => None,
            number => Some(
                QpNum::try_from(number)
                    .map_err(|error| Status::invalid_argument(format!("remote_qpn: {error}")))?,
            ),
        },
        initial_psn: Psn::try_from(request.initial_psn)
            .map_err(|error| Status::invalid_argument(format!("initial_psn: {error}")))?,
        strategies: Strategies {
            min_psn: strategy("min_psn", &request.min_psn)?,
            icrc: strategy("icrc", &request.icrc)?,
            recovery: strategy("recovery", &request.recovery)?,
            window: match request.source_window {
                0 => Window::default(),
                packets => Window::try_from(packets)
                    .map_err(|error| Status::invalid_argument(format!("source_window: {error}")))?,
            },
        },
    })
}

/// Parses a strategy by its command-line name; an empty name is the default.
fn strategy<T>(field: &str, name: &str) -> Result<T, Status>
where
    T: Default + ValueEnum,
{
    if name.is_empty() {
        return Ok(T::default());
    }
    T::from_str(name, false).map_err(|_| {
        let known = T::value_variants().iter();
        let known = known.filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()));
        let known = known.collect::<Vec<_>>().join(", ");
        Status::invalid_argument(format!(
            "{field}: unknown value {name:?}; use one of {known}"
        ))
    })
}

fn member_spec(member: Member) -> Result<MemberSpec, Status> {
    Ok(MemberSpec {
        ip: address("members.ip", &member.ip)?,
        qpn: QpNum::try_from(member.qpn)
            .map_err(|error| Status::invalid_argument(format!("members.qpn: {error}")))?,
        region: member.region.map(|region| MemoryRegion {
            va: region.va,
            rkey: region.rkey,
            len: region.len,
        }),
        may_send: !member.only_receives,
    })
}

fn address(field: &str, text: &str) -> Result<Ipv4Addr, Status> {
    text.parse().map_err(|_| {
        Status::invalid_argument(format!(
            "{field}: `{text}` is not an IPv4 address, such as 10.0.0.1"
        ))
    })
}

fn switch_status(switch: crate::controller::SwitchStatus) -> control::SwitchStatus {
    let (state, why) = match switch.state {
        SwitchState::Down { why } => (switch_status::State::Down, why),
        SwitchState::Starting => (switch_status::State::Starting, String::new()),
        SwitchState::Ready => (switch_status::State::Ready, String::new()),
    };
    control::SwitchStatus {
        name: switch.name,
        state: state.into(),
        why,
        groups: count(switch.groups),
    }
}

fn group_status(group: crate::controller::GroupStatus) -> control::GroupStatus {
    let state = match group.state {
        GroupState::Registering => group_status::State::Registering,
        GroupState::Ready => group_status::State::Ready,
        GroupState::Degraded => group_status::State::Degraded,
        GroupState::Removing => group_status::State::Removing,
    };
    let switches = group.switches.into_iter().map(|on| control::GroupOnSwitch {
        switch: on.switch,
        group_index: u32::from(on.group_index),
        ports: on.ports,
    });
    control::GroupStatus {
        mcst_id: group.mcst_id.to_string(),
        state: state.into(),
        members: group.members.iter().map(ToString::to_string).collect(),
        switches: switches.collect(),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn ended() -> Status {
    Status::unavailable("the controller is shutting down")
}

fn status(error: &GroupError) -> Status {
    let code = match error {
        GroupError::TooFewMembers(_)
        | GroupError::LargerThanTopology { .. }
        | GroupError::UnknownHost(_)
        | GroupError::NotMulticast(_)
        | GroupError::MemberTwice { .. }
        | GroupError::QueuePair(_)
        | GroupError::Region { .. }
        | GroupError::EmptyRegion(_)
        | GroupError::OutsideRange { .. }
        | GroupError::NotRecomputed { .. }
        | GroupError::NoDatagrams
        | GroupError::Strategy(_)
        | GroupError::VirtualQpn(VirtualQpnError::Special(_)) => Code::InvalidArgument,
        GroupError::Taken(_) | GroupError::VirtualQpn(VirtualQpnError::Stale { .. }) => {
            Code::AlreadyExists
        }
        GroupError::NoAddress { .. }
        | GroupError::SwitchFull { .. }
        | GroupError::DatagramGroupsFull(_)
        | GroupError::TooManyPaths { .. } => Code::ResourceExhausted,
        GroupError::NoSuchGroup(_) | GroupError::NotMember { .. } => Code::NotFound,
        GroupError::Busy(_) | GroupError::InUse(_) | GroupError::NotAgreed { .. } => {
            Code::FailedPrecondition
        }
        GroupError::Icrc(_) | GroupError::Constraint(_) => Code::Internal,
        GroupError::SwitchNotReady { .. }
        | GroupError::Unreachable(_)
        | GroupError::Switch(SwitchError::Lost { .. } | SwitchError::Timeout { .. }) => {
            Code::Unavailable
        }
        GroupError::Switch(_) | GroupError::Removal { .. } | GroupError::Unwind { .. } => {
            Code::Aborted
        }
    };
    Status::new(code, error.to_string())
}
