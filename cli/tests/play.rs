//! `alfirk play` over a real socket: sessions are isolated, hostile programs end in one line and affect no other session.
//! The page in a browser is tested in `play/tests`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// Header of requests of the page.
const JSON: &str = "Content-Type: application/json\r\n";

/// A server of the playground, ended when dropped.
struct Playground {
    process: Child,
    address: String,
}

impl Playground {
    fn start(arguments: &[&str]) -> Playground {
        let mut process = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .arg("play")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let (_, address) = line.split_once("http://").expect("the address is printed");
        let address = address.split('/').next().unwrap().to_owned();
        Playground { process, address }
    }

    /// Status and body of the response to a request.
    fn send(&self, request: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The server may refuse the request before it has read the body.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        // Bodies of these responses have a length, so they are not in chunks.
        (status.unwrap_or(0), body.to_owned())
    }

    fn session(&self) -> String {
        let (status, body) = self.send("POST /api/sessions", JSON, b"");
        assert_eq!(status, 200, "{body}");
        let opened: Value = serde_json::from_str(&body).unwrap();
        opened["session"].as_str().unwrap().to_owned()
    }

    fn execute(&self, session: &str, request: &Value) -> Value {
        let (status, body) = self.send(
            &format!("POST /api/sessions/{session}"),
            JSON,
            request.to_string().as_bytes(),
        );
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A program that adds `added` to the only byte of each packet, and sends it to port 1. `more` is in its ingress.
fn program(added: u8, more: &str) -> String {
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> value; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    apply {{ hdr.h.value = hdr.h.value + {added}; sm.egress_spec = 1; {more} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

fn run_of(text: &str) -> Value {
    let document = json!({ "main": "/a.p4", "files": { "/a.p4": text } });
    json!({ "do": "run", "document": document, "test": "packet 0 05\n" })
}

/// The byte of the only packet that leaves.
fn left(reply: &Value) -> &str {
    let data = &reply["executed"][0]["sent"]["outputs"][0]["frame"]["data"];
    data.as_str().unwrap_or_else(|| panic!("{reply}"))
}

/// The error of a reply, which is one line.
fn error(reply: &Value) -> String {
    assert_eq!(reply["is"], "error", "{reply}");
    let text = reply["text"].as_str().unwrap().to_owned();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn sessions_have_programs_of_their_own() {
    let server = Playground::start(&[]);
    let (one, two) = (server.session(), server.session());
    assert_ne!(one, two);
    assert_eq!(left(&server.execute(&one, &run_of(&program(1, "")))), "06");
    assert_eq!(left(&server.execute(&two, &run_of(&program(2, "")))), "07");
    let saved = |session: &str| server.send(&format!("GET /api/sessions/{session}"), "", b"");
    assert!(saved(&one).1.contains("hdr.h.value + 1"));
    assert!(saved(&two).1.contains("hdr.h.value + 2"));
    for unknown in ["0", "", &"0".repeat(32), "../../etc/passwd"] {
        assert_eq!(saved(unknown).0, 404, "{unknown}");
    }
}

#[test]
fn only_files_of_the_library_are_served() {
    let server = Playground::start(&[]);
    let get = |path: &str| server.send(&format!("GET {path}"), "", b"");
    assert!(get("/api/text?path=/labs/shared/lab.p4")
        .1
        .contains("LabParser"));
    assert!(get("/api/text?path=%3Cp4include%3E/core.p4")
        .1
        .contains("packet_in"));
    for path in [
        "/api/text?path=/etc/passwd",
        "/api/text?path=/labs/../Cargo.toml",
        "/api/text?path=/labs/replicate/check.py",
        "/../Cargo.toml",
        "/page/main.js",
    ] {
        assert_eq!(get(path).0, 404, "{path}");
    }
    let (status, page) = get("/");
    assert_eq!(status, 200);
    assert!(!page.contains("NONCE") && !page.contains("http"), "{page}");
}

#[test]
fn solutions_of_labs_can_be_left_out() {
    let solution = "/labs/replicate/solution.p4";
    let including = format!("#include \"{solution}\"\n");
    for (arguments, is_there) in [(&[][..], true), (&["--without-solutions"][..], false)] {
        let server = Playground::start(arguments);
        let (status, _) = server.send(&format!("GET /api/text?path={solution}"), "", b"");
        assert_eq!(status == 200, is_there);
        let (_, examples) = server.send("GET /api/examples", "", b"");
        assert_eq!(examples.contains("replicate, solved"), is_there);
        assert!(examples.contains("replicate, to complete"));
        let reply = server.execute(&server.session(), &run_of(&including));
        assert_eq!(reply["is"] == "run", is_there, "{reply}");
    }
}

#[test]
fn invalid_requests_are_refused() {
    let server = Playground::start(&[]);
    let session = format!("POST /api/sessions/{}", server.session());
    let request = run_of(&program(1, "")).to_string();
    assert_eq!(server.send("POST /api/sessions", "", b"").0, 415);
    assert_eq!(server.send(&session, "", request.as_bytes()).0, 415);
    let form = "Content-Type: text/plain\r\n";
    assert_eq!(server.send(&session, form, request.as_bytes()).0, 415);
    for body in [
        "",
        "{",
        "[]",
        "{\"do\":\"delete\"}",
        "{\"do\":\"run\"}",
        "\u{0}",
    ] {
        let (status, text) = server.send(&session, JSON, body.as_bytes());
        assert_eq!(status, 400, "{body}: {text}");
        error(&serde_json::from_str(&text).unwrap());
    }
    let deep = "[".repeat(1 << 20);
    assert_eq!(server.send(&session, JSON, deep.as_bytes()).0, 400);
    let large = vec![b' '; 10 << 20];
    assert_eq!(server.send(&session, JSON, &large).0, 413);
    let unknown = format!("POST /api/sessions/{}", "0".repeat(32));
    assert_eq!(server.send(&unknown, JSON, request.as_bytes()).0, 404);
}

#[test]
fn hostile_programs_end_in_one_line_and_affect_no_other_session() {
    let server = Playground::start(&[]);
    // Each level of macros doubles the text of the one below.
    let mut expanding = String::from("#define M0 + 1\n");
    for level in 1..40 {
        expanding += &format!("#define M{level} M{0} M{0}\n", level - 1);
    }
    expanding += &program(1, "hdr.h.value = 1 M39;");
    // Each control calls the next twice; elaboration inlines all calls.
    let mut calling = String::from("control C0(inout bit<8> a) { apply { a = a + 1; } }\n");
    for level in 1..40 {
        let below = level - 1;
        calling += &format!("control C{level}(inout bit<8> a) {{ C{below}() x; C{below}() y; apply {{ x.apply(a); y.apply(a); }} }}\n");
    }
    let body = program(1, "c.apply(hdr.h.value);").replacen("    apply", "    C39() c; apply", 2);
    let calling = body.replacen("header h_t", &format!("{calling}header h_t"), 1);
    let huge = "bit<8> a;\n".repeat(100_000);
    let deep = program(
        1,
        &format!(
            "hdr.h.value = {}1{};",
            "(".repeat(60_000),
            ")".repeat(60_000)
        ),
    );
    let good = server.session();
    std::thread::scope(|scope| {
        let hostile = [&expanding, &calling, &huge, &deep].map(|text| {
            let server = &server;
            scope.spawn(move || {
                let session = server.session();
                let reply = server.execute(&session, &run_of(text));
                // The session is usable afterwards.
                assert_eq!(
                    left(&server.execute(&session, &run_of(&program(3, "")))),
                    "08"
                );
                reply
            })
        });
        // Meanwhile, and with as many slow programs as there are processes, the other session gets its results.
        assert_eq!(left(&server.execute(&good, &run_of(&program(1, "")))), "06");
        for thread in hostile {
            let reply = thread.join().unwrap();
            match reply["is"].as_str() {
                Some("error") => drop(error(&reply)),
                Some("faulty") => assert!(!reply["messages"].as_array().unwrap().is_empty()),
                _ => panic!("{reply}"),
            }
        }
    });
    assert_eq!(left(&server.execute(&good, &run_of(&program(1, "")))), "06");
}

#[test]
fn a_client_that_disconnects_leaves_the_server_usable() {
    let server = Playground::start(&[]);
    let session = server.session();
    let body = run_of(&program(1, "")).to_string();
    for part in [0, 1, body.len() / 2, body.len()] {
        let mut stream = TcpStream::connect(&server.address).unwrap();
        let head = format!(
            "POST /api/sessions/{session} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body.as_bytes()[..part]).unwrap();
    }
    assert_eq!(
        left(&server.execute(&session, &run_of(&program(2, "")))),
        "07"
    );
}

#[test]
fn thirty_sessions_at_once_get_their_own_results() {
    let server = Playground::start(&[]);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let students: Vec<_> = (0..30_u8)
            .map(|number| {
                let server = &server;
                scope.spawn(move || {
                    let session = server.session();
                    for round in 0..3 {
                        let added = number * 3 + round;
                        let reply = server.execute(&session, &run_of(&program(added, "")));
                        assert_eq!(left(&reply), format!("{:02x}", 5 + added));
                        let check = json!({ "do": "check", "document": run_of(&program(added, "x"))["document"] });
                        let reply = server.execute(&session, &check);
                        assert_eq!(reply["is"], "diagnostics", "{reply}");
                    }
                })
            })
            .collect();
        for student in students {
            student.join().unwrap();
        }
    });
    assert!(
        start.elapsed() < Duration::from_secs(120),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_program_is_opened_with_the_files_that_it_includes_and_its_test() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("include")).unwrap();
    std::fs::write(path("include/added.p4"), "const bit<8> ADDED = 4;\n").unwrap();
    let text = program(0, "hdr.h.value = hdr.h.value + ADDED;");
    let text = text.replacen("header h_t", "#include \"include/added.p4\"\nheader h_t", 1);
    std::fs::write(path("a.p4"), text).unwrap();
    std::fs::write(path("a.stf"), "packet 0 05\nexpect 1 09 $\n").unwrap();
    let server = Playground::start(&[path("a.p4").to_str().unwrap()]);
    let (_, body) = server.send("POST /api/sessions", JSON, b"");
    let opened: Value = serde_json::from_str(&body).unwrap();
    let (document, test) = (&opened["start"]["document"], &opened["start"]["test"]);
    assert_eq!(document["main"], "/a.p4");
    let request = json!({ "do": "run", "document": document, "test": test });
    let reply = server.execute(opened["session"].as_str().unwrap(), &request);
    assert_eq!(left(&reply), "09");
    assert_eq!(reply["failures"], json!([]));
}

#[test]
fn a_missing_program_and_a_used_port_are_one_line() {
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_alfirk"))
            .arg("play")
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(
            text.contains(part) && text.trim_end().lines().count() == 1,
            "{text}"
        );
    };
    refused(&["missing.p4"], 2, "missing.p4");
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = used.local_addr().unwrap().to_string();
    refused(&["--listen", &address], 1, &address);
}

/// Requests a run of a fabric: a message of 8 KiB to all hosts of the smallest topology.
fn fabric_of(document: &Value, loss: f64, switch: usize) -> Value {
    let spec = json!({
        "topology": "/topologies/testbed.yaml", "group": 4, "bytes": 8192, "loss": loss, "seed": 1
    });
    json!({ "do": "fabric", "document": document, "spec": spec, "switch": switch })
}

#[test]
fn a_fabric_runs_the_program_and_each_switch_has_its_packets() {
    let server = Playground::start(&[]);
    let session = server.session();
    let listed = server.execute(&session, &json!({ "do": "topologies" }));
    let paths = listed["paths"].as_array().unwrap();
    assert!(
        paths.contains(&json!("/topologies/testbed.yaml")),
        "{listed}"
    );
    let data_plane = json!({ "main": "/p4src/v1model/main.p4", "files": {} });
    let reply = server.execute(&session, &fabric_of(&data_plane, 0.0, 0));
    assert_eq!(reply["is"], "fabric", "{reply}");
    let summary = reply["summary"].as_str().unwrap();
    assert!(summary.starts_with("3 of 3 receivers"), "{summary}");
    let packets = reply["run"]["executed"].as_array().unwrap();
    assert_eq!(reply["switches"][0]["packets"], packets.len());
    // Packets of data are replicated by a table's action, in the order of time.
    let group = |packet: &&Value| {
        let steps = packet["sent"]["trace"]["steps"].as_array().unwrap();
        let is_replicated = steps.iter().any(|step| step["event"] == "multicast");
        is_replicated && packet["sent"]["left"].as_array().unwrap().len() >= 3
    };
    let data: Vec<&Value> = packets.iter().filter(group).collect();
    assert_eq!(data.len(), 2, "{summary}: one for each 4 KiB");
    let way = data[0]["sent"]["way"].as_array().unwrap();
    assert!(way.iter().any(|visit| visit["action"].is_u64()), "{way:?}");
    // The same seed gives the same packets.
    let again = server.execute(&session, &fabric_of(&data_plane, 0.0, 0));
    assert_eq!(again, reply);
    // What cannot run is one line.
    error(&server.execute(&session, &fabric_of(&data_plane, 0.0, 9)));
    error(&server.execute(&session, &fabric_of(&data_plane, 0.9, 0)));
    let other = run_of(&program(1, ""))["document"].clone();
    let refused = error(&server.execute(&session, &fabric_of(&other, 0.0, 0)));
    assert!(refused.contains("p4src"), "{refused}");
}
