//! p4c's layout: two spaces of indent, `"key" : value`, arrays of plain values on one line.

use serde_json::Value;
use std::fmt::Write;

pub fn print(value: &Value) -> String {
    let mut out = String::new();
    print_at(value, 0, &mut out);
    out.push('\n');
    out
}

fn print_at(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) if items.iter().all(is_plain) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print_at(item, depth, out);
            }
            out.push(']');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                new_line(i > 0, depth + 1, out);
                print_at(item, depth + 1, out);
            }
            new_line(false, depth, out);
            out.push(']');
        }
        Value::Object(members) if members.is_empty() => out.push_str("{ }"),
        Value::Object(members) => {
            out.push('{');
            for (i, (key, member)) in members.iter().enumerate() {
                new_line(i > 0, depth + 1, out);
                write!(out, "{} : ", Value::from(key.as_str())).expect("a String takes everything");
                print_at(member, depth + 1, out);
            }
            new_line(false, depth, out);
            out.push('}');
        }
        plain => write!(out, "{plain}").expect("a String takes everything"),
    }
}

fn is_plain(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

fn new_line(comma: bool, depth: usize, out: &mut String) {
    if comma {
        out.push(',');
    }
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}
