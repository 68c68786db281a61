//! Mutation of BMv2 JSON that keeps its general structure.

use serde_json::{json, Map, Value};

use crate::chance::Chance;

/// Longest list that a mutation creates, to bound the time of a case.
const MAX_LIST: usize = 3000;
/// Maximum number of JSON values that a mutation adds, to bound the memory of a case: an element can be a whole pipeline.
const MAX_ADDED: usize = 1 << 20;

/// Changes a few values of a program. Some of the new values are parts of `donor`.
pub fn damage(program: &mut Value, donor: &Value, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        let path = some_path(program, chance);
        let replacement = match chance.below(3) {
            // A value from the same place of another program, or from anywhere.
            0 => donor.pointer(&similar(&path, chance)).cloned(),
            1 => {
                let from = some_path(program, chance);
                program.pointer(&from).cloned()
            }
            _ => None,
        };
        if let Some(at) = program.pointer_mut(&path) {
            change(at, replacement, chance);
        }
    }
}

/// Returns the path of a random value; deep ones are as likely as shallow ones.
fn some_path(value: &Value, chance: &mut Chance) -> String {
    let mut path = String::new();
    let mut at = value;
    loop {
        let stop = chance.one_in(12);
        match at {
            Value::Object(members) if !members.is_empty() && !stop => {
                let (key, member) = nth(members, chance);
                path += &format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                at = member;
            }
            Value::Array(items) if !items.is_empty() && !stop => {
                let index = chance.below(items.len());
                path += &format!("/{index}");
                at = &items[index];
            }
            _ => return path,
        }
    }
}

fn nth<'a>(members: &'a Map<String, Value>, chance: &mut Chance) -> (&'a String, &'a Value) {
    let index = chance.below(members.len());
    members.iter().nth(index).expect("it is below the length")
}

/// Returns the path with other, small indexes.
fn similar(path: &str, chance: &mut Chance) -> String {
    let parts = path.split('/').map(|part| match part.parse::<usize>() {
        Ok(_) => chance.below(4).to_string(),
        Err(_) => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

fn change(value: &mut Value, replacement: Option<Value>, chance: &mut Chance) {
    if let Some(replacement) = replacement {
        *value = replacement;
        return;
    }
    match value {
        Value::Array(items) if !chance.one_in(6) => change_list(items, chance),
        Value::Object(members) if !members.is_empty() && !chance.one_in(6) => {
            let key = nth(members, chance).0.clone();
            if chance.one_in(2) {
                members.shift_remove(&key);
            } else {
                let other = nth(members, chance).1.clone();
                members.insert(key, other);
            }
        }
        Value::Number(_) if !chance.one_in(8) => *value = number(chance),
        Value::Bool(old) => *old = !*old,
        Value::String(text) if !chance.one_in(8) => change_text(text, chance),
        _ => {
            *value = match chance.below(7) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!({}),
                3 => number(chance),
                4 => json!("0xffffffffffffffffffffffffffffffffff"),
                5 => nested(chance),
                _ => json!(true),
            }
        }
    }
}

fn change_list(items: &mut Vec<Value>, chance: &mut Chance) {
    let len = items.len();
    match chance.below(5) {
        0 if len > 0 => {
            items.remove(chance.below(len));
        }
        1 if len > 1 => items.swap(chance.below(len), chance.below(len)),
        2 if len > 0 => {
            let again = items[chance.below(len)].clone();
            items.insert(chance.below(len + 1), again);
        }
        3 if len > 0 => {
            // Repeats an element many times.
            let times = 1 << chance.below(12);
            let again = items[chance.below(len)].clone();
            let times = times.min(MAX_LIST.saturating_sub(len));
            let times = times.min(MAX_ADDED / count(&again));
            items.extend(std::iter::repeat_n(again, times));
        }
        _ => items.clear(),
    }
}

/// Returns the number of values in a value, with itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

fn number(chance: &mut Chance) -> Value {
    match chance.below(5) {
        0 => json!(-(chance.below(100) as i64)),
        1 => json!(i64::MIN),
        2 => json!(0.5),
        _ => json!(chance.edgy()),
    }
}

fn change_text(text: &mut String, chance: &mut Chance) {
    const WORDS: &[&str] = &[
        "",
        "0x",
        "0x0",
        "-0x1",
        "0xffffffffffffffffffffff",
        "field",
        "header",
        "header_stack",
        "stack_field",
        "hexstr",
        "bool",
        "local",
        "runtime_data",
        "lookahead",
        "expression",
        "register",
        "extract",
        "extract_VL",
        "set",
        "verify",
        "shift",
        "advance",
        "primitive",
        "primitives",
        "assign",
        "assign_header",
        "add_header",
        "remove_header",
        "push",
        "pop",
        "drop",
        "exit",
        "_jump",
        "_jump_if_zero",
        "resubmit",
        "recirculate",
        "clone_ingress_pkt_to_egress",
        "truncate",
        "log_msg",
        "exact",
        "lpm",
        "ternary",
        "range",
        "optional",
        "valid",
        "simple",
        "indirect",
        "indirect_ws",
        "crc16",
        "csum16",
        "identity",
        "random",
        "$valid$",
        "*",
        "start",
        "ingress",
        "egress",
        "+",
        "-",
        "<<",
        ">>",
        "&",
        "==",
        "?",
        "d2b",
        "b2d",
        "two_comp_mod",
        "usat_cast",
        "sat_cast",
        "valid_union",
        "dereference_header_stack",
        "access_field",
        "last_stack_index",
        "size_stack",
    ];
    match chance.below(4) {
        0 => {
            let mut bytes = text.clone().into_bytes();
            chance.damage(&mut bytes);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        1 => *text = format!("0x{:x}", chance.edgy()),
        2 => *text = "f".repeat(1 << chance.below(14)),
        _ => *text = (*chance.pick(WORDS)).to_owned(),
    }
}

/// Returns an expression that is deep or wide.
fn nested(chance: &mut Chance) -> Value {
    let depth = 1 << chance.below(10);
    let mut value = json!({"type": "hexstr", "value": "0x01"});
    for _ in 0..depth {
        let op = *chance.pick(&["+", "-", "~", "and", "not", "?", "<<", "sat_cast"]);
        value = json!({"type": "expression", "value": {"op": op, "left": value, "right": {"type": "hexstr", "value": "0x03"},
            "cond": {"type": "bool", "value": true}}});
    }
    value
}
