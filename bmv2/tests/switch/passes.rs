//! Property test: the optional passes of the loader, jump threading and fusion, do not change the behaviour of random
//! programs. The programs are JSON, since compilers generate few of these shapes.

use crate::builder::*;
use alfirk_bmv2::{LoadOptions, LoadedProgram, Switch, SwitchOptions};
use alfirk_bmv2_json::BmV2Json;
use alfirk_test_budget::Cost;
use proptest::prelude::*;
use serde_json::{json, Value};
use std::sync::Arc;

/// Fields of the header `h`, one byte each, which are the packet.
const FIELDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Metadata with their widths.
const SCALARS: [(&str, u32); 4] = [("m", 1), ("n", 4), ("o", 16), ("p", 64)];

/// Number of nodes of the control flow; edges lead to later nodes.
const NODES: usize = 10;

/// Number of cells of the register array, which has fewer than the indexes that are used.
const CELLS: u64 = 5;

/// A random variable.
fn variable() -> impl Strategy<Value = Value> {
    prop_oneof![
        proptest::sample::select(&FIELDS[..]).prop_map(|name| field("h", name)),
        proptest::sample::select(&SCALARS[..]).prop_map(|(name, _)| scalar(name)),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    // Small numbers are often equal.
    (0..4u64).prop_map(num)
}

/// A random number, as an expression.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![3 => variable(), 2 => number()];
    leaf.prop_recursive(2, 8, 2, |inner| {
        let op = proptest::sample::select(vec!["+", "-", "&", "|", "^", "*", ">>"]);
        let two = (op, inner.clone(), inner.clone());
        let comparison = (condition_of(inner.clone().boxed()), inner.clone(), inner);
        prop_oneof![
            3 => two.prop_map(|(op, a, b)| wrapped(expr(op, a, b))),
            1 => comparison.prop_map(|(cond, a, b)| json!({
                "type": "expression",
                "value": {"op": "?", "left": a, "right": b, "cond": cond},
            })),
        ]
    })
}

/// Wraps a number to 8 bits, so that shifts and products stay small.
fn wrapped(value: Value) -> Value {
    expr("&", value, num(0xff))
}

/// A random comparison of numbers.
fn condition_of(value: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let op = proptest::sample::select(vec!["==", "==", "!=", "<", "<=", ">", ">="]);
    (op, value.clone(), value).prop_map(|(op, a, b)| expr(op, a, b))
}

/// A random boolean, as an expression.
fn condition() -> impl Strategy<Value = Value> {
    let leaf = condition_of(value().boxed());
    leaf.prop_recursive(2, 6, 2, |inner| {
        let op = proptest::sample::select(vec!["and", "or"]);
        prop_oneof![
            2 => (op, inner.clone(), inner.clone()).prop_map(|(op, a, b)| expr(op, a, b)),
            1 => inner.prop_map(|a| {
                json!({"type": "expression", "value": {"op": "not", "left": null, "right": a}})
            }),
        ]
    })
}

/// A random primitive; a jump has its distance in place of its target.
fn primitive() -> impl Strategy<Value = Value> {
    let register = || named("register_array", "r");
    let truth = json!({"type": "bool", "value": true});
    let as_bit = |op: &str, cond: Value| json!({"type": "expression", "value": {"op": op, "left": null, "right": cond}});
    prop_oneof![
        8 => (variable(), value()).prop_map(|(to, value)| assign(to, operand(value))),
        2 => (variable(), number()).prop_map(|(to, value)| assign(to, value)),
        2 => (variable(), condition())
            .prop_map(move |(to, cond)| assign(to, operand(as_bit("b2d", cond)))),
        2 => (variable(), value())
            .prop_map(move |(to, i)| call("register_read", json!([to, register(), operand(i)]))),
        2 => (value(), value()).prop_map(move |(i, value)| {
            call("register_write", json!([register(), operand(i), operand(value)]))
        }),
        1 => value().prop_map(|i| call("count", json!([named("counter_array", "c"), operand(i)]))),
        1 => any::<bool>().prop_map(|add| {
            let op = if add { "add_header" } else { "remove_header" };
            call(op, json!([named("header", "g")]))
        }),
        1 => Just(call("assign_header", json!([named("header", "g"), named("header", "h")]))),
        1 => Just(call("mark_to_drop", json!([named("header", "standard_metadata")]))),
        1 => Just(call("exit", json!([]))),
        1 => Just(call("assert", json!([truth]))),
        1 => value().prop_map(|n| call("truncate", json!([operand(n)]))),
        3 => (1..4u64).prop_map(|to| call("_jump", json!([to]))),
        3 => (condition(), 1..4u64)
            .prop_map(|(cond, to)| call("_jump_if_zero", json!([operand(cond), to]))),
    ]
}

/// A random action: a list of primitives, in which jumps are forward.
fn action() -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(primitive(), 1..7).prop_map(|mut list| {
        let count = list.len() as u64;
        for (here, primitive) in (0..).zip(&mut list) {
            if primitive["op"]
                .as_str()
                .is_some_and(|op| op.starts_with("_jump"))
            {
                let parameters = primitive["parameters"].as_array_mut().unwrap();
                let distance = parameters.pop().unwrap().as_u64().unwrap();
                parameters.push(num((here + distance).min(count)));
            }
        }
        list
    })
}

/// A node of the control flow.
#[derive(Clone, Debug)]
enum Node {
    /// A condition, and the distances of the next nodes.
    If(Value, [usize; 2]),
    /// A table whose action always runs, and the distance of the next node.
    Always(Vec<Value>, usize),
    /// A table with an exact key, its actions on a hit and on a miss, and the distances of the next nodes.
    Table(&'static str, [Vec<Value>; 2], [usize; 2]),
}

fn node() -> impl Strategy<Value = Node> {
    let next = || 1..5usize;
    let key = proptest::sample::select(&FIELDS[..]);
    prop_oneof![
        4 => (condition(), next(), next()).prop_map(|(cond, a, b)| Node::If(cond, [a, b])),
        3 => (action(), next()).prop_map(|(action, next)| Node::Always(action, next)),
        1 => (key, action(), action(), next(), next())
            .prop_map(|(key, hit, miss, a, b)| Node::Table(key, [hit, miss], [a, b])),
    ]
}

fn program(nodes: &[Node]) -> Builder {
    let mut b = Builder::new();
    for (name, bits) in SCALARS {
        b.scalar(name, bits);
    }
    let fields: Vec<Value> = FIELDS.iter().map(|name| json!([name, 8, false])).collect();
    b.header("h_t", &["h", "g"], json!(fields));
    b.extracts(&["h"]);
    b.emits(&["h", "g"]);
    b.add(
        "register_arrays",
        json!({"name": "r", "size": CELLS, "bitwidth": 8}),
    );
    b.add(
        "counter_arrays",
        json!({"name": "c", "size": CELLS, "is_direct": false}),
    );
    let name = |node: usize| format!("node{node}");
    for (here, node) in nodes.iter().enumerate() {
        let next = |distance: &usize| match here + distance {
            next if next < nodes.len() => json!(name(next)),
            _ => Value::Null,
        };
        match node {
            Node::If(cond, [yes, no]) => {
                b.node(
                    "ingress",
                    "conditionals",
                    json!({
                        "name": name(here), "expression": cond,
                        "true_next": next(yes), "false_next": next(no),
                    }),
                );
            }
            Node::Always(primitives, distance) => {
                let action = format!("act{here}");
                let id = b.action(&action, &[], json!(primitives));
                b.node("ingress", "tables", json!({
                    "name": name(here), "key": [], "match_type": "exact", "type": "simple", "max_size": 4,
                    "action_ids": [id], "actions": [action], "next_tables": {action: next(distance)},
                    "default_entry": {
                        "action_id": id, "action_const": true, "action_data": [], "action_entry_const": true,
                    },
                }));
            }
            Node::Table(field, actions, distances) => {
                let names = ["hit", "miss"].map(|which| format!("{which}{here}"));
                let ids: Vec<u64> = names
                    .iter()
                    .zip(actions)
                    .map(|(name, primitives)| b.action(name, &[], json!(primitives)))
                    .collect();
                b.node("ingress", "tables", json!({
                    "name": name(here), "key": [key("exact", "h", field)], "match_type": "exact",
                    "type": "simple", "max_size": 4, "action_ids": ids, "actions": names,
                    "next_tables": {&names[0]: next(&distances[0]), &names[1]: next(&distances[1])},
                    "default_entry": {
                        "action_id": ids[1], "action_const": true, "action_data": [], "action_entry_const": true,
                    },
                    "entries": [{
                        "match_key": [{"match_type": "exact", "key": "0x01"}],
                        "action_entry": {"action_id": ids[0], "action_data": []}, "priority": 1,
                    }],
                }));
            }
        }
    }
    b.start_at("ingress", &name(0));
    b
}

/// A switch with the program, loaded with or without each pass.
fn load(json: &BmV2Json, thread_jumps: bool, fuse: bool) -> Switch {
    let options = LoadOptions {
        thread_jumps,
        fuse,
        ..LoadOptions::default()
    };
    let program = LoadedProgram::with_options(json, options).expect("the program is valid");
    let mut switch = Switch::new(SwitchOptions::default());
    crate::builder::load(&mut switch, Arc::new(program));
    switch
}

/// Registers and counters.
fn state(switch: &Switch) -> Vec<String> {
    let cells = 0..CELLS;
    let cells = cells.map(|i| (switch.read_register("r", i), switch.read_counter("c", i)));
    cells.map(|cell| format!("{cell:?}")).collect()
}

proptest! {
    #![proptest_config(Cost::Packets.cases())]

    #[test]
    fn passes_of_the_loader_keep_the_behaviour(
        nodes in proptest::collection::vec(node(), 1..=NODES),
        packets in proptest::collection::vec(proptest::collection::vec(0u8..4, FIELDS.len()), 20),
    ) {
        let json = BmV2Json::from_text(&program(&nodes).text()).expect("the JSON is well-formed");
        let mut plain = load(&json, false, false);
        let mut others = [
            ("threaded", load(&json, true, false)),
            ("fused", load(&json, false, true)),
            ("threaded and fused", load(&json, true, true)),
        ];
        for (at, packet) in packets.iter().enumerate() {
            let expected = plain.process(1, packet, at as u64);
            for (name, other) in &mut others {
                let found = other.process(1, packet, at as u64);
                prop_assert_eq!(&found, &expected, "{}, packet {}", name, at);
                prop_assert_eq!(state(other), state(&plain), "{}, packet {}", name, at);
            }
        }
    }
}
