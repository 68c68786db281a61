//! Measures compile speed in lines per second, and peak memory. The inputs are the data plane, and generated programs of growing size,
//! whose cost must grow linearly.
//!
//! `cargo bench -p alfirk-compiler`

use std::fmt::Write;
use std::path::{Path, PathBuf};

use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::ide::{complete, Analysis};
use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::{MemoryLoader, SourceLoader};
use divan::counter::ItemsCount;
use divan::Bencher;

fn main() {
    divan::main();
    println!("at most {} MiB", peak_mib());
}

/// Peak memory of this process in MiB; 0 if the system does not report it.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

/// The data plane for v1model, and its number of lines.
fn data_plane() -> (MemoryLoader, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src");
    let (mut loader, mut lines) = (MemoryLoader::default(), 0);
    let mut folders = ["shared", "v1model"].map(PathBuf::from).to_vec();
    while let Some(part) = folders.pop() {
        let entries = std::fs::read_dir(folder.join(&part)).expect("it is in the repository");
        for entry in entries {
            let path = entry.expect("the folder can be read").path();
            let name = part.join(path.file_name().expect("files have names"));
            if path.is_dir() {
                folders.push(name);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("the file can be read");
            lines += text.lines().count();
            loader.add(name, text);
        }
    }
    (loader, lines)
}

const DATA_PLANE: &str = "v1model/main.p4";

#[divan::bench]
fn p4src(bencher: Bencher<'_, '_>) {
    let (loader, lines) = data_plane();
    run(bencher, DATA_PLANE, &loader, lines);
}

/// The analysis after each change of the text in an editor.
#[divan::bench]
fn p4src_for_an_editor(bencher: Bencher<'_, '_>) {
    let (loader, lines) = data_plane();
    bencher.counter(ItemsCount::new(lines)).bench(|| {
        on_deep_stack(|| {
            let options = CompileOptions::new(DATA_PLANE);
            let analysis = Analysis::of(options, &loader).expect("it is there");
            analysis.diagnostics.len()
        })
    });
}

/// Completion after a `.`.
#[divan::bench]
fn p4src_completed(bencher: Bencher<'_, '_>) {
    let (loader, _) = data_plane();
    let file = Path::new("v1model/ack_aggregate.p4");
    let text = loader.load(file).expect("it is there");
    let offset = text.find("meta.").expect("it names metadata") + "meta.".len();
    bencher.bench(|| {
        on_deep_stack(|| {
            let options = CompileOptions::new(DATA_PLANE);
            let found = complete(&options, &loader, file, offset).expect("it is there");
            assert!(found.len() > 10);
            found.len()
        })
    });
}

/// Programs with this number of tables, each with an action and an application: 12 lines per table.
#[divan::bench(args = [100, 400, 1_600])]
fn tables(bencher: Bencher<'_, '_>, tables: usize) {
    let text = generated(tables);
    let lines = text.lines().count();
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", text);
    run(bencher, "test.p4", &loader, lines);
}

/// The formatter, on the same programs.
#[divan::bench(args = [100, 833])]
fn format(bencher: Bencher<'_, '_>, tables: usize) {
    let text = generated(tables);
    let lines = text.lines().count();
    bencher
        .counter(ItemsCount::new(lines))
        .bench(|| alfirk_compiler::format::format(&text));
}

fn run(bencher: Bencher<'_, '_>, main: &str, loader: &(dyn SourceLoader + Sync), lines: usize) {
    let options = CompileOptions::new(main);
    bencher.counter(ItemsCount::new(lines)).bench(|| {
        compile_with(&options, loader)
            .map(drop)
            .expect("it compiles")
    });
}

fn generated(tables: usize) -> String {
    let mut text = "#include <core.p4>
#include <v1model.p4>
header data_t { bit<8> a; bit<8> b; bit<16> c; bit<32> d; }
struct headers_t { data_t data; }
struct metadata_t { bit<32> sum; }
parser P(packet_in p, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { p.extract(hdr.data); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
"
    .to_owned();
    for index in 0..tables {
        write!(
            text,
            "    action set_{index}(bit<32> value) {{
        hdr.data.d = value + {index};
        meta.sum = meta.sum ^ hdr.data.d;
    }}
    table table_{index} {{
        key = {{ hdr.data.a: exact; hdr.data.c: ternary; }}
        actions = {{ set_{index}; NoAction; }}
        default_action = NoAction();
    }}
"
        )
        .expect("a String takes everything");
    }
    text += "    apply {\n";
    for index in 0..tables {
        let value = index % 256;
        write!(
            text,
            "        if (hdr.data.b == {value}) {{
            table_{index}.apply();
        }}
"
        )
        .expect("a String takes everything");
    }
    text += "    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";
    text
}
