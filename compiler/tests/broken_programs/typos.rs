//! One hundred typing errors in the sources of the data plane.

use std::ops::Range;
use std::path::{Path, PathBuf};

use alfirk_compiler::arch::Arch;
use alfirk_compiler::driver::{compile_with, CompileError, CompileOptions};

use super::corpus;
use super::rng::Rng;

/// Number of broken programs.
const VARIANTS: usize = 100;
/// Minimum number of errors that must be reported at the right line.
const MIN_LOCATED: usize = 95;

/// Keywords and other words that are not names of the program.
const KEYWORDS: &[&str] = &[
    "action",
    "apply",
    "actions",
    "bit",
    "const",
    "control",
    "default",
    "default_action",
    "else",
    "header",
    "if",
    "in",
    "inout",
    "key",
    "out",
    "parser",
    "select",
    "state",
    "struct",
    "switch",
    "table",
    "transition",
    "typedef",
    "bool",
    "true",
    "false",
    "return",
    "exit",
    "accept",
    "reject",
    "void",
    "exact",
    "lpm",
    "ternary",
    "range",
    "size",
    "name",
    "type",
    "int",
    "enum",
    "entries",
    "error",
    "varbit",
    "package",
    "extern",
    "tuple",
    "string",
    "match_kind",
    "abstract",
];

/// A kind of typing error: makes it in a line and returns the new line. `None` if it is not possible in this line.
type Typo = fn(&str, &mut Rng) -> Option<String>;

const TYPOS: &[(&str, Typo)] = &[
    ("misspelt name", misspell),
    ("missing semicolon", omit_semicolon),
    ("surplus parenthesis", surplus_parenthesis),
    ("missing parenthesis", omit_parenthesis),
    ("misspelt keyword", misspell_keyword),
    ("invalid number", spoil_number),
    ("doubled operator", double_operator),
    ("boolean instead of a number", assign_truth),
    ("comparison instead of an assignment", compare),
    ("unknown member", unknown_member),
];

/// A program with a typing error.
struct Variant {
    file: PathBuf,
    /// Line of the error, from 1.
    line: usize,
    typo: &'static str,
    before: String,
    after: String,
}

#[test]
fn typing_errors_are_reported_at_their_line() {
    let folder = corpus::p4src();
    let seed = std::env::var("ALFIRK_FUZZ_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut rng = Rng::new(seed);
    let variants: Vec<Variant> = (0..VARIANTS)
        .map(|index| variant(&folder, TYPOS[index % TYPOS.len()], &mut rng))
        .collect();
    let mut missed = String::new();
    let mut right = 0;
    for variant in &variants {
        match first_error(&folder, variant) {
            Some((file, line, _)) if (file.as_path(), line) == (&variant.file, variant.line) => {
                right += 1;
            }
            Some((.., report)) => missed += &description(variant, &report),
            None => missed += &description(variant, "it was accepted\n"),
        }
    }
    assert!(
        right >= MIN_LOCATED,
        "{right} of {VARIANTS} errors are reported at the right line\n{missed}"
    );
}

/// The typing error and the compiler's report, for a failure of the test.
fn description(variant: &Variant, report: &str) -> String {
    format!(
        "{}:{}: {}\n  - {}\n  + {}\n{report}\n",
        variant.file.display(),
        variant.line,
        variant.typo,
        variant.before,
        variant.after,
    )
}

/// Chooses a file and a line to which the typing error applies.
fn variant(folder: &Path, (typo, change): (&'static str, Typo), rng: &mut Rng) -> Variant {
    let files = corpus::p4_files(folder);
    loop {
        let file = rng.pick(&files);
        let text = corpus::text(file);
        let code = code_lines(&text);
        if code.is_empty() {
            continue;
        }
        let &(number, line) = rng.pick(&code);
        if let Some(after) = change(line, rng) {
            return Variant {
                file: file.strip_prefix(folder).expect("it lies there").to_owned(),
                line: number,
                typo,
                before: line.trim().to_owned(),
                after,
            };
        }
    }
}

/// A line without a comment at its end.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Lines, with their numbers, other than comments, directives, bodies of macros and annotations. An error in the body of a macro is
/// reported at the use of the macro.
fn code_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut in_comment = false;
    let mut in_macro = false;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let comment = in_comment || trimmed.starts_with("/*");
        in_comment = comment && !line.contains("*/");
        let macro_body = std::mem::replace(&mut in_macro, line.ends_with('\\'));
        let other = ["//", "#", "@"]
            .iter()
            .any(|start| trimmed.starts_with(start));
        if !comment
            && !other
            && !macro_body
            && !line.contains("/*")
            && !line.contains('@')
            && !line.contains('"')
        {
            lines.push((number, line));
        }
    }
    lines
}

/// File and line of the first error, and the whole report.
fn first_error(folder: &Path, variant: &Variant) -> Option<(PathBuf, usize, String)> {
    let mut loader = corpus::loader(folder);
    let text = corpus::text(&folder.join(&variant.file));
    let broken: Vec<&str> = (1..)
        .zip(text.lines())
        .map(|(number, line)| {
            if number == variant.line {
                &variant.after
            } else {
                line
            }
        })
        .collect();
    loader.add(&variant.file, broken.join("\n") + "\n");
    let options = match variant.file.starts_with("tna") {
        false => CompileOptions::new("v1model/main.p4"),
        true => {
            let mut options = CompileOptions::new("tna/main.p4");
            options.set_arch(Arch::TNA);
            options
        }
    };
    let report = match compile_with(&options, &loader) {
        Err(CompileError::Program { report, .. }) => report,
        Err(error) => panic!("{error}"),
        Ok(_) => return None,
    };
    let mut lines = report.lines();
    lines.find(|line| line.starts_with("error"))?;
    let place = lines.find_map(|line| line.trim_start().strip_prefix("--> "));
    let mut place = place.unwrap_or_default().split(':');
    let file = place.next().unwrap_or_default();
    let line = place.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    Some((normal(Path::new(file)), line, report))
}

/// The path without `..`: `a/../b` becomes `b`.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// Ranges of words, before any comment at the end of the line.
fn words(line: &str) -> Vec<Range<usize>> {
    let code = code(line);
    let mut words: Vec<Range<usize>> = Vec::new();
    for (position, c) in code.char_indices() {
        if c.is_ascii_alphanumeric() || c == '_' {
            match words.last_mut() {
                Some(word) if word.end == position => word.end += 1,
                _ => words.push(position..position + 1),
            }
        }
    }
    words
}

/// A line with the characters `at` replaced.
fn replaced(line: &str, at: Range<usize>, with: &str) -> String {
    let mut line = line.to_owned();
    line.replace_range(at, with);
    line
}

/// Misspells a use of a name. Declarations, recognised by the text before the name, are not changed.
fn misspell(line: &str, rng: &mut Rng) -> Option<String> {
    let uses: Vec<Range<usize>> = words(line)
        .into_iter()
        .filter(|word| {
            let before = line[..word.start].trim_end();
            let name = &line[word.clone()];
            before.ends_with(['=', '(', '+', '-', '&', '|', '!', '^', '?'])
                && name.starts_with(|c: char| c.is_ascii_alphabetic())
                && !KEYWORDS.contains(&name)
        })
        .collect();
    if uses.is_empty() || declares(line) {
        return None;
    }
    let word = rng.pick(&uses).clone();
    Some(replaced(line, word.end..word.end, "q"))
}

/// Whether a line has a declaration with parameters or fields, where a name after a parenthesis may be a declared one.
fn declares(line: &str) -> bool {
    [
        "action", "control", "parser", "in ", "out ", "inout ", "state", "typedef", "extern",
    ]
    .iter()
    .any(|word| line.contains(word))
}

fn omit_semicolon(line: &str, _: &mut Rng) -> Option<String> {
    let end = code(line).rfind(';')?;
    // Without a statement before the semicolon, the line stays valid.
    let more = line[..end]
        .trim_end()
        .ends_with(|c: char| c.is_alphanumeric() || c == ')' || c == ']');
    more.then(|| replaced(line, end..end + 1, ""))
}

fn surplus_parenthesis(line: &str, _: &mut Rng) -> Option<String> {
    let end = code(line).rfind(';')?;
    Some(replaced(line, end..end, ")"))
}

fn omit_parenthesis(line: &str, rng: &mut Rng) -> Option<String> {
    let closing: Vec<usize> = code(line)
        .match_indices(')')
        .map(|(position, _)| position)
        .collect();
    if closing.is_empty() || !line.contains('(') || !line.contains([';', '{']) {
        return None;
    }
    let position = *rng.pick(&closing);
    Some(replaced(line, position..position + 1, ""))
}

fn misspell_keyword(line: &str, rng: &mut Rng) -> Option<String> {
    let long: Vec<Range<usize>> = words(line)
        .into_iter()
        .filter(|word| word.len() > 3 && KEYWORDS.contains(&&line[word.clone()]))
        .collect();
    let word = if long.is_empty() {
        return None;
    } else {
        rng.pick(&long).clone()
    };
    Some(replaced(line, word.start + 1..word.start + 2, ""))
}

fn spoil_number(line: &str, rng: &mut Rng) -> Option<String> {
    let numbers: Vec<Range<usize>> = words(line)
        .into_iter()
        .filter(|word| line[word.clone()].starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let word = if numbers.is_empty() {
        return None;
    } else {
        rng.pick(&numbers).clone()
    };
    Some(replaced(line, word.end..word.end, "z"))
}

fn double_operator(line: &str, rng: &mut Rng) -> Option<String> {
    let operators: Vec<usize> = [
        " * ", " & ", " | ", " ^ ", " == ", " != ", " && ", " || ", " = ",
    ]
    .iter()
    .flat_map(|operator| {
        line.match_indices(operator)
            .map(|(at, text)| at + text.len())
    })
    .collect();
    let at = if operators.is_empty() {
        return None;
    } else {
        *rng.pick(&operators)
    };
    Some(replaced(line, at..at, "* "))
}

fn assign_truth(line: &str, _: &mut Rng) -> Option<String> {
    let (left, right) = line.split_once(" = ")?;
    let end = right.find(';')?;
    let plain = !left.contains("bool") && !right[..end].contains(['{', '?', '<', '>', '!', '&']);
    // The right side must be a number, as a boolean may be valid elsewhere.
    let number =
        right[..end].contains(['+', '-', '[']) || right.starts_with(|c: char| c.is_ascii_digit());
    (plain && number).then(|| format!("{left} = true{}", &right[end..]))
}

fn compare(line: &str, _: &mut Rng) -> Option<String> {
    let (left, right) = line.split_once(" = ")?;
    (!left.trim().contains(' ')).then(|| format!("{left} == {right}"))
}

fn unknown_member(line: &str, rng: &mut Rng) -> Option<String> {
    let members: Vec<Range<usize>> = words(line)
        .into_iter()
        .filter(|word| line[..word.start].ends_with('.'))
        .collect();
    let word = if members.is_empty() {
        return None;
    } else {
        rng.pick(&members).clone()
    };
    Some(replaced(line, word.start..word.start, "no_"))
}
