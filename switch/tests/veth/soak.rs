//! Soak test: a switch forwards at full rate while a controller continuously writes, reads and deletes. Memory must
//! not grow, packets must pass, and no request may fail.
//!
//! With the other tests it runs for a few seconds. `make soak MINUTES=30` runs it for longer, on the optimised
//! `alfirk switch`, and prints a line per minute. `ALFIRK_SOAK_SECONDS` sets the duration.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc,
    },
    thread,
    time::{Duration, Instant},
};

use alfirk_compiler::driver::{compile, CompileOptions};
use alfirk_p4runtime::{
    p4::{
        config::v1::{P4Info, Preamble},
        v1::{
            set_forwarding_pipeline_config_request::Action,
            stream_message_response::Update as Response, update::Type, *,
        },
    },
    text,
};
use tokio::runtime::Runtime;
use tonic::Streaming;

use crate::{
    fixture,
    net::Wire,
    process::{Controller, Process},
    FAR, NEAR,
};

/// Default duration in seconds.
const SECONDS: u64 = 5;
/// Number of lines printed by a long run.
const LINES: u32 = 30;
/// Number of entries per table that are inserted and deleted.
const ENTRIES: u32 = 200;
/// Number of rounds between two replacements of the program.
const ROUNDS_PER_PROGRAM: u64 = 20;
/// Maximum growth of memory after the first tenth of the duration; the allocator touches new pages.
const GROWTH_KIB: u64 = 8 << 10;

/// Counts of both sides.
#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    /// Number of received frames that are copies for the multicast group.
    flooded: AtomicU64,
    packet_ins: AtomicU64,
    digests: AtomicU64,
    idle_notices: AtomicU64,
    updates: AtomicU64,
    rounds: AtomicU64,
}

impl Counts {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

pub fn memory_does_not_grow_at_full_rate_and_churn() {
    let seconds = std::env::var("ALFIRK_SOAK_SECONDS");
    let seconds = seconds.map_or(SECONDS, |text| {
        text.parse()
            .expect("ALFIRK_SOAK_SECONDS is a number of seconds")
    });
    let time = Duration::from_secs(seconds);

    let program = SoakProgram::compiled();
    let ports: Vec<String> = (1..)
        .zip(NEAR)
        .map(|(port, near)| format!("-i{port}@{near}"))
        .collect();
    let process = Process::start(&ports.iter().map(String::as_str).collect::<Vec<_>>());
    let runtime = Runtime::new().unwrap();
    let mut controller = runtime.block_on(Controller::connect(process.address()));
    runtime.block_on(controller.set_pipeline(program.config.clone()));
    runtime.block_on(controller.write(program.permanent(Type::Insert)));

    let counts = Arc::new(Counts::default());
    let Controller {
        client,
        requests,
        responses,
        ..
    } = controller;
    runtime.spawn(take_messages(responses, counts.clone()));
    let churn = runtime.spawn(churn(client, program, counts.clone()));
    let threads = [
        thread::spawn({
            let counts = counts.clone();
            move || send(&counts)
        }),
        thread::spawn({
            let counts = counts.clone();
            move || receive(&counts)
        }),
    ];
    let watched = watch(&process, time, &counts, || churn.is_finished());
    counts.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("the traffic is right");
    }
    runtime.block_on(churn).expect("every request succeeds");
    drop(requests);
    watched.unwrap();
    for (what, counter) in [
        ("flooded frames", &counts.flooded),
        ("packet-ins", &counts.packet_ins),
        ("digest lists", &counts.digests),
        ("idle notices", &counts.idle_notices),
        ("rounds of writes", &counts.rounds),
    ] {
        assert_ne!(get(counter), 0, "there are no {what}");
    }
    process.stop();
}

/// Watches the switch until the end of the duration, or a failure.
fn watch(
    process: &Process,
    time: Duration,
    counts: &Counts,
    churn_ended: impl Fn() -> bool,
) -> Result<(), String> {
    let start = Instant::now();
    let (mut settled, mut last) = (None, (0, 0));
    let every = time / LINES.min(time.as_secs() as u32).max(1);
    println!("  seconds  memory KiB  frames sent  received  packet-ins    updates  rounds");
    for look in 0u32.. {
        let kib = process.memory() >> 10;
        println!(
            "{:9}  {kib:10}  {:11}  {:8}  {:10}  {:9}  {:6}",
            start.elapsed().as_secs(),
            get(&counts.sent),
            get(&counts.received),
            get(&counts.packet_ins),
            get(&counts.updates),
            get(&counts.rounds),
        );
        if start.elapsed() >= time {
            let settled = settled.unwrap_or(kib);
            return match kib.saturating_sub(settled) {
                0..=GROWTH_KIB => Ok(()),
                grown => Err(format!(
                    "the memory has grown by {grown} KiB since {settled} KiB"
                )),
            };
        }
        if settled.is_none() && start.elapsed() * 10 >= time {
            settled = Some(kib);
        }
        let now = (get(&counts.received), get(&counts.rounds));
        if look > 1 && now.0 == last.0 {
            return Err(format!("no frame has been forwarded for {every:?}"));
        }
        last = now;
        let next = start + every * (look + 1);
        while Instant::now() < next {
            if churn_ended() {
                return Err("the controller has given up".into());
            }
            thread::sleep(
                Duration::from_millis(100).min(next.saturating_duration_since(Instant::now())),
            );
        }
    }
    Ok(())
}

/// Destination stations of the traffic: one frame in N goes to each.
const STATIONS: [(u64, u8); 3] = [(1009, TO_CONTROLLER), (503, TO_LEARN), (101, TO_FLOOD)];
const TO_FORWARD: u8 = 1;
const TO_CONTROLLER: u8 = 2;
const TO_LEARN: u8 = 3;
const TO_FLOOD: u8 = 4;

/// Sends numbered frames at full speed.
fn send(counts: &Counts) {
    let wire = Wire::open(FAR[0]);
    let mut frame = fixture::frame(TO_FORWARD);
    let number_at = frame.len();
    frame.resize(64, 0);
    for number in 1u64.. {
        if !counts.is_running() {
            return;
        }
        let station = STATIONS.iter().find(|(every, _)| number % every == 0);
        frame[5] = station.map_or(TO_FORWARD, |(_, station)| *station);
        frame[10..12].copy_from_slice(&((number % 1024) as u16).to_be_bytes());
        frame[number_at..number_at + 8].copy_from_slice(&number.to_be_bytes());
        wire.send(&frame);
        add(&counts.sent, 1);
    }
}

/// Checks that frames arrive complete, in order, and once.
fn receive(counts: &Counts) {
    let wire = Wire::open(FAR[1]);
    let number_at = fixture::frame(TO_FORWARD).len();
    let mut buffer = vec![0; 2048];
    let mut last = 0;
    while counts.is_running() {
        let Some(len) = wire.receive_into(&mut buffer, Duration::from_millis(100)) else {
            continue;
        };
        assert_eq!(len, 64, "frames have the length that they were sent with");
        add(&counts.received, 1);
        match buffer[5] {
            TO_FORWARD | TO_LEARN => {}
            TO_FLOOD => add(&counts.flooded, 1),
            other => panic!("a frame to station {other} came to port 2"),
        }
        let number = u64::from_be_bytes(buffer[number_at..number_at + 8].try_into().unwrap());
        assert!(number > last, "frame {number} after frame {last}");
        last = number;
    }
}

async fn take_messages(mut responses: Streaming<StreamMessageResponse>, counts: Arc<Counts>) {
    while let Ok(Some(message)) = responses.message().await {
        match message.update.expect("messages are of some kind") {
            Response::Packet(_) => add(&counts.packet_ins, 1),
            Response::Digest(_) => add(&counts.digests, 1),
            Response::IdleTimeoutNotification(_) => add(&counts.idle_notices, 1),
            Response::Arbitration(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

type Client = p4_runtime_client::P4RuntimeClient<tonic::transport::Channel>;

/// Writes, reads and deletes until it is stopped; panics on any failure.
async fn churn(mut client: Client, program: SoakProgram, counts: Arc<Counts>) {
    let transient = program.transient();
    let as_updates = |kind: Type, entities: &[Entity]| {
        let update = |entity: &Entity| Update {
            r#type: kind.into(),
            entity: Some(entity.clone()),
        };
        entities.iter().map(update).collect::<Vec<Update>>()
    };
    let mut deleted = transient.clone();
    // Referring objects are deleted before their targets.
    deleted.reverse();
    while counts.is_running() {
        for (kind, entities) in [
            (Type::Insert, &transient),
            (Type::Modify, &transient),
            (Type::Delete, &deleted),
        ] {
            let request = WriteRequest {
                device_id: fixture::DEVICE,
                election_id: fixture::id(1),
                updates: as_updates(kind, entities),
                ..Default::default()
            };
            client
                .write(request)
                .await
                .unwrap_or_else(|status| panic!("{kind:?}: {status}"));
            add(&counts.updates, entities.len() as u64);
            let found = read(&mut client, program.wildcards.clone()).await;
            let expected = match kind {
                Type::Delete => 0,
                _ => transient.len(),
            };
            assert_eq!(found, expected + program.permanent.len(), "after {kind:?}");
        }
        let modified = as_updates(Type::Modify, &program.cells);
        let request = WriteRequest {
            device_id: fixture::DEVICE,
            election_id: fixture::id(1),
            updates: modified,
            ..Default::default()
        };
        client.write(request).await.expect("cells can be written");
        add(&counts.updates, program.cells.len() as u64);
        add(&counts.rounds, 1);
        if get(&counts.rounds) % ROUNDS_PER_PROGRAM == 0 {
            let request = SetForwardingPipelineConfigRequest {
                device_id: fixture::DEVICE,
                election_id: fixture::id(1),
                action: Action::ReconcileAndCommit.into(),
                config: Some(program.config.clone()),
                ..Default::default()
            };
            client
                .set_forwarding_pipeline_config(request)
                .await
                .expect("the same program again");
        }
    }
}

/// Returns the number of entities that a read finds.
async fn read(client: &mut Client, entities: Vec<Entity>) -> usize {
    let request = ReadRequest {
        device_id: fixture::DEVICE,
        entities,
        ..Default::default()
    };
    let mut parts = client
        .read(request)
        .await
        .expect("reads are answered")
        .into_inner();
    let mut found = 0;
    while let Some(part) = parts.message().await.expect("parts follow") {
        found += part.entities.len();
    }
    found
}

/// The program, and the entities that the controller writes.
struct SoakProgram {
    config: ForwardingPipelineConfig,
    ids: P4Info,
    /// Entities written at the start, which the traffic needs.
    permanent: Vec<Entity>,
    /// Cells of arrays.
    cells: Vec<Entity>,
    /// Reads that find everything but the cells.
    wildcards: Vec<Entity>,
}

impl SoakProgram {
    fn compiled() -> SoakProgram {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/soak.p4");
        let compiled =
            compile(&CompileOptions::new(source)).unwrap_or_else(|error| panic!("{error}"));
        let config = ForwardingPipelineConfig {
            p4info: Some(compiled.p4info.clone()),
            p4_device_config: compiled.json.to_text().into_bytes().into(),
            cookie: None,
        };
        let mut program = SoakProgram {
            config,
            ids: compiled.p4info,
            permanent: Vec::new(),
            cells: Vec::new(),
            wildcards: Vec::new(),
        };
        program.permanent = program.parsed(&[
            program.station(u32::from(TO_FORWARD), "forward", "params { param_id: 1 value: \"\\x02\" }", ""),
            program.station(u32::from(TO_CONTROLLER), "to_controller", "", ""),
            program.station(u32::from(TO_LEARN), "learn", "params { param_id: 1 value: \"\\x02\" }", ""),
            program.station(u32::from(TO_FLOOD), "flood", "params { param_id: 1 value: \"\\x01\" }", ""),
            "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 replicas { egress_port: 2 instance: 1 } } }".into(),
            format!("digest_entry {{ digest_id: {} config {{ max_list_size: 8 max_timeout_ns: 1000000 ack_timeout_ns: 1000000 }} }}", program.id("learned_t")),
        ]);
        program.wildcards = program.parsed(&[
            format!(
                "table_entry {{ table_id: {} }}",
                program.id("ingress.stations")
            ),
            format!(
                "table_entry {{ table_id: {} }}",
                program.id("ingress.filter")
            ),
            format!(
                "table_entry {{ table_id: {} }}",
                program.id("ingress.prefixes")
            ),
            format!(
                "table_entry {{ table_id: {} }}",
                program.id("ingress.spread")
            ),
            "action_profile_member {}".into(),
            "action_profile_group {}".into(),
            "packet_replication_engine_entry { multicast_group_entry {} }".into(),
            "packet_replication_engine_entry { clone_session_entry {} }".into(),
            "digest_entry {}".into(),
        ]);
        let cell = |index: u32| {
            let (counter, meter) = (program.id("ingress.frames"), program.id("ingress.police"));
            let register = program.id("ingress.seen");
            [
                format!("counter_entry {{ counter_id: {counter} index {{ index: {index} }} data {{ packet_count: 1 }} }}"),
                format!("meter_entry {{ meter_id: {meter} index {{ index: {index} }} config {{ cir: 1000 cburst: 10 pir: 2000 pburst: 20 }} }}"),
                format!("register_entry {{ register_id: {register} index {{ index: {index} }} data {{ bitstring: \"\\x07\" }} }}"),
            ]
        };
        let cells: Vec<String> = (0..ENTRIES).flat_map(cell).collect();
        program.cells = program.parsed(&cells);
        let kinds = program.id("SoakParser.kinds");
        let members = "members { match { field_id: 1 exact { value: \"\\x08\\x00\" } } }";
        program.cells.extend(program.parsed(&[format!(
            "value_set_entry {{ value_set_id: {kinds} {members} }}"
        )]));
        program
    }

    fn permanent(&self, kind: Type) -> Vec<Update> {
        let update = |entity: &Entity| Update {
            r#type: kind.into(),
            entity: Some(entity.clone()),
        };
        self.permanent.iter().map(update).collect()
    }

    fn parsed(&self, entities: &[String]) -> Vec<Entity> {
        let parse = |entity: &String| {
            text::parse(entity).unwrap_or_else(|error| panic!("{error}: {entity}"))
        };
        entities.iter().map(parse).collect()
    }

    /// Returns the id of an object of the program.
    fn id(&self, name: &str) -> u32 {
        fn all<'a, T>(
            objects: &'a [T],
            preamble: impl Fn(&'a T) -> &'a Option<Preamble>,
        ) -> Vec<&'a Preamble> {
            objects
                .iter()
                .filter_map(|object| preamble(object).as_ref())
                .collect()
        }
        let ids = &self.ids;
        let known = [
            all(&ids.tables, |x| &x.preamble),
            all(&ids.actions, |x| &x.preamble),
            all(&ids.action_profiles, |x| &x.preamble),
            all(&ids.counters, |x| &x.preamble),
            all(&ids.meters, |x| &x.preamble),
            all(&ids.registers, |x| &x.preamble),
            all(&ids.digests, |x| &x.preamble),
            all(&ids.value_sets, |x| &x.preamble),
        ];
        let found = known
            .iter()
            .flatten()
            .find(|preamble| preamble.name == name);
        found.unwrap_or_else(|| panic!("soak.p4 has {name}")).id
    }

    fn station(&self, address: u32, action: &str, params: &str, more: &str) -> String {
        format!(
            "table_entry {{ table_id: {} match {{ field_id: 1 exact {{ value: \"{}\" }} }}
               action {{ action {{ action_id: {} {params} }} }} {more} }}",
            self.id("ingress.stations"),
            escaped(address),
            self.id(&format!("ingress.{action}")),
        )
    }

    /// Returns entities that are inserted and deleted; referenced ones first.
    fn transient(&self) -> Vec<Entity> {
        let (filter, colours) = (self.id("ingress.filter"), self.id("ingress.pass_coloured"));
        let (prefixes, pass) = (self.id("ingress.prefixes"), self.id("ingress.pass"));
        let (mirror, spread) = (self.id("ingress.mirror"), self.id("ingress.spread"));
        let profile = self.ids.action_profiles[0]
            .preamble
            .as_ref()
            .expect("it has an id")
            .id;
        let mut texts = vec![
            "packet_replication_engine_entry { clone_session_entry { session_id: 1 replicas { port: \"\\x01\\xfe\" instance: 1 } packet_length_bytes: 40 } }".to_owned(),
            // Mirrors one frame in 1,024.
            format!("table_entry {{ table_id: {prefixes} match {{ field_id: 1 lpm {{ value: \"\\x03\\xff\" prefix_len: 48 }} }}
                action {{ action {{ action_id: {mirror} params {{ param_id: 1 value: \"\\x01\" }} }} }} }}"),
        ];
        for n in 1..=ENTRIES {
            let address = escaped(0x10_0000 + n);
            let member = format!("action_profile_id: {profile} member_id: {n}");
            let before = match n {
                1 => String::new(),
                _ => format!("members {{ member_id: {} weight: 2 }}", n - 1),
            };
            let group = format!("members {{ member_id: {n} weight: 1 }} {before}");
            texts.extend([
                self.station(0x10_0000 + n, "forward", "params { param_id: 1 value: \"\\x02\" }", "idle_timeout_ns: 20000000"),
                format!("table_entry {{ table_id: {filter} priority: {n} match {{ field_id: 1 ternary {{ value: \"{address}\" mask: \"{address}\" }} }}
                    match {{ field_id: 2 range {{ low: \"\\x01\" high: \"{}\" }} }} action {{ action {{ action_id: {colours} }} }}
                    meter_config {{ cir: 100 cburst: 100 pir: 200 pburst: 200 }} }}", escaped(n + 1)),
                format!("table_entry {{ table_id: {prefixes} match {{ field_id: 1 lpm {{ value: \"{address}\" prefix_len: 48 }} }}
                    action {{ action {{ action_id: {pass} }} }} }}"),
                format!("action_profile_member {{ {member} action {{ action_id: {pass} }} }}"),
                format!("action_profile_group {{ action_profile_id: {profile} group_id: {n} {group} max_size: 4 }}"),
                format!("table_entry {{ table_id: {spread} match {{ field_id: 1 exact {{ value: \"{}\" }} }}
                    action {{ action_profile_group_id: {n} }} }}", escaped(0x800 + n)),
                format!("packet_replication_engine_entry {{ multicast_group_entry {{ multicast_group_id: {} replicas {{ egress_port: 2 instance: {n} }} }} }}", n + 10),
            ]);
        }
        self.parsed(&texts)
    }
}

/// Formats a number as a canonical byte string in text format.
fn escaped(number: u32) -> String {
    let bytes = number.to_be_bytes();
    let first = bytes.iter().position(|&byte| byte != 0).unwrap_or(3);
    bytes[first..]
        .iter()
        .map(|byte| format!("\\x{byte:02x}"))
        .collect()
}
