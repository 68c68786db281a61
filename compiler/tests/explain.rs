//! Tests of the pages of `alfirk p4c --explain`: every example is compiled. A wrong example must report exactly the code of its page, a right
//! one must compile without diagnostics.
//!
//! An example is a Markdown code block that begins with ```` ```p4 ````. Its attributes are `wrong`, `fragment` (a part of a program) and
//! `tna` (for Tofino). A fragment is inserted into `explain/v1model.p4` or `explain/tna.p4`. Text before its first line `// In the ...:`
//! is added to the declarations; text after such a line replaces that block.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use alfirk_compiler::diag::{Code, Page, Warning};
use alfirk_compiler::driver::{run, with_long_options, P4cArgs};
use clap::Parser;

/// Pages without a wrong example, each with a phrase of the reason on the page.
const NO_WRONG_EXAMPLE: [(&str, &str); 2] = [
    ("E0201", "no short wrong example"),
    ("ignore", "depends on the command line"),
];

const V1MODEL: &str = include_str!("../explain/v1model.p4");
const TNA: &str = include_str!("../explain/tna.p4");

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Cli {
    #[command(flatten)]
    args: P4cArgs,
}

/// An example of a page.
struct Example {
    /// The whole program.
    program: String,
    /// Whether the compiler must report the code of the page.
    is_wrong: bool,
    /// Argument of `--arch`.
    arch: &'static str,
}

impl Example {
    /// The examples of a page, in order.
    fn all_of(page: Page) -> Vec<Example> {
        let mut examples = Vec::new();
        let mut lines = page.markdown.lines();
        while let Some(line) = lines.next() {
            let Some(attributes) = line.strip_prefix("```p4") else {
                continue;
            };
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let attributes: BTreeSet<&str> = attributes.split(',').skip(1).collect();
            let known = BTreeSet::from(["fragment", "tna", "wrong"]);
            assert!(attributes.is_subset(&known), "{}: {line}", page.code);
            let (arch, skeleton) = match attributes.contains("tna") {
                true => ("tna", TNA),
                false => ("v1model", V1MODEL),
            };
            examples.push(Example {
                program: match attributes.contains("fragment") {
                    true => completed(skeleton, &text),
                    false => text.join("\n"),
                },
                is_wrong: attributes.contains("wrong"),
                arch,
            });
        }
        examples
    }

    /// The codes of the errors and warnings that the compiler reports.
    fn codes(&self, folder: &Path) -> Vec<String> {
        let (source, output) = (folder.join("example.p4"), folder.join("example.json"));
        fs::write(&source, &self.program).expect("the folder is writable");
        let words = [
            "--json".as_ref(),
            "--arch".as_ref(),
            self.arch.as_ref(),
            "-o".as_ref(),
            output.as_os_str(),
            source.as_os_str(),
        ];
        let (code, stderr) = p4c(words.map(Into::into));
        let codes: Vec<String> = stderr.lines().map(code_of).collect();
        let has_errors = codes.iter().any(|code| code.starts_with('E'));
        assert_eq!(code, u8::from(has_errors), "{stderr}");
        codes
    }
}

/// Runs `alfirk p4c`; returns its exit code and stderr.
fn p4c(words: impl IntoIterator<Item = OsString>) -> (u8, String) {
    let cli = Cli::try_parse_from(with_long_options(words)).expect("the options exist");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let code = run(&cli.args, &mut stdout, &mut stderr);
    (code, String::from_utf8(stderr).expect("messages are UTF-8"))
}

/// The code of a diagnostic in JSON, one object per line.
fn code_of(line: &str) -> String {
    let diagnostic: serde_json::Value = serde_json::from_str(line).expect("one object a line");
    let code = [&diagnostic["code"], &diagnostic["warning"]];
    let code = code.into_iter().find_map(|code| code.as_str());
    code.expect("each diagnostic has a code").to_owned()
}

/// The program that results from inserting a fragment into a skeleton.
fn completed(skeleton: &str, fragment: &[&str]) -> String {
    let mut parts: Vec<(&str, Vec<&str>)> = vec![("// Declarations:", Vec::new())];
    for line in fragment {
        match line.starts_with("// In the ") {
            true => parts.push((line, Vec::new())),
            false => parts.last_mut().expect("there is a part").1.push(line),
        }
    }
    let mut program = Vec::new();
    let mut is_replaced = false;
    for line in skeleton.lines() {
        let part = parts.iter().position(|(marker, _)| *marker == line.trim());
        if let Some(part) = part {
            let (marker, text) = parts.remove(part);
            program.extend(text);
            is_replaced = marker.starts_with("// In the ");
        } else if line.trim() == "// End" {
            is_replaced = false;
        } else if !is_replaced {
            program.push(line);
        }
    }
    assert!(parts.is_empty(), "unknown parts of a fragment: {parts:?}");
    program.join("\n")
}

#[test]
fn wrong_examples_report_the_code_of_their_page_and_right_ones_none() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut faults = String::new();
    for page in Page::all() {
        let examples = Example::all_of(page);
        let wrong = examples.iter().filter(|example| example.is_wrong).count();
        match NO_WRONG_EXAMPLE.iter().find(|(code, _)| *code == page.code) {
            Some((_, reason)) => assert!(
                wrong == 0 && page.markdown.contains(reason),
                "{}",
                page.code
            ),
            None => assert!(
                wrong > 0 && examples.len() > wrong,
                "{} lacks an example",
                page.code
            ),
        }
        for example in &examples {
            let codes = example.codes(folder.path());
            let is_expected = match example.is_wrong {
                true => !codes.is_empty() && codes.iter().all(|code| code == page.code),
                false => codes.is_empty(),
            };
            if !is_expected {
                faults += &format!("{}: {codes:?} from\n{}\n", page.code, example.program);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn codes_and_pages_correspond() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("explain");
    let files = fs::read_dir(&folder).expect("the folder is in the repository");
    let files: BTreeSet<PathBuf> = files
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    let codes = Code::ALL.iter().map(|code| code.to_string());
    let codes = codes.chain(Warning::ALL.iter().map(|warning| warning.name().to_owned()));
    let expected: BTreeSet<PathBuf> = codes.map(|code| folder.join(code + ".md")).collect();
    assert_eq!(files, expected);
}

#[test]
fn every_page_has_title_reason_and_closed_code_blocks() {
    for page in Page::all() {
        let title = format!("# {}: ", page.code);
        assert!(page.markdown.starts_with(&title), "{}: title", page.code);
        let fences = page.markdown.lines().filter(|line| line.starts_with("```"));
        assert_eq!(fences.count() % 2, 0, "{}: fences", page.code);
        let mut paragraphs = page.markdown.split("\n\n").skip(1);
        let reason = paragraphs.next().unwrap_or_default();
        assert!(reason.split(' ').count() >= 8, "{}: reason", page.code);
    }
}

#[test]
fn explain_prints_a_page_and_rejects_unknown_codes() {
    let words = |code: &str| [OsString::from("--explain"), code.into()];
    let cli = Cli::try_parse_from(words("E0408")).expect("no program is needed");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    assert_eq!(run(&cli.args, &mut stdout, &mut stderr), 0);
    let printed = String::from_utf8(stdout).expect("pages are UTF-8");
    assert!(
        printed.starts_with("# E0408: Index or slice out of range\n"),
        "{printed}"
    );
    let (code, stderr) = p4c(words("E0543"));
    assert_eq!(code, 2);
    assert_eq!(
        stderr,
        "error: --explain E0543: unknown code; the nearest: E0501, E0500, E0600\n"
    );
    let (code, stderr) = p4c(words("nothing"));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("give an error code, such as E0408"),
        "{stderr}"
    );
}

#[test]
fn explain_hint_is_printed_on_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("example.p4");
    fs::write(&source, "const bit<8> N = 1 / 0;\n").expect("the folder is writable");
    let cli = Cli::try_parse_from([&source]).expect("the options exist");
    let stderr = |args: &P4cArgs| {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        assert_eq!(run(args, &mut stdout, &mut stderr), 1);
        String::from_utf8(stderr).expect("messages are UTF-8")
    };
    let hint = "For more about E0501: alfirk p4c --explain E0501\n";
    let without = stderr(&cli.args);
    assert!(!without.contains("--explain"), "{without}");
    assert_eq!(stderr(&cli.args.name_explain(true)), without + hint);
}
