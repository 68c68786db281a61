//! Property tests: expressions compiled to 64-bit words have the same value as in unbounded integers. They are JSON,
//! since P4 has no unbounded integers at run time.

use crate::builder::*;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use serde_json::{json, Value};

/// Fields of many widths, with and without sign, in one header.
const FIELDS: [(&str, u32, bool); 9] = [
    ("a", 1, false),
    ("b", 7, true),
    ("c", 8, false),
    ("d", 24, false),
    ("e", 32, true),
    ("f", 56, false),
    ("g", 64, false),
    ("i", 64, true),
    ("w", 104, false),
];

#[derive(Clone, Debug)]
enum E {
    Field(usize),
    Const(i64),
    Un(&'static str, Box<E>),
    Bin(&'static str, Box<E>, Box<E>),
    Cast(&'static str, u32, Box<E>),
    Tern(Box<E>, Box<E>, Box<E>),
}

impl E {
    fn json(&self) -> Value {
        match self {
            E::Field(i) => field("h", FIELDS[*i].0),
            E::Const(v) if *v < 0 => hex(&format!("-{:#x}", v.unsigned_abs())),
            E::Const(v) => hex(&format!("{v:#x}")),
            E::Un(op, a) => {
                json!({"type": "expression", "value": {"op": op, "left": null, "right": a.json()}})
            }
            E::Bin(op, a, b) => expr(op, a.json(), b.json()),
            E::Cast(op, bits, a) => expr(op, a.json(), num(u64::from(*bits))),
            E::Tern(c, a, b) => json!({"type": "expression", "value": {"op": "?",
                "left": a.json(), "right": b.json(), "cond": c.json()}}),
        }
    }

    /// Evaluates the expression in 128 bits; `None` if these are not enough.
    fn eval(&self, fields: &[i128]) -> Option<i128> {
        Some(match self {
            E::Field(i) => fields[*i],
            E::Const(v) => i128::from(*v),
            E::Un("~", a) => !a.eval(fields)?,
            E::Un("d2b", a) => i128::from(a.eval(fields)? != 0),
            E::Un("not", a) => i128::from(a.eval(fields)? == 0),
            E::Un("b2d", a) => a.eval(fields)?,
            E::Un(..) => unreachable!(),
            E::Tern(c, a, b) => {
                let (a, b) = (a.eval(fields), b.eval(fields));
                if c.eval(fields)? != 0 {
                    a?
                } else {
                    b?
                }
            }
            E::Cast(op, bits, a) => {
                let a = a.eval(fields)?;
                let half = 1i128 << (bits - 1);
                match *op {
                    "two_comp_mod" => ((a + half) & ((half << 1) - 1)) - half,
                    "sat_cast" => a.clamp(-half, half - 1),
                    _ => a.clamp(0, (half << 1) - 1),
                }
            }
            E::Bin(op, a, b) => {
                let (a, b) = (a.eval(fields)?, b.eval(fields)?);
                let shift = u32::try_from(b).ok();
                match *op {
                    "+" => a.checked_add(b)?,
                    "-" => a.checked_sub(b)?,
                    "*" => a.checked_mul(b)?,
                    "/" if a < 0 || b <= 0 => 0,
                    "/" => a / b,
                    "%" if a < 0 || b <= 0 => 0,
                    "%" => a % b,
                    "<<" => a.checked_mul(1i128.checked_shl(shift?).filter(|v| *v > 0)?)?,
                    ">>" => a >> shift?.min(127),
                    "&" => a & b,
                    "|" => a | b,
                    "^" => a ^ b,
                    "==" => i128::from(a == b),
                    "!=" => i128::from(a != b),
                    "<" => i128::from(a < b),
                    "<=" => i128::from(a <= b),
                    ">" => i128::from(a > b),
                    ">=" => i128::from(a >= b),
                    "and" => i128::from(a != 0 && b != 0),
                    "or" => i128::from(a != 0 || b != 0),
                    _ => unreachable!(),
                }
            }
        })
    }
}

fn bin(op: &'static str, a: E, b: E) -> E {
    E::Bin(op, Box::new(a), Box::new(b))
}

/// `(a >> low) & (2^bits - 1)`
fn slice(a: E, low: i64, bits: u32) -> E {
    let mask = i64::MAX >> (63 - bits);
    bin("&", bin(">>", a, E::Const(low)), E::Const(mask))
}

/// Expressions that compilers often generate: bits of fields, comparisons of serial numbers, concatenations, and tests
/// of a few bits.
fn shapes(inner: impl Strategy<Value = E> + Clone + 'static) -> BoxedStrategy<E> {
    let sliced =
        (inner.clone(), 0i64..110, 1u32..=63).prop_map(|(a, low, bits)| slice(a, low, bits));
    let twice =
        (sliced.clone(), 0i64..20, 1u32..=40).prop_map(|(a, low, bits)| slice(a, low, bits));
    let order = (sliced.clone(), sliced.clone(), 1u32..=63).prop_map(|(a, b, bits)| {
        let difference = bin("&", bin("-", a, b), E::Const(i64::MAX >> (63 - bits)));
        bin(">>", difference, E::Const(i64::from(bits) - 1))
    });
    let joined = (inner, 0i64..64, sliced.clone())
        .prop_map(|(a, shift, b)| bin("|", bin("<<", a, E::Const(shift)), b));
    prop_oneof![sliced, twice, order, joined].boxed()
}

fn boolean(data: impl Strategy<Value = E> + Clone + 'static) -> BoxedStrategy<E> {
    let compare = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let few = (
        prop::sample::select(vec!["==", "!="]),
        shapes(data.clone()),
        0i64..3,
    )
        .prop_map(|(op, a, b)| bin(op, a, E::Const(b)));
    let any = (compare, data.clone(), data).prop_map(|(op, a, b)| bin(op, a, b));
    let leaf = prop_oneof![any, few];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (
                prop::sample::select(vec!["and", "or"]),
                inner.clone(),
                inner.clone()
            )
                .prop_map(|(op, a, b)| E::Bin(op, Box::new(a), Box::new(b))),
            inner.prop_map(|a| E::Un("not", Box::new(a))),
        ]
    })
    .boxed()
}

fn data() -> BoxedStrategy<E> {
    let leaf = prop_oneof![
        3 => (0..FIELDS.len()).prop_map(E::Field),
        1 => any::<i64>().prop_map(E::Const),
        1 => (0i64..70).prop_map(E::Const),
        1 => Just(E::Const(0xffff_ffff)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let binary = prop::sample::select(vec!["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"]);
        let cast = prop::sample::select(vec!["two_comp_mod", "sat_cast", "usat_cast"]);
        prop_oneof![
            5 => (binary, inner.clone(), inner.clone()).prop_map(|(op, a, b)| E::Bin(op, Box::new(a), Box::new(b))),
            1 => inner.clone().prop_map(|a| E::Un("~", Box::new(a))),
            1 => (cast, 1u32..=64, inner.clone()).prop_map(|(op, bits, a)| E::Cast(op, bits, Box::new(a))),
            1 => (boolean(inner.clone()), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| E::Tern(Box::new(c), Box::new(a), Box::new(b))),
            3 => shapes(inner.clone()),
            1 => boolean(inner).prop_map(|a| E::Un("b2d", Box::new(a))),
        ]
    })
    .boxed()
}

fn values() -> impl Strategy<Value = Vec<i128>> {
    FIELDS
        .iter()
        .map(|(_, bits, signed)| {
            let (bits, signed) = (*bits, *signed);
            prop_oneof![
                any::<u128>(),
                Just(0),
                Just(u128::MAX),
                Just(1),
                Just(1 << 127)
            ]
            .prop_map(move |v| {
                let v = (v >> (128 - bits)) as i128;
                if signed && v >> (bits - 1) == 1 {
                    v - (1 << bits)
                } else {
                    v
                }
            })
        })
        .collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(Cost::Arithmetic.cases())]

    #[test]
    fn compiled_expressions_agree_with_unbounded_integers(
        value in data(), condition in boolean(data()), fields in values(),
        target in (1u32..=80, any::<bool>()),
    ) {
        let (bits, signed) = (target.0.max(1 + u32::from(target.1)), target.1);
        let mut b = Builder::new();
        let mut list: Vec<Value> = FIELDS.iter().map(|(n, w, s)| json!([n, w, s])).collect();
        let total: u32 = FIELDS.iter().map(|f| f.1).sum();
        prop_assert_eq!(total % 8, 0);
        list.push(json!(["out", bits, signed]));
        list.push(json!(["cond", 8, false]));
        let pad = (8 - bits % 8) % 8;
        if pad > 0 {
            list.push(json!(["pad", pad, false]));
        }
        b.header("h_t", &["h"], json!(list)).extracts(&["h"]).emits(&["h"]);
        b.runs("ingress", json!([
            send_to(1),
            assign(field("h", "cond"), operand(E::Un("b2d", Box::new(condition.clone())).json())),
            assign(field("h", "out"), operand(value.json())),
        ]));
        let mut text = String::new();
        for ((_, bits, _), v) in FIELDS.iter().zip(&fields) {
            let v = (*v as u128) << (128 - bits) >> (128 - bits);
            text += &format!("{v:0width$b}", width = *bits as usize);
        }
        let mut frame: Vec<u8> =
            (0..text.len() / 8).map(|i| u8::from_str_radix(&text[8 * i..8 * i + 8], 2).unwrap()).collect();
        let start = frame.len();
        frame.resize(start + ((bits + 8 + pad) / 8) as usize, 0);
        let out = b.switch().process(0, &frame, 0);
        prop_assert_eq!(&out[0].1[..start], &frame[..start]);
        let tail = out[0].1[start..].iter().fold(0u128, |v, b| v << 8 | u128::from(*b)) >> pad;
        if let Some(expected) = value.eval(&fields) {
            prop_assert_eq!(tail >> 8, expected as u128 & ((1 << bits) - 1), "value {:?}", value);
        }
        if let Some(expected) = condition.eval(&fields) {
            prop_assert_eq!(tail & 0xff, expected as u128, "condition {:?}", condition);
        }
    }
}
