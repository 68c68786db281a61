//! Tests of whole sessions between an editor and the server, on files in a folder.

use std::fs;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use alfirk_lsp::{run, Error};
use lsp_server::{Connection, Message, Notification, Request, RequestId, Response};
use serde_json::{json, Value};

const MAIN: &str = r#"// ü 𝄞: what is behind it has other columns in bytes
#include <v1model.p4>
#include "parts/headers.p4"
#include "parts/ingress.p4"
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) { apply {} }
control C(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const HEADERS: &str =
    "header ethernet_t {\n    bit<48> dst;\n    bit<48> src;\n    bit<16> type;\n}\n\
                       struct headers_t { ethernet_t ethernet; }\nstruct meta_t { bit<9> port; }\n";

/// A file of the program that is not a program by itself.
const INGRESS: &str = "control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {\n    \
                       apply {\n        /* ü𝄞 */ hdr.ethernet.dst = hdr.ethernet.src;\n        standard.egress_spec = 1;\n    }\n}\n";

/// An editor with an open folder.
struct Editor {
    folder: tempfile::TempDir,
    connection: Connection,
    server: Option<JoinHandle<Result<(), Error>>>,
    last_id: i32,
    version: i32,
}

impl Editor {
    fn start(files: &[(&str, &str)], options: Value) -> Editor {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (connection, server) = Connection::memory();
        let mut editor = Editor {
            folder,
            connection,
            server: Some(std::thread::spawn(move || run(server))),
            last_id: 0,
            version: 0,
        };
        let root = editor.uri("");
        let params = json!({
            "processId": null, "capabilities": {}, "initializationOptions": options,
            "workspaceFolders": [{"uri": root.trim_end_matches('/'), "name": "p4"}],
        });
        let answer = editor.request("initialize", params).unwrap();
        assert_eq!(answer["serverInfo"]["name"], "alfirk");
        assert_eq!(answer["capabilities"]["hoverProvider"], true);
        editor.notify("initialized", json!({}));
        editor
    }

    fn uri(&self, name: &str) -> String {
        format!(
            "file://{}/{name}",
            self.folder.path().canonicalize().unwrap().display()
        )
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn notify(&mut self, method: &str, params: Value) {
        let message = Notification::new(method.to_owned(), params);
        self.connection.sender.send(message.into()).unwrap();
    }

    fn receive(&self) -> Message {
        let limit = Duration::from_secs(60);
        self.connection
            .receiver
            .recv_timeout(limit)
            .expect("the server answers")
    }

    /// Sends a request and returns the result, or the code and the message of the error.
    fn request(&mut self, method: &str, params: Value) -> Result<Value, (i32, String)> {
        self.last_id += 1;
        let id = RequestId::from(self.last_id);
        let request = Request::new(id.clone(), method.to_owned(), params);
        self.connection.sender.send(request.into()).unwrap();
        loop {
            if let Message::Response(response) = self.receive() {
                assert_eq!(response.id, id);
                let answer = serde_json::to_value(&response).unwrap();
                let Response { .. } = response;
                return match answer.get("error") {
                    Some(error) if !error.is_null() => {
                        let code = error["code"].as_i64().unwrap() as i32;
                        Err((code, error["message"].as_str().unwrap().to_owned()))
                    }
                    _ => Ok(answer["result"].clone()),
                };
            }
        }
    }

    fn open(&mut self, name: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let document =
            json!({"uri": self.uri(name), "languageId": "p4", "version": 0, "text": text});
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces a range of the text, or the whole text.
    fn change(&mut self, name: &str, range: Option<Value>, text: &str) {
        self.version += 1;
        let document = json!({"uri": self.uri(name), "version": self.version});
        let change = match range {
            Some(range) => json!({"range": range, "text": text}),
            None => json!({ "text": text }),
        };
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": [change]}),
        );
    }

    /// Waits for the next diagnostics of a file.
    fn diagnostics(&mut self, name: &str) -> Vec<Value> {
        let uri = self.uri(name);
        loop {
            if let Message::Notification(note) = self.receive() {
                if note.method == "textDocument/publishDiagnostics" && note.params["uri"] == uri {
                    return note.params["diagnostics"].as_array().unwrap().clone();
                }
            }
        }
    }

    fn at(&self, name: &str, line: u32, character: u32) -> Value {
        json!({"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}})
    }

    fn end(mut self) {
        self.request("shutdown", Value::Null).unwrap();
        self.notify("exit", Value::Null);
        self.server.take().unwrap().join().unwrap().unwrap();
    }
}

fn program() -> [(&'static str, &'static str); 3] {
    [
        ("main.p4", MAIN),
        ("parts/headers.p4", HEADERS),
        ("parts/ingress.p4", INGRESS),
    ]
}

fn range(line: u32, from: u32, to: u32) -> Value {
    json!({"start": {"line": line, "character": from}, "end": {"line": line, "character": to}})
}

/// Applies text edits of a reply to a text.
fn edited(text: &str, edits: &Value) -> String {
    let mut lines: Vec<Vec<u16>> = text
        .split('\n')
        .map(|line| line.encode_utf16().collect())
        .collect();
    let mut edits: Vec<&Value> = edits.as_array().unwrap().iter().collect();
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    edits.sort_by_key(|e| {
        (
            number(&e["range"]["start"]["line"]),
            number(&e["range"]["start"]["character"]),
        )
    });
    for edit in edits.into_iter().rev() {
        let (start, end) = (&edit["range"]["start"], &edit["range"]["end"]);
        let (first, last) = (number(&start["line"]), number(&end["line"]));
        let before = lines[first][..number(&start["character"])].to_vec();
        let after = lines[last][number(&end["character"])..].to_vec();
        let new: Vec<u16> = edit["newText"].as_str().unwrap().encode_utf16().collect();
        lines.splice(first..=last, [[before, new, after].concat()]);
    }
    let lines: Vec<String> = lines
        .iter()
        .map(|line| String::from_utf16(line).unwrap())
        .collect();
    lines.join("\n")
}

#[test]
fn session_covers_diagnostics_fixes_navigation_and_formatting() {
    let mut editor = Editor::start(&program(), Value::Null);
    let ingress = "parts/ingress.p4";
    editor.open(ingress);
    // The file is checked as part of the program that includes it and has no errors, so no diagnostics are sent.
    // `src` on line 2 becomes `srk`. The text before it contains a character of two UTF-16 units.
    editor.change(ingress, Some(range(2, 50, 53)), "srk");
    let wrong = editor.diagnostics(ingress);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0]["range"], range(2, 50, 53));
    assert_eq!(wrong[0]["severity"], 1);
    let message = wrong[0]["message"].as_str().unwrap();
    assert!(
        message.contains("has no field `srk`") && message.contains("did you mean `src`?"),
        "{message}"
    );
    assert!(wrong[0]["relatedInformation"][0]["location"]["uri"]
        .as_str()
        .unwrap()
        .ends_with("headers.p4"));
    assert_eq!(wrong[0]["code"], "E0303");
    let page = wrong[0]["codeDescription"]["href"].as_str().unwrap();
    let page = fs::read_to_string(page.strip_prefix("file://").unwrap()).unwrap();
    assert!(page.starts_with("# E0303: "), "{page}");

    let document = json!({"uri": editor.uri(ingress)});
    let params = json!({"textDocument": document, "range": range(2, 51, 51), "context": {"diagnostics": wrong}});
    let actions = editor.request("textDocument/codeAction", params).unwrap();
    assert_eq!(actions[0]["title"], "Replace `srk` by `src`");
    let edits = &actions[0]["edit"]["changes"][editor.uri(ingress)];
    assert_eq!(
        edited(&INGRESS.replace("ethernet.src", "ethernet.srk"), edits),
        INGRESS
    );
    editor.change(ingress, None, INGRESS);
    assert!(editor.diagnostics(ingress).is_empty());

    let hover = editor
        .request("textDocument/hover", editor.at(ingress, 2, 51))
        .unwrap();
    let text = hover["contents"]["value"].as_str().unwrap();
    assert!(
        text.contains("bit<48> src") && text.contains("48 bits"),
        "{text}"
    );
    assert_eq!(hover["range"], range(2, 50, 53));

    let declared = editor
        .request("textDocument/definition", editor.at(ingress, 2, 51))
        .unwrap();
    assert_eq!(declared["uri"], editor.uri("parts/headers.p4"));
    assert_eq!(declared["range"], range(2, 12, 15));
    // Files built into the command are written to temporary files, so that editors can open them.
    let declared = editor
        .request("textDocument/definition", editor.at(ingress, 3, 20))
        .unwrap();
    let file = declared["uri"]
        .as_str()
        .unwrap()
        .strip_prefix("file://")
        .unwrap();
    assert!(fs::read_to_string(Path::new(file))
        .unwrap()
        .contains("egress_spec"));

    let mut params = editor.at("parts/headers.p4", 5, 32);
    params["context"] = json!({"includeDeclaration": true});
    let uses = editor
        .request("textDocument/references", params.clone())
        .unwrap();
    assert_eq!(uses.as_array().unwrap().len(), 4, "{uses}");
    params["context"]["includeDeclaration"] = json!(false);
    assert_eq!(
        editor
            .request("textDocument/references", params)
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let seen = editor
        .request("textDocument/documentHighlight", editor.at(ingress, 2, 21))
        .unwrap();
    assert_eq!(seen.as_array().unwrap().len(), 3);

    let can = editor
        .request("textDocument/prepareRename", editor.at(ingress, 2, 32))
        .unwrap();
    assert_eq!(can, range(2, 31, 34));
    let mut params = editor.at(ingress, 2, 32);
    params["newName"] = json!("receiver");
    let changes = editor
        .request("textDocument/rename", params.clone())
        .unwrap()["changes"]
        .clone();
    assert_eq!(
        edited(HEADERS, &changes[editor.uri("parts/headers.p4")]),
        HEADERS.replace("dst", "receiver")
    );
    assert_eq!(
        edited(INGRESS, &changes[editor.uri(ingress)]),
        INGRESS.replace("dst", "receiver")
    );
    params["newName"] = json!("9");
    assert!(editor
        .request("textDocument/rename", params)
        .unwrap_err()
        .1
        .contains("identifier"));
    let refused = editor
        .request("textDocument/prepareRename", editor.at(ingress, 3, 20))
        .unwrap_err();
    assert!(refused.1.contains("architecture"), "{refused:?}");

    let outline = editor.request(
        "textDocument/documentSymbol",
        json!({"textDocument": {"uri": editor.uri("parts/headers.p4")}}),
    );
    let outline = outline.unwrap();
    assert_eq!(outline[0]["name"], "ethernet_t");
    assert_eq!(outline[0]["children"][1]["name"], "src");

    // A half-typed line.
    let half = INGRESS.replace("standard.egress_spec = 1;", "standard.egr");
    editor.change(ingress, None, &half);
    let found = editor
        .request("textDocument/completion", editor.at(ingress, 3, 20))
        .unwrap();
    let labels: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["label"].as_str().unwrap())
        .collect();
    assert!(
        labels.contains(&"egress_spec") && labels.contains(&"ingress_port"),
        "{labels:?}"
    );
    assert!(!labels.contains(&"hdr"));

    let ragged = INGRESS.replace("        standard", "  standard");
    editor.change(ingress, None, &ragged);
    let params = json!({"textDocument": {"uri": editor.uri(ingress)}, "options": {"tabSize": 4, "insertSpaces": true}});
    let edits = editor
        .request("textDocument/formatting", params.clone())
        .unwrap();
    let formatted = edited(&ragged, &edits);
    assert_eq!(formatted, INGRESS);
    editor.change(ingress, None, &formatted);
    assert_eq!(
        editor.request("textDocument/formatting", params).unwrap(),
        json!([])
    );
    editor.end();
}

#[test]
fn diagnostics_are_cleared_with_the_last_open_file() {
    let broken = MAIN.replace("transition accept", "transition nowhere");
    let files = [
        ("main.p4", &*broken),
        ("parts/headers.p4", HEADERS),
        ("parts/ingress.p4", INGRESS),
    ];
    let mut editor = Editor::start(&files, Value::Null);
    editor.open("parts/headers.p4");
    assert_eq!(editor.diagnostics("main.p4").len(), 1);
    let document = json!({"uri": editor.uri("parts/headers.p4")});
    editor.notify("textDocument/didClose", json!({ "textDocument": document }));
    assert!(editor.diagnostics("main.p4").is_empty());
    editor.end();
}

#[test]
fn file_without_includer_is_checked_by_itself() {
    let part = "#include <core.p4>\nheader h_t { bit<8> a; }\nconst bit<8> wrong = h;\n";
    let mut editor = Editor::start(&[("part.p4", part)], Value::Null);
    editor.open("part.p4");
    let wrong = editor.diagnostics("part.p4");
    assert_eq!(
        wrong.len(),
        1,
        "a part of a program needs no main: {wrong:?}"
    );
    editor.end();
}

#[test]
fn tofino_programs_are_detected_by_their_includes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut editor = Editor::start(&[], Value::Null);
    let file = root.join("p4src/tna/main.p4");
    let uri = format!("file://{}", file.display());
    let text = fs::read_to_string(&file).unwrap();
    let wrong = text.replace("drops.count(", "drops.counts(");
    let document = json!({"uri": uri, "languageId": "p4", "version": 0, "text": wrong});
    editor.notify("textDocument/didOpen", json!({ "textDocument": document }));
    let found = loop {
        if let Message::Notification(note) = editor.receive() {
            if note.params["uri"] == uri {
                break note.params["diagnostics"].clone();
            }
        }
    };
    let messages: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(
        messages.iter().all(|m| m.contains("`counts`")),
        "{messages:?}"
    );
    editor.end();
}

#[test]
fn invalid_messages_of_the_editor_are_reported() {
    let mut editor = Editor::start(&program(), json!({"mian": "main.p4"}));
    let Message::Notification(note) = editor.receive() else {
        panic!("invalid settings are reported first");
    };
    assert_eq!(note.method, "window/showMessage");
    assert!(note.params["message"].as_str().unwrap().contains("mian"));
    assert_eq!(
        editor.request("textDocument/moo", json!({})).unwrap_err().0,
        -32601
    );
    assert_eq!(
        editor
            .request("textDocument/hover", json!({"moo": 1}))
            .unwrap_err()
            .0,
        -32602
    );
    editor.notify("textDocument/didOpen", json!({"moo": 1}));
    editor.notify("moo", json!(null));
    // Missing files, URIs of other schemes, and positions outside the text.
    assert_eq!(
        editor.request("textDocument/hover", editor.at("nothing.p4", 0, 0)),
        Ok(Value::Null)
    );
    let untitled = json!({"textDocument": {"uri": "untitled:Untitled-1"}, "position": {"line": 0, "character": 0}});
    assert_eq!(
        editor.request("textDocument/definition", untitled),
        Ok(Value::Null)
    );
    assert_eq!(
        editor.request("textDocument/hover", editor.at("main.p4", 9999, 9999)),
        Ok(Value::Null)
    );
    editor.change("main.p4", None, "a file that was never opened");
    editor.end();
}

#[test]
fn codes_link_to_the_configured_book() {
    let options = json!({"book": "https://p4.example/book/"});
    let mut editor = Editor::start(&program(), options);
    let ingress = "parts/ingress.p4";
    editor.open(ingress);
    editor.change(ingress, Some(range(2, 50, 53)), "srk");
    let wrong = editor.diagnostics(ingress);
    assert_eq!(
        wrong[0]["codeDescription"]["href"],
        "https://p4.example/book/errors.html#e0303"
    );
    editor.end();
}

#[test]
fn settings_set_main_macros_and_folders() {
    let main = "#include <core.p4>\n#ifdef WIDE\n#include <more.p4>\n#endif\nconst bit<8> x = y;\n";
    let files = [
        ("sub/a.p4", main),
        ("include/more.p4", "const bit<8> y = 1;\n"),
    ];
    let options = json!({"main": "sub/a.p4", "includeDirs": ["include"], "defines": ["WIDE"]});
    let mut editor = Editor::start(&files, options);
    editor.open("include/more.p4");
    editor.change("include/more.p4", None, "const bit<8> z = 1;\n");
    let wrong = editor.diagnostics("sub/a.p4");
    assert!(wrong[0]["message"]
        .as_str()
        .unwrap()
        .contains("`y` is not declared"));
    editor.end();
}
