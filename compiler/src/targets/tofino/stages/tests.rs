//! Tests of the stage report: the stages and resources of small programs.

mod alfirk_data_plane;
mod memories;

use super::{Placed, Report};
use crate::arch::Arch;
use crate::driver::{CompileOptions, Session};
use crate::ir::FlatProgram;
use crate::preproc::MemoryLoader;

/// The report on a Tofino program whose ingress has the declarations `locals` and the statements `apply`.
fn report_of(arch: Arch, locals: &str, apply: &str) -> Report {
    report_on(arch, program(arch, locals, apply))
}

/// The text of a Tofino program whose ingress has the declarations `locals` and the statements `apply`.
fn program(arch: Arch, locals: &str, apply: &str) -> String {
    let include = arch.name();
    format!(
        r#"
#include <core.p4>
#include <{include}.p4>
header op_h {{ bit<32> a; bit<32> b; bit<32> c; bit<32> d; bit<48> mac; bit<128> wide; bit<16> half; bit<8> byte; }}
struct headers_t {{ op_h op; }}
struct meta_t {{ bit<32> x; bit<32> y; bit<32> z; bit<8> small; }}
parser IngressParser(packet_in pkt, out headers_t hdr, out meta_t md, out ingress_intrinsic_metadata_t intr) {{
    state start {{ pkt.extract(intr); pkt.advance(PORT_METADATA_SIZE); pkt.extract(hdr.op); transition accept; }}
}}
control Cut(inout ingress_intrinsic_metadata_for_tm_t tm) {{
    apply {{ tm.disable_ucast_cutthru = 1; }}
}}
control Ingress(inout headers_t hdr, inout meta_t md, in ingress_intrinsic_metadata_t intr,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t to_deparser,
                inout ingress_intrinsic_metadata_for_tm_t to_tm) {{
    {locals}
    apply {{ {apply} }}
}}
control IngressDeparser(packet_out pkt, inout headers_t hdr, in meta_t md,
                        in ingress_intrinsic_metadata_for_deparser_t to_deparser) {{
    apply {{ pkt.emit(hdr.op); }}
}}
parser EgressParser(packet_in pkt, out headers_t hdr, out meta_t md, out egress_intrinsic_metadata_t intr) {{
    state start {{ pkt.extract(intr); transition accept; }}
}}
control Egress(inout headers_t hdr, inout meta_t md, in egress_intrinsic_metadata_t intr,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t to_deparser,
               inout egress_intrinsic_metadata_for_output_port_t to_port) {{
    apply {{ }}
}}
control EgressDeparser(packet_out pkt, inout headers_t hdr, in meta_t md,
                       in egress_intrinsic_metadata_for_deparser_t to_deparser) {{
    apply {{ pkt.emit(hdr.op); }}
}}
Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
"#
    )
}

/// The report on the program `text`.
fn report_on(arch: Arch, text: String) -> Report {
    let program = elaborated(arch, text).unwrap_or_else(|errors| panic!("{errors}"));
    Report::of(&program).expect("it is for Tofino")
}

/// The program `text` as it is placed in stages; as an error, the compiler's messages.
fn elaborated(arch: Arch, text: String) -> Result<FlatProgram, String> {
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", text);
    let mut options = CompileOptions::new("test.p4");
    options.set_arch(arch);
    let mut session = Session::new(options);
    let program = session.elaborated(&loader).expect("it is in memory");
    program.map_err(|_| session.rendered())
}

/// The report on a program for Tofino 1.
fn tna(locals: &str, apply: &str) -> Report {
    report_of(Arch::TNA, locals, apply)
}

/// The first step whose name ends with `name`.
fn step<'a>(report: &'a Report, name: &str) -> &'a Placed {
    let mut steps = report.steps.iter();
    let found = steps.find(|step| step.name.ends_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {report:#?}"))
}

/// Declaration of a table with an exact match on `key` whose action writes `result`.
fn table(name: &str, key: &str, result: &str, size: u64) -> String {
    format!(
        "action set_{name}(bit<32> value) {{ {result} = value; }}
         table {name} {{ key = {{ {key}: exact; }} actions = {{ set_{name}; NoAction; }} size = {size}; }}\n"
    )
}

#[test]
fn match_dependency_needs_a_later_stage() {
    let tables = table("one", "hdr.op.a", "md.x", 64)
        + &table("two", "md.x", "md.y", 64)
        + &table("three", "md.y", "hdr.op.c", 64)
        + &table("beside", "hdr.op.b", "hdr.op.d", 64);
    let report = tna(
        &tables,
        "one.apply(); two.apply(); three.apply(); beside.apply();",
    );
    let stages = ["one", "two", "three", "beside"].map(|name| step(&report, name).stage);
    assert_eq!(stages, [0, 1, 2, 0]);
    assert_eq!((report.needed, report.longest_chain), (3, 3));
    assert!(report.fits());
    let chain: Vec<(&str, &str)> = (report.chain.iter())
        .map(|link| (report.steps[link.step].name.as_str(), link.dependency))
        .collect();
    assert_eq!(
        chain,
        [
            ("Ingress.one", ""),
            ("Ingress.two", "match"),
            ("Ingress.three", "match")
        ]
    );
    let cut = report.cut.expect("either dependency shortens it");
    assert_eq!(cut.left, 2);
}

#[test]
fn successor_dependency_allows_the_same_stage() {
    let tables = table("one", "hdr.op.a", "md.x", 64) + &table("two", "hdr.op.b", "md.y", 64);
    let report = tna(
        &tables,
        "if (one.apply().hit) { two.apply(); } else { hdr.op.c = 1; }",
    );
    assert_eq!(step(&report, "two").stage, 0);
}

#[test]
fn writers_of_one_field_share_a_stage_only_if_mutually_exclusive() {
    let tables = table("one", "hdr.op.a", "md.x", 64)
        + &table("two", "hdr.op.b", "md.x", 64)
        + &table("end", "md.x", "hdr.op.c", 64);
    let sequential = tna(&tables, "one.apply(); two.apply(); end.apply();");
    assert_eq!(
        [
            step(&sequential, "one").stage,
            step(&sequential, "two").stage
        ],
        [0, 1]
    );
    let instead = tna(
        &tables,
        "if (hdr.op.d == 0) { one.apply(); } else { two.apply(); } end.apply();",
    );
    assert_eq!(
        [step(&instead, "one").stage, step(&instead, "two").stage],
        [0, 0]
    );
    assert_eq!(step(&instead, "end").stage, 1);
}

/// A register with a RegisterAction that increments a cell and one that only reads it.
const COUNT: &str = "Register<bit<32>, bit<16>>(1024) cells;
    RegisterAction<bit<32>, bit<16>, bit<32>>(cells) count = {
        void apply(inout bit<32> value, out bit<32> result) { value = value + 1; result = value; }
    };
    RegisterAction<bit<32>, bit<16>, bit<32>>(cells) look = {
        void apply(inout bit<32> value, out bit<32> result) { result = value; }
    };\n";

#[test]
fn all_accesses_of_a_register_are_in_one_stage() {
    let late = table("one", "hdr.op.a", "md.x", 64);
    let report = tna(
        &(COUNT.to_owned() + &late),
        "one.apply();
         if (hdr.op.d == 0) { md.y = count.execute(hdr.op.b[15:0]); } else { md.y = look.execute(md.x[15:0]); }
         hdr.op.c = md.y;",
    );
    let cells: Vec<u32> = (report.steps.iter())
        .filter(|step| step.kind == "register")
        .map(|step| step.stage)
        .collect();
    assert_eq!(cells, [1, 1], "the index of one access delays both");
    let all: u64 = report.used.iter().map(|used| used.stateful).sum();
    assert_eq!(all, 1, "one array has one ALU");
}

#[test]
fn one_operation_on_a_register_result_needs_no_extra_stage() {
    let one = tna(
        COUNT,
        "hdr.op.c = hdr.op.c + count.execute(hdr.op.b[15:0]);",
    );
    assert_eq!(one.longest_chain, 1);
    let two = tna(
        COUNT,
        "hdr.op.c = hdr.op.c + count.execute(hdr.op.b[15:0]); hdr.op.d = hdr.op.c ^ hdr.op.a;",
    );
    assert_eq!(two.longest_chain, 2);
}

#[test]
fn step_after_a_miss_ignores_writes_of_hit_actions() {
    let tables = table("hosts", "hdr.op.a", "md.x", 64).replace(
        "NoAction; }",
        "@defaultonly NoAction; } const default_action = NoAction;",
    ) + &table("routes", "hdr.op.b", "md.x", 64)
        + &table("end", "md.x", "hdr.op.c", 64);
    let stages = |apply: &str| {
        let report = tna(&tables, apply);
        ["hosts", "routes", "end"].map(|name| step(&report, name).stage)
    };
    let after_miss = "if (!hosts.apply().hit) { routes.apply(); } end.apply();";
    assert_eq!(stages(after_miss), [0, 0, 1]);
    let after_hit = "if (hosts.apply().hit) { routes.apply(); } end.apply();";
    assert_eq!(stages(after_hit), [0, 1, 2]);
    let by_action =
        "switch (hosts.apply().action_run) { NoAction: { routes.apply(); } } end.apply();";
    assert_eq!(stages(by_action), [0, 0, 1]);
}

#[test]
fn writers_of_one_deparser_byte_are_in_different_stages() {
    let drop = "action drop() { to_deparser.drop_ctl = 1; }
        table guard { key = { hdr.op.a: exact; } actions = { drop; NoAction; } size = 16; }";
    let apply = "guard.apply(); to_tm.bypass_egress = 1;";
    assert_eq!(tna(drop, apply).needed, 2);
    assert_eq!(report_of(Arch::T2NA, drop, apply).needed, 1);
    let instead = "if (hdr.op.b == 0) { guard.apply(); } else { to_tm.bypass_egress = 1; }";
    assert_eq!(tna(drop, instead).needed, 1);
}

#[test]
fn stage_annotation_is_the_earliest_stage() {
    let tables = table("one", "hdr.op.a", "md.x", 16).replace("table one", "@stage(3) table one")
        + &table("two", "md.x", "hdr.op.c", 16);
    let report = tna(&tables, "one.apply(); two.apply();");
    let stages = ["one", "two"].map(|name| step(&report, name).stage);
    assert_eq!(
        (stages, report.needed, report.longest_chain),
        ([3, 4], 5, 5)
    );
}

#[test]
fn arrays_of_a_stage_do_not_exceed_its_map_rams() {
    // Each array needs 33 map RAMs, and a stage has 48.
    let array = |name: &str| {
        format!(
            "Register<bit<32>, bit<32>>(131072) {name};
             RegisterAction<bit<32>, bit<32>, bit<32>>({name}) look_{name} = {{
                 void apply(inout bit<32> value, out bit<32> result) {{ result = value; }}
             }};\n"
        )
    };
    let report = tna(
        &(array("one") + &array("two")),
        "hdr.op.c = look_one.execute(hdr.op.a); hdr.op.d = look_two.execute(hdr.op.b);",
    );
    assert_eq!(report.longest_chain, 1);
    let stages = ["one", "two"].map(|name| step(&report, name).stage);
    assert_eq!(stages, [0, 1]);
    let used: Vec<u64> = report.used.iter().map(|used| used.map_rams).collect();
    assert_eq!(used, [33, 33]);
}

#[test]
fn copying_unchanged_parameters_back_is_not_a_write() {
    // Control `Cut` has an inout parameter with all fields, and changes a field that no table writes.
    let own = "action port(PortId_t p) { to_tm.ucast_egress_port = p; }
        table first { key = { hdr.op.a: exact; } actions = { port; NoAction; } size = 16; }
        table second { key = { hdr.op.b: exact; } actions = { port; NoAction; } size = 16; }
        Cut() cut;";
    let report = tna(own, "first.apply(); cut.apply(to_tm); second.apply();");
    let stages = ["first", "second"].map(|name| step(&report, name).stage);
    assert_eq!(stages, [0, 1]);
}

#[test]
fn xor_of_three_words_uses_a_hash_unit() {
    let report = tna("", "hdr.op.c = hdr.op.a ^ hdr.op.b ^ hdr.op.d;");
    assert_eq!(report.needed, 1);
    assert_eq!(report.used[0].hash_bits, 32);
    let carried = tna("", "hdr.op.c = hdr.op.a + hdr.op.b + hdr.op.d;");
    assert_eq!((carried.needed, carried.used[0].hash_bits), (2, 0));
}

#[test]
fn writes_of_disjoint_slices_are_independent() {
    let halves = |one: &str, two: &str| {
        let apply = format!(
            "hdr.op.c[{one}] = hdr.op.a[15:0] ^ hdr.op.b[15:0] ^ hdr.op.d[15:0];
             hdr.op.c[{two}] = hdr.op.a[31:16] ^ hdr.op.b[31:16] ^ hdr.op.d[31:16];"
        );
        let report = tna("", &apply);
        let bits: u64 = report.used.iter().map(|used| used.hash_bits).sum();
        (report.needed, bits)
    };
    assert_eq!(halves("31:16", "15:0"), (1, 32));
    // The slices overlap, so the second assignment needs a later stage.
    assert_eq!(halves("23:8", "15:0"), (2, 32));
    // An assignment to a slice depends on an earlier write of the whole word.
    let sequential = tna(
        &table("one", "hdr.op.a", "hdr.op.c", 16),
        "one.apply(); hdr.op.c[15:0] = hdr.op.b[15:0] + 1; hdr.op.d = hdr.op.c;",
    );
    assert_eq!((sequential.needed, sequential.longest_chain), (3, 3));
}

#[test]
fn conditional_checksum_needs_a_table() {
    let text = program(Arch::TNA, "", "md.small = 1;").replace(
        "apply { pkt.emit(hdr.op); }",
        "Checksum() one; Checksum() two;
         apply {
             if (md.small == 1) { hdr.op.half = one.update({ hdr.op.a }); }
             if (md.x == 1) { hdr.op.half = two.update({ hdr.op.b }); }
             if (hdr.op.isValid()) { hdr.op.half = two.update({ hdr.op.c }); }
             pkt.emit(hdr.op);
         }",
    );
    // Both deparsers are equal here, so only the steps of ingress are examined.
    let report = report_on(Arch::TNA, text);
    let tables: Vec<u32> = (report.steps.iter())
        .filter(|step| step.gress == "ingress" && step.kind == "table")
        .map(|step| step.stage)
        .collect();
    assert_eq!(tables.len(), 2, "{report:#?}");
    assert_ne!(tables[0], tables[1], "both write a bit of one byte");
}

#[test]
fn memories_of_a_table_applied_twice_count_once() {
    let report = tna(
        &table("once", "hdr.op.a", "md.x", 65_536),
        "if (hdr.op.b == 0) { once.apply(); } else if (hdr.op.b == 1) { once.apply(); } hdr.op.c = md.x;",
    );
    let blocks: u64 = report.used.iter().map(|used| used.sram).sum();
    assert_eq!((blocks, report.memories[0].sram), (32, 32));
}

#[test]
fn table_memories_are_whole_blocks() {
    let tables = table("small", "hdr.op.a", "md.x", 64)
        + &table("large", "hdr.op.b", "md.y", 65_536)
        + "action none() {} table words { key = { hdr.op.a: ternary; hdr.op.b: ternary; } actions = { none; } size = 1024; }";
    let report = tna(
        &tables,
        "small.apply(); large.apply(); words.apply(); hdr.op.c = md.x; hdr.op.d = md.y;",
    );
    // Four ways of one block each.
    assert_eq!(step(&report, "small").takes.sram, 4);
    // 22 key bits without the ghost bits, 4 version bits, 1 bit for the action, 32 bits of data: two entries in a row of 128 bits.
    assert_eq!(step(&report, "large").takes.sram, 32);
    // Two blocks side by side for 64 key bits, as a row has 44; twice that for 1,024 entries, as a block has 512 rows.
    assert_eq!(step(&report, "words").takes.tcam, 4);
}

#[test]
fn table_larger_than_a_stage_spans_two_stages() {
    let tables = table("huge", "hdr.op.a", "md.x", 262_144) + &table("end", "md.x", "hdr.op.c", 16);
    let report = tna(&tables, "huge.apply(); end.apply();");
    let huge = step(&report, "huge");
    assert_eq!((huge.takes.sram, huge.stage, huge.last), (124, 0, 1));
    assert_eq!(step(&report, "end").stage, 2);
    assert!(report
        .used
        .iter()
        .all(|used| used.sram <= report.budget.sram));
}

#[test]
fn no_stage_exceeds_its_budget() {
    let mut tables = String::new();
    let mut apply = String::new();
    for number in 0..40 {
        tables += &table(&format!("t{number}"), "hdr.op.a", "md.x", 2048);
        apply += &format!("if (hdr.op.b == {number}) {{ t{number}.apply(); }}\n");
    }
    let report = tna(&tables, &(apply + "hdr.op.c = md.x;"));
    for used in &report.used {
        assert!(used.fits(&report.budget), "{used:?}");
    }
    assert!(report.needed > report.longest_chain || report.needed >= 3);
}

#[test]
fn tofino_2_has_more_stages() {
    let mut tables = String::new();
    let mut apply = String::new();
    for number in 0..14 {
        let (key, result) = match number % 2 {
            0 => ("md.x", "md.y"),
            _ => ("md.y", "md.x"),
        };
        tables += &table(&format!("t{number}"), key, result, 16);
        apply += &format!("t{number}.apply();\n");
    }
    let apply = apply + "hdr.op.c = md.x;";
    let first = tna(&tables, &apply);
    assert_eq!((first.fits(), first.stages), (false, 12));
    let second = report_of(Arch::T2NA, &tables, &apply);
    assert_eq!((second.fits(), second.stages), (true, 20));
    assert!(second.needed >= 14);
}

#[test]
fn register_of_tofino_2_is_in_one_half_of_a_stage() {
    // A stage has 48 blocks for arrays, and half of them are 24: 23 of 4,096 cells of 32 bits, and a spare one.
    let register = |arch, blocks: u32| {
        let array = format!("Register<bit<32>, bit<32>>({blocks} * 4096) large;");
        elaborated(arch, program(arch, &array, ""))
    };
    assert!(register(Arch::T2NA, 23).is_ok());
    assert!(register(Arch::TNA, 24).is_ok());
    let errors = register(Arch::T2NA, 24).expect_err("it is too large");
    let why = "takes 25 blocks of SRAM, and a register of t2na is in one stage and has at most 24";
    assert!(errors.contains(why), "{errors}");
    assert!(errors.contains("a size of 94208 fits"), "{errors}");
}

#[test]
fn action_with_two_dependent_operations_is_noted() {
    let locals = "action both() { hdr.op.c = (hdr.op.a + hdr.op.b) ^ hdr.op.d; }
        table t { key = { hdr.op.a: exact; } actions = { both; NoAction; } size = 16; }";
    let report = tna(locals, "t.apply();");
    assert_eq!(report.needed, 2);
    let note = &report.notes[0].text;
    assert!(
        note.contains("needs 2 operations one after another"),
        "{note}"
    );
}

#[test]
fn text_and_json_reports_agree() {
    let report = tna(&table("one", "hdr.op.a", "hdr.op.c", 64), "one.apply();");
    let text = report.to_text();
    assert!(
        text.starts_with("test.p4: 1 of 12 stages for tna: it fits."),
        "{text}"
    );
    assert!(text.contains("Ingress.one"), "{text}");
    let json = serde_json::to_value(&report).expect("it is plain data");
    assert_eq!(json["needed"], 1);
    assert_eq!(json["steps"][0]["name"], "Ingress.one");
}
