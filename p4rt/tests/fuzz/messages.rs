//! Mutation of valid protobuf messages through their descriptors, so that every field of every kind is reached.

use alfirk_p4runtime::{descriptor, Message, Name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

use crate::chance::Chance;

/// Longest list that a mutation creates.
const MAX_LIST: usize = 2000;

/// Returns the message with a few random changes.
pub fn damaged<M: Message + Name + Default>(message: &M, chance: &mut Chance) -> M {
    let mut dynamic = DynamicMessage::decode(descriptor::of::<M>(), &message.encode_to_vec()[..])
        .expect("an encoded message decodes with its own descriptor");
    for _ in 0..=chance.below(3) {
        change_message(&mut dynamic, chance);
    }
    dynamic
        .transcode_to()
        .expect("it is a message of this type still")
}

fn change_message(message: &mut DynamicMessage, chance: &mut Chance) {
    let all: Vec<FieldDescriptor> = message.descriptor().fields().collect();
    if all.is_empty() {
        return;
    }
    let set: Vec<FieldDescriptor> = message.fields().map(|(field, _)| field).collect();
    let field = if set.is_empty() || chance.one_in(5) {
        chance.pick(&all)
    } else {
        chance.pick(&set)
    };
    if chance.one_in(8) {
        message.clear_field(field);
        return;
    }
    match message.get_field_mut(field) {
        Value::List(items) => change_list(items, &field.kind(), chance),
        Value::Map(entries) => entries.clear(),
        value => change_value(value, &field.kind(), chance),
    }
}

fn change_list(items: &mut Vec<Value>, kind: &Kind, chance: &mut Chance) {
    let len = items.len();
    match chance.below(if len == 0 { 2 } else { 10 }) {
        0 => items.push(Value::default_value(kind)),
        1 => {
            let mut value = Value::default_value(kind);
            change_value(&mut value, kind, chance);
            items.insert(chance.below(len + 1), value);
        }
        2 => {
            items.remove(chance.below(len));
        }
        3 => items.swap(chance.below(len), chance.below(len)),
        4 => {
            let again = items[chance.below(len)].clone();
            let most = if chance.one_in(20) { 11 } else { 3 };
            let times = 1 << chance.below(most);
            let times = MAX_LIST.saturating_sub(len).min(times);
            items.extend(std::iter::repeat_n(again, times));
        }
        _ => change_value(&mut items[chance.below(len)], kind, chance),
    }
}

fn change_value(value: &mut Value, kind: &Kind, chance: &mut Chance) {
    match value {
        Value::Message(message) => change_message(message, chance),
        Value::Bool(flag) => *flag = !*flag,
        Value::U32(number) => *number = id(u64::from(*number), chance) as u32,
        Value::U64(number) => *number = id(*number, chance),
        Value::I32(number) => *number = id(*number as u64, chance) as i32,
        Value::I64(number) => *number = id(*number as u64, chance) as i64,
        Value::EnumNumber(number) => {
            *number = match kind {
                Kind::Enum(names) if !chance.one_in(4) => {
                    let values: Vec<i32> = names.values().map(|value| value.number()).collect();
                    *chance.pick(&values)
                }
                _ => chance.edgy() as i32,
            }
        }
        Value::String(text) => {
            *text = match chance.below(4) {
                0 => String::new(),
                1 => "x".repeat(1 << chance.below(12)),
                2 => format!("{text}\u{0}\u{e9}"),
                _ => text.chars().rev().collect(),
            }
        }
        Value::Bytes(bytes) => {
            let mut changed = bytes.to_vec();
            match chance.below(6) {
                0 => changed.clear(),
                1 => changed.insert(0, 0),
                2 => changed.extend([0xff; 5]),
                3 => {
                    let len = 1 << chance.below(12);
                    changed = chance.bytes(len);
                }
                _ => chance.damage(&mut changed),
            }
            *bytes = changed.into();
        }
        Value::F32(number) => *number = f32::NAN,
        Value::F64(number) => *number = f64::NAN,
        // Fields of these kinds occur only outside of lists.
        Value::List(_) | Value::Map(_) => {}
    }
}

/// Returns a number near an old one, or a random one. The high byte of ids encodes the kind of object.
fn id(old: u64, chance: &mut Chance) -> u64 {
    match chance.below(6) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ 1 << chance.below(32),
        3 => 0,
        _ => chance.edgy(),
    }
}
