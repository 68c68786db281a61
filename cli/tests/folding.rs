//! Constant folding and the switch agree: a random expression has the same value with operands from constants of the program and from
//! a packet.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use alfirk_bmv2::{LoadedProgram, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;
use alfirk_test_budget::Cost;
use proptest::prelude::*;

/// An expression of type `bit<W>` over three operands.
#[derive(Clone, Debug)]
enum Expr {
    Operand(usize),
    Literal(u128),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// An operation on `int<W>`, converted from and to `bit<W>`.
    Signed(&'static str, Box<Expr>, Box<Expr>),
    /// A shift by a constant; `ShiftBy`: by the low byte of an operand.
    Shift(&'static str, bool, Box<Expr>, u8),
    ShiftBy(&'static str, bool, Box<Expr>, usize),
    /// Division by a power of two, given by its exponent: other divisions are supported at compile time only.
    Divide(&'static str, Box<Expr>, u32),
    Choose(&'static str, bool, Box<[Expr; 4]>),
    /// The two halves exchanged, by slices and concatenation.
    Swap(Box<Expr>),
    /// Conversion to a narrower signed type and back, which extends the sign.
    Narrow(u32, Box<Expr>),
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        3 => (0..3usize).prop_map(Expr::Operand),
        1 => any::<u128>().prop_map(Expr::Literal),
        1 => (0..4u128).prop_map(Expr::Literal),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let unary = prop::sample::select(vec!["~", "-"]);
        let binary = prop::sample::select(vec!["+", "-", "*", "&", "|", "^", "|+|", "|-|"]);
        let signed = prop::sample::select(vec!["+", "-", "*", "|+|", "|-|", "&", "^"]);
        let shift = prop::sample::select(vec!["<<", ">>"]);
        let compare = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
        let divide = prop::sample::select(vec!["/", "%"]);
        prop_oneof![
            (unary, boxed.clone()).prop_map(|(op, a)| Expr::Unary(op, a)),
            (binary, boxed.clone(), boxed.clone()).prop_map(|(op, a, b)| Expr::Binary(op, a, b)),
            (signed, boxed.clone(), boxed.clone()).prop_map(|(op, a, b)| Expr::Signed(op, a, b)),
            (shift.clone(), any::<bool>(), boxed.clone(), any::<u8>())
                .prop_map(|(op, signed, a, by)| Expr::Shift(op, signed, a, by)),
            (shift, any::<bool>(), boxed.clone(), 0..3usize)
                .prop_map(|(op, signed, a, by)| Expr::ShiftBy(op, signed, a, by)),
            (divide, boxed.clone(), 0..8u32).prop_map(|(op, a, by)| Expr::Divide(op, a, by)),
            (
                compare,
                any::<bool>(),
                [inner.clone(), inner.clone(), inner.clone(), inner.clone()]
            )
                .prop_map(|(op, signed, parts)| Expr::Choose(
                    op,
                    signed,
                    Box::new(parts)
                )),
            boxed.clone().prop_map(Expr::Swap),
            (1..8u32, boxed).prop_map(|(width, a)| Expr::Narrow(width, a)),
        ]
    })
}

/// Writes an expression as P4; `operand` returns the text of each operand.
fn render(expr: &Expr, width: u32, operand: &dyn Fn(usize) -> String) -> String {
    let to = |expr: &Expr| render(expr, width, operand);
    let mask = if width == 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    };
    let signed = |expr: &Expr| format!("(int<{width}>){}", to(expr));
    let typed = |is_signed: bool, expr: &Expr| if is_signed { signed(expr) } else { to(expr) };
    match expr {
        Expr::Operand(index) => operand(*index),
        Expr::Literal(value) => format!("{width}w{}", value & mask),
        Expr::Unary(op, a) => format!("({op}{})", to(a)),
        Expr::Binary(op, a, b) => format!("({} {op} {})", to(a), to(b)),
        Expr::Signed(op, a, b) => format!("((bit<{width}>)({} {op} {}))", signed(a), signed(b)),
        Expr::Shift(op, is_signed, a, by) => {
            format!("((bit<{width}>)({} {op} 8w{by}))", typed(*is_signed, a))
        }
        Expr::ShiftBy(op, is_signed, a, by) => {
            format!(
                "((bit<{width}>)({} {op} {}))",
                typed(*is_signed, a),
                operand(*by)
            )
        }
        Expr::Divide(op, a, by) => format!("({} {op} {width}w{})", to(a), 1u32 << by),
        Expr::Choose(op, is_signed, parts) => {
            let [a, b, c, d] = &**parts;
            let (a, b) = (typed(*is_signed, a), typed(*is_signed, b));
            format!("({a} {op} {b} ? {} : {})", to(c), to(d))
        }
        Expr::Swap(a) => {
            let (half, a) = (width / 2, to(a));
            format!("(({a})[{}:0] ++ ({a})[{}:{half}])", half - 1, width - 1)
        }
        Expr::Narrow(narrow, a) => {
            format!(
                "((bit<{width}>)(int<{width}>)(int<{narrow}>)(bit<{narrow}>){})",
                to(a)
            )
        }
    }
}

fn program(expr: &Expr, width: u32, operands: [u128; 3]) -> String {
    let of_packet = render(expr, width, &|index| {
        format!("hdr.data.{}", ["a", "b", "c"][index])
    });
    let constant = render(expr, width, &|index| format!("{width}w{}", operands[index]));
    format!(
        "#include <core.p4>
#include <v1model.p4>
header data_t {{ bit<{width}> a; bit<{width}> b; bit<{width}> c; bit<{width}> run; bit<{width}> folded; }}
struct headers_t {{ data_t data; }}
struct metadata_t {{ }}
parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {{
    state start {{ p.extract(hdr.data); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {{
    apply {{
        sm.egress_spec = 1;
        hdr.data.run = {of_packet};
        hdr.data.folded = {constant};
    }}
}}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {{ apply {{ }} }}
control C(inout headers_t hdr, inout metadata_t m) {{ apply {{ }} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

/// The two results for a packet with these operands.
fn run(source: &str, width: u32, operands: [u128; 3]) -> (Vec<u8>, Vec<u8>) {
    let mut loader = MemoryLoader::default();
    loader.add("test.p4", source);
    let options = CompileOptions::new(Path::new("test.p4"));
    let compiled =
        compile_with(&options, &loader).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let program =
        LoadedProgram::from_json(&compiled.json.to_text()).expect("the switch takes our output");
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(Arc::new(program));
    let bytes = (width / 8) as usize;
    let mut packet = Vec::new();
    for operand in operands {
        packet.extend(&operand.to_be_bytes()[16 - bytes..]);
    }
    packet.resize(5 * bytes, 0);
    let mut sent = switch.process(0, &packet, 0);
    assert_eq!(sent.len(), 1);
    let (_, packet) = sent.remove(0);
    (
        packet[3 * bytes..4 * bytes].to_vec(),
        packet[4 * bytes..].to_vec(),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Cost::Arithmetic.cases() })]

    #[test]
    fn constant_folding_matches_the_switch(
        expr in expr(),
        width in prop::sample::select(vec![8u32, 16, 32, 48, 64, 104, 128]),
        operands in prop::array::uniform3(prop_oneof![any::<u128>(), 0..3u128, Just(u128::MAX)]),
    ) {
        let mask = if width == 128 { u128::MAX } else { (1 << width) - 1 };
        let operands = operands.map(|operand| operand & mask);
        let source = program(&expr, width, operands);
        let (run, folded) = run(&source, width, operands);
        prop_assert_eq!(hex(&run), hex(&folded), "\n{}", source);
    }
}
