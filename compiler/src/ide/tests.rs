//! Tests of the queries, on complete and incomplete programs.

use super::*;
use crate::preproc::MemoryLoader;
use crate::stack::on_deep_stack;

const HEADERS: &str = r#"
typedef bit<48> mac_t;
// What every frame begins with.
header ethernet_t {
    mac_t dst; // who gets it
    mac_t src;
    bit<16> type;
}
struct headers_t { ethernet_t ethernet; }
struct meta_t { bit<9> port; }
enum bit<8> Kind { DATA = 1, ACK = 2 }
"#;

const MAIN: &str = r#"#include <v1model.p4>
#include "headers.p4"
const bit<16> IPV4 = 0x0800;
#define DROP mark_to_drop(standard)
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { IPV4: next; default: accept; }
    }
    state next { transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(4) seen;
    // Sends it out.
    action forward(bit<9> port, mac_t dst) {
        hdr.ethernet.dst = dst;
        standard.egress_spec = port;
        meta.port = port;
    }
    table hosts {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; NoAction; }
        size = 16;
    }
    apply {
        bit<8> kind = Kind.ACK;
        seen.write(0, 7);
        if (hdr.ethernet.isValid() && kind == 2) { hosts.apply(); } else { DROP; }
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) { apply {} }
control C(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn files(main: &str) -> MemoryLoader {
    let mut files = MemoryLoader::default();
    files.add("main.p4", main);
    files.add("headers.p4", HEADERS);
    files
}

fn analysis(main: &str) -> Analysis {
    Analysis::of(CompileOptions::new("main.p4"), &files(main)).unwrap()
}

/// The position of occurrence `nth`, from 0, of a word in a file.
fn at(analysis: &Analysis, file: &str, word: &str, nth: usize) -> (FileId, u32) {
    let file = analysis.file(Path::new(file)).unwrap();
    let text = &analysis.sources.file(file).text;
    let (offset, _) = text.match_indices(word).nth(nth).unwrap();
    (file, offset as u32 + 1)
}

fn places(analysis: &Analysis, spans: &[Span]) -> Vec<String> {
    let place = |span: &Span| {
        let at = analysis.sources.location(*span);
        format!("{}:{}:{}", at.file, at.line, at.column)
    };
    spans.iter().map(place).collect()
}

/// Names that are proposed at the position of `|`.
fn proposed(main: &str) -> Vec<String> {
    let offset = main.rfind('|').unwrap();
    let mut text = main.to_owned();
    text.remove(offset);
    let options = CompileOptions::new("main.p4");
    let found = complete(&options, &files(&text), Path::new("main.p4"), offset).unwrap();
    found
        .into_iter()
        .map(|completion| completion.name)
        .collect()
}

/// The program [`MAIN`] with other statements in its `apply` block.
fn with_apply(apply: &str) -> String {
    let from = MAIN.find("        bit<8> kind").unwrap();
    let to = MAIN.find("    }\n}\ncontrol E").unwrap();
    format!("{}{apply}\n{}", &MAIN[..from], &MAIN[to..])
}

#[test]
fn correct_program_has_no_diagnostics() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let messages: Vec<_> = analysis.diagnostics.iter().map(|d| &d.message).collect();
        assert!(messages.is_empty(), "{messages:?}");
    });
}

#[test]
fn program_with_long_else_if_chains_is_analysed() {
    on_deep_stack(|| {
        let branch = |i: usize| format!("if (meta.port == {}) {{ kind = {}; }}", i % 512, i % 256);
        let branches = (0..5_000).map(branch).collect::<Vec<_>>().join("\nelse ");
        let sum = " + kind".repeat(5_000);
        let text = MAIN.replace(
            "seen.write(0, 7);",
            &format!("seen.write(0, 7); {branches} kind = 1{sum};"),
        );
        let analysis = analysis(&text);
        let messages: Vec<_> = analysis.diagnostics.iter().map(|d| &d.message).collect();
        assert!(messages.is_empty(), "{messages:?}");
        let (file, offset) = at(&analysis, "main.p4", "kind = 1", 0);
        assert!(analysis.definition(file, offset).is_some());
    });
}

#[test]
fn definition_of_a_name_is_found() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let declared = |word, nth| {
            let (file, offset) = at(&analysis, "main.p4", word, nth);
            let span = analysis.definition(file, offset)?;
            Some(places(&analysis, &[span]).remove(0))
        };
        let is =
            |word, place: &str| assert_eq!(declared(word, 0).as_deref(), Some(place), "{word}");
        // A field, a type and an enum's member in an included file.
        is("type)", "headers.p4:7:13");
        is("mac_t dst", "headers.p4:2:17");
        is("ACK", "headers.p4:11:30");
        // A constant in a select, a state, an action in a table, a table that is applied, a parameter, a local.
        is("IPV4:", "main.p4:3:15");
        is("next;", "main.p4:10:11");
        is("forward;", "main.p4:16:12");
        is("hosts.apply", "main.p4:21:11");
        is("port;\n        meta", "main.p4:16:27");
        is("kind == 2", "main.p4:27:16");
        // In the architecture.
        assert!(declared("extract", 0)
            .unwrap()
            .starts_with("<p4include>/core.p4:"));
        assert!(declared("egress_spec", 0)
            .unwrap()
            .starts_with("<p4include>/v1model.p4:"));
        assert!(declared("exact", 0)
            .unwrap()
            .starts_with("<p4include>/core.p4:"));
        assert_eq!(declared("apply {}", 0), None);
    });
}

#[test]
fn references_are_found_in_all_files() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let (file, offset) = at(&analysis, "headers.p4", "dst;", 0);
        let mut found = places(&analysis, &analysis.references(file, offset));
        found.sort();
        assert_eq!(found, ["headers.p4:5:11", "main.p4:17:22", "main.p4:22:30"]);
        let (file, offset) = at(&analysis, "main.p4", "forward", 0);
        assert_eq!(analysis.references(file, offset).len(), 2);
    });
}

#[test]
fn hovers_contain_type_width_value_and_comment() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let said = |file, word, nth| {
            let (file, offset) = at(&analysis, file, word, nth);
            analysis.hover(file, offset).unwrap().markdown
        };
        assert_eq!(
            said("main.p4", "dst = dst", 0),
            "```p4\nmac_t dst\n```\n\nof `ethernet_t`, 48 bits\n\nwho gets it"
        );
        let header = said("headers.p4", "ethernet_t ethernet", 0);
        assert!(header.contains("112 bits, 14 bytes"), "{header}");
        assert!(header.contains("What every frame begins with."), "{header}");
        assert_eq!(
            said("main.p4", "IPV4:", 0),
            "```p4\nconst bit<16> IPV4 = 0x0800\n```\n\n16 bits, = 2048 (0x800)"
        );
        let action = said("main.p4", "forward;", 0);
        assert!(
            action.contains("action forward(bit<9> port, mac_t dst)"),
            "{action}"
        );
        assert!(action.contains("Sends it out."), "{action}");
        let table = said("main.p4", "hosts.apply", 0);
        assert!(table.contains("hdr.ethernet.dst: exact"), "{table}");
        assert!(table.contains("-> forward | NoAction"), "{table}");
        // Expressions that are not names.
        assert!(said("main.p4", "&&", 0).contains("bool"));
    });
}

#[test]
fn rename_replaces_all_occurrences_or_fails() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let rename = |word, to| {
            let (file, offset) = at(&analysis, "main.p4", word, 0);
            analysis.rename(file, offset, to).map(|spans| spans.len())
        };
        assert_eq!(rename("dst = dst", "receiver"), Ok(3));
        assert_eq!(rename("hosts", "stations"), Ok(2));
        assert_eq!(rename("hosts", "9lives"), Err(RenameError::NoIdentifier));
        assert_eq!(rename("hosts", "table"), Err(RenameError::NoIdentifier));
        assert_eq!(rename("extract", "take"), Err(RenameError::OfArchitecture));
        // A macro's body names it.
        assert_eq!(
            rename("standard.egress_spec", "s"),
            Err(RenameError::InMacro)
        );
        assert_eq!(rename("apply {}", "s"), Err(RenameError::NoName));
    });
}

#[test]
fn outline_contains_nested_declarations() {
    on_deep_stack(|| {
        let analysis = analysis(MAIN);
        let file = analysis.file(Path::new("main.p4")).unwrap();
        let symbols = analysis.symbols(file);
        let names: Vec<&str> = symbols.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["IPV4", "P", "V", "I", "E", "C", "D", "main"]);
        let inside: Vec<&str> = symbols[3].children.iter().map(|s| &*s.name).collect();
        assert_eq!(inside, ["seen", "forward", "hosts"]);
    });
}

#[test]
fn completion_after_a_dot_proposes_members() {
    on_deep_stack(|| {
        let of = |apply: &str| proposed(&with_apply(apply));
        let ethernet = ["dst", "src", "type", "isValid", "setValid", "setInvalid"];
        assert_eq!(of("hdr.|"), ["ethernet"]);
        assert_eq!(of("hdr.ethernet.|"), ethernet);
        assert_eq!(of("hdr.ethernet.sr| = 1;"), ethernet);
        assert_eq!(of("if (hdr.|"), ["ethernet"]);
        assert_eq!(of("meta.port = standard.ingress_port + meta.|;"), ["port"]);
        assert_eq!(of("bit<8> k = Kind.|"), ["DATA", "ACK"]);
        assert_eq!(of("seen.|"), ["read", "write"]);
        assert_eq!(of("hosts.|"), ["apply"]);
        assert_eq!(of("if (hosts.apply().|"), ["hit", "miss", "action_run"]);
        assert!(of("meta.port = error.|").contains(&"PacketTooShort".to_owned()));
    });
}

#[test]
fn completion_proposes_names_that_fit_the_position() {
    on_deep_stack(|| {
        let names = proposed(&with_apply("bit<4> mine = 1;\n me|"));
        let place = |name: &str| names.iter().position(|n| n == name);
        assert!(
            place("mine").is_some() && place("mine") < place("hosts"),
            "{names:?}"
        );
        assert!(
            place("forward").is_some() && place("IPV4").is_some(),
            "{names:?}"
        );
        assert!(place("if").is_some());
        assert!(place("start").is_none());
        // Declarations further down are not in scope.
        assert!(place("E").is_none());

        let of = |from, to| proposed(&MAIN.replacen(from, to, 1));
        let has = |names: &[String], name: &str| names.iter().any(|n| n == name);
        let actions = of("actions = { forward;", "actions = { fo|;");
        assert!(
            has(&actions, "forward") && has(&actions, "NoAction") && !has(&actions, "hosts"),
            "{actions:?}"
        );
        let kinds = of("dst: exact", "dst: ex|");
        assert!(has(&kinds, "lpm") && !has(&kinds, "hdr"), "{kinds:?}");
        let mut states = of("IPV4: next;", "IPV4: ne|;");
        states.sort();
        assert_eq!(states, ["accept", "next", "reject", "start"]);
        let properties = of("size = 16;", "de|");
        assert!(has(&properties, "default_action"), "{properties:?}");
        let types = of("bit<9> port, mac_t", "bit<9> port, ma|");
        assert!(
            has(&types, "mac_t") && has(&types, "bit") && !has(&types, "IPV4"),
            "{types:?}"
        );
    });
}

#[test]
fn diagnostics_have_fixes() {
    on_deep_stack(|| {
        let fixed = |wrong: &str| {
            let analysis = analysis(wrong);
            let mut fixes = analysis.diagnostics.iter().flat_map(|d| &d.fixes);
            let fix = fixes.next().unwrap_or_else(|| panic!("no fix for {wrong}"));
            let mut text = wrong.to_owned();
            text.replace_range(fix.span.lo as usize..fix.span.hi as usize, &fix.text);
            text
        };
        for (right, wrong) in [
            ("hdr.ethernet.dst = dst", "hdr.ethernet.dts = dst"),
            ("Kind.ACK", "Kind.ACKS"),
            ("dst: exact", "dst: exakt"),
            ("{ forward; NoAction; }", "{ forwrad; NoAction; }"),
            ("IPV4: next", "IPV4: nxet"),
        ] {
            assert_eq!(fixed(&MAIN.replacen(right, wrong, 1)), MAIN, "{wrong}");
        }
        let without = MAIN.replacen("#include <v1model.p4>\n", "", 1);
        assert_eq!(fixed(&without), format!("#include <core.p4>\n{without}"));
    });
}

#[test]
fn incomplete_programs_are_analysed() {
    on_deep_stack(|| {
        let mut proposals = 0;
        for end in (1..MAIN.len()).step_by(29) {
            let half = &MAIN[..end];
            let analysis = analysis(half);
            let file = analysis.file(Path::new("main.p4")).unwrap();
            for offset in [0, end / 2, end] {
                let offset = offset as u32;
                analysis.hover(file, offset);
                analysis.definition(file, offset);
                analysis.references(file, offset);
                let _ = analysis.rename(file, offset, "x");
            }
            analysis.symbols(file);
            proposals += proposed(&format!("{half}|")).len();
        }
        assert!(proposals > 100, "{proposals}");
    });
}
