//! Programs with damaged tokens: every failed compilation has an error, and the compiler has no fault.
//!
//! Unlike the texts of [`super::fuzz`], most of these programs pass the lexer, and many pass the parser, so that later passes run. The seeds
//! are fixed: a failure is repeated by running the test again. `ALFIRK_FUZZ_SECONDS=600` tries further seeds for 600 s.

use std::path::{Path, PathBuf};
use std::time::Instant;

use alfirk_compiler::arch::Arch;
use alfirk_compiler::diag::{Diagnostic, Severity};
use alfirk_compiler::driver::{compile_with, CompileError, CompileOptions, Session};
use alfirk_compiler::on_deep_stack;
use alfirk_compiler::preproc::MemoryLoader;

use alfirk_test_budget::Fuzz;

use super::corpus;
use super::rng::Rng;

/// Number of damaged programs of each corpus.
const PROGRAMS: u64 = 150;

#[test]
fn failed_compilation_of_a_damaged_program_has_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = corpus::p4_files(&root.join("tests/programs"));
    files.retain(|file| !file.starts_with(root.join("tests/programs/tna")));
    run(Arch::V1MODEL, &files);
}

#[test]
fn failed_check_of_a_damaged_program_for_tofino_has_an_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(
        Arch::TNA,
        &corpus::p4_files(&root.join("tests/programs/tna")),
    );
}

/// Compiles damaged versions of programs.
fn run(arch: Arch, files: &[PathBuf]) {
    let texts: Vec<String> = files.iter().map(|file| corpus::text(file)).collect();
    let programs: Vec<Vec<&str>> = texts.iter().map(|text| tokens(text)).collect();
    let Fuzz { first, time } = Fuzz::from_env();
    let start = Instant::now();
    let (mut seed, mut accepted) = (first, 0);
    while seed < first + PROGRAMS || start.elapsed() < time {
        let text = damaged(&programs, &mut Rng::new(seed));
        if let Err(why) = check(arch, &text, &mut accepted) {
            panic!("{why} with ALFIRK_FUZZ_SEED={seed} on\n{text}");
        }
        seed += 1;
    }
    assert!(accepted > 0, "no damage is harmless");
}

/// Compiles a program, and checks it as editors do.
///
/// # Errors
/// The compilation fails without an error, or by an internal error.
fn check(arch: Arch, text: &str, accepted: &mut u64) -> Result<(), String> {
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", text);
    let mut options = CompileOptions::new("test.p4");
    options.set_arch(arch);
    match compile_with(&options, &loader) {
        Ok(_) => *accepted += 1,
        Err(CompileError::Program { report, errors }) if errors == 0 || report.is_empty() => {
            return Err("a failure without an error".to_owned());
        }
        Err(CompileError::Program { report, .. }) if report.contains("internal error") => {
            let is_named = report.contains("internal error in pass `");
            return Err(format!(
                "an internal error (pass named: {is_named})\n{report}"
            ));
        }
        Err(CompileError::Program { .. }) => {}
        Err(error) => return Err(error.to_string()),
    }
    on_deep_stack(|| {
        let mut session = Session::new(options.clone());
        let checked = session.checked_despite_errors(&loader);
        checked.map_err(|error| error.to_string())?;
        let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == Severity::Error;
        let has_errors = session.diagnostics.iter().any(|d| is_error(&d));
        match (session.diagnostics.has_errors(), has_errors) {
            (true, false) => Err("the errors of editors are counted, but not kept".to_owned()),
            _ if session.diagnostics.has_internal_errors() => Err(session.rendered()),
            _ => Ok(()),
        }
    })
}

/// The words, numbers and characters of a text, with the white space and comments between them.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' | '"' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c if c.is_whitespace() => rest
                .find(|c: char| !c.is_whitespace())
                .unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// A program with one to three damaged tokens.
fn damaged(programs: &[Vec<&str>], rng: &mut Rng) -> String {
    let mut tokens = rng.pick(programs).clone();
    for _ in 0..=rng.below(3) {
        damage(&mut tokens, rng);
    }
    tokens.concat()
}

/// Deletes, duplicates or replaces a token, or exchanges two. White space, comments and directives are kept.
fn damage(tokens: &mut Vec<&str>, rng: &mut Rng) {
    let is_code = |token: &str| {
        let first = token.chars().next();
        first.is_some_and(|c| !c.is_whitespace() && c != '#') && !token.starts_with("/")
    };
    let code: Vec<usize> = (0..tokens.len())
        .filter(|at| is_code(tokens[*at]))
        .collect();
    let is_word = |token: &str| token.starts_with(|c: char| c.is_ascii_alphanumeric());
    let words: Vec<usize> = (code.iter().copied())
        .filter(|at| is_word(tokens[*at]))
        .collect();
    if words.is_empty() {
        return;
    }
    let (at, word) = (*rng.pick(&code), *rng.pick(&words));
    match rng.below(6) {
        0 => {
            tokens.remove(at);
        }
        1 => tokens.insert(at, tokens[at]),
        2 => tokens.swap(at, *rng.pick(&code)),
        // A name in place of another: most of these programs are well formed.
        3 | 4 => tokens[word] = tokens[*rng.pick(&words)],
        _ => tokens.swap(word, *rng.pick(&words)),
    }
}
