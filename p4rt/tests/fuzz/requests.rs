//! Requests of all types, valid and invalid, to the P4Runtime server.

use alfirk_bmv2::{Engine, Switch, SwitchOptions};
use alfirk_p4rt::{ClientId, Programs, Server};
use alfirk_p4runtime::{
    p4::v1::{
        set_forwarding_pipeline_config_request::Action, stream_message_request::Update as Said,
        update::Type, write_request::Atomicity, *,
    },
    Code, Message, Name, Status,
};

use crate::{
    chance::Chance,
    corpus::{subjects, Subject},
    entities::{entity, PORTS, QUEUED_PORTS},
    fixture::{self, arbitration, id, CPU_PORT, DEVICE},
    json, messages,
    run::{run, settle},
};

/// Requests per case.
const REQUESTS: usize = 60;

/// A server and its primary.
pub struct Client {
    pub server: Server,
    pub now: u64,
    primary: ClientId,
}

impl Client {
    pub fn new(programs: &Programs) -> Client {
        Client::with_engine(programs, Engine::default(), false)
    }

    /// Creates a server whose switch has an engine, and records traces if `is_traced`.
    pub fn with_engine(programs: &Programs, engine: Engine, is_traced: bool) -> Client {
        let options = SwitchOptions {
            device_id: DEVICE,
            cpu_port: Some(CPU_PORT),
            engine,
            ..SwitchOptions::default()
        };
        let mut switch = Switch::new(options);
        switch.set_trace(is_traced);
        switch.set_queued_ports(QUEUED_PORTS);
        let mut server = Server::with_programs(switch, programs.clone());
        let primary = server.stream_open();
        server.stream_message(primary, arbitration(id(1)), 0);
        Client {
            server,
            now: 0,
            primary,
        }
    }

    pub fn set_pipeline(&mut self, config: ForwardingPipelineConfig) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: id(1),
            action: Action::VerifyAndCommit.into(),
            config: Some(config),
            ..Default::default()
        };
        let result = self
            .server
            .set_forwarding_pipeline_config(&request, self.now);
        result.map(|_| ())
    }

    pub fn write(&mut self, updates: Vec<Update>) -> Result<(), Status> {
        self.server.write(&write(updates, 0), self.now).map(|_| ())
    }
}

fn write(updates: Vec<Update>, atomicity: i32) -> WriteRequest {
    WriteRequest {
        device_id: DEVICE,
        election_id: id(1),
        updates,
        atomicity,
        ..Default::default()
    }
}

#[test]
fn any_request_gets_a_reply() {
    run(
        "any_request_gets_a_reply",
        "requests granted",
        Programs::default,
        |programs, chance| {
            let subject = chance.pick(subjects());
            let mut client = Client::new(programs);
            if !chance.one_in(8) {
                client
                    .set_pipeline(subject.config())
                    .expect("the program is right");
            }
            let mut granted = 0;
            for _ in 0..REQUESTS {
                client.now += chance.below(1_000_000) as u64;
                granted += usize::from(request(&mut client, subject, chance));
                settle(&mut client.server, client.now);
                if chance.one_in(8) {
                    client.server.handle_timeout(client.now);
                    settle(&mut client.server, client.now);
                }
            }
            // The server must still reply, whatever was requested.
            let capabilities = client
                .server
                .capabilities(&CapabilitiesRequest { device_id: DEVICE });
            assert!(capabilities.is_ok());
            granted
        },
    );
}

/// Sends one request, message or frame. Returns whether it was a request that succeeded.
fn request(client: &mut Client, subject: &Subject, chance: &mut Chance) -> bool {
    let (server, now) = (&mut client.server, client.now);
    match chance.below(16) {
        0..=6 => {
            let updates = (0..=chance.below(4)).map(|_| update(subject, chance));
            let request = write(updates.collect(), chance.below(3) as i32);
            let request = maybe_damaged(request, chance);
            let before = (request.atomicity() != Atomicity::ContinueOnError)
                .then(|| written_state(server, now));
            let result = server.write(&request, now);
            if let (Err(status), Some(before)) = (&result, before) {
                assert!(
                    written_state(server, now) == before,
                    "half a batch is left after {status}: {request:?}"
                );
            }
            return result.is_ok();
        }
        7..=9 => {
            let entities =
                (0..=chance.below(3)).map(|_| wildcard(entity(&subject.info, chance), chance));
            let request = ReadRequest {
                device_id: DEVICE,
                entities: entities.collect(),
                ..Default::default()
            };
            return server.read(&maybe_damaged(request, chance), now).is_ok();
        }
        10 => {
            let request = SetForwardingPipelineConfigRequest {
                device_id: DEVICE,
                election_id: id(1),
                action: chance.below(6) as i32,
                config: (!chance.one_in(3)).then(|| config(subject, chance)),
                ..Default::default()
            };
            return server.set_forwarding_pipeline_config(&request, now).is_ok();
        }
        11 => {
            let request = GetForwardingPipelineConfigRequest {
                device_id: DEVICE,
                response_type: chance.below(4) as i32,
            };
            let request = maybe_damaged(request, chance);
            return server.get_forwarding_pipeline_config(&request).is_ok();
        }
        12..=13 => {
            let message = maybe_damaged(message(subject, chance), chance);
            let stranger = ClientId(chance.below(8) as u64);
            let from = if chance.one_in(3) {
                stranger
            } else {
                client.primary
            };
            server.stream_message(from, message, now);
        }
        14 => match chance.below(3) {
            0 => {
                let _ = server.stream_open();
            }
            1 => server.set_port(chance.below(PORTS) as u32, chance.one_in(2)),
            _ => server.stream_close(ClientId(2 + chance.below(6) as u64)),
        },
        _ => {
            let frame = subject.frame(chance);
            server.frame_in(chance.below(PORTS) as u32, &frame, now);
        }
    }
    false
}

/// Returns what controllers have written and can read, except cells of arrays, sorted; empty without a pipeline.
fn written_state(server: &Server, now: u64) -> Vec<Vec<u8>> {
    let kinds = [
        "table_entry { counter_data {} meter_config {} }",
        "table_entry { is_default_action: true counter_data {} meter_config {} }",
        "action_profile_member {}",
        "action_profile_group {}",
        "packet_replication_engine_entry { multicast_group_entry {} }",
        "packet_replication_engine_entry { clone_session_entry {} }",
        "value_set_entry {}",
        "digest_entry {}",
    ];
    let request = ReadRequest {
        device_id: DEVICE,
        entities: kinds.iter().map(|kind| fixture::entity(kind)).collect(),
        ..Default::default()
    };
    let found = match server.read(&request, now) {
        Ok(found) => found,
        Err(status) => {
            assert_eq!(
                status.canonical_code(),
                Code::FailedPrecondition,
                "{status}"
            );
            return Vec::new();
        }
    };
    let mut found: Vec<Vec<u8>> = found.entities.iter().map(Entity::encode_to_vec).collect();
    found.sort();
    found
}

fn maybe_damaged<M: Message + Name + Default>(message: M, chance: &mut Chance) -> M {
    match chance.below(8) {
        0..=2 => messages::damaged(&message, chance),
        3 => {
            // Damages the encoded bytes; the result is often still a message.
            let mut bytes = message.encode_to_vec();
            chance.damage(&mut bytes);
            M::decode(&bytes[..]).unwrap_or(message)
        }
        _ => message,
    }
}

fn update(subject: &Subject, chance: &mut Chance) -> Update {
    let kind = *chance.pick(&[Type::Insert, Type::Insert, Type::Modify, Type::Delete]);
    Update {
        r#type: kind.into(),
        entity: Some(entity(&subject.info, chance)),
    }
}

/// Returns the entity, or omits some of its fields as a wildcard read does.
fn wildcard(entity: Entity, chance: &mut Chance) -> Entity {
    match chance.below(3) {
        0 => entity,
        _ => messages::damaged(&entity, chance),
    }
}

/// Returns the subject's config, mostly with damage in the P4Info or the device config.
fn config(subject: &Subject, chance: &mut Chance) -> ForwardingPipelineConfig {
    let mut config = subject.config();
    match chance.below(8) {
        0 => config.p4_device_config = chance.pick(subjects()).json.clone().into_bytes().into(),
        1 => {
            let mut program = program_of(subject);
            let donor = program_of(chance.pick(subjects()));
            json::damage(&mut program, &donor, chance);
            config.p4_device_config = program.to_string().into_bytes().into();
        }
        2 => {
            let mut program = config.p4_device_config.to_vec();
            chance.damage(&mut program);
            config.p4_device_config = program.into();
        }
        3..=6 => config.p4info = config.p4info.map(|info| messages::damaged(&info, chance)),
        _ => {}
    }
    config
}

fn program_of(subject: &Subject) -> serde_json::Value {
    serde_json::from_str(&subject.json).expect("the compiler writes JSON")
}

fn message(subject: &Subject, chance: &mut Chance) -> StreamMessageRequest {
    let said = match chance.below(4) {
        0 => return arbitration(id(chance.below(4) as u64)),
        1 => Said::DigestAck(DigestListAck {
            digest_id: subject
                .info
                .digests
                .first()
                .and_then(|digest| digest.preamble.as_ref())
                .map_or(0, |preamble| preamble.id),
            list_id: chance.below(4) as u64,
        }),
        _ => {
            let out = |header: &&alfirk_p4runtime::p4::config::v1::ControllerPacketMetadata| {
                let preamble = header.preamble.as_ref();
                preamble.is_some_and(|preamble| preamble.name == "packet_out")
            };
            let header = subject.info.controller_packet_metadata.iter().find(out);
            let fields = header.map_or(&[][..], |header| &header.metadata);
            let metadata = fields.iter().map(|field| PacketMetadata {
                metadata_id: field.id,
                value: vec![chance.below(2) as u8],
            });
            let metadata = metadata.collect();
            Said::Packet(PacketOut {
                payload: subject.frame(chance),
                metadata,
            })
        }
    };
    StreamMessageRequest { update: Some(said) }
}
