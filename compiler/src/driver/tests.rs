//! Tests of `alfirk p4c` by its command line.

mod tofino;

use clap::Parser;

use super::*;
use crate::preproc::MemoryLoader;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: P4cArgs,
}

fn args(line: &[&str]) -> P4cArgs {
    let words = ["p4c"].iter().chain(line).map(Into::into);
    Cli::try_parse_from(with_long_options(words))
        .expect("the line is right")
        .args
}

/// Runs a command line in a folder with one program; returns the exit code, the output and the folder.
fn p4c(program: &str, line: &[&str]) -> (u8, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let source = folder.path().join("prog.p4");
    std::fs::write(&source, program).expect("the folder can be written");
    let line: Vec<String> = line
        .iter()
        .map(|word| word.replace("DIR", &folder.path().to_string_lossy()))
        .collect();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = run(&args(&line), &mut stdout, &mut stderr);
    stdout.extend(stderr);
    let output = String::from_utf8(stdout).expect("messages are UTF-8");
    (code, output, folder)
}

/// A program with `body` as its ingress.
fn program(body: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t h; h_t[2] s; }}
struct metadata_t {{ bit<8> x; }}
parser P(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    state start {{ p.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {body}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

const EMPTY: &str = "apply { sm.egress_spec = 1; }";

#[test]
fn outputs_are_written_to_the_requested_files() {
    let (code, output, folder) = p4c(
        &program(EMPTY),
        &[
            "-o",
            "DIR/out/prog.json",
            "--p4runtime-files",
            "DIR/a.txtpb,DIR/a.json,DIR/a.bin",
            "DIR/prog.p4",
        ],
    );
    assert_eq!((code, output.as_str()), (0, ""));
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("the file was written");
    let json = String::from_utf8(read("out/prog.json")).expect("JSON is UTF-8");
    BmV2Json::from_text(&json).expect("it is a BMv2 program");
    let info = P4Info::decode(&read("a.bin")[..]).expect("it is a P4Info");
    let text = String::from_utf8(read("a.txtpb")).expect("text is UTF-8");
    assert_eq!(
        alfirk_p4runtime::text::parse::<P4Info>(&text),
        Ok(info.clone())
    );
    let json = String::from_utf8(read("a.json")).expect("JSON is UTF-8");
    assert_eq!(
        alfirk_p4runtime::json::parse::<P4Info>(&json).expect("it is a P4Info"),
        info
    );
}

#[test]
fn driver_target_writes_to_a_folder() {
    let (code, output, folder) = p4c(
        &program(EMPTY),
        &[
            "--target",
            "bmv2",
            "--arch",
            "v1model",
            "--std",
            "p4-16",
            "-o",
            "DIR/build",
            "DIR/prog.p4",
        ],
    );
    assert_eq!((code, output.as_str()), (0, ""));
    assert!(folder.path().join("build/prog.json").exists());
}

#[test]
fn options_about_the_passes_of_p4c_have_no_effect() {
    let (code, output, _) = p4c(
        &program(EMPTY),
        &[
            "-v",
            "-v",
            "-g",
            "-T",
            "midend:3",
            "-O2",
            "-Og",
            "-Wall",
            "-W",
            "no-comment",
            "--doNotEmitIncludes",
            "--testJson",
            "--maxErrorCount",
            "20",
            "--parser-inline-opt",
            "--loopsUnroll",
            "--disable-annotations=mine",
            "DIR/prog.p4",
        ],
    );
    assert_eq!((code, output.as_str()), (0, ""));
}

#[test]
fn unsupported_options_of_p4c_are_rejected_in_one_line() {
    for (line, option) in [
        (vec!["--toJSON", "DIR/ir.json", "DIR/prog.p4"], "--toJSON"),
        (vec!["--fromJSON", "DIR/ir.json"], "--fromJSON"),
        (vec!["--metrics", "loc", "DIR/prog.p4"], "--metrics"),
        (vec!["--listFrontendPasses"], "--listFrontendPasses"),
        (vec!["--listMidendPasses"], "--listMidendPasses"),
        (
            vec!["--excludeFrontendPasses", "Inline", "DIR/prog.p4"],
            "--excludeFrontendPasses",
        ),
        (
            vec!["--excludeMidendPasses", "Inline", "DIR/prog.p4"],
            "--excludeMidendPasses",
        ),
        (vec!["-Ofast", "DIR/prog.p4"], "-Ofast"),
        (vec!["-MF", "DIR/x.d", "DIR/prog.p4"], "-MF"),
    ] {
        let (code, output, _) = p4c(&program(EMPTY), &line);
        assert_eq!((code, output.lines().count()), (2, 1), "{output}");
        assert!(
            output.starts_with(&format!("error: {option}: ")),
            "{output}"
        );
    }
    let (code, output, _) = p4c(&program(EMPTY), &["--top4", "FrontEnd", "DIR/prog.p4"]);
    assert_eq!((code, output.lines().count()), (0, 1), "{output}");
    assert!(output.starts_with("note: --top4 has no effect"), "{output}");
}

#[test]
fn last_occurrence_of_an_option_wins() {
    let (code, _, folder) = p4c(
        &program(EMPTY),
        &[
            "-o",
            "DIR/a.json",
            "--arch",
            "psa",
            "--arch",
            "v1model",
            "-o",
            "DIR/b.json",
            "DIR/prog.p4",
        ],
    );
    assert_eq!(code, 0);
    assert!(folder.path().join("b.json").exists());
    assert!(!folder.path().join("a.json").exists());
}

#[test]
fn default_format_is_binary() {
    let (code, _, folder) = p4c(
        &program(EMPTY),
        &[
            "--p4runtime-file",
            "DIR/a",
            "--p4runtime-files",
            "DIR/b.bin",
            "DIR/prog.p4",
        ],
    );
    assert_eq!(code, 0);
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("it was written");
    assert_eq!(read("a"), read("b.bin"));
}

#[test]
fn dependency_rules_are_written() {
    let with = format!("#include \"more.p4\"\n{}", program(EMPTY));
    let run = |line: &[&str]| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("prog.p4"), &with).expect("the folder can be written");
        std::fs::write(path("more.p4"), "").expect("the folder can be written");
        let dir = folder.path().to_string_lossy().into_owned();
        let line: Vec<String> = line.iter().map(|word| word.replace("DIR", &dir)).collect();
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let code = run(&args(&line), &mut stdout, &mut stderr);
        assert_eq!((code, &*String::from_utf8_lossy(&stderr)), (0, ""));
        let rule = std::fs::read_to_string(path("prog.dep")).unwrap_or_default();
        let output = String::from_utf8(stdout).expect("a rule is text");
        let plain = |text: String| text.replace(&dir, "DIR").replace(" \\\n", "");
        (plain(output), plain(rule), path("prog.json").exists())
    };
    let rule = "prog.o: DIR/prog.p4 DIR/more.p4\n";
    assert_eq!(
        run(&["-M", "DIR/prog.p4"]),
        (rule.to_owned(), String::new(), false)
    );
    assert_eq!(
        run(&[
            "-MD",
            "-MF",
            "DIR/prog.dep",
            "-o",
            "DIR/prog.json",
            "DIR/prog.p4"
        ]),
        (String::new(), rule.to_owned(), true)
    );
    let (output, rule, _) = run(&[
        "-M",
        "-MP",
        "-MT",
        "x",
        "-MQ",
        "$y",
        "-MF",
        "DIR/prog.dep",
        "DIR/prog.p4",
    ]);
    assert_eq!(
        (&*output, &*rule),
        ("", "x $$y: DIR/prog.p4 DIR/more.p4\nDIR/more.p4:\n")
    );
}

#[test]
fn duplicate_action_names_are_errors_only_with_a_p4info() {
    let twice = program(
        "@name(\".nop\") action a() { } @name(\".nop\") action b() { meta.x = 1; }
    table t { key = { hdr.h.a: exact; } actions = { a; } }
    table u { key = { hdr.h.a: exact; } actions = { b; } }
    apply { t.apply(); u.apply(); }",
    );
    let (code, output, folder) = p4c(&twice, &["-o", "DIR/prog.json", "DIR/prog.p4"]);
    assert_eq!((code, &*output), (0, ""));
    let json = std::fs::read_to_string(folder.path().join("prog.json")).expect("it was written");
    let json = BmV2Json::from_text(&json).expect("it is a BMv2 program");
    let named: Vec<i64> = json
        .actions
        .iter()
        .filter(|action| action.name == "nop")
        .map(|action| action.id)
        .collect();
    assert_eq!(named.len(), 2);
    assert_ne!(named[0], named[1]);
    for option in ["--p4runtime-files", "--p4runtime-entries-files"] {
        let (code, output, _) = p4c(&twice, &[option, "DIR/a.txtpb", "DIR/prog.p4"]);
        assert_eq!(code, 1);
        assert!(
            output.contains("another action has this control-plane name"),
            "{output}"
        );
    }
}

#[test]
fn duplicate_action_names_in_one_table_are_errors() {
    let within = program(
        "@name(\".nop\") action a() { } @name(\".nop\") action b() { meta.x = 1; }
    table t { key = { hdr.h.a: exact; } actions = { a; b; } }
    apply { t.apply(); }",
    );
    let of_the_top = program(
        "@name(\".top\") action a() { } action b() { }
    table t { key = { hdr.h.a: exact; } actions = { b; top; a; } default_action = a(); }
    apply { t.apply(); }",
    )
    .replacen("control V(", "action top() { }\ncontrol V(", 1);
    for (source, name) in [(within, "nop"), (of_the_top, "top")] {
        let (code, output, _) = p4c(&source, &["-o", "DIR/prog.json", "DIR/prog.p4"]);
        let message =
            format!("action `{name}`: another action of table `I.t` has this control-plane name");
        assert_eq!((code, output.matches(&message).count()), (1, 1), "{output}");
        let (code, output, _) = p4c(
            &source,
            &["--p4runtime-files", "DIR/a.txtpb", "DIR/prog.p4"],
        );
        let message = "another action has this control-plane name";
        assert_eq!((code, output.matches(message).count()), (1, 1), "{output}");
    }
}

#[test]
fn ndebug_removes_assertions() {
    let with = program("apply { assert(hdr.h.a == 1); assume(hdr.h.b == 2); log_msg(\"x\"); }");
    let operations = |line: &[&str]| {
        let (code, output, folder) = p4c(
            &with,
            &[line, &["-o", "DIR/prog.json", "DIR/prog.p4"]].concat(),
        );
        assert_eq!((code, &*output), (0, ""));
        let json =
            std::fs::read_to_string(folder.path().join("prog.json")).expect("it was written");
        ["assert", "assume", "log_msg"].map(|op| json.contains(&format!("\"{op}\"")))
    };
    assert_eq!(operations(&[]), [true, true, true]);
    assert_eq!(operations(&["--ndebug"]), [false, false, true]);
}

#[test]
fn logged_header_has_a_placeholder_per_field() {
    let source = program("apply { log_msg(\"got {}, {} and {}\", {hdr.h, hdr.h.a, {hdr.h.b}}); }");
    let (code, output, folder) = p4c(&source, &["-o", "DIR/prog.json", "DIR/prog.p4"]);
    assert_eq!((code, &*output), (0, ""));
    let json = std::fs::read_to_string(folder.path().join("prog.json")).expect("it was written");
    assert!(json.contains("\"got (a:{},b:{}), {} and ({})\""), "{json}");
}

#[test]
fn disabled_annotations_are_ignored() {
    let with = program(
        "@hidden @name(\"other\") table t { actions = { NoAction; } } apply { t.apply(); }",
    );
    let names = |line: &[&str]| {
        let (code, _, folder) = p4c(
            &with,
            &[line, &["--p4runtime-files", "DIR/a.bin", "DIR/prog.p4"]].concat(),
        );
        assert_eq!(code, 0);
        let info = std::fs::read(folder.path().join("a.bin")).expect("it was written");
        let info = P4Info::decode(&info[..]).expect("it is a P4Info");
        let names = info
            .tables
            .into_iter()
            .filter_map(|table| Some(table.preamble?.name));
        names.collect::<Vec<String>>()
    };
    assert_eq!(names(&[]), Vec::<String>::new());
    assert_eq!(names(&["--disable-annotations=hidden"]), ["I.other"]);
    assert_eq!(names(&["--disable-annotations=hidden,name"]), ["I.t"]);
    let (_, output, _) = p4c(&with, &["--disable-annotations=hidden", "DIR/prog.p4"]);
    assert!(
        output.contains("warning[ignore]: @hidden is ignored"),
        "{output}"
    );
}

#[test]
fn unknown_version_of_v1model_is_reported_and_not_written() {
    for (version, known) in [
        ("20180101", true),
        ("20200408", true),
        ("20170101", false),
        ("20200409", false),
    ] {
        let with = format!("#define V1MODEL_VERSION {version}\n{}", program(EMPTY));
        let (code, output, _) = p4c(&with, &["DIR/prog.p4"]);
        assert_eq!((code, output.is_empty()), (0, known), "{output}");
        let (code, output, folder) = p4c(&with, &["--pp", "DIR/pretty.p4", "DIR/prog.p4"]);
        assert_eq!(code, if known { 0 } else { 1 }, "{output}");
        let pretty = std::fs::read_to_string(folder.path().join("pretty.p4")).unwrap_or_default();
        let define = format!("#define V1MODEL_VERSION {version}\n#include <v1model.p4>");
        assert_eq!(pretty.contains(&define), known, "{pretty}");
    }
}

#[test]
fn program_with_errors_exits_with_1_and_shows_the_line() {
    let (code, output, folder) = p4c(
        &program("apply { sm.egress_spec = nowhere; }"),
        &["-o", "DIR/prog.json", "DIR/prog.p4"],
    );
    assert_eq!(code, 1);
    assert!(output.contains("prog.p4:11:"), "{output}");
    assert!(output.contains("1 error found"), "{output}");
    assert!(!folder.path().join("prog.json").exists());
}

#[test]
fn unusable_input_exits_with_2() {
    assert_eq!(p4c("", &["DIR/missing.p4"]).0, 2);
    let (code, output, _) = p4c("", &["--std", "p4-14", "DIR/prog.p4"]);
    assert_eq!(code, 2);
    assert!(output.contains("only P4_16 is supported"), "{output}");
    let (code, output, _) = p4c("", &["--p4runtime-files", "DIR/a.yaml", "DIR/prog.p4"]);
    assert_eq!(code, 2);
    assert!(
        output.contains("use .txtpb, .txt, .json or .bin"),
        "{output}"
    );
    assert_eq!(p4c("", &["--arch", "psa", "DIR/prog.p4"]).0, 2);
    assert_eq!(p4c("", &["--Werror=no-such-thing", "DIR/prog.p4"]).0, 2);
}

#[test]
fn warnings_can_be_errors_or_disabled() {
    let unused = program("action never_used() { } apply { sm.egress_spec = 1; }");
    let (code, output, _) = p4c(&unused, &["DIR/prog.p4"]);
    assert_eq!(code, 0);
    assert!(output.contains("warning"), "{output}");
    assert_eq!(p4c(&unused, &["--Werror", "DIR/prog.p4"]).0, 1);
    assert_eq!(p4c(&unused, &["--Werror=unused", "DIR/prog.p4"]).0, 1);
    let (code, output, _) = p4c(&unused, &["--Wdisable=unused", "DIR/prog.p4"]);
    assert_eq!((code, output.as_str()), (0, ""));
    let (code, output, _) = p4c(&unused, &["--Winfo=unused", "--Werror", "DIR/prog.p4"]);
    assert_eq!(code, 0);
    assert!(output.contains("info[unused]"), "{output}");
    let again = format!("#define A 1\n#define A 2\n{}", program(EMPTY));
    assert_eq!(p4c(&again, &["-Werror", "DIR/prog.p4"]).0, 1);
    assert_eq!(p4c(&unused, &["-Werror", "DIR/prog.p4"]).0, 0);
    let many = program("apply { a = 1; b = 1; c = 1; }");
    let (_, output, _) = p4c(&many, &["--maxErrorCount", "2", "DIR/prog.p4"]);
    assert_eq!(output.matches("error[").count(), 2, "{output}");
}

#[test]
fn every_warning_name_of_p4c_is_accepted() {
    for name in [
        "branch",
        "deprecated",
        "duplicate_priorities",
        "entries-out-of-priority-order",
        "failed",
        "ignore",
        "ignore-prop",
        "invalid",
        "invalid_header",
        "legacy",
        "mismatch",
        "missing",
        "multi_header_extract",
        "ordering",
        "overflow",
        "parser-transition",
        "shadow",
        "type-inference",
        "uninitialized",
        "uninitialized_out_param",
        "uninitialized_use",
        "unknown",
        "unsupported",
        "unused",
    ] {
        let option = format!("--Wdisable={name}");
        let (code, output, _) = p4c(&program(EMPTY), &[&option, "DIR/prog.p4"]);
        assert_eq!((code, output.as_str()), (0, ""), "{name}");
    }
    let unreachable = program("apply { sm.egress_spec = 1; return; sm.egress_spec = 2; }");
    let (_, output, _) = p4c(&unreachable, &["DIR/prog.p4"]);
    assert!(output.contains("warning[unreachable]"), "{output}");
    for line in ["--Wdisable=parser-transition", "--Wdisable=unreachable"] {
        let (code, output, _) = p4c(&unreachable, &[line, "DIR/prog.p4"]);
        assert_eq!((code, output.as_str()), (0, ""));
    }
    assert_eq!(
        p4c(&unreachable, &["--Werror=unreachable", "DIR/prog.p4"]).0,
        1
    );
}

#[test]
fn unordered_and_duplicate_priorities_are_reported() {
    let source = |annotations: &str| {
        program(&format!(
            "table t {{
        key = {{ hdr.h.a: ternary; }}
        actions = {{ NoAction; }}
        {annotations}
        entries = {{
            priority = 10: 1: NoAction();
            priority = 20: 2: NoAction();
            priority = 10: 3: NoAction();
        }}
    }}
    apply {{ sm.egress_spec = 1; t.apply(); }}"
        ))
    };
    let (code, output, _) = p4c(&source(""), &["DIR/prog.p4"]);
    assert_eq!(code, 0);
    for warning in [
        "warning[entries_out_of_priority_order]: this entry takes precedence over the one before it: priority 20 against 10",
        "warning[duplicate_priorities]: another entry has the same priority, 10",
    ] {
        assert!(output.contains(warning), "{output}");
    }
    let quiet = r#"@noWarn("duplicate-priorities") @noWarn("entries_out_of_priority_order")"#;
    let (code, output, _) = p4c(&source(quiet), &["DIR/prog.p4"]);
    assert_eq!((code, output.as_str()), (0, ""));
}

#[test]
fn macros_are_defined_on_the_command_line() {
    let with = program(
        "apply {\n#ifdef GO\nsm.egress_spec = GO;\n#else\nsm.egress_spec = nowhere;\n#endif\n}",
    );
    assert_eq!(p4c(&with, &["-DGO=3", "DIR/prog.p4"]).0, 0);
    assert_eq!(p4c(&with, &["-DGO=3", "-UGO", "DIR/prog.p4"]).0, 1);
    assert_eq!(p4c(&with, &["-UGO", "-DGO=3", "DIR/prog.p4"]).0, 0);
    let target = program("apply {\n#ifndef __TARGET_BMV2__\nnowhere();\n#endif\n}");
    assert_eq!(p4c(&target, &["DIR/prog.p4"]).0, 0);
    let (code, output, _) = p4c(&with, &["-E", "-DGO=77", "DIR/prog.p4"]);
    assert_eq!(code, 0);
    assert!(output.contains("77"), "{output}");
}

#[test]
fn graphs_and_parsed_program_are_written() {
    let (code, _, folder) = p4c(
        &program(EMPTY),
        &[
            "--graph",
            "DIR/graphs",
            "--pp",
            "DIR/pretty.p4",
            "DIR/prog.p4",
        ],
    );
    assert_eq!(code, 0);
    for name in ["parser", "ingress", "egress"] {
        assert!(folder.path().join(format!("graphs/{name}.dot")).exists());
    }
    let pretty = std::fs::read_to_string(folder.path().join("pretty.p4")).expect("it was written");
    assert!(pretty.contains("#include <v1model.p4>"), "{pretty}");
    compile(&CompileOptions::new(folder.path().join("pretty.p4"))).expect("it compiles again");
}

#[test]
fn messages_are_json_on_request() {
    let (code, output, _) = p4c(
        &program("apply { sm.egress_spec = nowhere; }"),
        &["--json", "DIR/prog.p4"],
    );
    assert_eq!(code, 1);
    let first = output.lines().next().expect("there is a message");
    let message: serde_json::Value = serde_json::from_str(first).expect("it is JSON");
    assert_eq!(message["severity"], "error");
    assert_eq!(message["place"]["line"], 11);
}

/// Compiles a program from memory.
fn compiled(source: &str) -> Result<Compiled, CompileError> {
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", source);
    compile_with(&CompileOptions::new("test.p4"), &loader)
}

/// The error report for a program with an ingress body that the target does not support.
fn refused(body: &str) -> String {
    match compiled(&program(body)) {
        Err(CompileError::Program { report, .. }) => report,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn unsupported_constructs_are_reported_with_their_position() {
    for (body, message, line) in [
        (
            "apply { recirculate_preserving_field_list(1); }",
            "can be called only in egress on this target",
            11,
        ),
        (
            "register<headers_t>(4) r; apply { }",
            "a register holds numbers on this target",
            11,
        ),
        (
            "apply { clone(CloneType.E2E, 5); }",
            "clone with CloneType.E2E can be called only in egress",
            11,
        ),
        (
            "table t { key = { hdr.h.a + 1: exact; } actions = { NoAction; } } apply { t.apply(); }",
            "the control plane needs a name for this key of table t",
            11,
        ),
        (
            "Checksum16() sum; apply { }",
            "extern Checksum16 is not part of v1model",
            11,
        ),
        (
            "apply { update_checksum(true, {hdr.h.a}, meta.x, HashAlgorithm.csum16); }",
            "update_checksum can be called only in the ComputeChecksum control",
            11,
        ),
    ] {
        let report = refused(body);
        assert!(report.contains(message), "{body}\n{report}");
        assert!(report.contains(&format!("test.p4:{line}:")), "{body}\n{report}");
    }
}

#[test]
fn results_of_externs_of_other_targets_are_refused_where_they_are_used() {
    for body in [
        "apply { hdr.h.a = f(1); }",
        "O() o; apply { hdr.h.a = o.read(f(2)) + 1; }",
        "apply { if (f(hdr.h.a) == 3) { mark_to_drop(sm); } }",
        "apply { switch (f(hdr.h.a)) { 1: { mark_to_drop(sm); } } }",
        "table t { key = { f(1): exact @name(\"k\"); } actions = { NoAction; } } apply { t.apply(); }",
        "apply { hdr.h.a = g(1); }",
        "O() o; action a(bit<8> x) { hdr.s[o.read(x) & 1].a = x; } apply { a(1); }",
        "apply { bit<8> x = f(1); pair_t y = q(); hdr.h.a = y.x + x; }",
        "apply { bit<8> x = q().x; hdr.h.a = x; }",
    ] {
        let externs = "struct pair_t { bit<8> x; bit<8> y; } extern bit<8> f(in bit<8> x); extern pair_t q();
            bit<8> g(in bit<8> x) { return f(x); }
            extern O { O(); bit<8> read(in bit<8> i); } header h_t";
        let source = program(body).replacen("header h_t", externs, 1);
        for option in ["--emit-externs", "-Wdisable=none"] {
            let (code, output, _) = p4c(&source, &[option, "-o", "DIR/out.json", "DIR/prog.p4"]);
            assert_eq!(code, 1, "{body}\n{output}");
            let message = "this target has no calls of externs with a result";
            assert!(output.contains(message), "{body}\n{output}");
            assert!(!output.contains("internal error"), "{body}\n{output}");
        }
    }
}

#[test]
fn extracting_a_whole_union_is_an_error() {
    let source = program("apply { }")
        .replace(
            "struct headers_t {",
            "header_union u_t { h_t one; h_t other; } struct headers_t { u_t u; u_t[2] us;",
        )
        .replace("p.extract(hdr.h);", "p.extract(hdr.u); p.extract(hdr.us.next); p.extract(hdr.us[1]); p.extract(hdr.us.next.one);");
    let Err(CompileError::Program { report, .. }) = compiled(&source) else {
        panic!("not refused");
    };
    assert_eq!(
        report.matches("extract to one of its members").count(),
        3,
        "{report}"
    );
}

#[test]
fn source_fragment_keeps_the_parentheses_of_its_operands() {
    let conditions = [
        "(hdr.h.a & 0xf) > 1",
        "1 < (hdr.h.a & 0xe)",
        "!(hdr.h.a == 3)",
        "(bool)(hdr.h.a[0:0])",
        "(hdr.h).isValid()",
        "((hdr.h.a)) == ((4))",
        "(hdr.h.a + 1)[3:0] == 2",
        "(hdr.h.a + 1)[2+:2] == (bit<2>)(hdr.h.b)",
        "(hdr.h.a > 1) && (hdr.h.b > 2)",
        "(hdr.h.a == 1) ? (hdr.h.b == 2) : (hdr.h.b == 3)",
        "(hdr.s)[0].a == (hdr.s[1]).a",
        "-(hdr.h.a) == ~(hdr.h.b)",
        "f(((hdr.h.a)))",
    ];
    let body: String = (conditions.iter())
        .map(|condition| format!("if ({condition}) {{ hdr.h.b = hdr.h.b + 1; }}\n"))
        .collect();
    let function = "bool f(in bit<8> x) { return x == 7; }\ncontrol V(";
    let source = program(&format!("apply {{ {body} }}")).replacen("control V(", function, 1);
    let json = compiled(&source).unwrap().json.to_text();
    for condition in conditions {
        let fragment = format!("\"source_fragment\" : \"{condition}\"");
        assert!(json.contains(&fragment), "{fragment} is not in {json}");
    }
}

#[test]
fn program_without_main_is_an_error() {
    let Err(CompileError::Program { report, errors }) = compiled("#include <core.p4>\n") else {
        panic!("not refused");
    };
    assert_eq!(errors, 1, "{report}");
    assert!(report.contains("main"), "{report}");
}

#[test]
fn conflicting_ids_are_errors() {
    let report = refused(
        "@id(1) table t { actions = { NoAction; } } @id(1) table u { actions = { NoAction; } } apply { t.apply(); u.apply(); }",
    );
    assert!(
        report.contains("I.u: @id(0x02000001) is already the id of I.t"),
        "{report}"
    );
}

#[test]
fn output_is_deterministic() {
    let source = program(
        "register<bit<8>>(4) r; action a(bit<8> v) { hdr.h.a = v; } table t { key = { hdr.h.b: ternary; } actions = { a; NoAction; } } apply { t.apply(); r.read(meta.x, 1); sm.egress_spec = 1; }",
    );
    let (first, second) = (compiled(&source).unwrap(), compiled(&source).unwrap());
    assert_eq!(first.json.to_text(), second.json.to_text());
    assert_eq!(first.p4info, second.p4info);
}

#[test]
fn the_entries_of_a_program_are_written_as_requests() {
    use alfirk_p4runtime::p4::v1::WriteRequest;
    let (code, output, folder) = p4c(
        &program(
            "action set(@id(9) bit<8> v, bool b) { hdr.h.b = v; meta.x = (bit<8>)(bit<1>)b; }
    table all {
        key = { hdr.h.a: ternary; hdr.h.b: lpm @id(5); meta.x: range; sm.packet_length: optional; }
        actions = { set; }
        entries = {
            const priority = 30: (1 &&& 3, 16 &&& 0xf0, 1 .. 2, 9): set(1, true);
            (_, _, _, _): set(2, false);
        }
    }
    @hidden table unseen { key = { hdr.h.a: exact; } actions = { set; } const entries = { 1: set(1, true); } }
    table plain { key = { hdr.h.a: exact; } actions = { set; } const entries = { 1: set(1, true); } }
    apply { all.apply(); unseen.apply(); plain.apply(); }",
        ),
        &[
            "--p4runtime-entries-files",
            "DIR/a.txtpb,DIR/a.json,DIR/a.bin",
            "--p4runtime-entries-file",
            "DIR/b.any",
            "--p4runtime-format",
            "text",
            "DIR/prog.p4",
        ],
    );
    assert_eq!((code, output.as_str()), (0, ""));
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("the file was written");
    let text = String::from_utf8(read("a.txtpb")).expect("text is UTF-8");
    insta::assert_snapshot!(text);
    assert_eq!(read("b.any"), read("a.txtpb"));
    let request = alfirk_p4runtime::text::parse::<WriteRequest>(&text).expect("it is a request");
    let binary = WriteRequest::decode(&read("a.bin")[..]).expect("it is a request");
    assert_eq!(request, binary);
    let json = String::from_utf8(read("a.json")).expect("JSON is UTF-8");
    let json = alfirk_p4runtime::json::parse::<WriteRequest>(&json).expect("it is a request");
    assert_eq!(request, json);
}

#[test]
fn entries_are_sorted_by_priority() {
    let source = |entries: &str| {
        program(&format!(
            "table t {{ key = {{ hdr.h.a: ternary; }} actions = {{ NoAction; }} {entries} }} apply {{ t.apply(); }}"
        ))
    };
    for (entries, priorities) in [
        (
            "const entries = { 1: NoAction(); 2: NoAction(); _: NoAction(); }",
            [3, 2, 1],
        ),
        (
            "const entries = { 1: NoAction() @priority(20); 2: NoAction() @priority(20); _: NoAction() @priority(7); }",
            [3, 2, 1],
        ),
        (
            "priority_delta = 10; entries = { priority = 50: 1: NoAction(); 2: NoAction(); priority = 45: _: NoAction(); }",
            [50, 45, 40],
        ),
        (
            "entries = { priority = (1 << 40): 1: NoAction(); priority = (1 << 50): 2: NoAction(); priority = 0: _: NoAction(); }",
            [3, 2, 1],
        ),
    ] {
        let mut loader = MemoryLoader::default();
        loader.add("test.p4", source(entries));
        let mut session = Session::new(CompileOptions::new("test.p4"));
        let program = session.elaborated(&loader).expect("it is in memory");
        let program = program.unwrap_or_else(|_| panic!("{}", session.rendered()));
        let request = p4info::entries(&program.objects);
        let found: Vec<i32> = request
            .updates
            .into_iter()
            .filter_map(|update| match update.entity?.entity? {
                alfirk_p4runtime::p4::v1::entity::Entity::TableEntry(entry) => Some(entry.priority),
                _ => None,
            })
            .collect();
        assert_eq!(found, priorities, "{entries}");
    }
}
