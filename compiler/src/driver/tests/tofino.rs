//! Programs for Tofino: the checks, the limits of the chip, the gaps of the software model, and the stage report.

use super::*;

/// A TNA program with `body` as its ingress.
fn tna(body: &str) -> String {
    format!(
        "#include <core.p4>
#if __TARGET_TOFINO__ == 1
#include <tna.p4>
#endif
header h_t {{ bit<8> a; bit<16> b; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ bit<16> x; }}
parser IP(packet_in p, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig) {{
    state start {{ meta.x = 0; p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); transition accept; }}
}}
control I(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {{
    {body}
}}
control ID(packet_out p, inout headers_t hdr, in metadata_t meta, in ingress_intrinsic_metadata_for_deparser_t dprsr) {{
    Mirror(1) mirror;
    apply {{
        if (dprsr.mirror_type == 1) {{ mirror.emit(10w5); }}
        p.emit(hdr);
    }}
}}
parser EP(packet_in p, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg) {{
    state start {{ meta.x = 0; p.extract(eg); transition accept; }}
}}
control E(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control ED(packet_out p, inout headers_t hdr, in metadata_t meta) {{ apply {{ p.emit(hdr); }} }}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"
    )
}

/// An ingress with register actions with and without a result, a hash of a list, and a direct counter.
const STATEFUL: &str = "
    Register<bit<16>, bit<8>>(256, 0) last;
    RegisterAction<bit<16>, bit<8>, bit<16>>(last) swap = {
        void apply(inout bit<16> value, out bit<16> old) { old = value; value = hdr.h.b; }
    };
    Register<bit<32>, bit<16>>(65536) counts;
    RegisterAction<bit<32>, bit<16>, bit<32>>(counts) count = {
        void apply(inout bit<32> value) { value = value |+| 1; }
    };
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    DirectCounter<bit<32>>(CounterType_t.PACKETS) hits;
    action send(PortId_t port) { tm.ucast_egress_port = port; hits.count(); }
    table t { key = { hdr.h.a : exact; } actions = { send; } counters = hits; size = 64; }
    apply {
        meta.x = swap.execute(hdr.h.a);
        count.execute(hash.get({ hdr.h.a, meta.x }));
        t.apply();
    }";

#[test]
fn register_index_type_may_be_omitted_if_only_register_actions_use_it() {
    let body = STATEFUL.replace(
        "Register<bit<32>, bit<16>>(65536) counts",
        "Register<bit<32>, _>(65536) counts",
    );
    let line = ["--arch", "tna", "DIR/prog.p4"];
    let (code, output, _) = p4c(&tna(&body), &line);
    assert_eq!((code, output.as_str()), (0, ""));
    let (code, output, _) = p4c(&tna(&body), &[&line[..], &["-o", "DIR/out.json"]].concat());
    assert_eq!((code, output.as_str()), (0, ""));
    let own = body.replace(
        "count.execute(hash.get({ hdr.h.a, meta.x }))",
        "counts.write(8w1, 1)",
    );
    let (code, output, _) = p4c(&tna(&own), &line);
    assert_eq!(code, 1);
    assert!(
        output.contains(
            "the type of parameter `index` is not known: the object was declared with `_`"
        ),
        "{output}"
    );
}

#[test]
fn tna_programs_are_checked() {
    for line in [
        &["--arch", "tna", "DIR/prog.p4"][..],
        &["-b", "tofino", "DIR/prog.p4"],
    ] {
        let (code, output, _) = p4c(&tna(STATEFUL), line);
        assert_eq!((code, output.as_str()), (0, ""));
    }
}

/// An ingress for Tofino 2: a register action with two results, and the minimum of eight counts.
const OF_TOFINO_2: &str = "
    Register<bit<32>, bit<8>>(256, 0) last;
    RegisterAction2<bit<32>, bit<8>, bit<32>, bit<16>>(last) both = {
        void apply(inout bit<32> value, out bit<32> old, out bit<16> sent) {
            old = value;
            sent = hdr.h.b;
            value = value + 1;
        }
    };
    Register<bit<128>, bit<8>>(16) counts;
    MinMaxAction<bit<128>, bit<8>, bit<16>>(counts) least = {
        void apply(inout bit<128> value, out bit<16> found) {
            bit<3> index;
            found = this.min16(value, 0xff, index);
        }
    };
    apply {
        bit<16> sent;
        bit<32> old = both.execute(hdr.h.a, sent);
        meta.x = least.execute(hdr.h.a) + sent + old[15:0];
    }";

#[test]
fn tofino_2_externs_need_t2na() {
    let program = tna(OF_TOFINO_2)
        .replace("__TARGET_TOFINO__ == 1", "1")
        .replace("tna.p4", "t2na.p4")
        .replace(
            "control E(inout headers_t hdr, inout metadata_t meta)",
            "control E(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg,
                in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
                inout egress_intrinsic_metadata_for_output_port_t port)",
        )
        .replace(
            "control ED(packet_out p, inout headers_t hdr, in metadata_t meta)",
            "control ED(packet_out p, inout headers_t hdr, in metadata_t meta,
                in egress_intrinsic_metadata_for_deparser_t dprsr)",
        )
        .replace("10w5", "8w5");
    let (code, output, _) = p4c(&program, &["--arch", "t2na", "DIR/prog.p4"]);
    assert_eq!((code, output.as_str()), (0, ""));
    let (code, output, _) = p4c(&program, &["--arch", "tna", "DIR/prog.p4"]);
    assert_eq!(code, 1);
    assert!(output.contains("--arch t2na"), "{output}");
    let of_tofino_1 = program.replace("t2na.p4", "tna.p4");
    let (code, output, _) = p4c(&of_tofino_1, &["--arch", "tna", "DIR/prog.p4"]);
    assert_eq!(code, 1);
    assert!(output.contains("it is declared in `t2na.p4`"), "{output}");
}

#[test]
fn mistakes_in_tna_programs_are_reported() {
    let cases = [
        (
            STATEFUL.replace("ucast_egress_port", "ucast_egres_port"),
            "ucast_egress_port",
        ),
        (
            STATEFUL.replace("out bit<16> old", "out bit<8> old"),
            "bit<16>",
        ),
        (
            STATEFUL.replace(
                "void apply(inout bit<32> value) { value",
                "void aply(inout bit<32> value) { value",
            ),
            "has no abstract method `aply`",
        ),
        (
            STATEFUL.replace("(inout bit<32> value)", "()"),
            "has no abstract method `apply` with these parameters",
        ),
    ];
    for (body, words) in cases {
        let (code, output, _) = p4c(&tna(&body), &["--arch", "tna", "DIR/prog.p4"]);
        assert_eq!(code, 1, "{output}");
        assert!(output.contains(words), "{output}");
    }
}

#[test]
fn second_register_access_of_a_packet_is_an_error() {
    let (both, crossed) = (
        STATEFUL.replace(
            "t.apply();",
            "if (hdr.h.a == 1) { meta.x = swap.execute(0); } t.apply();",
        ),
        STATEFUL.replace(
            "t.apply();",
            "t.apply(); count.execute(0); meta.x = swap.execute(1);",
        ),
    );
    for (body, register) in [(both, "swap"), (crossed, "count")] {
        for outputs in [&[][..], &["-o", "DIR/out.json"]] {
            let line = [&["--arch", "tna", "DIR/prog.p4"], outputs].concat();
            let (code, output, _) = p4c(&tna(&body), &line);
            assert_eq!(code, 1, "{register}: {output}");
            assert!(
                output.contains("error[E0701]: a packet on this path accesses register"),
                "{output}"
            );
            assert!(output.contains("first accessed here"), "{output}");
        }
    }
    // Two accesses on paths that exclude each other are allowed.
    let apart = STATEFUL
        .replace(
            "meta.x = swap.execute(hdr.h.a);",
            "if (hdr.h.a == 2) { meta.x = swap.execute(hdr.h.a); return; }",
        )
        .replace("t.apply();", "t.apply(); meta.x = swap.execute(0);");
    let (code, output, _) = p4c(&tna(&apart), &["--arch", "tna", "DIR/prog.p4"]);
    assert_eq!((code, output.as_str()), (0, ""));
}

#[test]
fn register_access_in_both_ingress_and_egress_is_an_error() {
    let of_all = "Register<bit<16>, bit<8>>(256, 0) last;";
    let action = "RegisterAction<bit<16>, bit<8>, bit<16>>(last) swap = {
        void apply(inout bit<16> value, out bit<16> old) { old = value; value = hdr.h.b; }
    };";
    let both = tna(&format!(
        "{action} apply {{ meta.x = swap.execute(hdr.h.a); }}"
    ))
    .replace("control I(", &format!("{of_all} control I("))
    .replace(
        "control E(inout headers_t hdr, inout metadata_t meta) { apply { } }",
        &format!(
            "control E(inout headers_t hdr, inout metadata_t meta) {{
                    {action} apply {{ hdr.h.b = swap.execute(hdr.h.a); }}
                }}"
        ),
    );
    let (code, output, _) = p4c(&both, &["--arch", "tna", "DIR/prog.p4"]);
    assert_eq!(code, 1, "{output}");
    for words in [
        "error[E0701]: egress cannot access register last, which ingress accesses",
        "^^^^^^^^^^^^^^^^^^^^",
        "ingress accesses it here",
        "carry what egress needs in a header in front of the packet",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
}

/// A program with two pipes; the second has a different ingress with the body `second`.
fn two_pipes(second: &str) -> String {
    tna(STATEFUL).replace(
        "Switch(pipe) main;",
        &format!(
            "control I2(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {{ {second} }}
Pipeline(IP(), I2(), ID(), EP(), E(), ED()) other;
Switch(pipe, other) main;"
        ),
    )
}

#[test]
fn all_pipes_are_checked_and_one_is_compiled() {
    let program = two_pipes("apply { tm.ucast_egress_port = 5; }");
    let line = ["--arch", "tna", "DIR/prog.p4"];
    let (code, output, _) = p4c(&program, &line);
    assert_eq!((code, output.as_str()), (0, ""));
    let run = |words: &[&str]| {
        p4c(
            &program,
            &[&line[..], &["-o", "DIR/out.json"], words].concat(),
        )
    };
    let (code, output, _) = run(&[]);
    assert_eq!(code, 1);
    for words in [
        "error[E0702]: the software model runs one pipeline",
        "Switch(pipe, other) main;",
        "`--pipe 0` to `--pipe 1`",
        "a switch for each",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    for pipe in ["0", "1"] {
        let (code, output, _) = run(&["--pipe", pipe]);
        assert_eq!((code, output.as_str()), (0, ""), "pipe {pipe}");
    }
    let (code, output, _) = run(&["--pipe", "2"]);
    assert_eq!(code, 1);
    assert!(
        output.contains("--pipe 2: unknown pipe; the last one of this Switch is 1"),
        "{output}"
    );
    let (code, output, _) = p4c("", &["--arch", "v1model", "--pipe", "1", "DIR/prog.p4"]);
    assert_eq!(code, 2);
    assert!(output.contains("v1model has no pipes"), "{output}");
}

#[test]
fn rules_of_the_chip_hold_for_each_pipe() {
    let twice = "Register<bit<32>, bit<8>>(256) cells;
        RegisterAction<bit<32>, bit<8>, bit<32>>(cells) look = { void apply(inout bit<32> value) { value = 1; } };
        apply { look.execute(1); look.execute(2); }";
    let (code, output, _) = p4c(&two_pipes(twice), &["--arch", "tna", "DIR/prog.p4"]);
    assert_eq!(code, 1);
    assert!(
        output.contains("accesses register I2.cells twice"),
        "{output}"
    );
}

#[test]
fn stage_report_covers_each_pipe() {
    let program = two_pipes("apply { tm.ucast_egress_port = 5; }");
    let line = ["--arch", "tna", "DIR/prog.p4", "--report"];
    let (code, said, _) = p4c(&program, &line);
    assert_eq!(code, 0);
    assert!(said.contains("prog.p4, pipe 0: 3 of 12 stages"), "{said}");
    assert!(said.contains("prog.p4, pipe 1: 1 of 12 stages"), "{said}");
    let (code, said, _) = p4c(&program, &[&line[..], &["--pipe", "1"]].concat());
    assert_eq!(code, 0);
    assert!(said.contains("prog.p4: 1 of 12 stages"), "{said}");
}

#[test]
fn object_larger_than_the_chip_is_an_error_at_its_line() {
    let with = |from: &str, to: &str| {
        // A key of few bits would be a direct index, whatever size is requested.
        let body = STATEFUL.replace("hdr.h.a : exact", "hdr.h.a : exact; hdr.h.b : exact");
        assert!(body.contains(from), "{from}");
        let body = body.replace(from, to);
        p4c(&tna(&body), &["--arch", "tna", "DIR/prog.p4"])
    };
    // The largest allowed size, and that plus one.
    let cases = [
        (
            "exact; } actions = { send; } counters = hits; size = 64",
            "exact; } actions = { send; } counters = hits; size = SIZE",
            "table I.t takes",
            "SRAM, and all 12 stages of tna have 960",
        ),
        (
            "exact; } actions = { send; } counters = hits; size = 64",
            "ternary; } actions = { send; } counters = hits; size = SIZE",
            "table I.t takes",
            "TCAM, and all 12 stages of tna have 288",
        ),
        (
            "counts;",
            "counts; Register<bit<32>, bit<32>>(SIZE) large;",
            "register I.large takes",
            "SRAM, and a register of tna is in one stage and has at most 48",
        ),
        (
            "counts;",
            "counts; Counter<bit<64>, bit<32>>(SIZE, CounterType_t.BYTES) large;",
            "counter I.large takes",
            "SRAM, and an array of tna is in one stage and has at most 48",
        ),
    ];
    for (from, to, what, why) in cases {
        let (code, output, _) = with(from, &to.replace("SIZE", "100000000"));
        assert_eq!(code, 1, "{output}");
        assert!(output.contains("error[E0703]"), "{output}");
        assert!(output.contains(what) && output.contains(why), "{output}");
        let (_, would_do) = output.split_once("a size of ").expect("what would do");
        let (most, _) = would_do.split_once(' ').unwrap();
        let most: u64 = most.parse().unwrap();
        let (code, output, _) = with(from, &to.replace("SIZE", &most.to_string()));
        assert_eq!(code, 0, "{what} of {most}: {output}");
        let (code, output, _) = with(from, &to.replace("SIZE", &(most + 1).to_string()));
        assert_eq!(code, 1, "{what} of {most} and one: {output}");
    }
}

/// Algorithmic longest-prefix match (`Alpm`) uses partitions of SRAM, so the table may exceed the TCAM.
#[test]
fn algorithmic_lpm_table_uses_no_tcam() {
    let table = |implementation: &str| {
        STATEFUL
            .replace("hdr.h.a : exact", "hdr.h.b : lpm")
            .replace("size = 64", &format!("{implementation} size = 200000"))
            .replace("action send", "Alpm(1024, 2) layout; action send")
    };
    let line = ["--arch", "tna", "DIR/prog.p4", "-o", "DIR/out.json"];
    let (code, output, _) = p4c(&tna(&table("implementation = layout;")), &line);
    assert_eq!(code, 0, "{output}");
    let (code, output, _) = p4c(&tna(&table("")), &line);
    assert_eq!(code, 1);
    assert!(output.contains("blocks of TCAM"), "{output}");
}

#[test]
fn gaps_of_the_model_are_errors_only_with_an_output() {
    let body = STATEFUL.replace("swap.execute(hdr.h.a)", "swap.execute_log()");
    let line = ["--arch", "tna", "DIR/prog.p4"];
    let (code, output, _) = p4c(&tna(&body), &line);
    assert_eq!((code, output.as_str()), (0, ""));
    let (code, output, _) = p4c(&tna(&body), &[&line[..], &["-o", "DIR/out.json"]].concat());
    assert_eq!(code, 1);
    assert!(
        output.contains(
            "error[E0702]: the software model does not support execute_log of a RegisterAction"
        ),
        "{output}"
    );
}

#[test]
fn stateful_selectors_are_checked_but_not_compiled() {
    let selector = "Register<bit<1>, bit<32>>(1024) alive;
    ActionProfile(64) members;
    ActionSelector(members, hash, SelectorMode_t.FAIR, alive, 64, 4) groups;
    SelectorAction(groups) die = { void apply(inout bit<1> value) { value = 0; } };
    action send(PortId_t port)";
    let body = STATEFUL
        .replace("action send(PortId_t port)", selector)
        .replace("hdr.h.a : exact;", "hdr.h.a : exact; hdr.h.b : selector;")
        .replace("counters = hits;", "implementation = groups;")
        .replace("hits.count();", "")
        .replace(
            "t.apply();",
            "if (meta.x == 7) { die.execute(32w1); } else { t.apply(); }",
        );
    let line = ["--arch", "tna", "DIR/prog.p4"];
    let (code, output, _) = p4c(&tna(&body), &line);
    assert_eq!(code, 0, "{output}");
    let (code, output, _) = p4c(&tna(&body), &[&line[..], &["-o", "DIR/out.json"]].concat());
    assert_eq!(code, 1);
    for words in [
        "error[E0702]: the software model does not support a register of member states in a selector",
        "ActionSelector(members, hash, SelectorMode_t.FAIR, alive, 64, 4) groups;",
        "change groups by P4Runtime",
        "error[E0702]: the software model does not support SelectorAction",
        "SelectorAction(groups) die",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
}

#[test]
fn nonzero_byte_count_adjustment_is_an_error() {
    let line = ["--arch", "tna", "DIR/prog.p4", "-o", "DIR/out.json"];
    let (code, output, _) = p4c(&tna(&STATEFUL.replace("count();", "count(0);")), &line);
    assert_eq!((code, output.as_str()), (0, ""));
    let (code, output, _) = p4c(&tna(&STATEFUL.replace("count();", "count(4);")), &line);
    assert_eq!(code, 1);
    assert!(
        output.contains("does not support adjust_byte_count"),
        "{output}"
    );
}

#[test]
fn mismatch_of_arch_and_includes_is_an_error() {
    let refused = |program: &str, line: &[&str], code, words: &str| {
        let (was, output, _) = p4c(program, line);
        assert_eq!(was, code, "{output}");
        assert!(output.contains(words), "{output}");
    };
    let here = "DIR/prog.p4";
    refused(
        &program(EMPTY),
        &["--arch", "tna", here],
        1,
        "use --arch v1model",
    );
    let included = tna(STATEFUL).replace("#if __TARGET_TOFINO__ == 1", "#if 1");
    refused(&included, &[here], 1, "use --arch tna");
    let tna_here = ["--arch", "tna", here];
    refused(
        &included,
        &["--arch", "v1model", "-b", "tofino", here],
        2,
        "does not match --target tofino",
    );
    refused(&included, &["-b", "tofino3", here], 2, "tofino3");
    let no_main = tna(STATEFUL).replace("Switch(pipe) main;", "");
    refused(&no_main, &tna_here, 1, "Switch(...) main;");
}

#[test]
fn stage_report_fails_if_the_program_does_not_fit() {
    let program = tna(STATEFUL);
    let (code, _, files) = p4c(
        &program,
        &["--arch", "tna", "--report=DIR/stages.json", "DIR/prog.p4"],
    );
    assert_eq!(code, 0);
    let report = std::fs::read_to_string(files.path().join("stages.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["stages"], 12);
    assert!(report["needed"].as_u64().unwrap() <= 3, "{report}");

    let (code, output, _) = p4c(&program, &["--report", "DIR/prog.p4"]);
    assert_eq!(code, 2);
    assert!(output.contains("v1model has no stages"), "{output}");

    // Each operation depends on the result of the previous one.
    let chain: String = (0..13)
        .map(|_| "hdr.h.b = hdr.h.b + meta.x; meta.x = meta.x ^ hdr.h.b;")
        .collect();
    let body = format!("apply {{ {chain} }}");
    let line = ["--arch", "tna", "--report=DIR/stages.txt", "DIR/prog.p4"];
    let (code, output, files) = p4c(&tna(&body), &line);
    assert_eq!(code, 1);
    assert!(
        output.contains("needs 26 stages, and tna has 12"),
        "{output}"
    );
    let report = std::fs::read_to_string(files.path().join("stages.txt")).unwrap();
    assert!(report.contains("does not fit"), "{report}");
}
