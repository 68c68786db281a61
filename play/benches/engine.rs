//! Speed of the engine: diagnostics after a keystroke, and a run of one packet.
//!
//! `tools/bench_packets.py` measures the same requests through the server.

use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use alfirk_compiler::on_deep_stack;
use alfirk_play::{Document, Engine, Library, Reply, Request};
use divan::Bencher;

/// Number of lines of the large program.
const LINES: usize = 3000;

fn main() {
    // The compiler recurses as deeply as a program is nested.
    on_deep_stack(divan::main);
}

/// A program of [`LINES`] lines, of which one adds a constant to a field.
fn large(added: usize) -> Document {
    let mut text = String::from(
        "#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
",
    );
    for line in 0..LINES {
        let value = if line == 0 { added } else { line } % 256;
        let _ = writeln!(text, "        hdr.h.value = hdr.h.value + {value};");
    }
    text += "        sm.egress_spec = 1;\n    }\n}\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n";
    Document::of("/large.p4", &text)
}

/// The data plane, with a comment that differs.
fn data_plane(library: &Library, number: usize) -> Document {
    let main = "/p4src/v1model/main.p4";
    let text = library.text(main).expect("it is in the library");
    Document::of(main, &format!("{text}// {number}\n"))
}

fn library() -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    let mut folders = vec![root.join("p4src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "p4") {
                let name = path.strip_prefix(&root).expect("it is in the folder");
                let text = fs::read_to_string(&path).expect("the file is text");
                files.push((name.display().to_string(), text));
            }
        }
    }
    Library::new(files)
}

/// Measures requests of one engine, each with another number.
fn measure(bencher: Bencher<'_, '_>, request: impl Fn(usize) -> Request) {
    let engine = RefCell::new((Engine::new(library()), 0));
    bencher.bench_local(|| {
        let (engine, number) = &mut *engine.borrow_mut();
        *number += 1;
        let reply = engine.reply(&request(*number));
        assert!(!matches!(reply, Reply::Error { .. } | Reply::Faulty { .. }));
    });
}

/// Diagnostics of the large program after a change.
#[divan::bench(sample_count = 20)]
fn check_large(bencher: Bencher<'_, '_>) {
    measure(bencher, |number| Request::Check {
        document: large(number),
    });
}

/// Diagnostics of the data plane after a change.
#[divan::bench(sample_count = 20)]
fn check_data_plane(bencher: Bencher<'_, '_>) {
    let library = library();
    measure(bencher, |number| Request::Check {
        document: data_plane(&library, number),
    });
}

/// A packet through the data plane, which is compiled already.
#[divan::bench(sample_count = 50)]
fn packet(bencher: Bencher<'_, '_>) {
    let library = library();
    let document = data_plane(&library, 0);
    measure(bencher, |number| Request::Run {
        document: document.clone(),
        test: format!("packet 1 02a1f14c0001020000000001080045{number:04x}\n"),
    });
}

/// A packet through the data plane after a change of the program.
#[divan::bench(sample_count = 10)]
fn changed_program_and_packet(bencher: Bencher<'_, '_>) {
    let library = library();
    measure(bencher, |number| Request::Run {
        document: data_plane(&library, number),
        test: "packet 1 02a1f14c00010200000000010800450000\n".to_owned(),
    });
}
