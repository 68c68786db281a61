//! Tests with programs that are long, deeply nested, or that expand to much more code. Sequences of 10,000 constructs must compile and run.
//! Exponential expansion must give one error, at the source of the expansion.

use alfirk_compiler::driver::{compile_with, CompileError, CompileOptions, Compiled};
use alfirk_compiler::format::format;
use alfirk_compiler::preproc::MemoryLoader;

/// A program of v1model with variable parts.
#[derive(Default)]
struct Parts {
    /// Declarations of the top level.
    top: String,
    /// Fields of the struct of headers.
    headers: String,
    /// Fields of the struct of metadata.
    metadata: String,
    /// Declarations of the parser, before its states.
    parser: String,
    /// Statements of the state `start`.
    start: String,
    /// Further states; empty if `start` accepts.
    states: String,
    /// Declarations of ingress.
    locals: String,
    /// Statements of ingress.
    apply: String,
}

impl Parts {
    /// The text of the program.
    fn text(&self) -> String {
        let Parts {
            top,
            headers,
            metadata,
            parser,
            start,
            states,
            locals,
            apply,
        } = self;
        let transition = match states.is_empty() {
            true => "transition accept;",
            false => "",
        };
        format!(
            "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<32> c; }}
{top}
struct headers_t {{ h_t h; {headers} }}
struct meta_t {{ bit<8> m; {metadata} }}
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {parser}
    state start {{ p.extract(hdr.h); {start} {transition} {states} }}
control V(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ sm.egress_spec = 1; {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
",
            states = match states.is_empty() {
                true => "}",
                false => states,
            }
        )
    }
}

/// A program with the statements `apply` in ingress.
fn with_apply(apply: impl Into<String>) -> Parts {
    Parts {
        apply: apply.into(),
        ..Parts::default()
    }
}

/// A program with declarations at the top level and statements in ingress.
fn with_declarations(top: impl Into<String>, apply: impl Into<String>) -> Parts {
    Parts {
        top: top.into(),
        apply: apply.into(),
        ..Parts::default()
    }
}

fn compile(text: &str) -> Result<Compiled, CompileError> {
    let mut loader = MemoryLoader::default();
    loader.add("main.p4", text);
    compile_with(&CompileOptions::new("main.p4"), &loader)
}

/// The concatenation of the texts for the numbers 0 to `n - 1`.
fn each(n: usize, part: impl Fn(usize) -> String) -> String {
    (0..n).map(part).collect()
}

/// An `if` with `n - 1` branches `else if`, one per line.
fn branches(n: usize) -> String {
    let one = |i: usize| format!("if (hdr.h.c == {i}) {{ hdr.h.a = {}; }}", i % 251);
    (0..n).map(one).collect::<Vec<_>>().join("\nelse ")
}

/// Compiles a program and runs an STF test on it.
fn compile_and_run(parts: &Parts, packets: &str) {
    let text = parts.text();
    let compiled = compile(&text).unwrap_or_else(|error| panic!("{error:.2000}"));
    let json = compiled.json.to_text();
    let lines = alfirk_stf::parse(packets).expect("the test is well-formed");
    let failures = alfirk_stf::run_here(&json, &lines, 0).expect("the switch loads the program");
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn ten_thousand_branches_compile_and_run() {
    // The branch 9,999 (0x270f) sets the field to 9,999 mod 251, which is 0xd2.
    let packets = "packet 0 00 00 0000270f\nexpect 1 d2 00 0000270f $\npacket 0 07 00 00002710\nexpect 1 07 00 00002710 $\n";
    compile_and_run(&with_apply(branches(10_000)), packets);
    let in_action = Parts {
        locals: format!("action x() {{ {} }}", branches(10_000)),
        apply: "x();".to_owned(),
        ..Parts::default()
    };
    compile_and_run(&in_action, packets);
    let in_parser = Parts {
        start: branches(10_000),
        ..Parts::default()
    };
    compile(&in_parser.text()).unwrap_or_else(|error| panic!("{error:.2000}"));
}

#[test]
fn ten_thousand_operators_compile_and_run() {
    let packets =
        |result: &str| format!("packet 0 01 03 00000000\nexpect 1 {result} 03 00000000 $\n");
    // 3 plus 10,000 times 1 is 10,003 (0x2713), or 0x13 in 8 bits.
    compile_and_run(
        &with_apply(format!("hdr.h.a = hdr.h.b{};", " + hdr.h.a".repeat(10_000))),
        &packets("13"),
    );
    compile_and_run(
        &with_apply(format!("hdr.h.a = hdr.h.b{};", " - hdr.h.a".repeat(10_000))),
        &packets("f3"),
    );
    compile_and_run(
        &with_apply(format!(
            "hdr.h.a = hdr.h.b{};",
            " |+| hdr.h.a".repeat(10_000)
        )),
        &packets("ff"),
    );
    compile_and_run(
        &with_apply(format!("hdr.h.a = hdr.h.b{};", " ^ hdr.h.a".repeat(10_001))),
        &packets("02"),
    );
    compile_and_run(
        &with_apply(format!(
            "hdr.h.a = {}hdr.h.b{};",
            "hdr.h.a + (".repeat(10_000),
            ")".repeat(10_000)
        )),
        &packets("13"),
    );
    compile_and_run(
        &with_apply(format!("hdr.h.a = {}hdr.h.b;", "~".repeat(10_001))),
        &packets("fc"),
    );
    compile_and_run(
        &with_apply(format!(
            "hdr.h.a = {}hdr.h.b;",
            "(bit<8>)(bit<16>)".repeat(5_000)
        )),
        &packets("03"),
    );
    let all = each(10_000, |i| format!(" && hdr.h.c != {}", i + 1));
    compile_and_run(
        &with_apply(format!("if (hdr.h.b == 3{all}) {{ hdr.h.a = 9; }}")),
        &packets("09"),
    );
    let any = each(10_000, |i| format!(" || hdr.h.c == {}", i + 1));
    compile_and_run(
        &with_apply(format!("if (hdr.h.b == 7{any}) {{ hdr.h.a = 9; }}")),
        &packets("01"),
    );
    let choices = each(10_000, |i| {
        format!("hdr.h.c == {} ? 8w{} : ", i + 1, i % 256)
    });
    compile_and_run(
        &with_apply(format!("hdr.h.a = {choices}hdr.h.b;")),
        &packets("03"),
    );
    let joined = Parts {
        metadata: "bit<10000> big;".to_owned(),
        apply: format!(
            "meta.big = hdr.h.b[0:0]{}; hdr.h.a = meta.big[7:0];",
            " ++ hdr.h.a[0:0]".repeat(9_999)
        ),
        ..Parts::default()
    };
    compile_and_run(&joined, &packets("ff"));
}

#[test]
fn ten_thousand_levels_and_elements_compile() {
    let n = 10_000;
    let fields = each(n, |i| format!("bit<8> f{i}; "));
    let values = |value: &dyn Fn(usize) -> String| (0..n).map(value).collect::<Vec<_>>().join(", ");
    for (name, parts) in [
        ("blocks", with_apply(format!("{}hdr.h.a = 1;{}", "{".repeat(n), "}".repeat(n)))),
        ("ifs", with_apply(format!("{}hdr.h.a = 1;{}", each(n, |i| format!("if (hdr.h.c != {i}) {{ ")), "}".repeat(n)))),
        ("parentheses", with_apply(format!("hdr.h.a = {}hdr.h.b{};", "(".repeat(n), ")".repeat(n)))),
        ("slices", with_apply(format!("hdr.h.a = hdr.h.b{};", "[7:0]".repeat(n)))),
        ("statements", with_apply("hdr.h.a = hdr.h.a + 1; ".repeat(n))),
        ("cases", with_apply(format!("switch (hdr.h.c) {{ {} default: {{ }} }}", each(n, |i| format!("{i}: {{ hdr.h.a = 1; }} "))))),
        (
            "select",
            Parts {
                states: format!(
                    "transition select(hdr.h.c) {{ {} default: accept; }} }} state s {{ transition accept; }}",
                    each(n, |i| format!("{i}: s; "))
                ),
                ..Parts::default()
            },
        ),
        (
            "states",
            Parts {
                states: format!(
                    "transition s0; }} {} state s{n} {{ transition accept; }}",
                    each(n, |i| format!(
                        "state s{i} {{ transition select(hdr.h.a) {{ {}: s{}; default: accept; }} }} ",
                        i % 256,
                        i + 1
                    ))
                ),
                ..Parts::default()
            },
        ),
        (
            "list",
            with_declarations(
                format!("struct s_t {{ {fields} }}"),
                format!("s_t x = {{ {} }}; hdr.h.a = x.f0;", values(&|_| "hdr.h.a".to_owned())),
            ),
        ),
        (
            "fields",
            with_declarations(
                format!("struct s_t {{ {fields} }}"),
                format!("s_t x = {{ {} }}; hdr.h.a = x.f0;", values(&|i| format!("f{i} = hdr.h.a"))),
            ),
        ),
    ] {
        if let Err(error) = compile(&parts.text()) {
            panic!("{name}: {error:.2000}");
        }
    }
}

#[test]
fn structs_of_five_thousand_fields_can_be_compared() {
    let fields = each(5_000, |i| format!("bit<8> f{i}; "));
    let parts = Parts {
        top: format!("struct s_t {{ {fields} }}"),
        metadata: "s_t x; s_t y;".to_owned(),
        apply:
            "meta.x.f4999 = hdr.h.a; meta.y.f4999 = hdr.h.b; if (meta.x == meta.y) { hdr.h.c = 1; }"
                .to_owned(),
        ..Parts::default()
    };
    let packets = "packet 0 05 05 00000000\nexpect 1 05 05 00000001 $\npacket 0 05 06 00000000\nexpect 1 05 06 00000000 $\n";
    compile_and_run(&parts, packets);
}

#[test]
fn formatter_supports_programs_as_large_as_the_compiler_does() {
    for parts in [
        with_apply(branches(10_000)),
        with_apply(format!("hdr.h.a = hdr.h.b{};", " + hdr.h.a".repeat(10_000))),
        with_apply(format!(
            "{}hdr.h.a = 1;{}",
            "{".repeat(10_000),
            "}".repeat(10_000)
        )),
        with_apply(format!(
            "hdr.h.a = {}hdr.h.b{};",
            "(".repeat(10_000),
            ")".repeat(10_000)
        )),
    ] {
        let once = format(&parts.text());
        assert_eq!(format(&once), once);
    }
}

/// The diagnostics of a program, which must have exactly one error.
fn single_error(name: &str, text: &str) -> String {
    match compile(text) {
        Err(CompileError::Program { report, errors }) => {
            let found = report
                .lines()
                .filter(|line| line.starts_with("error"))
                .count();
            assert_eq!((errors, found), (1, 1), "{name}: {report:.2000}");
            report
        }
        Err(error) => panic!("{name}: {error}"),
        Ok(_) => panic!("{name} compiles"),
    }
}

#[test]
fn too_deep_nesting_is_one_error_with_the_limit() {
    let n = 50_000;
    for (name, apply) in [
        ("branches", branches(n)),
        ("blocks", format!("{}{}", "{".repeat(n), "}".repeat(n))),
        (
            "parentheses",
            format!("hdr.h.a = {}1{};", "(".repeat(n), ")".repeat(n)),
        ),
        (
            "operators",
            format!("hdr.h.a = hdr.h.b{};", " + 8w1".repeat(n)),
        ),
        ("signs", format!("hdr.h.a = {}hdr.h.b;", "~".repeat(n))),
        (
            "choices",
            format!("hdr.h.a = {}1;", "hdr.h.b == 1 ? 8w1 : ".repeat(n)),
        ),
        (
            "lists",
            format!("hdr.h.a = {}1{};", "{".repeat(n), "}".repeat(n)),
        ),
        ("slices", format!("hdr.h.a = hdr.h.b{};", "[7:0]".repeat(n))),
    ] {
        let output = single_error(name, &with_apply(apply).text());
        assert!(
            output.contains("error[E0201]: this is nested more than "),
            "{name}: {output:.500}"
        );
        assert!(output.contains(" levels deep"), "{name}: {output:.500}");
    }
    let calls = each(3_000, |i| {
        format!("bit<8> f{}(in bit<8> x) {{ return f{i}(x); }}\n", i + 1)
    });
    let top = format!("bit<8> f0(in bit<8> x) {{ return x; }}\n{calls}");
    let output = single_error(
        "calls",
        &with_declarations(top, "hdr.h.a = f3000(hdr.h.b);").text(),
    );
    assert!(
        output.contains("calls are nested more than 2000 levels deep"),
        "{output:.500}"
    );
    let deep = each(60, |i| {
        format!(
            "bit<8> f{}(in bit<8> x) {{ return {}f{i}(x); }}\n",
            i + 1,
            "~".repeat(5_000)
        )
    });
    let top = format!("bit<8> f0(in bit<8> x) {{ return x; }}\n{deep}");
    let output = single_error(
        "calls in deep expressions",
        &with_declarations(top, "hdr.h.a = f60(hdr.h.b);").text(),
    );
    assert!(
        output.contains("levels deep, with the calls around it"),
        "{output:.500}"
    );
}

/// A chain of declarations: `next(i, i - 1)` declares number `i` by two uses of number `i - 1`, so that each expands to twice the code.
fn chain_of_doublings(first: &str, levels: usize, next: impl Fn(usize, usize) -> String) -> String {
    let rest: String = (1..=levels).map(|i| next(i, i - 1) + "\n").collect();
    format!("{first}\n{rest}")
}

#[test]
fn exponential_expansion_is_one_error() {
    let n = 30;
    let structs = chain_of_doublings("struct s0 { bit<8> a; bit<8> b; }", n, |i, j| {
        format!("struct s{i} {{ s{j} a; s{j} b; }}")
    });
    let tables = chain_of_doublings(
        "control C0(inout bit<8> x) { action a() { x = 1; } table t { key = { x: exact; } actions = { a; } } apply { t.apply(); } }",
        n,
        |i, j| format!("control C{i}(inout bit<8> x) {{ C{j}() a; C{j}() b; apply {{ a.apply(x); b.apply(x); }} }}"),
    );
    let empty = chain_of_doublings("control C0(inout bit<8> x) { apply { } }", n, |i, j| {
        format!("control C{i}(inout bit<8> x) {{ C{j}() a; C{j}() b; apply {{ a.apply(x); b.apply(x); }} }}")
    });
    let direct = chain_of_doublings(
        "control C0(inout bit<8> x) { apply { x = x + 1; } }",
        n,
        |i, j| {
            format!("control C{i}(inout bit<8> x) {{ apply {{ C{j}.apply(x); C{j}.apply(x); }} }}")
        },
    );
    let parsers = chain_of_doublings(
        "parser Q0(packet_in p, inout bit<8> x) { state start { x = x + 1; transition accept; } }",
        n,
        |i, j| {
            format!(
                "parser Q{i}(packet_in p, inout bit<8> x) {{ Q{j}() a; Q{j}() b; state start {{ a.apply(p, x); b.apply(p, x); transition accept; }} }}"
            )
        },
    );
    let in_locals = |locals: String, apply: &str| Parts {
        locals,
        apply: apply.to_owned(),
        ..Parts::default()
    };
    let actions = chain_of_doublings("action a0() { hdr.h.a = hdr.h.a + 1; }", n, |i, j| {
        format!("action a{i}() {{ a{j}(); a{j}(); }}")
    });
    let loops = |body: &str| {
        let heads = each(5, |i| format!("for (bit<16> i{i} in 0 .. 199) {{ "));
        format!("{heads}{body}{}", "}".repeat(5))
    };
    let switches = each(25, |i| {
        format!("switch (t{i}.apply().action_run) {{ a: default: {{ ")
    });
    for (name, parts) in [
        (
            "calls of calls",
            with_declarations(
                chain_of_doublings("bit<8> f0(in bit<8> x) { return x + 1; }", n, |i, j| {
                    format!("bit<8> f{i}(in bit<8> x) {{ return f{j}(f{j}(x)); }}")
                }),
                format!("hdr.h.a = f{n}(hdr.h.b);"),
            ),
        ),
        (
            "sums of calls",
            with_declarations(
                chain_of_doublings("bit<8> f0(in bit<8> x) { return x + 1; }", n, |i, j| {
                    format!("bit<8> f{i}(in bit<8> x) {{ return f{j}(x) + f{j}(x); }}")
                }),
                format!("hdr.h.a = f{n}(hdr.h.b);"),
            ),
        ),
        (
            "calls that do nothing",
            with_declarations(
                chain_of_doublings("void f0(in bit<8> x) { }", n, |i, j| {
                    format!("void f{i}(in bit<8> x) {{ f{j}(x); f{j}(x); }}")
                }),
                format!("f{n}(hdr.h.b);"),
            ),
        ),
        (
            "structs",
            with_declarations(structs.clone(), format!("s{n} x; hdr.h.a = 1;")),
        ),
        (
            "structs of metadata",
            Parts {
                metadata: format!("s{n} x;"),
                ..with_declarations(structs.clone(), "")
            },
        ),
        (
            "structs of headers",
            Parts {
                headers: "b_t b;".to_owned(),
                ..with_declarations(format!("{structs}header b_t {{ s{n} a; }}"), "")
            },
        ),
        (
            "parameters",
            with_declarations(
                format!("{structs}void f(in s{n} x) {{ }}"),
                format!("s{n} x; f(x);"),
            ),
        ),
        (
            "generic structs",
            with_declarations(
                "struct S<T> { T a; T b; }",
                format!("{}bit<8>{} x;", "S<".repeat(n), ">".repeat(n)),
            ),
        ),
        (
            "structs of generic structs",
            with_declarations(
                chain_of_doublings("struct S0<T> { T a; T b; }", n, |i, j| {
                    format!("struct S{i}<T> {{ S{j}<T> a; S{j}<T> b; }}")
                }),
                format!("S{n}<bit<8>> x;"),
            ),
        ),
        (
            "tuples",
            with_declarations(
                chain_of_doublings("typedef tuple<bit<8>, bit<8>> t0;", n, |i, j| {
                    format!("typedef tuple<t{j}, t{j}> t{i};")
                }),
                format!("t{n} x;"),
            ),
        ),
        (
            "controls with tables",
            Parts {
                locals: format!("C{n}() c;"),
                ..with_declarations(tables, "c.apply(hdr.h.a);")
            },
        ),
        (
            "controls that do nothing",
            Parts {
                locals: format!("C{n}() c;"),
                ..with_declarations(empty, "c.apply(hdr.h.a);")
            },
        ),
        (
            "controls applied directly",
            with_declarations(direct, format!("C{n}.apply(hdr.h.a);")),
        ),
        (
            "parsers",
            Parts {
                top: parsers,
                parser: format!("Q{n}() q;"),
                start: "q.apply(p, hdr.h.b);".to_owned(),
                ..Parts::default()
            },
        ),
        ("actions", in_locals(actions.clone(), &format!("a{n}();"))),
        (
            "actions of tables",
            in_locals(
                format!(
                    "{actions} table t {{ key = {{ hdr.h.a: exact; }} actions = {{ a{n}; }} }}"
                ),
                "t.apply();",
            ),
        ),
        ("loops", with_apply(loops("hdr.h.a = hdr.h.a + 1;"))),
        ("loops that do nothing", with_apply(loops(""))),
        (
            "bodies of two labels",
            in_locals(
                format!(
                    "action a() {{ hdr.h.a = 1; }} {}",
                    each(25, |i| {
                        format!("table t{i} {{ key = {{ hdr.h.c: exact; }} actions = {{ a; NoAction; }} default_action = NoAction(); }} ")
                    })
                ),
                &format!("{switches}hdr.h.b = 1;{}", "}}".repeat(25)),
            ),
        ),
        (
            "strings",
            with_declarations(
                chain_of_doublings("const string k0 = \"ab\";", n, |i, j| {
                    format!("const string k{i} = k{j} ++ k{j};")
                }),
                format!("log_msg(k{n});"),
            ),
        ),
        (
            "numbers",
            with_declarations(
                chain_of_doublings("const int k0 = 3;", n, |i, j| {
                    format!("const int k{i} = k{j} * k{j};")
                }),
                format!("hdr.h.a = (bit<8>)k{n};"),
            ),
        ),
        (
            "sums of long numbers",
            with_declarations(
                chain_of_doublings("const int k0 = (1 << 130000);", 20_000, |i, j| {
                    format!("const int k{i} = k{j} + 1;")
                }),
                "",
            ),
        ),
        (
            "a shift",
            with_apply("hdr.h.a = (bit<8>)(1 << 1000000000);"),
        ),
        (
            "a width",
            Parts {
                metadata: "bit<1000000000> x;".to_owned(),
                ..Parts::default()
            },
        ),
        (
            "a stack",
            Parts {
                headers: "h_t[1000000000] x;".to_owned(),
                ..Parts::default()
            },
        ),
        (
            "large stacks",
            Parts {
                headers: each(10, |i| format!("h_t[60000] x{i}; ")),
                ..Parts::default()
            },
        ),
        (
            "indices of stacks",
            Parts {
                headers: "h_t[60000] x;".to_owned(),
                apply: "hdr.x[hdr.h.c].a = hdr.x[hdr.h.c + 1].a; ".repeat(10),
                ..Parts::default()
            },
        ),
        (
            "macros",
            with_declarations(
                chain_of_doublings("#define A0 const bit<8> x = 1;", n, |i, j| {
                    format!("#define A{i} A{j} A{j}")
                }) + &format!("A{n}"),
                "",
            ),
        ),
        (
            "macros of nothing",
            with_declarations(
                chain_of_doublings("#define A0", n, |i, j| format!("#define A{i} A{j} A{j}"))
                    + &format!("A{n}"),
                "",
            ),
        ),
        (
            "macros of arguments",
            with_declarations(
                chain_of_doublings("#define A0(x) x", n, |i, j| {
                    format!("#define A{i}(x) A{j}(x x)")
                }) + &format!("A{n}(;)"),
                "",
            ),
        ),
        (
            "macros of strings",
            with_declarations(
                chain_of_doublings(
                    "#define S(x) #x\n#define T(x) S(x)\n#define A0 \"a\"",
                    n,
                    |i, j| format!("#define A{i} T(A{j} A{j})"),
                ) + &format!("const string x = A{n};"),
                "",
            ),
        ),
        (
            "files that include themselves",
            with_declarations("#include \"main.p4\"\n#include \"main.p4\"", ""),
        ),
    ] {
        let output = single_error(name, &parts.text());
        assert!(output.len() < 4_000, "{name}: {output:.500}");
    }
}

#[test]
fn expansion_error_is_at_the_smallest_type_that_is_too_large() {
    let structs = chain_of_doublings("struct s0 { bit<8> a; bit<8> b; }", 22, |i, j| {
        format!("struct s{i} {{ s{j} a; s{j} b; }}")
    });
    let output = single_error(
        "structs",
        &with_declarations(structs, "s22 x; hdr.h.a = 1;").text(),
    );
    // `s16` is the smallest struct with more than 250,000 parts.
    assert!(
        output.contains("| struct s16 { s15 a; s15 b; }"),
        "{output}"
    );
    assert!(
        output.contains("the program has more than 250000 parts"),
        "{output}"
    );
}
