//! Comparison of machine code with the interpreter: the same entities and packets have the same effects.
//!
//! The interpreter also runs with traces, and then defines all words of each packet; without, only live ones.
//!
//! A long comparison, which also names its seed: `ALFIRK_FUZZ_SECONDS=86400 ALFIRK_FUZZ_SEED=1 tools/cargo test --release -p
//! alfirk-p4rt --test fuzz engine`.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use alfirk_bmv2::{Engine, LoadedProgram, Switch, SwitchOptions};
use alfirk_p4rt::{Programs, Server};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::{
    chance::Chance,
    corpus::{parsed, subjects, Subject},
    entities::PORTS,
    json,
    loader::switch_with_groups,
    packets::{fill, receive},
    requests::Client,
    run::{run, settle_with},
};

/// Engines that are compared, and whether the switch records traces. Such a switch interprets.
const ENGINES: [(Engine, bool); 3] = [
    (Engine::Interpreter, true),
    (Engine::Interpreter, false),
    (Engine::Compiled, false),
];

/// Frames per case.
const FRAMES: usize = 100;
/// Frames per case of a damaged program.
const FRAMES_OF_DAMAGED: usize = 10;
/// Cells of each array that are compared.
const MAX_CELLS: u64 = 64;

#[test]
fn both_engines_have_the_same_effects() {
    run(
        "both_engines_have_the_same_effects",
        "frames in",
        || {
            let programs = Programs::default().compiled_by(|program| {
                program.compile().expect("each valid program is compiled");
            });
            (programs, Vec::new())
        },
        |(programs, kept), chance| {
            let subject = chance.pick(subjects());
            let seed = chance.number();
            let mut effects = ENGINES.map(|(engine, is_traced)| {
                let effects = with_texts(|| {
                    let mut chance = Chance::new(seed);
                    let mut client = Client::with_engine(programs, engine, is_traced);
                    fill(&mut client, subject, &mut chance);
                    let mut effects = Vec::new();
                    for _ in 0..FRAMES {
                        receive(&mut client, subject, &mut chance);
                        record(&mut client.server, client.now, &mut effects);
                    }
                    let switch = client.server.switch();
                    effects.extend(state(switch));
                    // Programs that are in use are not compiled again.
                    kept.extend(switch.program().cloned());
                    effects
                });
                effects.into_iter()
            });
            compare(&mut effects);
            kept.sort_by_key(Arc::as_ptr);
            kept.dedup_by_key(|program| Arc::as_ptr(program));
            FRAMES
        },
    );
}

#[test]
fn both_engines_run_damaged_programs_alike() {
    run(
        "both_engines_run_damaged_programs_alike",
        "programs that are compiled",
        parsed,
        |programs, chance| {
            let at = chance.below(programs.len());
            let donor = chance.below(programs.len());
            let mut program = programs[at].clone();
            json::damage(&mut program, &programs[donor], chance);
            let Ok(program) = LoadedProgram::from_json(&program.to_string()) else {
                return 0;
            };
            let program = Arc::new(program);
            // A program that is not compiled is interpreted twice.
            let is_compiled = program.compile().is_ok();
            let seed = chance.number();
            let mut effects = ENGINES.map(|engine| {
                let mut chance = Chance::new(seed);
                let subject = &subjects()[at];
                with_texts(|| forward(&program, engine, subject, &mut chance)).into_iter()
            });
            compare(&mut effects);
            usize::from(is_compiled)
        },
    );
}

/// Returns the effects of frames in a switch with groups, but without entries of the control plane.
fn forward(
    program: &Arc<LoadedProgram>,
    (engine, is_traced): (Engine, bool),
    subject: &Subject,
    chance: &mut Chance,
) -> Vec<String> {
    let options = SwitchOptions {
        engine,
        ..SwitchOptions::default()
    };
    let mut switch = switch_with_groups(program.clone(), options);
    switch.set_trace(is_traced);
    let mut server = Server::new(switch);
    let mut effects = Vec::new();
    for now in 0..FRAMES_OF_DAMAGED {
        let now = now as u64 * 1_000;
        let frame = subject.frame(chance);
        server.frame_in(chance.below(PORTS) as u32, &frame, now);
        record(&mut server, now, &mut effects);
    }
    effects.extend(state(server.switch()));
    effects
}

/// Returns effects, and after them the texts that the program has logged meanwhile.
fn with_texts(effects: impl FnOnce() -> Vec<String>) -> Vec<String> {
    let texts = Texts::default();
    let mut all = tracing::subscriber::with_default(texts.clone(), effects);
    all.append(&mut texts.0.lock().expect("no thread has panicked"));
    all
}

/// Collects the texts that programs log.
#[derive(Clone, Default)]
struct Texts(Arc<Mutex<Vec<String>>>);

impl Subscriber for Texts {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.target() == "p4" && metadata.is_event()
    }

    fn event(&self, event: &Event) {
        let add = |_: &Field, text: &dyn Debug| {
            let mut texts = self.0.lock().expect("no thread has panicked");
            texts.push(format!("logged {text:?}"));
        };
        event.record(&mut { add });
    }

    fn new_span(&self, _: &Attributes) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Appends the effects of a frame, as text.
fn record(server: &mut Server, now: u64, effects: &mut Vec<String>) {
    settle_with(server, now, |event| effects.push(format!("{event:?}")));
    server.take_trace();
    effects.push(format!("{:?}", server.counters().drops));
}

/// Returns the state that packets change, as text.
fn state(switch: &Switch) -> Vec<String> {
    let mut all = vec![format!("{} register accesses", switch.register_accesses())];
    let cells = |size: usize| 0..(size as u64).min(MAX_CELLS);
    for array in switch.registers() {
        for i in cells(array.size) {
            all.push(format!(
                "{}[{i}] {:?}",
                array.name,
                switch.read_register(&array.name, i)
            ));
        }
    }
    for array in switch.counters() {
        for i in cells(array.size) {
            all.push(format!(
                "{}[{i}] {:?}",
                array.name,
                switch.read_counter(&array.name, i)
            ));
        }
    }
    for table in switch.tables() {
        all.push(format!("{table:?} {:?}", switch.entries(table)));
    }
    all
}

/// Compares the effects of all engines one by one, so that a difference is shown by itself.
fn compare(effects: &mut [impl Iterator<Item = String>; 3]) {
    let [expected, others @ ..] = effects;
    loop {
        let expected = expected.next();
        for (other, engine) in others.iter_mut().zip(&ENGINES[1..]) {
            assert_eq!(other.next(), expected, "{engine:?}");
        }
        if expected.is_none() {
            return;
        }
    }
}
