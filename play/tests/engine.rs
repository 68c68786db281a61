//! The engine: every lab's solution and every example plays, and requests beyond the limits are refused in one line.

use std::fs;
use std::path::Path;

use alfirk_compiler::on_deep_stack;
use alfirk_play::{
    limits, Document, Drawing, Engine, Executed, Library, Reply, Request, Run, Sent,
};

/// The files that the command embeds, as `cli/build.rs` collects them.
fn library() -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in ["p4src", "labs", "compiler/tests/programs"] {
        collect(&root, Path::new(folder), &mut files);
    }
    Library::new(files)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        let name = path.to_str().unwrap().to_owned();
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, files);
        } else if name.ends_with(".p4") || name.ends_with(".stf") {
            files.push((name, fs::read_to_string(root.join(&path)).unwrap()));
        }
    }
}

/// Executes requests one after the other on an engine with the library.
fn replies(requests: Vec<Request>) -> Vec<Reply> {
    on_deep_stack(|| {
        let mut engine = Engine::new(library());
        requests
            .iter()
            .map(|request| engine.reply(request))
            .collect()
    })
}

fn reply(request: Request) -> Reply {
    replies(vec![request]).remove(0)
}

fn run(document: Document, test: &str) -> Run {
    let test = test.to_owned();
    match reply(Request::Run { document, test }) {
        Reply::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn graphs(document: Document) -> Result<Vec<Drawing>, String> {
    match reply(Request::Graphs { document }) {
        Reply::Graphs { graphs } => Ok(graphs),
        other => Err(error(other)),
    }
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error { text } => text,
        other => panic!("{other:?}"),
    }
}

/// A program that swaps no bytes: it sends each packet to port 1, after it has set the first byte.
const REFLECTOR: &str = "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> value) { hdr.h.value = value; }
    table values { key = { hdr.h.kind: exact; } actions = { set; NoAction; } default_action = NoAction(); }
    apply { values.apply(); sm.egress_spec = 1; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

fn reflector() -> Document {
    Document::of("/reflector.p4", REFLECTOR)
}

#[test]
fn every_example_with_a_test_passes_it_except_starters_of_labs() {
    let library = library();
    let examples = library.examples();
    let labs: Vec<&str> = examples
        .iter()
        .filter(|example| example.group == "Labs")
        .map(|example| example.name.as_str())
        .collect();
    for lab in ["bridge", "merge-acks", "minimum", "naks", "replicate"] {
        assert!(
            labs.contains(&format!("{lab}, solved").as_str()),
            "{labs:?}"
        );
    }
    let mut tested = 0;
    let requests = examples.iter().filter_map(|example| {
        let test = library.text(example.test.as_ref()?)?.to_owned();
        let text = library.text(&example.main)?;
        let document = Document::of(&example.main, text);
        let graphs = Request::Graphs {
            document: document.clone(),
        };
        Some((example, [Request::Run { document, test }, graphs]))
    });
    let (examples, requests): (Vec<_>, Vec<_>) = requests.unzip();
    let replies = replies(requests.into_iter().flatten().collect());
    for (example, replies) in examples.iter().zip(replies.chunks(2)) {
        let [Reply::Run(run), Reply::Graphs { graphs }] = replies else {
            panic!("{}: {replies:?}", example.main);
        };
        // The starter of "minimum" forwards packets correctly; its task is the accesses to registers.
        let is_starter =
            example.name.ends_with("to complete") && !example.name.starts_with("minimum");
        assert_eq!(
            run.failures.is_empty(),
            !is_starter,
            "{}: {:?}",
            example.main,
            run.failures
        );
        let sent: Vec<_> = run
            .executed
            .iter()
            .filter_map(|line| line.sent.as_ref())
            .collect();
        assert!(!sent.is_empty(), "{}", example.main);
        assert!(
            sent.iter().all(|sent| sent.trace.is_some()),
            "{}: each packet has a trace",
            example.main
        );
        for sent in sent {
            check_way(sent, graphs, &example.main);
        }
        tested += 1;
    }
    assert!(tested > 40, "{tested} examples");
}

/// Whether a graph has a node of the condition of a trace.
fn has_condition(graphs: &[Drawing], event: &serde_json::Value) -> bool {
    let source = &event["source"];
    let place = (source["line"].as_u64(), source["column"].as_u64());
    let mut nodes = graphs.iter().flat_map(|graph| &graph.nodes);
    nodes.any(|node| {
        let own = node.place.as_ref();
        let own = (own.map(|own| own.line), own.map(|own| own.column));
        node.kind == "condition" && own == place
    })
}

/// Checks that the way of a packet is connected, begins at the first node of a block, and has all conditions, tables and states of the
/// trace.
fn check_way(sent: &Sent, graphs: &[Drawing], name: &str) {
    for (at, visit) in sent.way.iter().enumerate() {
        let Some(edge) = visit.edge else { continue };
        let edge = &graphs[visit.graph].edges[edge];
        let before = &sent.way[at - 1];
        assert_eq!(
            (before.copy, before.graph, before.node, visit.node),
            (visit.copy, visit.graph, edge.from, edge.to),
            "{name}: {visit:?}"
        );
    }
    let mut copies = vec![sent.trace.as_ref().unwrap()];
    while let Some(copy) = copies.pop() {
        copies.extend(&copy.copies);
        for (step, event) in copy.steps.iter().enumerate() {
            let event = serde_json::to_value(event).unwrap();
            let kind = event["event"].as_str().unwrap();
            let here = sent.way.iter();
            let here: Vec<_> = here
                .filter(|visit| (visit.copy, visit.step) == (copy.copy, step))
                .collect();
            let node = |last: &alfirk_play::Visit| &graphs[last.graph].nodes[last.node];
            match kind {
                // An action is one node, also with conditions.
                "condition" if !has_condition(graphs, &event) => {}
                "condition" | "table" => {
                    let node = node(
                        here.iter()
                            .find(|visit| node(visit).kind == kind)
                            .unwrap_or_else(|| panic!("{name}: {event}")),
                    );
                    let line = node.place.as_ref().map(|place| place.line);
                    assert_eq!(event["source"]["line"].as_u64(), line, "{name}: {event}");
                }
                "parsed" => {
                    let states = event["states"].as_array().unwrap();
                    for (number, state) in states.iter().enumerate() {
                        let visit = here.iter().find(|visit| visit.state == Some(number));
                        let visit = visit.unwrap_or_else(|| panic!("{name}: {event}"));
                        assert_eq!(&node(visit).title, state, "{name}: {event}");
                    }
                }
                "block" => panic!("{name}: {event}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_packet_has_its_way_its_bytes_and_its_changes() {
    let test =
        "add values kind:1 set(value:7)\npacket 3 0102ff\nexpect 1 0107ff $\npacket 3 0202\nexpect 1 0202 $\n";
    let run = run(reflector(), test);
    assert_eq!(run.failures, []);
    let [hit, miss] = &run.executed[..] else {
        panic!("{:?}", run.executed);
    };
    let Executed {
        line: 2,
        sent: Some(sent),
        ..
    } = hit
    else {
        panic!("{hit:?}");
    };
    assert_eq!((sent.port, sent.frame.data.as_str()), (3, "0102ff"));
    let names: Vec<&str> = sent
        .frame
        .layers
        .iter()
        .map(|layer| layer.name.as_str())
        .collect();
    assert_eq!(names, ["h", "Raw"]);
    let value = &sent.frame.layers[0].fields[1];
    assert_eq!((value.offset, value.width), (8, 8));
    let [output] = &sent.outputs[..] else {
        panic!("{:?}", sent.outputs);
    };
    assert_eq!((output.port, output.frame.data.as_str()), (1, "0107ff"));
    assert_eq!(output.changes.len(), 1);
    assert_eq!(output.changes[0].0, "h.value");
    let trace = serde_json::to_value(&sent.trace).unwrap();
    let steps = trace["steps"].as_array().unwrap();
    let table = steps.iter().find(|step| step["event"] == "table").unwrap();
    assert_eq!(
        (&table["hit"], &table["source"]["line"]),
        (&true.into(), &12.into())
    );
    assert_eq!(run.states["start"].line, 7);
    let graphs = graphs(reflector()).unwrap();
    let way: Vec<String> = sent
        .way
        .iter()
        .map(|visit| {
            let graph = &graphs[visit.graph];
            let node = &graph.nodes[visit.node];
            let action = visit
                .action
                .map(|own| node.lines.iter().find(|line| line.action == Some(own)));
            let action = action.flatten().map_or("", |line| &line.text);
            format!("{} {} {action}", graph.name, node.title)
        })
        .collect();
    assert_eq!(
        way,
        [
            "parser start ",
            "parser accept ",
            "ingress I.values set",
            "ingress sm.egress_spec = 1 ",
            "ingress end ",
            "egress end ",
        ]
    );
    let missed = miss.sent.as_ref().unwrap();
    assert_eq!(missed.outputs[0].changes, []);
}

#[test]
fn packets_that_no_line_expects_are_only_shown() {
    let shown = run(reflector(), "packet 1 0102\n");
    assert_eq!((shown.failures.len(), shown.has_checks), (0, false));
    let checked = run(reflector(), "packet 1 0102\nno_packet\n");
    assert_eq!((checked.failures.len(), checked.has_checks), (1, true));
}

#[test]
fn failed_checks_and_commands_name_their_lines() {
    let run = run(
        reflector(),
        "add nothing kind:1 set(value:7)\npacket 0 0102\nexpect 1 0103 $\n",
    );
    let lines: Vec<_> = run.failures.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [Some(1), Some(3)]);
    assert!(run.executed[0].error.as_ref().unwrap().contains("nothing"));
}

#[test]
fn runs_of_one_engine_are_independent() {
    let text = REFLECTOR.replace("hdr.h.value = value", "hdr.h.value = value + 1");
    let other = Document::of("/reflector.p4", &text);
    let with_entry = "add values kind:1 set(value:7)\npacket 3 0102\n".to_owned();
    let request = |document: &Document, test: &str| Request::Run {
        document: document.clone(),
        test: test.to_owned(),
    };
    let all = replies(vec![
        request(&reflector(), &with_entry),
        request(&other, &with_entry),
        request(&reflector(), "packet 3 0102\n"),
        request(&reflector(), &with_entry),
    ]);
    let left: Vec<String> = all
        .into_iter()
        .map(|reply| match reply {
            Reply::Run(run) => run.executed[0].sent.as_ref().unwrap().outputs[0]
                .frame
                .data
                .clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(left, ["0107", "0108", "0102", "0107"]);
}

#[test]
fn the_language_server_diagnoses_completes_describes_and_formats() {
    let broken = REFLECTOR.replace("= value;", "= valu;");
    let document = Document::of("/a program.p4", &broken);
    let file = document.main.clone();
    let line = broken
        .lines()
        .position(|line| line.contains("valu;"))
        .unwrap();
    let column = broken.lines().nth(line).unwrap().find("valu;").unwrap();
    let at =
        |column: usize| serde_json::json!({ "position": { "line": line, "character": column } });
    let ask = |method: &str, parameters: serde_json::Value| Request::Language {
        document: document.clone(),
        method: method.to_owned(),
        file: file.clone(),
        parameters,
    };
    let all = replies(vec![
        Request::Check {
            document: document.clone(),
        },
        // Unchanged: the diagnostics are the same.
        Request::Check {
            document: document.clone(),
        },
        ask("completion", at(column + 4)),
        ask(
            "hover",
            at(broken.lines().nth(line).unwrap().find("h.value").unwrap() + 3),
        ),
        ask(
            "formatting",
            serde_json::json!({ "options": { "tabSize": 4, "insertSpaces": true } }),
        ),
        ask("rename", at(column)),
    ]);
    for reply in &all[..2] {
        let Reply::Diagnostics { files } = reply else {
            panic!("{reply:?}");
        };
        let found = files[&file].as_array().unwrap();
        assert_eq!(found.len(), 1, "{files}");
        assert_eq!(found[0]["range"]["start"]["line"], line);
        assert_eq!(found[0]["range"]["start"]["character"], column);
    }
    let result = |at: usize| match &all[at] {
        Reply::Language { result } => result.clone(),
        other => panic!("{other:?}"),
    };
    let labels: Vec<_> = result(2)
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["label"].clone())
        .collect();
    assert!(labels.contains(&"value".into()), "{labels:?}");
    assert!(result(3)["contents"]["value"]
        .as_str()
        .unwrap()
        .contains("bit<8> value"));
    assert!(result(4)[0]["newText"]
        .as_str()
        .unwrap()
        .contains("\n    state start {\n"));
    assert!(matches!(&all[5], Reply::Error { text } if text.contains("rename")));
}

#[test]
fn forms_have_tables_and_layers() {
    let Reply::Interface { tables, layers, .. } = reply(Request::Interface {
        document: reflector(),
    }) else {
        panic!("no interface");
    };
    let [table] = &tables[..] else {
        panic!("{tables:?}");
    };
    assert_eq!(
        (table.keys[0].kind, table.keys[0].bits, table.has_priority),
        ("exact", 8, false)
    );
    assert_eq!(table.actions[0].parameters[0].name, "value");
    let own: Vec<_> = layers
        .iter()
        .filter(|layer| layer.is_of_program)
        .map(|layer| layer.name.as_str())
        .collect();
    assert_eq!(own, ["h"]);
    assert!(layers.iter().any(|layer| layer.name == "IP"));
}

#[test]
fn packets_are_built_from_layers_and_read_from_captures() {
    let build = |expression: &str| Request::Build {
        document: reflector(),
        expression: expression.to_owned(),
    };
    let Reply::Frame { frame } = reply(build("h(kind=1, value=2)/Raw(\"a\")")) else {
        panic!("no frame");
    };
    assert_eq!(frame.data, "010261");
    let text = error(reply(build("h(kind=256)")));
    assert!(text.contains("256") && !text.contains('\n'), "{text}");
    // A capture with one frame of two bytes: the header of the file, that of the frame, and the frame.
    let capture = "d4c3b2a1020004000000000000000000ffff000001000000\
                   000000000000000002000000020000000102";
    let Reply::Frames { frames } = reply(Request::Capture {
        data: capture.to_owned(),
    }) else {
        panic!("no frames");
    };
    assert_eq!(frames, ["0102"]);
    for damaged in ["", "00", "d4c3b2a1", &capture[..capture.len() - 2]] {
        let text = error(reply(Request::Capture {
            data: damaged.to_owned(),
        }));
        assert!(!text.contains('\n'), "{text}");
    }
}

#[test]
fn files_of_the_machine_are_not_reachable() {
    for path in [
        "/etc/passwd",
        "../../../etc/hostname",
        "/proc/self/environ",
        "../Cargo.toml",
        "/dev/zero",
    ] {
        let document = Document::of("/a.p4", &format!("#include \"{path}\"\n{REFLECTOR}"));
        let reply = reply(Request::Run {
            document,
            test: String::new(),
        });
        let Reply::Faulty { messages } = reply else {
            panic!("{path}: {reply:?}");
        };
        assert!(messages[0].text.contains(path), "{messages:?}");
    }
    let document = Document {
        main: "/etc/passwd".to_owned(),
        ..Document::default()
    };
    let reply = reply(Request::Run {
        document,
        test: String::new(),
    });
    assert!(
        matches!(&reply, Reply::Faulty { messages } if messages[0].text.contains("/etc/passwd")),
        "{reply:?}"
    );
}

#[test]
fn limits_are_stated_in_one_line() {
    let large = Document::of("/a.p4", &" ".repeat(10 << 20));
    let many = Document {
        main: "/a.p4".to_owned(),
        files: (0..=limits::FILES)
            .map(|number| (format!("/{number}.p4"), String::new()))
            .collect(),
    };
    let relative = Document::of("a.p4", "");
    let texts: Vec<String> = replies(vec![
        Request::Check { document: large },
        Request::Interface { document: many },
        Request::Check { document: relative },
        Request::Run {
            document: reflector(),
            test: "packet 0 0102\n".repeat(limits::PACKETS + 1),
        },
        Request::Run {
            document: reflector(),
            test: "#".repeat(limits::TEST_BYTES + 1),
        },
        Request::Run {
            document: reflector(),
            test: "pocket 0 0102\n".to_owned(),
        },
        Request::Capture {
            data: "00".repeat(limits::CAPTURE_BYTES + 1),
        },
    ])
    .into_iter()
    .map(error)
    .collect();
    for (text, part) in texts.iter().zip([
        "10240 KiB",
        "65 files",
        "`a.p4`",
        "501 packets",
        "the test has",
        "line 1",
        "the capture has",
    ]) {
        assert!(text.contains(part) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn endless_recirculation_ends_with_one_line() {
    let endless = REFLECTOR.replace(
        "inout standard_metadata_t sm) { apply { } }",
        "inout standard_metadata_t sm) { apply { recirculate_preserving_field_list(0); } }",
    );
    assert_ne!(endless, REFLECTOR);
    let run = run(Document::of("/a.p4", &endless), "packet 0 0102\n");
    assert_eq!(run.failures.len(), 1);
    assert!(run.failures[0].1.contains("endless"), "{:?}", run.failures);
}

#[test]
fn deep_nesting_ends_with_a_diagnostic() {
    let deep = format!(
        "const bit<8> A = {}1{};\n",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let reply = reply(Request::Run {
        document: Document::of("/a.p4", &deep),
        test: String::new(),
    });
    let Reply::Faulty { messages } = reply else {
        panic!("{reply:?}");
    };
    assert!(!messages.is_empty());
}
