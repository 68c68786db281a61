//! Opening of a session: arbitration, check or load of the pipeline, and reading of the existing entities.

use std::collections::BTreeSet;
use std::sync::Arc;

use alfirk_p4runtime::p4::v1::{
    entity, get_forwarding_pipeline_config_request::ResponseType,
    packet_replication_engine_entry as pre, set_forwarding_pipeline_config_request::Action,
    CloneSessionEntry, GetForwardingPipelineConfigRequest, MasterArbitrationUpdate,
    MulticastGroupEntry, PacketReplicationEngineEntry, SetForwardingPipelineConfigRequest,
    TableEntry,
};
use alfirk_p4runtime::{Code, Status};

use super::{election_id, Context, InitialState, Notice, Output, Session, State};
use crate::controller::error::SwitchError;
use crate::controller::event::{Request, RequestId, Response};

/// Pending reads while a session opens.
#[derive(Debug)]
pub(super) struct Reading {
    tables: RequestId,
    engine: RequestId,
    /// Read of meters; `None` for a new pipeline, whose meters have no rates.
    meters: Option<RequestId>,
    open: BTreeSet<RequestId>,
    found: InitialState,
}

impl Reading {
    /// Whether the reply to a request is pending.
    pub(super) fn awaits(&self, request: RequestId) -> bool {
        self.open.contains(&request)
    }
}

impl Session {
    pub(super) fn arbitration(
        &mut self,
        now: u64,
        context: &Context,
        update: &MasterArbitrationUpdate,
    ) {
        let is_primary = update
            .status
            .as_ref()
            .is_none_or(|status| status.canonical_code() == Code::Ok);
        if let State::Arbitrating { since, .. } = self.state {
            self.round_trip.measured(now - since);
        }
        match (&self.state, is_primary) {
            (State::Arbitrating { .. } | State::Backup { .. }, true) => {
                self.read_cookie(now, context);
            }
            (State::Closed { .. } | State::Backup { .. }, false) => {}
            (_, true) => {}
            (_, false) => {
                let error = SwitchError::NotPrimary {
                    switch: self.name.clone(),
                };
                self.fail(error.clone());
                // Stay connected: the switch sends another arbitration update when the other controller leaves.
                let why = error.to_string();
                self.state = State::Backup { why };
            }
        }
    }

    /// Reads the cookie of the running pipeline.
    fn read_cookie(&mut self, now: u64, context: &Context) {
        let request = self.next_request();
        let body = GetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            response_type: ResponseType::CookieOnly.into(),
        };
        self.outputs
            .push_back(Output::Request(request, Request::GetPipeline(body)));
        self.state = State::ReadingCookie {
            request,
            deadline: now + context.config.request_timeout_ns,
        };
    }

    /// Reads all entities of the switch. Tables, replication entries and meters need a call each, because some servers do not
    /// support reads of the latter two.
    pub(super) fn read_entities(&mut self, now: u64, context: &Context, has_kept_state: bool) {
        let tables = context.program.table_ids().into_iter().map(|table_id| {
            entity::Entity::TableEntry(TableEntry {
                table_id,
                ..TableEntry::default()
            })
        });
        let engine = [
            pre::Type::MulticastGroupEntry(MulticastGroupEntry::default()),
            pre::Type::CloneSessionEntry(CloneSessionEntry::default()),
        ]
        .map(|kind| {
            entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
                r#type: Some(kind),
            })
        });
        let tables = self.read(tables);
        let engine = self.read(engine);
        let meters =
            has_kept_state.then(|| self.read([context.program.punt_rates.entities_to_read()]));
        let reading = Reading {
            tables,
            engine,
            meters,
            open: [tables, engine].into_iter().chain(meters).collect(),
            found: InitialState {
                has_kept_state,
                entities: Vec::new(),
            },
        };
        self.state = State::ReadingEntities {
            reading,
            deadline: now + context.config.request_timeout_ns,
        };
    }

    pub(super) fn read_done(
        &mut self,
        now: u64,
        context: &Context,
        request: RequestId,
        result: Result<Response, Status>,
    ) {
        let State::ReadingEntities { reading, .. } = &mut self.state else {
            return;
        };
        reading.open.remove(&request);
        match result {
            Ok(Response::Read(messages)) => {
                let entities = messages.into_iter().flat_map(|message| message.entities);
                reading.found.entities.extend(entities);
            }
            // Entries that cannot be read are unreliable: load the pipeline again.
            _ if request == reading.tables && reading.found.has_kept_state => {
                return self.load(now, context);
            }
            // A new pipeline has no table entries. Existing replication entries and meter rates are replaced when written.
            _ => {
                let what = match request {
                    request if request == reading.engine => "replication entries",
                    request if Some(request) == reading.meters => "meters",
                    _ => "tables",
                };
                tracing::debug!(switch = self.name, "{what} cannot be read");
            }
        }
        if reading.open.is_empty() {
            if let State::ReadingEntities { reading, .. } =
                std::mem::replace(&mut self.state, State::Open)
            {
                self.notices.push_back(Notice::Open(reading.found));
            }
        }
    }

    pub(super) fn load(&mut self, now: u64, context: &Context) {
        let request = self.next_request();
        let config = context.config;
        let body = SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            election_id: Some(election_id(config)),
            action: Action::VerifyAndCommit.into(),
            ..SetForwardingPipelineConfigRequest::default()
        };
        self.outputs.push_back(Output::Request(
            request,
            Request::SetPipeline(Box::new(body), Arc::clone(context.pipeline)),
        ));
        self.state = State::Loading {
            request,
            deadline: now + config.request_timeout_ns,
        };
    }
}
