use super::ast::{AnnotationBody, P4Program};
use super::print::print_program;
use crate::arch::Arch;
use crate::diag::{render_all, Diagnostics, SourceMap};
use crate::preproc::{preprocess, DiskLoader, Options};
use crate::stack::on_deep_stack;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

fn parse(text: &str) -> (P4Program, String) {
    let mut map = SourceMap::new();
    let main = map.add("main.p4", text);
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(
        main,
        &mut map,
        &DiskLoader,
        &Options::default(),
        &mut diagnostics,
    )
    .tokens;
    let program = super::parser::parse(tokens, &mut diagnostics);
    (program, render_all(&diagnostics, &map))
}

/// Debug text of the tree without positions.
fn shape(program: &P4Program) -> String {
    let text = format!("{:?}", program.decls);
    let mut out = String::with_capacity(text.len() / 2);
    let mut rest = &text[..];
    while let Some(at) = rest.find("Span { file") {
        out += &rest[..at];
        let tail = &rest[at..];
        rest = &tail[tail.find('}').expect("spans print closed") + 1..];
    }
    // White space in unstructured annotations is layout and is ignored.
    (out + rest).replace("space_before: true", "space_before: false")
}

fn check_round_trip(text: &str) {
    let (first, errors) = parse(text);
    assert_eq!(errors, "", "{text}");
    let printed = print_program(&first);
    let (second, errors) = parse(&printed);
    assert_eq!(errors, "", "{printed}");
    assert_eq!(shape(&first), shape(&second), "{printed}");
    assert_eq!(printed, print_program(&second), "printing is stable");
}

#[test]
fn shipped_files_parse() {
    for version in ["20180101", "20200408"] {
        let (program, errors) = parse(&format!(
            "#define V1MODEL_VERSION {version}\n#include <v1model.p4>"
        ));
        assert_eq!(errors, "");
        assert!(program.decls.len() > 50);
    }
}

#[test]
fn printed_programs_parse_back_to_the_same_tree() {
    for path in crate::tests::programs("ok") {
        check_round_trip(&std::fs::read_to_string(path).expect("text"));
    }
}

/// Texts of the tokens in the first annotation's body.
fn body_of(text: &str) -> String {
    let (program, errors) = parse(text);
    assert_eq!(errors, "", "{text}");
    let constant = program.constant("x").expect("it is declared");
    constant
        .annotations
        .first()
        .expect("there is one")
        .body_text()
}

#[test]
fn annotation_bodies_may_contain_any_tokens() {
    for body in [
        "that's it",
        "$ # ? \\ ` é ## @a 7\u{fc}",
        "'a' (b's) c",
        "0..9 8w3.x",
        "x < y > z = \"a'b\"",
    ] {
        let text = format!("@foo({body})\nconst bool x = true;");
        assert_eq!(body_of(&text), body);
        let text = format!("@pragma foo {body}\nconst bool x = true;");
        assert_eq!(body_of(&text), body);
    }
}

/// In an annotation, a malformed number is not an error, so no placeholder is made for it.
#[test]
fn annotation_with_a_malformed_number_has_tokens_only() {
    let (program, errors) = parse("@note(8w) const bit<8> x = 1;");
    assert_eq!(errors, "");
    let body = &program.constant("x").expect("declared").annotations[0].body;
    assert!(
        matches!(body, AnnotationBody::Tokens { parsed: None, .. }),
        "{body:?}"
    );
}

#[test]
fn number_with_trailing_letters_in_an_annotation_is_two_tokens() {
    let (program, errors) = parse("@a(1abc 8w0xfgh 1_6w5 8s 0b12 0x 5) const bool x = true;");
    assert_eq!(errors, "");
    let AnnotationBody::Tokens { tokens, .. } =
        &program.constant("x").expect("declared").annotations[0].body
    else {
        panic!("it has a body");
    };
    let texts: Vec<&str> = tokens.iter().map(|token| &*token.text).collect();
    assert_eq!(
        texts,
        ["1", "abc", "8w0xf", "gh", "1_6", "w5", "8", "s", "0b1", "2", "0", "x", "5"]
    );
}

#[test]
fn constructs_outside_the_grammar_are_rejected() {
    for text in [
        "error { A, }",
        "error { }",
        "@x error { A }",
        "enum e { @x A }",
        "struct s<> { bit<8> x; }",
        "const bit<4> x = 8w1[0 + : 4];",
        "@pragma(x) const bool c = true;",
        "parser p(bit<8> x) { state start { transition select(x) { (1,): accept; } } }",
        "control c(bit<8> x) { table t { @a key = { x: exact; } actions = { } } apply { } }",
        "control c(bit<8> x) { table t { key = { x: exact; } entries = { priority = 1 + 1: 2: a(); } } apply { } }",
    ] {
        let (_, errors) = parse(text);
        assert!(errors.contains("error[E02"), "{text}: {errors}");
    }
    for text in [
        "@ pragma(x) const bool c = true;",
        "@pragma for x\nconst bool c = true;",
        "const bit<4> x = 8w1[0+:4];",
        "control c(bit<8> x) { table t { actions = { a; } default_action = (a()); } apply { } }",
        "control c(bit<8> x) { table t { key = { x: exact; } entries = { priority = (1 + 1): 2: a(); } } apply { } }",
    ] {
        assert_eq!(parse(text).1, "", "{text}");
    }
}

#[test]
fn characters_outside_p4_are_rejected_except_in_annotations() {
    let (_, errors) = parse("@a(')\nconst bool x = $ true;\n#define F(a) a # \\\n  true\nconst bool y = F() != F();\n@b[$]\n@pragma x #\n$");
    expect_test::expect![[r#"
        error[E0100]: `$` is not a token of P4
         --> main.p4:2:16
          |
        2 | const bool x = $ true;
          |                ^

        error[E0100]: unexpected `#`
         --> main.p4:3:16
          |
        3 | #define F(a) a # \
          |                ^
        ...
        5 | const bool y = F() != F();
          |                - in this use of the macro
          = note: a preprocessor directive must be at the start of a line

        error[E0100]: `$` is not a token of P4
         --> main.p4:6:4
          |
        6 | @b[$]
          |    ^

        error[E0100]: `$` is not a token of P4
         --> main.p4:8:1
          |
        8 | $
          | ^

        error[E0200]: expected a declaration, found end of file
         --> main.p4:8:2
          |
        8 | $
          |  ^ expected a declaration

    "#]]
    .assert_eq(&errors);
}

#[test]
fn a_program_in_p4_14_is_reported_once() {
    let (_, errors) = parse(
        "header_type data_t { fields { f1 : 32; } }\nheader data_t data;\nparser start { extract(data); return ingress; }",
    );
    expect_test::expect![[r#"
        error[E0200]: this program is in P4_14; only P4_16 is supported
         --> main.p4:1:1
          |
        1 | header_type data_t { fields { f1 : 32; } }
          | ^^^^^^^^^^^
          = help: translate the program with `p4test --p4v 14 --pp`

    "#]]
    .assert_eq(&errors);
    let (_, errors) = parse("struct header_type { bit<8> x; } const header_type c = { 1 };");
    assert_eq!(errors, "");
}

#[test]
fn tokens_that_the_grammar_omits_are_rejected_in_annotations() {
    for token in ["...", "+=", "<<=", "|-|=", "{#}", "priority"] {
        let (_, errors) = parse(&format!("@a(x {token} y) const bool x = true;"));
        assert!(
            errors.contains("cannot be in an annotation"),
            "{token}: {errors}"
        );
    }
}

#[test]
fn stack_sizes_may_follow_the_declared_name() {
    let behind = "struct s { bit<8> f[2][3]; } typedef s t[4]; void g(in s p[2]) { s v[2]; const s c[1] = { x }; }";
    let before = "struct s { bit<8>[2][3] f; } typedef s[4] t; void g(in s[2] p) { s[2] v; const s[1] c = { x }; }";
    let (behind, errors) = parse(behind);
    assert_eq!(errors, "");
    let (before, _) = parse(before);
    assert_eq!(print_program(&behind), print_program(&before));
}

#[test]
fn deep_nesting_is_an_error_without_stack_overflow() {
    let n = 50_000;
    for text in [
        format!("const bit<8> x = {}1{};", "(".repeat(n), ")".repeat(n)),
        format!("const bit<8> x = {}1;", "-".repeat(n)),
        format!("const bit<8> x = {}1;", "!(bit<8>)".repeat(n)),
        format!("const bit<8> x = 1{};", " + 1".repeat(n)),
        format!("const bit<8> x = a{};", ".b".repeat(n)),
        format!("const bit<8> x = a{};", "[0]".repeat(n)),
        format!("const bit<8> x = {}1;", "a ? 1 : ".repeat(n)),
        format!("const bit<8> x = {}{};", "{".repeat(n), "}".repeat(n)),
        format!("const {}x{} x = 1;", "t<".repeat(n), ">".repeat(n)),
        format!("const t{} x = 1;", "[1]".repeat(n)),
        format!("void f() {{ {} {} }}", "{".repeat(n), "}".repeat(n)),
        format!("void f() {{ {} ; }}", "if (true) ".repeat(n)),
        format!(
            "void f() {{ if (a) {{ }} {} ; }}",
            "else if (true) { }".repeat(n)
        ),
        format!("const bit<8> x = {};", "a < b ".repeat(n)),
        "control c() { action a() {".repeat(n),
        "@".repeat(n),
        "struct s { ".repeat(n),
        "bit<(".repeat(n),
        "f<bit<(".repeat(n),
    ] {
        let errors = on_deep_stack(|| {
            let (program, errors) = parse(&text);
            // The result does not matter: it must return.
            let _ = crate::sema::check(program, Arch::default(), &mut Diagnostics::new());
            errors
        });
        assert!(!errors.is_empty(), "{}", &text[..60]);
    }
}

/// Expressions of type `bit<8>` as text, fully parenthesised or not at all.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<u8>().prop_map(|n| format!("8w{n}")),
        any::<u8>().prop_map(|n| format!("8w0x{n:x}")),
        Just("(bit<8>)(bit<4>)8w7".to_owned()),
        Just("x".to_owned()),
        Just(".x".to_owned()),
    ];
    leaf.prop_recursive(5, 64, 3, |inner| {
        let op = prop::sample::select(vec![
            "+", "-", "*", "|+|", "|-|", "&", "|", "^", "<<", ">>", "/", "%",
        ]);
        let compare = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
        prop_oneof![
            (inner.clone(), op, inner.clone(), any::<bool>()).prop_map(|(a, op, b, parens)| {
                if parens {
                    format!("({a}) {op} ({b})")
                } else {
                    format!("{a} {op} {b}")
                }
            }),
            (
                prop::sample::select(vec!["-", "~", "+", "- -"]),
                inner.clone()
            )
                .prop_map(|(op, a)| format!("{op}({a})")),
            (inner.clone(), compare, inner.clone(), inner.clone())
                .prop_map(|(a, op, b, c)| format!("(({a}) {op} ({b}) && !false ? {c} : {a})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) ++ ({b}))[11:4]")),
            inner
                .clone()
                .prop_map(|a| format!("f<bit<8>>({a}, y = {{ {a}, ... }})")),
            inner.prop_map(|a| format!("(bit<8>)(int<8>)({a})")),
        ]
    })
}

fn statement() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        expression().prop_map(|e| format!("x = {e};")),
        expression().prop_map(|e| format!("x[3:0] |+|= {e};")),
        expression().prop_map(|e| format!("bit<8> v = {e};")),
        expression().prop_map(|e| format!("h.stack[{e}].push_front(1);")),
        Just("return;".to_owned()),
        Just(";".to_owned()),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let block =
            prop::collection::vec(inner, 0..4).prop_map(|list| format!("{{ {} }}", list.join(" ")));
        prop_oneof![
            block.clone(),
            (expression(), block.clone(), block.clone())
                .prop_map(|(e, a, b)| format!("if ({e} == 1) {a} else {b}")),
            (expression(), block.clone())
                .prop_map(|(e, b)| format!("if ({e} == 1) if (x > (x)) x = 1; else {b}")),
            (expression(), block.clone(), block.clone())
                .prop_map(|(e, a, b)| format!("switch ({e}) {{ 1: 2: {a} default: {b} }}")),
            (expression(), block.clone())
                .prop_map(|(e, b)| format!("@a for (bit<8> i in 1 .. {e}) {b}")),
            (expression(), block).prop_map(|(e, b)| format!(
                "for (bit<8> i = 0, x = 3; i < {e}; i += 1, x >>= 1) {b}"
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Cost::Fabric.cases() })]

    #[test]
    fn random_statements_print_and_parse_back(statements in prop::collection::vec(statement(), 0..4)) {
        check_round_trip(&format!("bit<8> x; void f() {{ {} }}", statements.join("\n")).replacen("bit<8> x; ", "", 1));
    }

    #[test]
    fn any_tokens_parse_without_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "control", "parser", "table", "{", "}", "(", ")", "<", ">", "[", "]", ";", ":", ",", "=", "x", "bit", "8",
            "apply", "state", "start", "transition", "select", "default", "_", "...", "&&&", "..", "+", "-", "@", "action",
            "if", "else", "switch", "for", "in", "const", "header", "struct", "enum", "error", "extern", "package",
            "key", "actions", "entries", "\"s\"", "8w1", "{#}", ".", "typedef", "type", "tuple", "void", "return",
            "value_set", "#", "\n#if 1\n", "\n#define x y(\n", "\n#endif\n", "?", "!", "priority", "list", "this",
        ]), 0..60)
    ) {
        let (program, _) = parse(&words.join(" "));
        let mut diagnostics = Diagnostics::new();
        // The messages are tested, with or without errors.
        let _ = crate::sema::check(program, Arch::default(), &mut diagnostics);
    }

    #[test]
    fn mutated_programs_are_checked_without_panic(at in any::<prop::sample::Index>(), length in 1usize..12, with in ".{0,3}") {
        let text = include_str!("../../test_data/ok/controls.p4");
        let starts: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
        let from = starts[at.index(starts.len())];
        let to = text.char_indices().map(|(i, _)| i).find(|i| *i >= from + length).unwrap_or(text.len());
        let mutated = format!("{}{with}{}", &text[..from], &text[to..]);
        let (program, _) = parse(&mutated);
        let mut diagnostics = Diagnostics::new();
        // The messages are tested, with or without errors.
        let _ = crate::sema::check(program, Arch::default(), &mut diagnostics);
    }
}
