//! The keys and actions of table entries.

use super::number::{digits_and_mask, not_a_number, number, split_base, value};
use super::words::{missing, Words};
use super::Command;

/// An action of a table entry, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the action, or a suffix that no other action of the table has.
    pub name: String,
    /// For each argument, the name of its parameter and its big-endian value. An argument without a name is positional.
    pub args: Vec<(Option<String>, Vec<u8>)>,
}

/// Value of a key element as written in a test, independent of the key's match kind. Numbers are big-endian bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A decimal number, an IPv4 address or a MAC address.
    Number(Vec<u8>),
    /// A number in base 2, 8 or 16. As a ternary key it compares only the bits of these digits, as in p4c's tester.
    Digits {
        /// Value of the number.
        value: Vec<u8>,
        /// Mask with ones at the bits of all digits, including leading zeros.
        mask: Vec<u8>,
    },
    /// A number in base 2, 8 or 16 with `*` for digits of any value, or `*` alone.
    Wildcards {
        /// Value of the number, with 0 for each `*`.
        value: Vec<u8>,
        /// Mask with ones at the bits of digits, and zeros at the bits of each `*`.
        mask: Vec<u8>,
    },
    /// A number and a mask: `value &&& mask`.
    Masked {
        /// Number before `&&&`.
        value: Vec<u8>,
        /// Mask; its 1 bits are compared.
        mask: Vec<u8>,
    },
    /// A number and the length of its prefix: `value/length`.
    Prefix {
        /// Number before the slash, in the full width of the key.
        value: Vec<u8>,
        /// Length of the prefix in bits.
        length: u32,
    },
    /// A range of numbers: `low..high` or `low->high`.
    Range {
        /// Lower bound, inclusive.
        low: Vec<u8>,
        /// Upper bound, inclusive.
        high: Vec<u8>,
    },
}

/// Parses `TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [| ACTION(...)]... [= HANDLE]`.
pub(super) fn add(words: &mut Words) -> Result<Command, String> {
    let table = words.name("table")?;
    let mut priority = None;
    let mut keys: Vec<(String, KeyValue)> = Vec::new();
    loop {
        let mut ahead = words.clone();
        let mut name = ahead.name("action with its arguments in parentheses")?;
        if ahead.is_at("(") {
            // `h.isValid()` is a key if a value follows, otherwise an action.
            let mut behind = ahead.clone();
            let Some(inside) = behind
                .skip("(")
                .then(|| behind.word_until(|c| c == ')').unwrap_or(""))
                .filter(|_| behind.skip(")"))
            else {
                return Err(format!(
                    "the closing parenthesis after action `{name}` is missing"
                ));
            };
            if !behind.is_at(":") {
                break;
            }
            name += &format!("({})", inside.trim());
            ahead = behind;
        }
        if ahead.skip(":") {
            *words = ahead;
            keys.push((name, key_value(words)?));
        } else if keys.is_empty() && priority.is_none() {
            priority = Some(words.number::<i32>("priority")?);
        } else {
            return Err(format!(
                "`{name}` is neither a key with its value (name:value) nor an action with its arguments in parentheses"
            ));
        }
    }
    let mut actions = vec![call(words)?];
    while words.skip("|") {
        actions.push(call(words)?);
    }
    let handle = match words.skip("=") {
        true => Some(words.name("entry")?.trim_start_matches('$').to_owned()),
        false => None,
    };
    words.end()?;
    Ok(Command::Add {
        table,
        priority,
        keys,
        actions,
        handle,
    })
}

/// Parses an action call `ACTION(NAME:VALUE, ...)`, in which the names are optional.
pub(super) fn call(words: &mut Words) -> Result<Call, String> {
    let name = words.name("action with its arguments in parentheses")?;
    if !words.skip("(") {
        return Err(format!(
            "the arguments of action `{name}` are missing; write `{name}()` if it has none"
        ));
    }
    let mut args = Vec::new();
    while !words.skip(")") {
        if words.skip(",") {
            continue;
        }
        let mut ahead = words.clone();
        let param = ahead.name("argument").ok().filter(|_| ahead.skip(":"));
        if param.is_some() {
            *words = ahead;
        }
        let text = words.word_until(|c| c == ',' || c == ')');
        if !(words.is_at(",") || words.is_at(")")) {
            return Err(format!(
                "the closing parenthesis after action `{name}` is missing"
            ));
        }
        let of = param
            .as_deref()
            .map_or(String::new(), |p| format!(" of `{p}`"));
        let text = text.ok_or_else(|| missing(&format!("value{of}")))?;
        args.push((param, value(text)?));
    }
    Ok(Call { name, args })
}

/// Parses the value after the colon of a key.
fn key_value(words: &mut Words) -> Result<KeyValue, String> {
    let text = value_text(words, "value")?;
    let first = one_value(text)?;
    if !words.skip("&&&") {
        return Ok(first);
    }
    let mask = value(value_text(words, "mask")?)?;
    match first {
        KeyValue::Number(value) | KeyValue::Digits { value, .. } => {
            Ok(KeyValue::Masked { value, mask })
        }
        _ => Err(format!("`{text}` before `&&&` is not a number")),
    }
}

/// Takes the text of a value, which ends before white space, `&` or a quotation mark. `what`: the part of the command,
/// for the error message.
fn value_text<'a>(words: &mut Words<'a>, what: &str) -> Result<&'a str, String> {
    let text = words.word_until(|c| c.is_whitespace() || c == '&' || c == '"');
    text.ok_or_else(|| missing(what))
}

fn one_value(text: &str) -> Result<KeyValue, String> {
    if let Some((low, high)) = text.split_once("->").or_else(|| text.split_once("..")) {
        return Ok(KeyValue::Range {
            low: value(low)?,
            high: value(high)?,
        });
    }
    if let Some((number_text, length)) = text.split_once('/') {
        return Ok(KeyValue::Prefix {
            value: value(number_text)?,
            length: number(length, "prefix length")?,
        });
    }
    if let Some((bits, digits)) = split_base(text) {
        let (value, mask) = digits_and_mask(digits, bits).ok_or_else(|| not_a_number(text))?;
        return Ok(match digits.contains('*') {
            true => KeyValue::Wildcards { value, mask },
            false => KeyValue::Digits { value, mask },
        });
    }
    match text {
        "*" => Ok(KeyValue::Wildcards {
            value: vec![0],
            mask: vec![0],
        }),
        text => Ok(KeyValue::Number(value(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::command_of;
    use super::*;

    #[test]
    fn entries_have_keys_of_all_kinds() {
        let text = "add c.t 10 hdr.a:0x0*0 b.$valid$ : 1 d:0x0a000000/8 e:3&&&7 f:1->5 act(port:2, x:0xff) = $one";
        let Command::Add {
            table,
            priority,
            keys,
            actions,
            handle,
        } = command_of(text)
        else {
            panic!("not an entry");
        };
        assert_eq!((table.as_str(), priority), ("c.t", Some(10)));
        assert_eq!(keys.len(), 5);
        assert_eq!(
            keys[0],
            (
                "hdr.a".to_owned(),
                KeyValue::Wildcards {
                    value: vec![0, 0],
                    mask: vec![0x0f, 0x0f]
                }
            )
        );
        assert!(matches!(&keys[2].1, KeyValue::Prefix { length: 8, .. }));
        assert!(matches!(&keys[3].1, KeyValue::Masked { .. }));
        assert!(matches!(&keys[4].1, KeyValue::Range { .. }));
        assert_eq!(actions[0].args.len(), 2);
        assert_eq!(handle.as_deref(), Some("one"));
    }

    #[test]
    fn key_names_may_be_quoted() {
        let Command::Add { keys, .. } = command_of("add t \"a.b & 0xf0\":3 x()") else {
            panic!("not an entry");
        };
        assert_eq!(keys[0].0, "a.b & 0xf0");
    }

    /// P4Testgen quotes every name.
    #[test]
    fn every_name_may_be_quoted() {
        let text = "add \"in gress.t\" 5 \"hdr.h.f\":0x1 \"h.isValid()\" : 0x1 \"x & 1\":0b1*  \"ingress.a\"(\"v\":0x2,\"w w\":3)= \"e\"";
        let bare =
            "add in_gress.t 5 hdr.h.f:0x1 h.isValid():0x1 x&1:0b1* ingress.a(v:0x2, w_w:3) = $e";
        assert_eq!(
            format!("{:?}", command_of(text))
                .replace("in gress", "in_gress")
                .replace("w w", "w_w")
                .replace("x & 1", "x&1"),
            format!("{:?}", command_of(bare))
        );
        assert_eq!(
            command_of("setdefault \"a.t\" \"a.x\"(\"v\":0x2)"),
            command_of("setdefault a.t a.x(v:0x2)")
        );
        assert_eq!(
            command_of("setdefault \"t\" \"x\"()"),
            command_of("setdefault t x ( )")
        );
        assert_eq!(
            command_of("add \"a\".\"t\" \"s\"[1].\"f\":1 \"x\"()"),
            command_of("add a.t s[1].f:1 x()")
        );
    }

    #[test]
    fn errors_of_entries_name_the_cause() {
        let what = |text| parse(text).expect_err("it is wrong").message;
        assert_eq!(
            what("add \"t k:1 a()"),
            "the quotation mark of `\"t k:1 a()` is not closed"
        );
        assert_eq!(
            what("add t k:1 a(v:1"),
            "the closing parenthesis after action `a` is missing"
        );
        assert_eq!(
            what("add t k:1"),
            "the action with its arguments in parentheses is missing"
        );
        assert_eq!(what("add t k: a()"), "`a()` is not a number");
        assert_eq!(what("add t k:1 a(v:)"), "the value of `v` is missing");
        assert_eq!(
            what("add t k:1 a() b()"),
            "`b()` is unexpected at the end of the line"
        );
        assert_eq!(
            what("setdefault t a"),
            "the arguments of action `a` are missing; write `a()` if it has none"
        );
        assert_eq!(
            what("add t 1 2 k:1 a()"),
            "`2` is neither a key with its value (name:value) nor an action with its arguments in parentheses"
        );
    }

    #[test]
    fn actions_of_a_selector_are_separated_by_bars() {
        let Command::Add {
            actions, handle, ..
        } = command_of("add t a:1 x(p:2)|y() | x(3) = $e")
        else {
            panic!("not an entry");
        };
        let names: Vec<&str> = actions.iter().map(|action| &*action.name).collect();
        assert_eq!(names, ["x", "y", "x"]);
        assert_eq!(handle.as_deref(), Some("e"));
    }

    #[test]
    fn key_names_may_have_colons_and_parentheses() {
        let Command::Add { keys, actions, .. } =
            command_of("add t \"h.x[3:0]\":5 h.isValid():1 h.y[7:4]:2 c.x(a:1)")
        else {
            panic!("not an entry");
        };
        let names: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["h.x[3:0]", "h.isValid()", "h.y[7:4]"]);
        assert_eq!(
            (actions[0].name.as_str(), actions[0].args.len()),
            ("c.x", 1)
        );
    }

    #[test]
    fn digits_of_all_bases_may_be_wildcards() {
        let Command::Add { keys, .. } = command_of("add t a:0b1*0 b:0o1*7 c:0o17 d:0x12 x()")
        else {
            panic!("not an entry");
        };
        let values: Vec<KeyValue> = keys.into_iter().map(|(_, value)| value).collect();
        let (value, mask) = (vec![0b100], vec![0b101]);
        assert_eq!(values[0], KeyValue::Wildcards { value, mask });
        let (value, mask) = (vec![0, 0o107], vec![1, 0o307]);
        assert_eq!(values[1], KeyValue::Wildcards { value, mask });
        let (value, mask) = (vec![0o17], vec![0o77]);
        assert_eq!(values[2], KeyValue::Digits { value, mask });
        let (value, mask) = (vec![0x12], vec![0xff]);
        assert_eq!(values[3], KeyValue::Digits { value, mask });
    }
}
