use super::*;
use crate::diag::{render_all, SourceMap};
use expect_test::{expect, Expect};

fn run_with(text: &str, files: &[(&str, &str)], options: &Options) -> String {
    let mut map = SourceMap::new();
    let main = map.add("main.p4", text);
    let mut loader = MemoryLoader::default();
    for (name, text) in files {
        loader.add(*name, *text);
    }
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(main, &mut map, &loader, options, &mut diagnostics);
    let text: Vec<&str> = tokens
        .iter()
        .map(|t| &*t.text)
        .filter(|t| !t.is_empty())
        .collect();
    format!("{}\n{}", text.join(" "), render_all(&diagnostics, &map))
}

fn check(text: &str, expect: Expect) {
    expect.assert_eq(&run_with(text, &[], &Options::default()));
}

#[test]
fn object_macros_expand_and_do_not_recurse() {
    check(
        "#define A B + 1\n#define B A * 2\nA; B;",
        expect![[r#"
            A * 2 + 1 ; B + 1 * 2 ;
        "#]],
    );
}

#[test]
fn function_macros_expand_their_arguments_first() {
    check(
        "#define N 8\n#define T(w) bit<w>\n#define FIELD(t, n) T(t) n;\nFIELD(N, x) T",
        expect![[r#"
            bit < 8 > x ; T
        "#]],
    );
}

#[test]
fn hash_makes_strings_and_double_hash_glues() {
    check(
        "#define S(x) #x\n#define G(a, b) a##b\n#define W 16\nS(a + \"b\") G(x, 1) G(8w, 0xFF) G(W, W) S() G(,y) G(z,)",
        expect![[r#"
            "a + \"b\"" x1 8w0xFF WW "" y z
        "#]],
    );
}

#[test]
fn variadic_macros_take_the_rest() {
    check(
        "#define L(f, ...) log(f, ## __VA_ARGS__);\nL(\"a\") L(\"b\", {x, y})",
        expect![[r#"
            log ( "a" ) ; log ( "b" , { x , y } ) ;
        "#]],
    );
}

#[test]
fn a_macro_call_may_span_lines_and_contain_conditionals() {
    check(
        "#define F(a, b) [a b]\nF(1,\n#if 1\n2\n#else\n3\n#endif\n)",
        expect![[r#"
            [ 1 2 ]
        "#]],
    );
}

#[test]
fn conditions_evaluate_as_in_c() {
    check(
        "#define V 20200408\n#if V >= 20200408 && defined(V) && !defined X && (1 << 4 | 1) == 17\nyes\n#elif 1\nno\n#endif\n\
         #if UNKNOWN\nno\n#elif (5 - 2) * 2 == 6 ? 0x10 == 16 : 0\nyes\n#else\nno\n#endif",
        expect![[r#"
            yes yes
        "#]],
    );
}

#[test]
fn left_out_parts_may_contain_anything() {
    check("#if 0\n 'don't look \" here\n#include \"nothing\"\n#if garbage )(\n#else\n#endif\n#endif\nok", expect![[r#"
        ok
    "#]]);
}

#[test]
fn strings_run_over_lines_without_their_comments() {
    check(
        "a \"one // gone\n two \\\" /* gone */ three\" b \"four\" \"five\n#six\" c\n#define D 7\nD \"open",
        expect![[r#"
            a "one 
             two \"  three" b "four" "five
            #six" c 7 "open
            error[E0100]: this string is not closed
             --> main.p4:5:3
              |
            5 | D "open
              |   ^^^^^
              = help: add a `"` at its end

        "#]],
    );
}

#[test]
fn command_line_macros_count() {
    let macros = vec![
        MacroOption::Define("A".into()),
        MacroOption::Define("B=x + y".into()),
        MacroOption::Undefine("A".into()),
        MacroOption::Define("F(x)=x x".into()),
    ];
    expect![[r#"
        A x + y 3 3
    "#]]
    .assert_eq(&run_with(
        "A B F(3)",
        &[],
        &Options {
            macros,
            ..Options::default()
        },
    ));
}

#[test]
fn includes_search_own_folder_then_folders_in_order() {
    let options = Options {
        include_dirs: vec!["inc".into(), "lib".into()],
        ..Options::default()
    };
    let files = [
        ("inc/a.p4", "inc_a"),
        ("lib/a.p4", "lib_a"),
        ("lib/b.p4", "lib_b\n#include \"c.p4\""),
        ("lib/c.p4", "lib_c"),
        ("c.p4", "own_c"),
    ];
    expect![[r#"
        inc_a lib_b lib_c own_c
    "#]]
    .assert_eq(&run_with(
        "#include <a.p4>\n#include \"b.p4\"\n#define C \"c.p4\"\n#include C",
        &files,
        &options,
    ));
}

#[test]
fn shipped_files_need_no_folder() {
    let out = run_with("#include <v1model.p4>\nend", &[], &Options::default());
    assert!(out.contains("package V1Switch < H , M > ("), "{out}");
    assert!(out.contains("extern counter {"), "{out}");
    let out = run_with(
        "#define V1MODEL_VERSION 20200408\n#include <v1model.p4>\n",
        &[],
        &Options::default(),
    );
    assert!(out.contains("extern counter < I > {"), "{out}");
}

#[test]
fn missing_files_and_slips_are_explained() {
    check(
        "#include <v1modle.p4>\n#include \"mine.p4\"\n#inlcude <core.p4>\nx",
        expect![[r#"
            x
            error[E0102]: file `v1modle.p4` not found
             --> main.p4:1:10
              |
            1 | #include <v1modle.p4>
              |          ^^^^^^^^^^^^
              = help: did you mean `v1model.p4`?

            error[E0102]: file `mine.p4` not found
             --> main.p4:2:10
              |
            2 | #include "mine.p4"
              |          ^^^^^^^^^
              = note: searched in .
              = help: add the folder that has it with `-I`

            error[E0101]: unknown directive `#inlcude`
             --> main.p4:3:1
              |
            3 | #inlcude <core.p4>
              | ^^^^^^^^
              = help: did you mean `#include`?

        "#]],
    );
}

#[test]
fn endless_inclusion_is_stopped() {
    let out = run_with(
        "#include \"a.p4\"",
        &[("a.p4", "#include \"a.p4\"\n")],
        &Options::default(),
    );
    assert!(
        out.contains("error[E0105]: files include each other more than 100 deep"),
        "{out}"
    );
}

#[test]
fn exploding_macros_are_stopped() {
    let mut text = String::from("#define X0 x x x x x x x x\n");
    for i in 1..20 {
        let p = i - 1;
        text += &format!("#define X{i} X{p} X{p} X{p} X{p} X{p} X{p} X{p} X{p}\n");
    }
    text += "X19";
    let mut map = SourceMap::new();
    let main = map.add("main.p4", text);
    let mut diagnostics = Diagnostics::new();
    preprocess(
        main,
        &mut map,
        &MemoryLoader::default(),
        &Options::default(),
        &mut diagnostics,
    );
    assert!(render_all(&diagnostics, &map).contains("error[E0105]: the program has more than"));
}

#[test]
fn deep_nesting_of_macro_calls_is_stopped() {
    let text = format!(
        "#define F(x) x\n{}1{}",
        "F(".repeat(20_000),
        ")".repeat(20_000)
    );
    let out = run_with(&text, &[], &Options::default());
    assert!(out.contains("error[E0105]: macros are nested too deeply"));
}

#[test]
fn macro_misuse_is_reported_where_it_is_used() {
    check(
        "#define F(a, b) a b\nF(1) F(1, 2, 3)\n  F(",
        expect![[r#"

        error[E0103]: macro `F` takes 2 arguments, not 1
         --> main.p4:2:1
          |
        1 | #define F(a, b) a b
          |         - defined here
        2 | F(1) F(1, 2, 3)
          | ^

        error[E0103]: macro `F` takes 2 arguments, not 3
         --> main.p4:2:6
          |
        1 | #define F(a, b) a b
          |         - defined here
        2 | F(1) F(1, 2, 3)
          |      ^

        error[E0103]: call of macro `F` is not closed
         --> main.p4:3:3
          |
        3 |   F(
          |   ^
          = help: add the missing `)`

    "#]],
    );
}

#[test]
fn what_is_wrong_in_a_macro_is_shown_there_once() {
    check(
        "#define F(a) a $ \\\n  1\nF(x) F(y)",
        expect![[r#"
            x 1 y 1
            error[E0100]: `$` is no part of P4
             --> main.p4:1:16
              |
            1 | #define F(a) a $ \
              |                ^
            ...
            3 | F(x) F(y)
              | - in this use of the macro

        "#]],
    );
}

#[test]
fn conditionals_must_be_closed_and_ordered() {
    check(
        "#else\n#endif\n#if 1\n#else\n#elif 1\n#else\n#ifdef\n#endif\n",
        expect![[r#"

            error[E0101]: `#else` without `#if`
             --> main.p4:1:1
              |
            1 | #else
              | ^^^^^

            error[E0101]: `#endif` without `#if`
             --> main.p4:2:1
              |
            2 | #endif
              | ^^^^^^

            error[E0101]: `#elif` after `#else`
             --> main.p4:5:1
              |
            3 | #if 1
              | --- the conditional begins here
            ...
            5 | #elif 1
              | ^^^^^

            error[E0101]: second `#else` of one conditional
             --> main.p4:6:1
              |
            3 | #if 1
              | --- the conditional begins here
            ...
            6 | #else
              | ^^^^^

            error[E0101]: this conditional has no `#endif`
             --> main.p4:3:1
              |
            3 | #if 1
              | ^^^ opened here

        "#]],
    );
}

#[test]
fn line_directives_rename_positions() {
    check(
        "#line 100 \"gen.p4\"\n__LINE__ __FILE__ $\n\n__LINE__",
        expect![[r#"
        100 "gen.p4" 102
        error[E0100]: `$` is no part of P4
           --> gen.p4:100:19
            |
        100 | __LINE__ __FILE__ $
            |                   ^

    "#]],
    );
}

#[test]
fn printed_text_reads_back_to_the_same_tokens() {
    let text = "#define W 8\nheader h_t { bit<W> x; }\n\n\n\n\n\n\n\n\n\n\n\n\nconst bit<8> a = 1 + +1 - -W; // c\n@name(\"x\") action f() { }";
    let tokens = |text: &str| {
        let mut map = SourceMap::new();
        let main = map.add("main.p4", text);
        let mut diagnostics = Diagnostics::new();
        let tokens = preprocess(
            main,
            &mut map,
            &MemoryLoader::default(),
            &Options::default(),
            &mut diagnostics,
        );
        assert!(!diagnostics.has_errors());
        let lines: Vec<(String, u32)> = tokens
            .iter()
            .map(|t| (t.text.to_string(), map.location(t.span).line))
            .filter(|t| !t.0.is_empty())
            .collect();
        (print(&tokens, &map), lines)
    };
    let (printed, first) = tokens(text);
    let (_, second) = tokens(&printed);
    assert_eq!(first, second, "{printed}");
}
