use std::path::{Path, PathBuf};

use alfirk_test_budget::Cost;
use expect_test::{expect, Expect};
use proptest::prelude::*;

use super::format;
use super::layout::{layout, work};
use super::pieces::{pieces, Kind};
use crate::driver::{compile_with, CompileOptions};
use crate::preproc::MemoryLoader;

fn check(text: &str, formatted: Expect) {
    let once = format(text);
    formatted.assert_eq(&once);
    assert_eq!(format(&once), once, "formatting twice gives the same");
}

/// Every P4 file of the repository, with its path from the root.
fn programs() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [
        "bmv2",
        "cli",
        "compiler",
        "interop",
        "labs",
        "p4include",
        "p4runtime",
        "p4src",
        "ptf-tests",
        "thrift",
    ];
    let mut programs = Vec::new();
    for folder in folders {
        collect(&root.join(folder), &root, &mut programs);
    }
    assert!(programs.len() > 80, "the programs are found");
    programs
}

fn collect(folder: &Path, root: &Path, programs: &mut Vec<(PathBuf, String)>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is in the repository")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.is_symlink() {
            collect(&path, root, programs);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            let text = std::fs::read_to_string(&path).expect("the file is text");
            let name = path.strip_prefix(root).expect("it lies below the root");
            programs.push((name.to_path_buf(), text));
        }
    }
}

fn comments(text: &str) -> Vec<String> {
    let comments = pieces(text).expect("comments are closed").into_iter();
    comments
        .filter(|piece| {
            matches!(
                piece.kind,
                Kind::LineComment | Kind::BlockComment | Kind::Directive
            )
        })
        .map(|piece| piece.text.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn every_program_keeps_its_comments_and_formats_to_a_fixed_point() {
    for (name, text) in programs() {
        let once = format(&text);
        assert_eq!(format(&once), once, "{}", name.display());
        // An unclosed comment is among the broken programs.
        if pieces(&text).is_some() {
            assert_eq!(comments(&once), comments(&text), "{}", name.display());
        }
    }
}

#[test]
fn formatting_keeps_the_compiled_output() {
    let programs = programs();
    let loader = |change: fn(&str) -> String| {
        let mut loader = MemoryLoader::default();
        for (name, text) in &programs {
            loader.add(name, change(text));
        }
        loader
    };
    let (before, after) = (loader(str::to_string), loader(format));
    let stems: Vec<&str> = programs
        .iter()
        .filter_map(|(name, _)| name.file_stem()?.to_str())
        .collect();
    let mut compiled = 0;
    for (name, text) in &programs {
        if !text.contains("V1Switch") {
            continue;
        }
        let compile = |loader| {
            let done = compile_with(&CompileOptions::new(name), loader).ok()?;
            let mut json = serde_json::from_str(&done.json.to_text()).expect("it is JSON");
            remove_places(&mut json, &stems);
            Some((json, done.p4info))
        };
        let expected = compile(&before);
        compiled += usize::from(expected.is_some());
        assert!(
            compile(&after) == expected,
            "{} means something else",
            name.display()
        );
    }
    assert!(compiled > 30, "{compiled} programs compile");
}

/// Removes the parts of the JSON that formatting may change: lines, columns, quoted source, and generated names with the name and line of
/// a file.
fn remove_places(value: &mut serde_json::Value, stems: &[&str]) {
    match value {
        serde_json::Value::Object(members) => {
            members.remove("source_info");
            let before = std::mem::take(members);
            members.extend(before.into_iter().map(|(name, mut value)| {
                remove_places(&mut value, stems);
                (without_line(name, stems), value)
            }));
        }
        serde_json::Value::Array(items) => {
            items.iter_mut().for_each(|item| remove_places(item, stems))
        }
        serde_json::Value::String(text) => *text = without_line(std::mem::take(text), stems),
        _ => {}
    }
}

fn without_line(name: String, stems: &[&str]) -> String {
    let own = name.strip_prefix("tbl_").unwrap_or(&name);
    let is_made = stems.iter().any(|stem| {
        let line = own.strip_prefix(stem);
        line.is_some_and(|line| {
            !line.is_empty() && line.chars().all(|c| c.is_ascii_digit() || c == '_')
        })
    });
    match is_made {
        true => "of a line".to_string(),
        false => name,
    }
}

#[test]
fn statements_blocks_and_properties_have_one_layout() {
    check(
        "control  C( inout bit<8>x )\n{\n\n\n  action a(){x=x+1;\n\n\n\ny = ( bit<8> )-x ;}\n  table t\n  { key={x:exact@name(\"x\");}\n actions = {\n a;\n }\n }\n apply{if(x==1){t.apply();}\n else\n {x=x[7:0]++y;}} }",
        expect![[r#"
            control C(inout bit<8> x) {
                action a() {
                    x = x + 1;

                    y = (bit<8>)-x;
                }
                table t {
                    key = { x: exact @name("x"); }
                    actions = {
                        a;
                    }
                }
                apply {
                    if (x == 1) { t.apply(); } else { x = x[7:0] ++ y; }
                }
            }
        "#]],
    );
}

#[test]
fn directives_and_comments_are_unchanged() {
    check(
        "#define   A(x)  \\\n   ((x)+1)  // as written\n  #if A(1)>1 /* why\n ever */\nconst bit<8>  X=1;// one\n      // two\n#else\nconst bit<8> X = /*why*/ 2;\n#endif\n",
        expect![[r#"
            #define   A(x)  \
               ((x)+1)  // as written
              #if A(1)>1 /* why
             ever */
            const bit<8> X = 1;  // one
            // two
            #else
            const bit<8> X = /*why*/ 2;
            #endif
        "#]],
    );
}

#[test]
fn branches_of_a_condition_may_each_open_the_same_block() {
    check(
        "#ifdef A\ncontrol C(inout bit<8> x) {\n#else\ncontrol C(inout bit<16> x) {\n#endif\napply { x = 1; }\n}\n",
        expect![[r#"
            #ifdef A
            control C(inout bit<8> x) {
            #else
            control C(inout bit<16> x) {
            #endif
                apply { x = 1; }
            }
        "#]],
    );
}

#[test]
fn comparisons_shifts_and_type_arguments_are_distinguished() {
    check(
        "x=a<b;y = a>>2 ; r =f(a<b,c>d);register < bit < 32 > > ( 8 ) r ;z=p.lookahead< bit<8> >( );w=(t_t)a>b?c:-d;",
        expect![[r#"
            x = a < b;
            y = a >> 2;
            r = f(a < b, c > d);
            register<bit<32>>(8) r;
            z = p.lookahead<bit<8>>();
            w = (t_t)a > b ? c : -d;
        "#]],
    );
}

#[test]
fn long_lines_break_at_the_operator_of_lowest_precedence() {
    check(
        "control C() { apply { if (first_condition_of_all == 1 && second_condition_of_all == 2 || third_condition_of_all == 3 && fourth_condition == 4) { x = 1; } } }",
        expect![[r#"
            control C() {
                apply {
                    if (first_condition_of_all == 1 && second_condition_of_all == 2
                        || third_condition_of_all == 3 && fourth_condition == 4) {
                        x = 1;
                    }
                }
            }
        "#]],
    );
}

#[test]
fn text_with_unmatched_brackets_is_unchanged() {
    for text in [
        "control C( {\n  apply{ }\n}\n",
        "a   =  1; )",
        "/* open\n  x  = 1;",
        "x=  {\n",
    ] {
        assert_eq!(format(text), text);
    }
}

/// The text with different blanks between tokens; line breaks stay.
fn with_other_blanks(text: &str, widths: &[usize]) -> String {
    let pieces = pieces(text).expect("comments are closed");
    let mut widths = widths.iter().cycle();
    let mut blanks = || " ".repeat(*widths.next().expect("there are some"));
    let mut changed = String::new();
    for piece in pieces {
        if piece.newlines > 0 {
            changed.push_str(&"\n".repeat(piece.newlines));
            if piece.kind != Kind::Directive {
                changed.push_str(&blanks());
            }
        } else if piece.kind == Kind::LineComment {
            // The column of a comment is kept by the formatter.
            changed.push_str(&" ".repeat(piece.blanks));
        } else if piece.space && piece.kind != Kind::Directive {
            changed.push(' ');
            changed.push_str(&blanks());
        }
        changed.push_str(piece.text);
    }
    changed
}

#[test]
fn formatting_broken_casts_and_lists_is_idempotent() {
    for text in [
        "E((list<bit<8>>){1,2}) e;",
        "E(\n(list<bit<8>>)\n{1,\n2}\n)\ne;",
        "E((list<bit<8>>)\n    {1,2}) e;",
        "E((list<tuple<bit<8>, bit<16>>>) {{1, 2},\n{3, 4}}\n) e;",
        "x = (h_t)\n{1,\n 2};",
        "x = (bit<8>)\n(bit<4>)\ny;",
        "f(a,\n{b,\nc},\n(T){d}\n);",
    ] {
        for end in ["\n", "\r\n", "\r\r\n"] {
            let text = text.replace('\n', end) + end;
            let once = format(&text);
            assert_eq!(format(&once), once, "{text:?}");
        }
    }
}

#[test]
fn carriage_returns_before_line_ends_are_removed() {
    let text = "/* one\r\r\n   two\r\n*/\r\r\n#define A \\\r\n  b\r\n// three\r\r\ncontrol C() {\r\r\napply { }\r\n}\r\r\n";
    let once = format(text);
    assert!(!once.contains('\r'), "{once:?}");
    assert_eq!(format(&once), once);
}

/// Texts with a construct of `parts` parts on one line, one text for each kind of construct.
fn long_texts(parts: usize) -> Vec<(&'static str, String)> {
    let many = |part: &str| part.repeat(parts);
    vec![
        (
            "statements",
            format!("control C() {{ apply {{ {} }} }}", many("x = y; ")),
        ),
        ("list", format!("const t x = {{ {} 1 }};", many("1, "))),
        ("arguments", format!("t() x = f({} 1);", many("aaaa, "))),
        ("sum", format!("const t x = 1{};", many(" + aaaa"))),
        ("less", format!("const t x = 1{};", many(" < aaaa"))),
        ("choice", format!("const t x = {} 1;", many("a ? b : "))),
        ("members", format!("const t x = a{};", many(".bbbb"))),
        ("braces", format!("{}{}", many("{ "), many("} "))),
        (
            "blocks",
            format!(
                "control C() {{ apply {} {} }}",
                many("{ x = y; "),
                many("} ")
            ),
        ),
        (
            "parentheses",
            format!("const t x = {}1{};", many("("), many(")")),
        ),
        (
            "types",
            format!("const {}t{} x = 1;", many("t<"), many("> ")),
        ),
        (
            "branches",
            format!("if (a) {{ }} {}", many("else if (b) { c = d; } ")),
        ),
        ("comments", many("/* a */ b; ")),
        ("conditions", many("#if a\nb;\n#endif\n")),
        (
            "strings",
            format!("const t x = f({} 1);", many("\"aaaa\", ")),
        ),
        (
            "cases",
            format!("switch (a) {{ {} }}", many("1: { b = c; } ")),
        ),
    ]
}

#[test]
fn work_is_linear_in_the_length_of_a_line() {
    let work =
        |text: &str| work(&pieces(text).expect("comments are closed")).expect("brackets match");
    for ((name, short), (_, long)) in long_texts(500).into_iter().zip(long_texts(4_000)) {
        let (few, many) = (work(&short), work(&long));
        assert!(many < 10 * few, "{name}: {few} for 500, {many} for 4,000");
    }
}

#[test]
fn very_long_lines_are_formatted() {
    for (name, text) in long_texts(1_000) {
        let once = format(&text);
        assert!(once.len() >= text.len() / 2, "{name}");
        assert_eq!(format(&once), once, "{name}");
    }
}

/// Tokens, comments, directives and line ends in any order.
fn random_tokens() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "control",
        "parser",
        "table",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "[",
        "]",
        ";",
        ":",
        ",",
        "=",
        "x",
        "bit",
        "8",
        "apply",
        "state",
        "transition",
        "select",
        "default",
        "_",
        "...",
        "&&&",
        "..",
        "+",
        "-",
        "@name",
        "action",
        "if",
        "else",
        "switch",
        "for",
        "in",
        "const",
        "header",
        "struct",
        "enum",
        "E",
        "list",
        "tuple",
        "return",
        "?",
        "!",
        "~",
        "&&",
        "||",
        "==",
        "<=",
        ">=",
        "<<",
        ">>",
        "++",
        "|+|",
        "\"s\"",
        "8w1",
        "{#}",
        ".",
        "type_t",
        "T",
        "(list<bit<8>>)",
        "{1, 2}",
        "(bit<8>)",
        "a.b.c",
        "name_of_something_that_is_rather_long",
        "// c\n",
        "/* c */",
        "/* a\n * b\n */",
        "\n#if A\n",
        "\n#else\n",
        "\n#endif\n",
        "\n#define M(x) \\\n  x\n",
        "\n@pragma p q\n",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\r\r\n",
        "\t",
    ]);
    prop::collection::vec(words, 0..80).prop_map(|words| words.join(" "))
}

/// Random tokens with matching brackets.
fn bracketed_tokens() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "8w1",
        "T",
        "bit<8>",
        "a.b",
        "1",
        "-",
        "!",
        ",",
        ";",
        "=",
        "+",
        "&&",
        "<",
        ">",
        "?",
        ":",
        "if",
        "else",
        "return",
        "E",
        "state",
        "apply",
        "key",
        "const",
        "(list<bit<8>>)",
        "(bit<8>)",
        "\n",
        "\n",
        " // c\n",
        " /* c */ ",
        "\n\n",
        "name_of_something_that_is_rather_long",
        "struct S",
        "transition select",
        "\n#if A\n",
        "\n#endif\n",
        "\r\r\n",
    ]);
    let leaf = leaf.prop_map(str::to_string);
    leaf.prop_recursive(5, 120, 10, |inner| {
        let many = prop::collection::vec(inner, 0..10).prop_map(|parts| parts.join(" "));
        (
            many,
            prop::sample::select(vec![
                ("(", ")"),
                ("{", "}"),
                ("[", "]"),
                ("<", ">"),
                ("{\n", "\n}"),
                ("(\n", ")"),
                ("", ""),
            ]),
        )
            .prop_map(|(inside, (open, close))| format!("{open}{inside}{close}"))
    })
}

proptest! {
    #![proptest_config(Cost::Fabric.cases())]

    #[test]
    fn blanks_between_tokens_do_not_affect_the_layout(widths in prop::collection::vec(0_usize..9, 1..50), pick in any::<prop::sample::Index>()) {
        let programs = programs();
        let (name, text) = &programs[pick.index(programs.len())];
        // Comments of several lines keep their inner indentation; text whose brackets do not match stays.
        let cut = pieces(text).unwrap_or_default();
        prop_assume!(cut.iter().all(|p| p.kind != Kind::BlockComment || !p.text.contains('\n')));
        prop_assume!(layout(&cut).is_some() && !cut.is_empty());
        prop_assert_eq!(format(&with_other_blanks(text, &widths)), format(text), "{}", name.display());
    }

    #[test]
    fn formatting_is_idempotent_for_any_tokens(text in prop_oneof![random_tokens(), bracketed_tokens()]) {
        let once = format(&text);
        prop_assert_eq!(format(&once), once);
    }

    #[test]
    fn any_text_keeps_its_tokens(text in "([a-z0-9 \n(){}<>\\[\\];:,.=+&|?@#\"'/*\\\\-]|if|else|// |/\\*|\\*/|bit<){0,60}") {
        let once = format(&text);
        prop_assert_eq!(format(&once), once.clone());
        let strip = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect::<String>();
        prop_assert_eq!(strip(&once), strip(&text));
    }
}

#[test]
fn lines_that_cannot_be_broken_end() {
    for semicolons in [90, 500] {
        let text = format!(
            "parser P(inout m_t meta,\n{} inout s_t s) {{\n}}\n",
            ";".repeat(semicolons)
        );
        let once = format(&text);
        assert_eq!(format(&once), once);
    }
}
