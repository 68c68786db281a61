//! Fuzzing: random changes of the texts of programs.
//!
//! By default the tests are short. `ALFIRK_FUZZ_SECONDS=600 cargo test -p alfirk-compiler --test broken_programs -- --nocapture` runs each
//! target for 600 s and prints the number of programs. Each program is derived from a seed. `ALFIRK_FUZZ_SEED=N` starts with seed N, which
//! repeats a failure.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use alfirk_compiler::driver::{compile_with, CompileOptions, P4InfoFormat, Session};
use alfirk_compiler::format::format;
use alfirk_compiler::preproc::{MemoryLoader, SourceLoader};

use alfirk_test_budget::Fuzz;

use super::corpus;
use super::rng::Rng;

/// Time limit per program, after which the compiler is assumed to hang. It is generous, as tests are unoptimised and run in parallel.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of characters of a program; longer texts are truncated.
const MAX_TEXT: usize = 12_000;

/// Fragments that are inserted into programs.
const DICTIONARY: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ";",
    ":",
    ",",
    ".",
    "=",
    "==",
    "&&&",
    "..",
    "...",
    "++",
    "|+|",
    "|-|",
    "<<",
    ">>",
    "<<=",
    "&&",
    "||",
    "!",
    "~",
    "-",
    "+",
    "*",
    "/",
    "%",
    "?",
    "@",
    "#",
    "_",
    "{#}",
    "0",
    "1",
    "8w255",
    "-8s128",
    "0x",
    "1w2",
    "999999999999",
    "4294967296w1",
    "\"text\"",
    "\"",
    "bit<8>",
    "bit<0>",
    "bit<(1<<40)>",
    "int<1>",
    "int",
    "varbit<16>",
    "bool",
    "true",
    "tuple<bit<8>>",
    "header",
    "header_union",
    "struct",
    "enum",
    "enum bit<8>",
    "control",
    "parser",
    "state start",
    "transition",
    "select",
    "accept",
    "table",
    "key",
    "actions",
    "entries",
    "const",
    "default_action",
    "action",
    "apply",
    "switch",
    "if",
    "else",
    "for",
    "in",
    "out",
    "inout",
    "return",
    "exit",
    "break",
    "continue",
    "extern",
    "package",
    "typedef",
    "type",
    "value_set<bit<8>>(4)",
    "error",
    "match_kind",
    "this",
    "abstract",
    "void",
    "string",
    "list<bit<8>>",
    "hdr",
    "hdr.h",
    ".next",
    ".last",
    ".lastIndex",
    ".size",
    ".push_front(1)",
    ".isValid()",
    ".setValid()",
    ".apply()",
    ".hit",
    ".action_run",
    ".extract(",
    ".lookahead<bit<8>>()",
    ".advance(8)",
    ".emit(",
    "[7:0]",
    "[1000000]",
    "[hdr.h.a]",
    "#define X X X",
    "#define F(x) F(x) x",
    "#if 1",
    "#if (1 << 99) / 0",
    "#endif",
    "#else",
    "#include \"test.p4\"",
    "#include <core.p4>",
    "#line 1",
    "##",
    "__LINE__",
    "/*",
    "*/",
    "//",
    "\\\n",
    "\n",
    "\u{e9}",
    "\u{0}",
    "@name(\"x\")",
    "@id(1)",
    "@field_list(1)",
    "main",
    "V1Switch",
];

/// A fuzz target: a phase of the compiler, which processes a file of a loader.
type Target = fn(&CompileOptions, &MemoryLoader);

#[test]
fn preprocessor_terminates_on_any_text() {
    run(|options, loader| {
        let mut session = Session::new(options.clone());
        let tokens = session.tokens(loader).expect("the text is in memory");
        assert!(tokens.len() < 20_000_000);
        session.rendered();
    });
}

#[test]
fn parser_terminates_on_any_text() {
    run(|options, loader| {
        let mut session = Session::new(options.clone());
        session.tree(loader).expect("the text is in memory");
        session.rendered();
    });
}

#[test]
fn type_checker_terminates_on_any_text() {
    run(|options, loader| {
        let mut session = Session::new(options.clone());
        let checked = session.checked(loader).expect("the text is in memory");
        assert_eq!(checked.is_err(), session.diagnostics.has_errors());
        session.rendered();
    });
}

#[test]
fn compiler_terminates_on_any_text() {
    run(|options, loader| {
        // The compiler must return, and outputs of accepted programs must be serialisable.
        if let Ok(compiled) = compile_with(options, loader) {
            compiled.json.to_text();
            P4InfoFormat::Text.encode(&compiled.p4info);
        }
    });
}

#[test]
fn formatter_keeps_all_characters_and_is_idempotent() {
    run(|options, loader| {
        let text = loader.load(&options.source).expect("the text is in memory");
        let once = format(&text);
        let letters = |text: &str| -> String {
            text.chars()
                .filter(|c| !c.is_whitespace() && *c != '\\' && *c != '\u{feff}')
                .collect()
        };
        assert_eq!(letters(&once), letters(&text));
        assert_eq!(format(&once), once, "formatting twice gives the same");
    });
}

/// Runs a fuzz target on random programs for the time set by the environment.
fn run(target: Target) {
    let Fuzz { first, time } = Fuzz::from_env();
    let start = Instant::now();
    let corpus = programs();
    let mut tries = 0;
    while start.elapsed() < time {
        let seed = first + tries;
        let text = mutated(&corpus, &mut Rng::new(seed));
        if let Err(why) = run_with_time_limit(target, text.clone()) {
            panic!("{why} with ALFIRK_FUZZ_SEED={seed} on\n{text}");
        }
        tries += 1;
    }
    println!(
        "{}: {tries} programs from seed {first} in {:.0?}, at most {} MiB",
        thread::current().name().unwrap_or_default(),
        start.elapsed(),
        peak_mib()
    );
    assert!(peak_mib() < 2_000, "the compiler uses more than 2,000 MiB");
}

/// Runs a target on a separate thread, to detect a hang.
///
/// # Errors
/// The target does not return within the time limit, or it panics.
fn run_with_time_limit(target: Target, text: String) -> Result<(), String> {
    let (done, result) = mpsc::channel();
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", text);
    let work = thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || {
            target(&CompileOptions::new(Path::new("test.p4")), &loader);
            // Sending fails only if the test has failed and the receiver is gone.
            let _ = done.send(());
        })
        .expect("a thread can be started");
    let outcome = result.recv_timeout(TIME_LIMIT);
    if outcome == Err(RecvTimeoutError::Timeout) {
        return Err(format!("no result within {TIME_LIMIT:?}"));
    }
    work.join().map_err(|_| "a panic".to_owned())
}

/// Peak memory of this process in MiB; 0 if the system does not report it.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

/// The texts of all programs in `tests/programs`.
fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = corpus::p4_files(&root.join("tests/programs"));
    files.iter().map(|file| corpus::text(file)).collect()
}

/// A program with a few random changes.
fn mutated(corpus: &[String], rng: &mut Rng) -> String {
    let mut text: Vec<char> = rng.pick(corpus).chars().collect();
    for _ in 0..=rng.below(6) {
        mutate(&mut text, corpus, rng);
        text.truncate(MAX_TEXT);
    }
    text.into_iter().collect()
}

/// Changes a text at a random position: deletes, copies, inserts or replaces characters.
fn mutate(text: &mut Vec<char>, corpus: &[String], rng: &mut Rng) {
    let at = rng.below(text.len() + 1);
    let end = (at + rng.below(40)).min(text.len());
    match rng.below(8) {
        0 => {
            text.drain(at..end);
        }
        1 => {
            let piece: Vec<char> = text[at..end].to_vec();
            let to = rng.below(text.len() + 1);
            text.splice(to..to, piece);
        }
        2 | 3 => {
            text.splice(at..at, format!(" {} ", rng.pick(DICTIONARY)).chars());
        }
        4 => {
            text.splice(at..end, rng.pick(DICTIONARY).chars());
        }
        5 => {
            let other: Vec<char> = rng.pick(corpus).chars().collect();
            let from = rng.below(other.len());
            let to = (from + rng.below(400)).min(other.len());
            text.splice(at..end, other[from..to].iter().copied());
        }
        6 => {
            // Repeat a fragment up to 1,024 times, for deep nesting and long lists.
            let word = rng.pick(DICTIONARY);
            text.splice(at..at, word.repeat(1 << rng.below(11)).chars());
        }
        _ => {
            if let Some(c) = text.get_mut(at) {
                *c = char::from(u8::try_from(rng.below(128)).expect("it is below 128"));
            }
        }
    }
}
