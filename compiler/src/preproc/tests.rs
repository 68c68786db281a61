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
    let tokens = preprocess(main, &mut map, &loader, options, &mut diagnostics).tokens;
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
fn stringification_and_token_pasting() {
    check(
        "#define S(x) #x\n#define G(a, b) a##b\n#define W 16\nS(a + \"b\") G(x, 1) G(8w, 0xFF) G(W, W) S() G(,y) G(z,)",
        expect![[r#"
            "a + \"b\"" x1 8w0xFF WW "" y z
        "#]],
    );
}

#[test]
fn variadic_parameter_takes_the_remaining_arguments() {
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
fn inactive_branches_may_contain_any_text() {
    check("#if 0\n 'don't look \" here\n#include \"nothing\"\n#if garbage )(\n#else\n#endif\n#endif\nok", expect![[r#"
        ok
    "#]]);
}

#[test]
fn strings_may_span_lines_and_keep_their_comments() {
    check(
        "a \"one // kept\n two \\\" /* kept */ three\" b \"four\" \"five\n#six\" c\n#define D 7\nD \"open",
        expect![[r#"
            a "one // kept
             two \" /* kept */ three" b "four" "five
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
fn macros_expand_in_the_inner_lines_of_a_multiline_string() {
    check(
        "#define A 1\n\"A\nA A\n A\" A\nA",
        expect![[r#"
            "A
            1 1
             1" A 1
        "#]],
    );
}

#[test]
fn directives_within_a_multiline_string_are_executed() {
    check(
        "\"x\n#if 0\ny\n#endif\nz\" w",
        expect![[r#"
            "x



            z" w
        "#]],
    );
}

#[test]
fn directives_in_a_string_keep_columns_and_comments_of_the_rest() {
    check(
        "\"x  \n  #if 1 // gone\n    // kept\n    y /* kept,\n too */   z  \n#else\n  // not\n  w\n#endif\n  // last  \n  \"",
        expect![[r#"
            "x  

                // kept
                y /* kept,
             too */ z




              // last  
              "
        "#]],
    );
}

#[test]
fn stringified_arguments_keep_their_comments() {
    check(
        "#define S(a) #a\n#define V(...) #__VA_ARGS__\n#define T(a) S(a)\nS(x /* c */ y) S( /* c */ x/*d*/y /* e */ )\nS(x // c\n y) S(/* c */) S(x y) V(x, /* c */ y)\nT(x /* c */ y) S(\"a\" /* \"c\" */)",
        expect![[r#"
            "x /* c */ y" "/* c */ x/*d*/y /* e */" "x /* c*/ y" "/* c */" "x y" "x, /* c */ y" "x /* c */ y" "\"a\" /* \"c\" */"
        "#]],
    );
}

#[test]
fn blanks_in_a_multiline_string_collapse_except_indentation() {
    check(
        "#define F(a) a +a\n\"x   y\n\t\tb \t c\n  F( 1 )   F(2) d\n\n#pragma p\n e\\\n f\n g\"",
        expect![[r#"
            "x   y
              b c
              1 +1 2 +2 d


             e f

             g"
        "#]],
    );
}

#[test]
fn backslash_newline_is_removed_within_tokens() {
    check(
        "lo\\\nng 1\\\r\n2 \"a\\  \nb\" > \\\n> >\\\n= // c\\\nc\n#def\\\nine M\\\nX(a) #a\nMX(b\\\nc) __LINE__",
        expect![[r#"
            long 12 "ab" > > >= "bc" 12
        "#]],
    );
}

#[test]
fn messages_point_into_joined_lines() {
    check(
        "#if 1\\\n2 /\n#endif\n#error a\\\nb",
        expect![[r#"

            error[E0101]: the condition ends where a value is expected
             --> main.p4:1:4
              |
            1 | #if 1\
              |    ^

            error[E0104]: #error: ab
             --> main.p4:4:1
              |
            4 | #error a\
              | ^^^^^^

        "#]],
    );
}

#[test]
fn pasting_without_a_valid_token_keeps_both_operands() {
    check(
        "#define F(h, f) h. ## f h ## . ## f\n#define P(a, b) a ## b\nF(x, y) P(+, +) P(>, ) P(., .) P(1, x)",
        expect![[r#"
            x . y x . y ++ > .. 1x
        "#]],
    );
}

#[test]
fn macros_do_not_expand_between_apostrophes() {
    check(
        "#define M 7\n'M' M don't M /* M */\nM 'it''s' M",
        expect![[r#"
            ' M ' 7 don ' t M 7 ' it ' ' s ' 7
        "#]],
    );
}

#[test]
fn macros_do_not_expand_within_preprocessing_numbers() {
    check(
        "#define M 7\n0..M 0 .. M 0xe+M 8w0x1+M M..1 .5",
        expect![[r#"
            0 .. M 0 .. 7 0xe + M 8w0x1 + 7 7 .. 1 . 5
        "#]],
    );
}

#[test]
fn va_opt_depends_on_the_variadic_arguments() {
    check(
        "#define E\n#define F(a, ...) f(a __VA_OPT__(,) __VA_ARGS__)\nF(1) F(1,) F(1, E) F(1, 2, 3)\n\
         #define G(...) x ## __VA_OPT__(y) ## z #__VA_OPT__(a  __VA_ARGS__)\nG() G(1)\n__VA_OPT__",
        expect![[r#"
            f ( 1 ) f ( 1 ) f ( 1 ) f ( 1 , 2 , 3 ) xz "" xyz "a 1" __VA_OPT__
        "#]],
    );
}

#[test]
fn named_variadic_parameter_takes_the_remaining_arguments() {
    check(
        "#define F(a, rest...) [a: #rest: rest]\n#define G(f, rest...) f(1, ## rest)\nF(1) F(1, 2 ,3) F(1,,) G(x) G(x,) G(x, 2)",
        expect![[r#"
            [ 1 : "" : ] [ 1 : "2 ,3" : 2 , 3 ] [ 1 : "," : , ] x ( 1 ) x ( 1 , ) x ( 1 , 2 )
        "#]],
    );
}

#[test]
fn conditions_support_characters_signedness_and_has_include() {
    let conditions = [
        "'A' == 65",
        "'\\n' == 10 && '\\x41' == 65 && '\\101' == 65 && '\\'' == 39",
        "'ab' == 24930",
        "'\\377' < 0",
        "-1 > 0u",
        "-1 < 0",
        "0xffffffffffffffff > 0",
        "(1, 2) == 2",
        "1 || 1 / 0",
        "(0 ? 1 / 0 : 2) == 2",
        "!true",
        "010 == 8 && 0b11 == 3",
        "1 << 3 == 8 && -8 >> 1 == -4",
        "defined __has_include",
        "__has_include(<core.p4>) && __has_include(\"lib.p4\") && !__has_include(\"none.p4\")",
        "__has_include(LIB)",
        "KNOWN",
    ];
    let text: String = conditions
        .iter()
        .map(|condition| format!("#if {condition}\nyes\n#else\nno\n#endif\n"))
        .collect();
    let text =
        format!("#define LIB \"lib.p4\"\n#define KNOWN defined(LIB) && !defined NONE\n{text}");
    let out = run_with(&text, &[("lib.p4", "")], &Options::default());
    assert_eq!(
        out,
        format!("{}\n", vec!["yes"; conditions.len()].join(" "))
    );
}

#[test]
fn malformed_conditions_are_reported() {
    for condition in [
        "",
        "1 2",
        "1 / 0",
        "08",
        "1w2",
        "''",
        "\"a\" == 1",
        "(1",
        "1 ? 2",
        "defined",
        "defined(1)",
        "1.5",
        "__has_include",
        "__has_include(",
        "3 = 3",
    ] {
        let text = format!("#if {condition}\n#endif\n");
        let out = run_with(&text, &[], &Options::default());
        assert!(out.contains("error[E0101]"), "{condition}: {out}");
    }
}

#[test]
fn predefined_macros_equal_those_of_cpp_for_assembler() {
    let options = Options {
        now: Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000)),
        ..Options::default()
    };
    expect![[r#"
        "Sep 13 2020" "12:26:40" "??? ??? ?? ??:??:?? ????" 1 1 1 __STDC_VERSION__ "dir/a.p4" "a.p4" "main.p4" 1 1 0 1
    "#]]
    .assert_eq(&run_with(
        "__DATE__ __TIME__ __TIMESTAMP__ __STDC__ __STDC_HOSTED__ __ASSEMBLER__ __STDC_VERSION__\n#include \"dir/a.p4\"",
        &[("dir/a.p4", "__FILE__ __FILE_NAME__ __BASE_FILE__ __INCLUDE_LEVEL__ __LINE__ __COUNTER__ __COUNTER__")],
        &options,
    ));
}

#[test]
fn line_macro_in_a_call_is_the_line_of_its_end() {
    check(
        "#define F(x) x __LINE__\nF(\n__LINE__\n) __LINE__",
        expect![[r#"
            4 4 4
        "#]],
    );
}

#[test]
fn unknown_directives_are_ignored() {
    check(
        "#elseif X\n#pragma mark x\n#ident \"x\"\n#\n# 7 \"y\"\n_Pragma(\"once\") __LINE__",
        expect![[r#"
            7
            warning[preprocessor]: unknown directive `#elseif`
             --> main.p4:1:1
              |
            1 | #elseif X
              | ^^^^^^^
              = note: the line is ignored, as by p4c
              = help: did you mean `#elif`?

        "#]],
    );
}

#[test]
fn pragmas_save_macros_and_print_messages() {
    check(
        "#define A 1\n#pragma push_macro(\"A\")\n#undef A\nA\n#pragma pop_macro(\"A\")\nA\n#pragma GCC error \"no\"\n_Pragma(\"GCC warning \\\"oh\\\"\")",
        expect![[r#"
            A 1
            error[E0104]: no
             --> main.p4:7:1
              |
            7 | #pragma GCC error "no"
              | ^^^^^^^

            warning[preprocessor]: oh\
             --> main.p4:8:1
              |
            8 | _Pragma("GCC warning \"oh\"")
              | ^^^^^^^

        "#]],
    );
}

#[test]
fn include_next_and_import_are_supported() {
    let options = Options {
        include_dirs: vec!["one".into(), "two".into()],
        ..Options::default()
    };
    let files = [
        (
            "one/a.p4",
            "first\n#if __has_include_next(<a.p4>)\n#include_next <a.p4>\n#endif",
        ),
        (
            "two/a.p4",
            "second\n#if __has_include_next(<a.p4>)\n#include_next <a.p4>\n#endif",
        ),
        ("two/b.p4", "b"),
    ];
    expect![[r#"
        first second b
    "#]]
    .assert_eq(&run_with(
        "#include <a.p4>\n#import <b.p4>\n#import <b.p4>\n#include <b.p4>",
        &files,
        &options,
    ));
}

#[test]
fn preprocessed_text_is_not_preprocessed_again() {
    let options = Options {
        only_line_markers: true,
        ..Options::default()
    };
    expect![[r#"
        __LINE__ A A
    "#]]
    .assert_eq(&run_with(
        "# 5 \"x.p4\"\n__LINE__ A\n#define A 1\n#include \"none\"\n#if 0\nA",
        &[],
        &options,
    ));
}

#[test]
fn dependency_rules_list_the_files_read() {
    let mut map = SourceMap::new();
    let main = map.add(
        "src/prog.p4",
        "#include <core.p4>\n#include \"a b.p4\"\n#include \"$x.p4\"\n#include \"gone.p4\"\n",
    );
    let mut loader = MemoryLoader::default();
    loader.add("src/a b.p4", "#include \"$x.p4\"");
    loader.add("src/$x.p4", "");
    let options = Options {
        missing_are_generated: true,
        ..Options::default()
    };
    let mut diagnostics = Diagnostics::new();
    let out = preprocess(main, &mut map, &loader, &options, &mut diagnostics);
    assert!(!diagnostics.has_errors());
    let rule = |dependencies: Dependencies| dependencies.rule(&map, &out.missing);
    expect![[r#"
        prog.o: src/prog.p4 src/a\ b.p4 src/$$x.p4 gone.p4
    "#]]
    .assert_eq(&rule(Dependencies::default()));
    expect![[r#"
        a $$(b)\ c: src/prog.p4 src/a\ b.p4 src/$$x.p4 gone.p4
        src/a\ b.p4:
        src/$$x.p4:
        gone.p4:
    "#]]
    .assert_eq(&rule(Dependencies {
        targets: vec!["a".into(), quoted_for_make("$(b) c")],
        phony: true,
    }));
}

#[test]
fn command_line_macros_are_defined() {
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
fn includes_search_own_folder_then_include_dirs_in_order() {
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
fn shipped_files_are_found_without_include_dirs() {
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
fn missing_files_and_misspelt_directives_have_suggestions() {
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
              = help: add its folder with `-I`

            warning[preprocessor]: unknown directive `#inlcude`
             --> main.p4:3:1
              |
            3 | #inlcude <core.p4>
              | ^^^^^^^^
              = note: the line is ignored, as by p4c
              = help: did you mean `#include`?

        "#]],
    );
}

#[test]
fn infinite_inclusion_is_an_error() {
    let out = run_with(
        "#include \"a.p4\"",
        &[("a.p4", "#include \"a.p4\"\n")],
        &Options::default(),
    );
    assert!(
        out.contains("error[E0105]: files include each other more than 200 deep"),
        "{out}"
    );
}

#[test]
fn exponentially_growing_macros_are_an_error() {
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
fn deep_nesting_of_macro_calls_is_an_error() {
    let text = format!(
        "#define F(x) x\n{}1{}",
        "F(".repeat(20_000),
        ")".repeat(20_000)
    );
    let out = run_with(&text, &[], &Options::default());
    assert!(out.contains("error[E0105]: macros are nested more than"));
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
fn unterminated_string_is_reported() {
    check(
        "#define D 7\nD \"open\nD",
        expect![[r#"
            7 "open 7
            error[E0100]: this string is not closed
             --> main.p4:2:3
              |
            2 | D "open
              |   ^^^^^
              = help: add a `"` at its end

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
fn line_directives_change_reported_positions() {
    check(
        "#line 100 \"gen.p4\"\n__LINE__ __FILE__ $\n\n__LINE__",
        expect![[r#"
            100 "gen.p4" $ 102
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
        )
        .tokens;
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
