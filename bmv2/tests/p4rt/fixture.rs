//! A small program with one object of each kind, and a server that runs it.
//!
//! Packets are Ethernet frames. Ingress: packets from the CPU port go where their packet_out header
//! says; all others pass `acl`, `routes`, `ecmp`, `kinds` and `l2`. Egress puts a packet_in header
//! in front of what goes to the CPU port.

use alfirk_bmv2::{
    p4rt::{ClientId, Event, Server},
    QueueState, Switch, SwitchOptions,
};
use alfirk_p4runtime::{
    p4::{config::v1::P4Info, v1::*},
    text, Status,
};
use serde_json::{json, Value};

use crate::builder::{
    arg, assign, call, default, extract, field, key, num, operand, standard, Builder,
};

pub const DEVICE: u64 = 7;
pub const CPU_PORT: u32 = 510;

pub const L2: u32 = 0x0200_0001;
pub const ROUTES: u32 = 0x0200_0002;
pub const ACL: u32 = 0x0200_0003;
pub const ECMP: u32 = 0x0200_0004;
pub const KINDS: u32 = 0x0200_0005;
pub const NO_ACTION: u32 = 0x0100_0001;
pub const FORWARD: u32 = 0x0100_0002;
pub const FLOOD: u32 = 0x0100_0003;
pub const DROP: u32 = 0x0100_0004;
pub const LEARN: u32 = 0x0100_0005;
pub const MISS: u32 = 0x0100_0006;
pub const SELECTOR: u32 = 0x1100_0001;
pub const COUNTER: u32 = 0x1200_0001;
pub const METER: u32 = 0x1400_0001;
pub const REGISTER: u32 = 0x1600_0001;
pub const DIGEST: u32 = 0x1700_0001;
pub const VALUE_SET: u32 = 0x0300_0001;

/// The BMv2 JSON.
pub fn device_config() -> String {
    let mut b = Builder::new();
    b.scalar("ip", 32);
    b.header(
        "eth_t",
        &["eth"],
        json!([["dst", 48, false], ["src", 48, false], ["kind", 16, false]]),
    );
    let io = json!([["code", 8, false], ["pad", 7, false], ["port", 9, false]]);
    b.header("in_t", &["packet_in"], io.clone());
    b.header("out_t", &["packet_out"], io);
    b.add(
        "parse_vsets",
        json!({"name": "parser.kinds", "compressed_bitwidth": 16, "max_size": 2}),
    );
    b.state(
        "start",
        json!([]),
        json!([field("standard_metadata", "ingress_port")]),
        json!([
            {"type": "hexstr", "value": "0x01fe", "mask": null, "next_state": "from_cpu"},
            default(json!("ethernet")),
        ]),
    );
    b.state(
        "from_cpu",
        json!([extract("packet_out")]),
        json!([]),
        json!([default(json!("ethernet"))]),
    );
    b.state(
        "ethernet",
        json!([extract("eth")]),
        json!([field("eth", "kind")]),
        json!([
            {"type": "parse_vset", "value": "parser.kinds", "mask": null, "next_state": "marked"},
            default(Value::Null),
        ]),
    );
    let mark = call("set", json!([field("scalars", "ip"), num(0x0a00_0001)]));
    b.state(
        "marked",
        json!([mark]),
        json!([]),
        json!([default(Value::Null)]),
    );
    b.emits(&["packet_in", "eth"]);

    b.add(
        "learn_lists",
        json!({"name": "digest_t", "id": 1, "elements": [
            {"type": "field", "value": ["eth", "src"]},
            {"type": "field", "value": ["standard_metadata", "ingress_port"]},
        ]}),
    );
    b.add(
        "counter_arrays",
        json!({"name": "ingress.cells", "size": 4, "is_direct": false}),
    );
    b.add(
        "counter_arrays",
        json!({"name": "ingress.l2_hits", "is_direct": true, "binding": "ingress.l2"}),
    );
    let meter = |name: &str| json!({"name": name, "is_direct": false, "size": 4, "rate_count": 2, "type": "packets"});
    b.add("meter_arrays", meter("ingress.police"));
    b.add(
        "meter_arrays",
        json!({"name": "ingress.acl_meter", "is_direct": true, "rate_count": 2,
        "type": "bytes", "size": 8, "binding": "ingress.acl", "result_target": ["scalars", "ip"]}),
    );
    b.add(
        "register_arrays",
        json!({"name": "ingress.state", "size": 4, "bitwidth": 32}),
    );
    b.add(
        "calculations",
        json!({"name": "calc", "algo": "crc32", "input": [field("eth", "dst")]}),
    );

    let no_action = b.action("NoAction", &[], json!([]));
    let forward = b.action(
        "ingress.forward",
        &[("port", 9)],
        json!([assign(standard("egress_spec"), arg(0)),]),
    );
    let flood = b.action(
        "ingress.flood",
        &[("group", 16)],
        json!([assign(standard("mcast_grp"), arg(0)),]),
    );
    let drop = b.action(
        "ingress.drop",
        &[],
        json!([assign(standard("egress_spec"), num(511))]),
    );
    let learn = b.action(
        "ingress.learn",
        &[("port", 9)],
        json!([
            call("generate_digest", json!([num(1), num(1)])),
            assign(standard("egress_spec"), arg(0)),
        ]),
    );
    let miss = b.action(
        "ingress.miss",
        &[],
        json!([assign(standard("egress_spec"), num(511))]),
    );
    let packet_out = b.action(
        "ingress.packet_out",
        &[],
        json!([assign(standard("egress_spec"), field("packet_out", "port")),]),
    );
    let packet_in = b.action(
        "egress.packet_in",
        &[],
        json!([
            call(
                "add_header",
                json!([{"type": "header", "value": "packet_in"}])
            ),
            assign(field("packet_in", "port"), standard("ingress_port")),
            assign(field("packet_in", "code"), num(3)),
        ]),
    );

    let table = |name: &str,
                 kind: &str,
                 keys: Value,
                 actions: &[(&str, u64)],
                 next: Option<&str>| {
        let next: serde_json::Map<String, Value> = actions
            .iter()
            .map(|(n, _)| ((*n).to_owned(), json!(next)))
            .collect();
        json!({"name": name, "key": keys, "match_type": kind, "type": "simple", "max_size": 4,
            "action_ids": actions.iter().map(|(_, id)| *id).collect::<Vec<_>>(),
            "actions": actions.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            "base_default_next": next.values().next(), "next_tables": next,
            "default_entry": {"action_id": actions[0].1, "action_const": false, "action_data": [], "action_entry_const": false}})
    };
    let na = ("NoAction", no_action);
    b.node(
        "ingress",
        "conditionals",
        json!({"name": "from_cpu", "expression": {"type": "expression", "value":
        {"op": "==", "left": standard("ingress_port"), "right": num(u64::from(CPU_PORT))}},
        "true_next": "tbl_packet_out", "false_next": "ingress.acl"}),
    );
    let mut cpu = table(
        "tbl_packet_out",
        "exact",
        json!([]),
        &[("ingress.packet_out", packet_out)],
        None,
    );
    cpu["default_entry"]["action_entry_const"] = json!(true);
    b.node("ingress", "tables", cpu);
    let acl_keys = json!([
        key("ternary", "eth", "src"),
        key("range", "eth", "kind"),
        key("optional", "standard_metadata", "ingress_port"),
    ]);
    let mut acl = table(
        "ingress.acl",
        "range",
        acl_keys,
        &[na, ("ingress.drop", drop)],
        Some("ingress.routes"),
    );
    acl["direct_meters"] = json!("ingress.acl_meter");
    b.node("ingress", "tables", acl);
    b.node(
        "ingress",
        "tables",
        table(
            "ingress.routes",
            "lpm",
            json!([key("lpm", "scalars", "ip")]),
            &[na, ("ingress.forward", forward)],
            Some("ingress.ecmp"),
        ),
    );
    let mut ecmp = table(
        "ingress.ecmp",
        "exact",
        json!([key("exact", "eth", "kind")]),
        &[na, ("ingress.forward", forward)],
        Some("ingress.kinds"),
    );
    ecmp["type"] = json!("indirect_ws");
    ecmp["action_profile"] = json!("ingress.selector");
    ecmp.as_object_mut().unwrap().remove("default_entry");
    b.node("ingress", "tables", ecmp);
    b.node(
        "ingress",
        "action_profiles",
        json!({"name": "ingress.selector", "max_size": 16,
        "selector": {"algo": "crc32", "input": [field("eth", "dst")]}}),
    );
    let mut kinds = table(
        "ingress.kinds",
        "exact",
        json!([key("exact", "eth", "kind")]),
        &[na, ("ingress.drop", drop)],
        Some("ingress.l2"),
    );
    kinds["entries"] = json!([{"match_key": [{"match_type": "exact", "key": "0x88cc"}], "priority": 1,
        "action_entry": {"action_id": drop, "action_data": []}}]);
    b.node("ingress", "tables", kinds);
    let mut l2 = table(
        "ingress.l2",
        "exact",
        json!([key("exact", "eth", "dst")]),
        &[
            na,
            ("ingress.forward", forward),
            ("ingress.flood", flood),
            ("ingress.drop", drop),
            ("ingress.learn", learn),
            ("ingress.miss", miss),
        ],
        None,
    );
    l2["with_counters"] = json!(true);
    l2["support_timeout"] = json!(true);
    b.node("ingress", "tables", l2);
    b.start_at("ingress", "from_cpu");
    b.node(
        "egress",
        "conditionals",
        json!({"name": "to_cpu", "expression": {"type": "expression", "value":
        {"op": "==", "left": standard("egress_port"), "right": num(u64::from(CPU_PORT))}},
        "true_next": "tbl_packet_in", "false_next": null}),
    );
    let mut cpu = table(
        "tbl_packet_in",
        "exact",
        json!([]),
        &[("egress.packet_in", packet_in)],
        None,
    );
    cpu["default_entry"]["action_entry_const"] = json!(true);
    b.node("egress", "tables", cpu);
    b.start_at("egress", "to_cpu");
    let _ = operand(json!(null));
    b.text()
}

/// The P4Info.
pub fn p4info() -> P4Info {
    text::parse(include_str!("fixture.p4info.txt")).unwrap()
}

pub fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info()),
        p4_device_config: device_config().into_bytes().into(),
        cookie: Some(forwarding_pipeline_config::Cookie { cookie: 99 }),
    }
}

pub fn id(low: u64) -> Option<Uint128> {
    Some(Uint128 { high: 0, low })
}

/// A server without a pipeline.
pub fn bare() -> Server {
    Server::new(Switch::new(SwitchOptions {
        device_id: DEVICE,
        cpu_port: Some(CPU_PORT),
        ..SwitchOptions::default()
    }))
}

/// A server with a primary, which calls for everything in the tests.
pub struct Fixture {
    pub server: Server,
    pub primary: ClientId,
    pub now: u64,
}

impl Fixture {
    /// With the program running.
    pub fn new() -> Fixture {
        let mut fixture = Fixture::without_pipeline();
        fixture
            .set_pipeline(
                set_forwarding_pipeline_config_request::Action::VerifyAndCommit,
                Some(config()),
            )
            .unwrap();
        fixture
    }

    pub fn without_pipeline() -> Fixture {
        let mut server = bare();
        let primary = server.stream_open();
        server.stream_message(primary, arbitration(id(1)), 0);
        while server.poll().is_some() {}
        Fixture {
            server,
            primary,
            now: 0,
        }
    }

    pub fn set_pipeline(
        &mut self,
        action: set_forwarding_pipeline_config_request::Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: id(1),
            action: action.into(),
            config,
            ..Default::default()
        };
        self.server
            .set_forwarding_pipeline_config(&request, self.now)
            .map(|_| ())
    }

    pub fn write_all(
        &mut self,
        atomicity: write_request::Atomicity,
        updates: Vec<Update>,
    ) -> Result<(), Status> {
        let request = self.write_request(atomicity, updates);
        self.server.write(&request, self.now).map(|_| ())
    }

    /// A request of the primary.
    pub fn write_request(
        &self,
        atomicity: write_request::Atomicity,
        updates: Vec<Update>,
    ) -> WriteRequest {
        WriteRequest {
            device_id: DEVICE,
            election_id: id(1),
            updates,
            atomicity: atomicity.into(),
            ..Default::default()
        }
    }

    /// Writes one update given in text format, such as `table_entry { ... }`; the error is its own.
    pub fn write(&mut self, kind: update::Type, entity: &str) -> Result<(), Error> {
        let result = self.write_all(Default::default(), vec![update(kind, entity)]);
        result.map_err(|status| {
            status
                .update_errors()
                .into_iter()
                .next()
                .unwrap_or_else(|| status.into())
        })
    }

    pub fn insert(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Insert, entity)
    }

    pub fn modify(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Modify, entity)
    }

    pub fn delete(&mut self, entity: &str) -> Result<(), Error> {
        self.write(update::Type::Delete, entity)
    }

    pub fn try_read(&self, entity: &str) -> Result<Vec<Entity>, Error> {
        let request = ReadRequest {
            device_id: DEVICE,
            entities: vec![text::parse(entity).unwrap()],
            ..Default::default()
        };
        let result = self
            .server
            .read(&request, self.now)
            .map(|response| response.entities);
        result.map_err(|status| {
            status
                .update_errors()
                .into_iter()
                .next()
                .unwrap_or_else(|| status.into())
        })
    }

    /// What a read finds, in text format.
    pub fn read(&self, entity: &str) -> Vec<Entity> {
        self.try_read(entity).unwrap()
    }

    /// Sends a frame in and takes what comes out: frames, and messages to clients.
    pub fn packet(
        &mut self,
        port: u32,
        frame: &[u8],
    ) -> (Vec<(u32, Vec<u8>)>, Vec<StreamMessageResponse>) {
        self.server.frame_in(port, frame, self.now);
        self.settle()
    }

    pub fn settle(&mut self) -> (Vec<(u32, Vec<u8>)>, Vec<StreamMessageResponse>) {
        let (mut frames, mut messages) = (Vec::new(), Vec::new());
        while let Some(event) = self.server.poll() {
            match event {
                Event::Enqueue(packet) => {
                    self.server.dequeue(packet, self.now, QueueState::default())
                }
                Event::Output { port, frame } => frames.push((port, frame)),
                Event::Stream { message, .. } => messages.push(*message),
                Event::Close { client, status } => panic!("{client:?} is closed: {status}"),
            }
        }
        (frames, messages)
    }

    /// Ports that a frame leaves through.
    pub fn ports(&mut self, port: u32, frame: &[u8]) -> Vec<u32> {
        self.packet(port, frame)
            .0
            .into_iter()
            .map(|(port, _)| port)
            .collect()
    }

    pub fn message(&mut self, update: stream_message_request::Update) {
        let message = StreamMessageRequest {
            update: Some(update),
        };
        self.server.stream_message(self.primary, message, self.now);
    }
}

pub fn arbitration(election_id: Option<Uint128>) -> StreamMessageRequest {
    StreamMessageRequest {
        update: Some(stream_message_request::Update::Arbitration(
            MasterArbitrationUpdate {
                device_id: DEVICE,
                election_id,
                ..Default::default()
            },
        )),
    }
}

pub fn entity(text: &str) -> Entity {
    text::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn update(kind: update::Type, text: &str) -> Update {
    Update {
        r#type: kind.into(),
        entity: Some(entity(text)),
    }
}

/// An entry of `l2` that forwards `dst` to `port`, with more fields of the entry behind.
pub fn l2(dst: u8, port: u8, more: &str) -> String {
    format!(
        r#"table_entry {{ table_id: {L2} match {{ field_id: 1 exact {{ value: "\x{dst:02x}" }} }}
           action {{ action {{ action_id: {FORWARD} params {{ param_id: 1 value: "\x{port:02x}" }} }} }} {more} }}"#
    )
}

/// A frame to a host whose address is one byte.
pub fn frame(dst: u8) -> Vec<u8> {
    kind_frame(dst, 0x0800)
}

pub fn kind_frame(dst: u8, kind: u16) -> Vec<u8> {
    let mut frame = vec![0, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, 0xee];
    frame.extend(kind.to_be_bytes());
    frame.extend(b"payload");
    frame
}

pub fn code(error: &Error) -> alfirk_p4runtime::Code {
    error.to_status().canonical_code()
}

/// Asserts that an update is refused with a code and says why.
#[track_caller]
pub fn refused(result: Result<(), Error>, expected: alfirk_p4runtime::Code, why: &str) {
    let error = result.expect_err("the update must be refused");
    assert_eq!(code(&error), expected, "{}", error.message);
    assert!(error.message.contains(why), "{}", error.message);
}
