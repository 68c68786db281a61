//! Coverage: sites of a program, and their counts. Both engines count the same.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use alfirk_bmv2::coverage::SiteKind;
use alfirk_bmv2::trace::{Source, TraceEvent};
use alfirk_bmv2::{
    CloneSession, Effects, LoadOptions, LoadedProgram, Replica, Switch, SwitchOptions,
};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;
use proptest::prelude::*;

use crate::threading::group::{self, Group, MAIN_PROGRAM};
use crate::threading::{packet, PATHS};

/// A program whose ingress is in an included file.
const MAIN: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> op; bit<8> value; }
header tail_t { bit<8> value; }
struct headers_t { h_t h; tail_t tail; }
struct metadata_t { @field_list(1) bit<8> rounds; }
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.op) {
            1 .. 2: tail;
            3: never;
            default: accept;
        }
    }
    state tail {
        pkt.extract(hdr.tail);
        meta.rounds = meta.rounds + 1;
        transition accept;
    }
    state never {
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
#include \"ingress.p4\"
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 1) {
            hdr.h.value = 0xee;
        } else if (hdr.h.op == 9) {
            hdr.h.op = 0;
            recirculate_preserving_field_list(1);
        }
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

const INGRESS: &str = "#define COUNT(field) field = field + 1
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action forward() {
        sm.egress_spec = 1;
        if (hdr.h.value > 10) {
            COUNT(hdr.h.value);
        } else {
            hdr.h.value = 0;
        }
    }
    action discard() {
        mark_to_drop(sm);
    }
    action unused() {
        hdr.h.value = 3;
    }
    table t {
        key = {
            hdr.h.value: exact;
        }
        actions = {
            forward;
            discard;
            unused;
        }
        const default_action = discard();
        const entries = {
            5: forward();
            11: forward();
        }
    }
    table always {
        actions = {
            forward;
        }
        const default_action = forward();
    }
    apply {
        if (hdr.tail.isValid()) {
            t.apply();
        } else if (hdr.h.op == 7) {
            clone(CloneType.I2E, 5);
            discard();
        } else if (hdr.h.op != 8) {
            always.apply();
        } else {
            exit;
        }
        hdr.h.value = hdr.h.value + 100;
    }
}
";

/// The counts after the packets of [`counts`].
const EXPECTED: &str = "\
ingress.p4:2 ingress: 9
ingress.p4:3 I.forward: 6
ingress.p4:4 statement: 6
ingress.p4:5 statement: 6
ingress.p4:5 false: 4
ingress.p4:5 true: 2
ingress.p4:6 statement: 2
ingress.p4:8 statement: 4
ingress.p4:11 I.discard: 2
ingress.p4:12 statement: 2
ingress.p4:14 I.unused: 0
ingress.p4:15 statement: 0
ingress.p4:17 miss: 1
ingress.p4:17 hit: 2
ingress.p4:17 action I.forward: 2
ingress.p4:17 action I.discard: 1
ingress.p4:17 action I.unused: 0
ingress.p4:32 action I.forward: 4
ingress.p4:39 false: 6
ingress.p4:39 true: 3
ingress.p4:41 false: 5
ingress.p4:41 true: 1
ingress.p4:42 statement: 1
ingress.p4:44 false: 1
ingress.p4:44 true: 4
ingress.p4:49 statement: 8
test.p4:8 start: 10
test.p4:9 statement: 10
test.p4:11 case 1 .. 2: 4
test.p4:12 case 3: 1
test.p4:13 case default: 5
test.p4:16 tail: 4
test.p4:17 statement: 4
test.p4:18 statement: 3
test.p4:21 never: 1
test.p4:27 egress: 8
test.p4:29 false: 7
test.p4:29 true: 1
test.p4:30 statement: 1
test.p4:31 false: 6
test.p4:31 true: 1
test.p4:32 statement: 1
test.p4:33 statement: 1
test.p4:38 deparser: 8
";

fn json() -> String {
    compiled(&[("test.p4", MAIN), ("ingress.p4", INGRESS)])
}

/// Compiles the first of these files.
fn compiled(files: &[(&str, &str)]) -> String {
    let mut loader = MemoryLoader::default();
    for (name, text) in files {
        loader.add(name, *text);
    }
    let compiled = compile_with(&CompileOptions::new(files[0].0), &loader);
    let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
    compiled.json.to_text()
}

fn program(options: LoadOptions) -> Arc<LoadedProgram> {
    let program = LoadedProgram::from_text(&json(), options);
    Arc::new(program.expect("it is BMv2 JSON"))
}

fn start(options: LoadOptions) -> Switch {
    let mut switch = Switch::new(SwitchOptions::default());
    crate::builder::load(&mut switch, program(options));
    prepare(&mut switch);
    switch
}

fn prepare(switch: &mut Switch) {
    let clones = CloneSession {
        replicas: vec![Replica { port: 2, rid: 0 }],
        ..CloneSession::default()
    };
    let pre = switch.pre_mut().expect("it has a program");
    pre.set_session(5, clones).expect("the session is valid");
}

const COVERAGE: LoadOptions = LoadOptions {
    notes: false,
    coverage: true,
    thread_jumps: true,
    fuse: true,
};

fn send(switch: &mut Switch) {
    let frames: [&[u8]; 8] = [
        &[1, 5, 0],
        &[2, 11, 0],
        &[1, 6, 0],
        // The second header is too short.
        &[1, 5],
        &[3, 0],
        &[7, 0],
        &[8, 0],
        // Recirculated once.
        &[9, 0],
    ];
    for frame in frames {
        switch.process(0, frame, 0);
    }
}

/// Returns a line for each site.
fn counts(switch: &Switch) -> String {
    let line = |covered: &alfirk_bmv2::coverage::Covered| {
        let source = &covered.site.source;
        let what = match &covered.site.kind {
            SiteKind::Function { name } => name.clone(),
            SiteKind::Statement => "statement".to_owned(),
            SiteKind::Branch { holds } => holds.to_string(),
            SiteKind::Case { .. } => format!("case {}", source.text),
            SiteKind::Table { hit: true, .. } => "hit".to_owned(),
            SiteKind::Table { hit: false, .. } => "miss".to_owned(),
            SiteKind::TableAction { action, .. } => format!("action {action}"),
        };
        format!(
            "{}:{} {what}: {}\n",
            source.file, source.line, covered.count
        )
    };
    switch.coverage().iter().map(line).collect()
}

#[test]
fn places_of_all_files_are_counted_with_clones_and_recirculations() {
    let mut switch = start(COVERAGE);
    send(&mut switch);
    assert_eq!(counts(&switch), EXPECTED);
}

#[test]
fn counts_do_not_depend_on_the_passes_of_the_loader() {
    for (notes, thread_jumps, fuse) in [
        (true, true, true),
        (false, false, true),
        (false, true, false),
        (false, false, false),
    ] {
        let mut switch = start(LoadOptions {
            notes,
            coverage: true,
            thread_jumps,
            fuse,
        });
        send(&mut switch);
        let of = (notes, thread_jumps, fuse);
        assert_eq!(counts(&switch), EXPECTED, "{of:?}");
    }
}

#[test]
fn a_program_without_coverage_has_no_sites() {
    let mut switch = start(LoadOptions::default());
    send(&mut switch);
    assert_eq!(switch.coverage(), []);
}

#[test]
fn counts_are_kept_when_a_program_is_loaded_again() {
    let mut switch = start(COVERAGE);
    send(&mut switch);
    let once = switch.coverage();
    let same = switch.program().expect("it is loaded").clone();
    switch.load(same);
    prepare(&mut switch);
    send(&mut switch);
    let twice = switch.coverage();
    assert_eq!(once.len(), twice.len());
    for (once, twice) in once.iter().zip(&twice) {
        assert_eq!((&once.site, once.count * 2), (&twice.site, twice.count));
    }
}

#[test]
fn coverage_does_not_change_the_sent_packets() {
    let (mut plain, mut covered) = (start(LoadOptions::default()), start(COVERAGE));
    for op in 0..12 {
        for value in 0..20 {
            let frame = [op, value, 1];
            let sent = plain.process(0, &frame, 0);
            assert_eq!(sent, covered.process(0, &frame, 0), "{frame:?}");
        }
    }
}

/// The multicast program for coverage, and the same with notes for traces.
static MULTICAST: LazyLock<[Arc<LoadedProgram>; 2]> = LazyLock::new(|| {
    let json = group::json(MAIN_PROGRAM);
    covered_and_traced(&json.to_text())
});

/// A program with ways of all kinds, also with loops of the parser, and the same with notes for traces.
static BRANCHES: LazyLock<[Arc<LoadedProgram>; 2]> =
    LazyLock::new(|| covered_and_traced(&compiled(&[("test.p4", MANY_BRANCHES)])));

fn covered_and_traced(json: &str) -> [Arc<LoadedProgram>; 2] {
    let covered = LoadedProgram::from_text(json, COVERAGE).expect("it is BMv2 JSON");
    let traced = LoadedProgram::with_notes(json).expect("it is BMv2 JSON");
    [covered, traced].map(Arc::new)
}

const MANY_BRANCHES: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> value; }
struct headers_t { h_t first; h_t[4] more; h_t last; }
struct metadata_t { bit<8> rounds; bit<8> way; }
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.first); transition state_choose; }
    state state_last { pkt.extract(hdr.last); meta.way = 1; transition accept; }
    state state_more {
        pkt.extract(hdr.more.next);
        meta.rounds = meta.rounds + 1;
        transition state_again;
    }
    state state_again { transition select(hdr.more.last.value) { 1: state_more; 2: start2; default: state_last; } }
    state start2 { transition state_choose; }
    state state_choose { transition select(hdr.first.value, meta.rounds) { (1, 0): state_more; (2, _): state_last; default: accept; } }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action one() { meta.way = meta.way + 1; }
    action two(bit<8> by) { if (meta.rounds > 1) { meta.way = by; } else { meta.way = meta.way + by; } }
    action end() { meta.way = 9; exit; }
    table by_action {
        key = { hdr.first.value: exact; }
        actions = { one; two; end; NoAction; }
        const default_action = NoAction();
        const entries = { 1: one(); 2: two(3); 3: two(4); 4: end(); }
    }
    table by_hit {
        key = { meta.way: exact; }
        actions = { one; two; }
        const default_action = two(7);
        const entries = { 1: one(); 3: two(1); }
    }
    table by_miss { key = { meta.way: exact; } actions = { one; } const entries = { 2: one(); 9: one(); } }
    table of_members_again {
        key = { meta.rounds: exact; }
        actions = { one; two; }
        implementation = action_profile(8);
    }
    table without_default { key = { meta.way: exact; } actions = { one; @defaultonly NoAction; } }
    table of_members {
        key = { meta.way: exact; }
        actions = { one; two; }
        implementation = action_profile(8);
    }
    apply {
        sm.egress_spec = 2;
        if (hdr.last.isValid()) {
            switch (by_action.apply().action_run) {
                one: { meta.way = meta.way ^ 1; }
                two: { if (by_hit.apply().hit) { meta.rounds = 0; } else { one(); } }
                default: { hdr.first.value = 8; }
            }
            if (meta.rounds == 3) { exit; }
        } else if (!without_default.apply().hit) {
            if (meta.rounds == 0) { return; }
            of_members.apply();
            one();
        }
        if (by_miss.apply().miss) { hdr.first.value = meta.way; }
        of_members_again.apply();
        hdr.first.value = hdr.first.value + 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action mark() { hdr.first.value = 77; }
    apply { if (hdr.first.value == 3) { mark(); } else if (hdr.first.value == 4) { mark(); mark(); } }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// What is executed at the position of a statement.
const STATEMENT: &str = "statement";

/// Numbers of executions by position and kind.
type Executions = BTreeMap<(String, u64, u64, String), u64>;

fn execute(all: &mut Executions, source: &Source, what: String, times: u64) {
    let place = (source.file.clone(), source.line, source.column, what);
    *all.entry(place).or_default() += times;
}

/// Adds entries of a parser state.
fn enter(all: &mut Executions, state: &str, times: u64) {
    *all.entry((String::new(), 0, 0, state.to_owned()))
        .or_default() += times;
}

/// Returns how often statements ran, conditions held or not, and what tables did, as coverage counts it.
fn counted(switch: &Switch) -> Executions {
    let mut all = Executions::new();
    for covered in switch.coverage() {
        let what = match covered.site.kind {
            SiteKind::Branch { holds } => holds.to_string(),
            SiteKind::Table { table, hit } => format!("{table} hit {hit}"),
            SiteKind::TableAction { table, action, .. } => format!("{table} {action}"),
            SiteKind::Statement => STATEMENT.to_owned(),
            SiteKind::Function { name } if name.starts_with("state_") => {
                enter(&mut all, &name, covered.count);
                continue;
            }
            SiteKind::Function { .. } | SiteKind::Case { .. } => continue,
        };
        execute(&mut all, &covered.site.source, what, covered.count);
    }
    all.retain(|_, count| *count > 0);
    all
}

/// Adds the same from a trace.
fn add_traced(all: &mut Executions, event: &TraceEvent) {
    match event {
        TraceEvent::Parsed { states, .. } => {
            let named = states.iter().filter(|name| name.starts_with("state_"));
            named.for_each(|state| enter(all, state, 1));
        }
        TraceEvent::Statement { source } => execute(all, source, STATEMENT.to_owned(), 1),
        TraceEvent::Condition { source, holds } => execute(all, source, holds.to_string(), 1),
        TraceEvent::Table {
            table,
            key,
            hit,
            action,
            source: Some(source),
            ..
        } => {
            if !key.is_empty() {
                execute(all, source, format!("{table} hit {hit}"), 1);
            }
            if let Some(action) = action {
                execute(all, source, format!("{table} {action}"), 1);
            }
        }
        _ => {}
    }
}

/// Processes packets with coverage in one switch and with a trace in another one, and compares the counts. Returns the number
/// of places that packets have reached.
fn compare_with_trace(
    switches: [Switch; 2],
    packets: &[(u32, Vec<u8>)],
) -> Result<usize, TestCaseError> {
    let [mut covered, mut traced] = switches;
    traced.set_trace(true);
    let mut all = Executions::new();
    let before = counted(&covered);
    for (at, (port, frame)) in packets.iter().enumerate() {
        let now = at as u64 * 1_000_000;
        covered.process(*port, frame, now);
        let mut fx = Effects::default();
        traced.process_into(*port, frame, now, &mut fx);
        fx.trace
            .iter()
            .for_each(|line| add_traced(&mut all, &line.event));
    }
    let mut found = counted(&covered);
    for (place, count) in before {
        *found.entry(place).or_default() -= count;
    }
    found.retain(|_, count| *count > 0);
    all.retain(|(.., what), _| !what.starts_with("tbl_"));
    for (place, times) in &all {
        let count = found.remove(place).unwrap_or(0);
        // A statement that the compiler has split may have several steps in the trace.
        let is_equal = count == *times || place.3 == STATEMENT && (1..=*times).contains(&count);
        prop_assert!(
            is_equal,
            "{place:?}: {count} executions, {times} in the trace"
        );
    }
    // Statements without an effect are not in the trace.
    found.retain(|(.., what), _| what != STATEMENT);
    prop_assert!(found.is_empty(), "not in the trace: {found:?}");
    Ok(all.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Few places have counters; what follows from them is what packets did.
    #[test]
    fn counts_are_those_of_traces(
        packets in proptest::collection::vec(packet(), 200),
        min_psn in 0..3u64,
    ) {
        let switches = MULTICAST.each_ref().map(|program| {
            let mut switch = Switch::new(SwitchOptions::default());
            crate::builder::load(&mut switch, program.clone());
            let mut group = Group::on(switch, PATHS, min_psn);
            group.start();
            group.switch
        });
        let reached = compare_with_trace(switches, &packets)?;
        prop_assert!(reached > 300, "{reached} places were reached");
    }

    #[test]
    fn counts_are_those_of_traces_after_tables_and_loops(
        frames in proptest::collection::vec(proptest::collection::vec(0..6u8, 1..8), 60),
    ) {
        let switches = BRANCHES.each_ref().map(|program| {
            let mut switch = Switch::new(SwitchOptions::default());
            crate::builder::load(&mut switch, program.clone());
            switch
        });
        let packets: Vec<_> = frames.into_iter().map(|frame| (1, frame)).collect();
        let reached = compare_with_trace(switches, &packets)?;
        prop_assert!(reached > 20, "{reached} places were reached");
    }
}
