//! Table writes per second: the server alone, and a switch process over gRPC on loopback. Entries are written one by
//! one, and in batches of 1,000 up to a million entries, with the memory they need. Prints one line for each.

#[allow(dead_code)]
#[path = "../../bmv2/tests/switch/builder.rs"]
mod builder;
/// The engine of programs that [`builder`] makes.
mod engine {
    /// Whether programs are compiled before switches run them.
    pub const IS_COMPILED: bool = false;
}
#[allow(dead_code)]
#[path = "../../p4rt/tests/server/fixture.rs"]
mod fixture;
#[allow(dead_code)]
#[path = "../tests/veth/process.rs"]
mod process;

use std::time::{Duration, Instant};

use alfirk_p4runtime::p4::v1::*;
use tokio::runtime::Runtime;

use process::{Controller, Process};

const BATCH: u32 = 1000;
const BATCHED_ENTRIES: u32 = 200_000;
const MILLION: u32 = 1_000_000;
const SINGLE_TIME: Duration = Duration::from_secs(2);

/// Returns the fixture's config with space for over a million entries.
fn config() -> ForwardingPipelineConfig {
    let mut config = fixture::config();
    let mut json = fixture::compiled("test_data/p4runtime.p4").json;
    for table in json.pipelines.iter_mut().flat_map(|p| &mut p.tables) {
        table.max_size = table.max_size.max(2 * u64::from(MILLION));
    }
    config.p4_device_config = json.to_text().into_bytes().into();
    config
}

/// Returns an entry of `l2` for each number.
fn insert(n: u32) -> Update {
    let entry = TableEntry {
        table_id: fixture::L2,
        r#match: vec![FieldMatch {
            field_id: 1,
            field_match_type: Some(field_match::FieldMatchType::Exact(field_match::Exact {
                value: alfirk_p4runtime::bytestring::encode(n + 1),
            })),
        }],
        action: Some(TableAction {
            r#type: Some(table_action::Type::Action(Action {
                action_id: fixture::FORWARD,
                params: vec![action::Param {
                    param_id: 1,
                    value: vec![2],
                }],
            })),
        }),
        ..Default::default()
    };
    Update {
        r#type: update::Type::Insert.into(),
        entity: Some(Entity {
            entity: Some(entity::Entity::TableEntry(entry)),
        }),
    }
}

fn batch(first: u32) -> Vec<Update> {
    (first..first + BATCH).map(insert).collect()
}

fn say(what: &str, writes: u32, since: Instant) {
    let rate = f64::from(writes) / since.elapsed().as_secs_f64();
    println!("{what:<40} {rate:>10.0} entries/s");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments
        .get(1)
        .is_some_and(|first| first == process::AS_SWITCH)
    {
        process::run_as_switch(&arguments[2..]);
    }
    server_alone();
    over_grpc();
}

fn server_alone() {
    use set_forwarding_pipeline_config_request::Action;
    let mut f = fixture::Fixture::without_pipeline();
    f.set_pipeline(Action::VerifyAndCommit, Some(config()))
        .expect("the fixture loads");
    let start = Instant::now();
    for first in (0..BATCHED_ENTRIES).step_by(BATCH as usize) {
        f.write_all(Default::default(), batch(first))
            .expect("there is room");
    }
    say(
        "P4Runtime writes, no gRPC, batches of 1,000",
        BATCHED_ENTRIES,
        start,
    );
}

fn over_grpc() {
    let process = Process::start(&[]);
    let runtime = Runtime::new().expect("threads may be started");
    runtime.block_on(async {
        let mut controller = Controller::connect(process.address()).await;
        controller.set_pipeline(config()).await;
        let before = process.memory();
        let start = Instant::now();
        for first in (0..MILLION).step_by(BATCH as usize) {
            controller.write(batch(first)).await;
        }
        say("P4Runtime writes, gRPC, batches of 1,000", MILLION, start);
        let after = process.memory();
        println!(
            "{:<40} {:>10} MiB before, {} MiB with a million exact entries ({} B each)",
            "memory of the switch",
            before >> 20,
            after >> 20,
            (after - before) / u64::from(MILLION)
        );

        let start = Instant::now();
        let mut writes = 0;
        while start.elapsed() < SINGLE_TIME {
            controller.write(vec![insert(MILLION + writes)]).await;
            writes += 1;
        }
        say("P4Runtime writes, gRPC, one by one", writes, start);
    });
    process.stop();
}
