use super::value::{self, Value};
use super::{CheckedProgram, DefKind, Type};
use crate::arch::Arch;
use crate::diag::{render_all, Diagnostics, SourceMap};
use crate::preproc::{preprocess, DiskLoader, Options};
use crate::syntax::ast::{BinaryOp, UnaryOp};
use alfirk_test_budget::Cost;
use num_bigint::BigInt;
use proptest::prelude::*;

fn run(name: &str, text: &str) -> (CheckedProgram, String) {
    let mut map = SourceMap::new();
    let main = map.add(name, text);
    let mut diagnostics = Diagnostics::new();
    let tokens = preprocess(
        main,
        &mut map,
        &DiskLoader,
        &Options::default(),
        &mut diagnostics,
    )
    .tokens;
    let program = crate::syntax::parser::parse(tokens, &mut diagnostics);
    let checked = super::check_despite_errors(program, Arch::default(), &mut diagnostics).program;
    (checked, render_all(&diagnostics, &map))
}

/// The value of the constant with this name.
fn constant(checked: &CheckedProgram, name: &str) -> Value {
    let id = (0..checked.program.decl_count)
        .map(crate::syntax::ast::DeclId)
        .find(|id| {
            matches!(checked.opt_def(*id).map(|d| &d.kind), Some(DefKind::Const(c)) if &*c.name.name == name)
        })
        .expect("the constant is declared");
    checked.const_value(id).expect("it has a value").clone()
}

fn int(n: i64) -> Value {
    Value::Int(BigInt::from(n))
}

#[test]
fn shipped_files_have_no_errors() {
    for version in ["20180101", "20200408"] {
        let (_, messages) = run(
            "main.p4",
            &format!("#define V1MODEL_VERSION {version}\n#include <v1model.p4>"),
        );
        assert_eq!(messages, "");
    }
}

#[test]
fn tofino_architectures_have_no_errors() {
    for file in ["tna.p4", "t2na.p4"] {
        let (_, messages) = run("main.p4", &format!("#include <{file}>"));
        assert_eq!(messages, "", "{file}");
    }
}

#[test]
fn data_plane_has_no_errors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/v1model/main.p4");
    let text = std::fs::read_to_string(path).expect("p4src is in the repository");
    let (checked, messages) = run(path, &text);
    assert_eq!(messages, "");
    assert!(checked.main().is_some());
}

#[test]
fn constants_have_these_values() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/test_data/ok/expressions.p4");
    let (checked, _) = run(
        path,
        &std::fs::read_to_string(path).expect("in the repository"),
    );
    for (name, expected) in [
        ("A", int(255)),
        ("B", int(-1)),
        ("C", int(4)),
        ("D", int(0xff04)),
        ("E", Value::Bool(true)),
        ("F", int(15)),
        ("G", int(-1)),
        ("I", int(255)),
        ("J", int(0)),
        ("K", int(127)),
        ("M", int(126)),
        ("N", int(17 / 5 * 3 % 4 + 1)),
        ("P", Value::Bool(true)),
        ("Q", int((!0xff ^ (0x0f & 3)) & 0xff)),
        ("R", int(3 * 2 + (17 / 5 * 3 % 4 + 1))),
        ("TUP0", int(1)),
        ("KIND_BITS", int(2)),
        ("KIND_SUM", int(2)),
        ("FROM_BITS", int(1)),
        ("SAME", Value::Bool(false)),
        ("RAW", int(3)),
        ("PORTS", Value::Bool(false)),
        ("FIRST", int(3)),
        (
            "PAIR",
            Value::Aggregate([int(3), Value::Bool(false)].into()),
        ),
    ] {
        assert_eq!(constant(&checked, name), expected, "{name}");
    }
}

#[test]
fn exponentially_large_types_are_an_error() {
    let mut text = String::from(
        "struct P<A, B> { A a; B b; }\ntypedef tuple<bit<8>, bit<8>> T0;\ntypedef bit<8> U0;\n",
    );
    for i in 1..64 {
        let p = i - 1;
        text += &format!("typedef tuple<T{p}, T{p}> T{i};\ntypedef P<U{p}, U{p}> U{i};\n");
    }
    text += "const T63 x = { ... };\nconst U63 y = { ... };";
    let (_, messages) = run("main.p4", &text);
    assert!(
        messages.contains("error[E0105]: this type is too large"),
        "{messages}"
    );
}

#[test]
fn sizes_of_nested_structs_are_computed_once() {
    let mut text = String::from("header h { bit<8> x; }\nstruct S0 { h[100] a; bit<8> b; }\n");
    for i in 1..30 {
        let p = i - 1;
        let fields: String = (0..16).map(|f| format!("S{p} f{f}; ")).collect();
        text += &format!("struct S{i} {{ {fields} }}\n");
    }
    text += "void f(inout S29 s) { S29 t; t = { ... }; s = t; int_size(s.minSizeInBits()); }\n";
    let text = text.replace("void f(", "extern void int_size(int n);\nvoid f(");
    let (_, messages) = run("main.p4", &text);
    assert_eq!(messages, "");
}

#[test]
fn folding_wraps_at_the_width() {
    let ty = Type::Bit(8);
    let fold = |op, a: i64, b: i64| value::binary(op, (&int(a), &ty), (&int(b), &ty));
    assert_eq!(fold(BinaryOp::Add, 200, 100), Ok(int(44)));
    assert_eq!(fold(BinaryOp::Sub, 1, 2), Ok(int(255)));
    assert_eq!(fold(BinaryOp::Shl, 1, 8), Ok(int(0)));
    assert_eq!(
        fold(BinaryOp::Div, 1, 0),
        Err(value::FoldError::DivisionByZero)
    );
    assert_eq!(value::unary(UnaryOp::Minus, &int(1), &ty), Ok(int(255)));
    assert_eq!(
        value::unary(UnaryOp::Complement, &int(0), &Type::Signed(8)),
        Ok(int(-1))
    );
    assert_eq!(value::slice(&int(-1), &Type::Signed(8), 7, 4), Ok(int(15)));
}

/// The expected result, computed with the machine's 128-bit integers; `None` for operations that are errors.
fn reference(op: BinaryOp, a: i128, b: i128, width: u32, signed: bool) -> Option<i128> {
    let bound = |n: i128| {
        let n = n & ((1i128 << width) - 1);
        if signed && n >> (width - 1) == 1 {
            n - (1i128 << width)
        } else {
            n
        }
    };
    let (min, max) = if signed {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    Some(match op {
        BinaryOp::Add => bound(a + b),
        BinaryOp::Sub => bound(a - b),
        BinaryOp::Mul => bound(a.wrapping_mul(b)),
        BinaryOp::AddSat => (a + b).clamp(min, max),
        BinaryOp::SubSat => (a - b).clamp(min, max),
        BinaryOp::BitAnd => bound(a & b),
        BinaryOp::BitOr => bound(a | b),
        BinaryOp::BitXor => bound(a ^ b),
        BinaryOp::Shl if b >= 0 => {
            if b >= i128::from(width) {
                0
            } else {
                bound((a & ((1 << width) - 1)) << b)
            }
        }
        BinaryOp::Shr if b >= 0 => a >> b.min(120),
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Cost::Arithmetic.cases() })]

    #[test]
    fn folding_agrees_with_machine_arithmetic(
        op in prop::sample::select(vec![
            BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::AddSat, BinaryOp::SubSat, BinaryOp::BitAnd,
            BinaryOp::BitOr, BinaryOp::BitXor, BinaryOp::Shl, BinaryOp::Shr,
        ]),
        width in 1u32..=60,
        a in any::<i64>(),
        b in any::<i64>(),
        signed in any::<bool>(),
    ) {
        let ty = if signed { Type::Signed(width) } else { Type::Bit(width) };
        let a = value::wrap(BigInt::from(a), &ty);
        let b = value::wrap(BigInt::from(b), &ty);
        let narrow = |n: &BigInt| i128::try_from(n).expect("60 bits fit");
        if let Some(expected) = reference(op, narrow(&a), narrow(&b), width, signed) {
            let got = value::binary(op, (&Value::Int(a), &ty), (&Value::Int(b), &ty));
            prop_assert_eq!(got, Ok(Value::Int(BigInt::from(expected))));
        }
    }
}
