//! Coverage: sites of a program, and their counts. Both engines count the same.

use std::sync::Arc;

use alfirk_bmv2::coverage::SiteKind;
use alfirk_bmv2::{CloneSession, LoadOptions, LoadedProgram, Replica, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

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
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", MAIN);
    loader.add("ingress.p4", INGRESS);
    let compiled = compile_with(&CompileOptions::new("test.p4"), &loader);
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
