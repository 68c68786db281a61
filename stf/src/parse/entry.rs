//! Entries of tables: their keys and their actions.

use super::number::{based, digits_and_mask, number, value};
use super::words::Words;
use super::Command;

/// An action and its arguments; without names they stand for parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub args: Vec<(Option<String>, Vec<u8>)>,
}

/// The value of a key, before the table says how it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// A number.
    Number(Vec<u8>),
    /// A number in a base whose digits are whole bits. As a ternary key it asks for these digits only, as in p4c's tester.
    Digits { value: Vec<u8>, mask: Vec<u8> },
    /// Hexadecimal digits, some of them `*`: value and mask.
    Wildcards { value: Vec<u8>, mask: Vec<u8> },
    /// `value &&& mask`
    Masked { value: Vec<u8>, mask: Vec<u8> },
    /// `value/length`
    Prefix { value: Vec<u8>, length: u32 },
    /// `low..high` or `low->high`
    Range { low: Vec<u8>, high: Vec<u8> },
}

/// `TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= HANDLE]`
pub(super) fn add(text: &str) -> Result<Command, String> {
    let close = text.rfind(')').ok_or("a closing parenthesis is missing")?;
    let open = text[..close]
        .rfind('(')
        .ok_or("an action with its arguments in parentheses is missing")?;
    let name_start = text[..open]
        .trim_end()
        .rfind(char::is_whitespace)
        .map_or(0, |position| position + 1);
    let action = call(&text[name_start..=close])?;
    let handle = match text[close + 1..].trim() {
        "" => None,
        rest => Some(
            rest.strip_prefix('=')
                .ok_or_else(|| format!("{rest} is too much"))?
                .trim()
                .trim_start_matches('$')
                .to_owned(),
        ),
    };
    // Spaces around `:` and `&&&` are as good as none.
    let mut before = text[..name_start].replace("&&&", " &&& ");
    while let Some(position) = before.find(" :") {
        before.remove(position);
    }
    while let Some(position) = before.find(": ") {
        before.remove(position + 1);
    }
    let mut words = Words::new(&before);
    let table = words.word("table")?;
    let mut priority = None;
    let mut keys: Vec<(String, KeyValue)> = Vec::new();
    while let Some(word) = words.next() {
        if word == "&&&" {
            let mask = value(&words.word("mask")?)?;
            match keys.last_mut() {
                Some((_, last)) => match last.clone() {
                    KeyValue::Number(value) | KeyValue::Digits { value, .. } => {
                        *last = KeyValue::Masked { value, mask }
                    }
                    _ => return Err("a mask follows a number".to_owned()),
                },
                None => return Err("a mask follows a number".to_owned()),
            }
            continue;
        }
        match split_key(&word) {
            Some((name, text)) => keys.push((name.trim_matches('"').to_owned(), key_value(text)?)),
            None if keys.is_empty() && priority.is_none() => {
                priority = Some(number::<i32>(&word, "priority")?);
            }
            None => return Err(format!("{word} is no key; keys are written name:value")),
        }
    }
    Ok(Command::Add {
        table,
        priority,
        keys,
        action,
        handle,
    })
}

/// Splits at the first `:` outside of quotes, parentheses and brackets: `"h.x[3:0]":5`.
fn split_key(word: &str) -> Option<(&str, &str)> {
    let (mut quoted, mut depth) = (false, 0);
    let at = word.find(|c| {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        c == ':' && !quoted && depth <= 0
    })?;
    Some((&word[..at], &word[at + 1..]))
}

/// `ACTION(NAME:VALUE, ...)`, also without names.
pub(super) fn call(text: &str) -> Result<Call, String> {
    let (name, args) = text
        .split_once('(')
        .ok_or("an action with its arguments in parentheses is missing")?;
    let args = args
        .trim_end()
        .strip_suffix(')')
        .ok_or("a closing parenthesis is missing")?;
    let args = args
        .split(',')
        .map(str::trim)
        .filter(|arg| !arg.is_empty())
        .map(|arg| match arg.split_once(':') {
            Some((name, text)) => Ok((Some(name.trim().to_owned()), value(text.trim())?)),
            None => Ok((None, value(arg)?)),
        })
        .collect::<Result<_, String>>()?;
    Ok(Call {
        name: name.trim().to_owned(),
        args,
    })
}

fn key_value(text: &str) -> Result<KeyValue, String> {
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
    if let Some((bits, digits)) = based(text) {
        let (value, mask) =
            digits_and_mask(digits, bits).ok_or_else(|| format!("{text} is no number"))?;
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
    use super::super::tests::one;
    use super::*;

    #[test]
    fn entries_have_keys_of_all_kinds() {
        let text = "add c.t 10 hdr.a:0x0*0 b.$valid$ : 1 d:0x0a000000/8 e:3&&&7 f:1->5 act(port:2, x:0xff) = $one";
        let Command::Add {
            table,
            priority,
            keys,
            action,
            handle,
        } = one(text)
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
        assert_eq!(action.args.len(), 2);
        assert_eq!(handle.as_deref(), Some("one"));
    }

    #[test]
    fn names_of_keys_may_be_quoted() {
        let Command::Add { keys, .. } = one("add t \"a.b & 0xf0\":3 x()") else {
            panic!("not an entry");
        };
        assert_eq!(keys[0].0, "a.b & 0xf0");
    }

    #[test]
    fn names_of_keys_may_have_colons_and_parentheses() {
        let Command::Add { keys, action, .. } =
            one("add t \"h.x[3:0]\":5 h.isValid():1 h.y[7:4]:2 c.x(a:1)")
        else {
            panic!("not an entry");
        };
        let names: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["h.x[3:0]", "h.isValid()", "h.y[7:4]"]);
        assert_eq!((action.name.as_str(), action.args.len()), ("c.x", 1));
    }

    #[test]
    fn digits_of_all_bases_may_be_left_open() {
        let Command::Add { keys, .. } = one("add t a:0b1*0 b:0o1*7 c:0o17 d:0x12 x()") else {
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
