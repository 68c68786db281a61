//! `@p4runtime_translation_mappings({ {"CPU", 510}, ... })`: mappings defined by the program.
//!
//! P4Info contains annotations as text, which this module parses.

use alfirk_p4runtime::bytestring;
use thiserror::Error;

use super::Form;

const ANNOTATION: &str = "@p4runtime_translation_mappings";

/// Error in the mappings that a program defines for a translated type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    #[error("type {name}: {ANNOTATION}: expected pairs of a value of the controller ({expected}) and a number, as in {{ {{ {example}, 5 }} }}, found {found}")]
    Syntax {
        name: String,
        expected: &'static str,
        example: &'static str,
        found: String,
    },
    #[error("type {name}: {ANNOTATION}: {value} or its number is mapped twice")]
    Twice { name: String, value: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Number(u128),
    Sign(char),
}

/// A controller's value, and the data plane's value to which it maps.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Parses an annotation to pairs of values in canonical form. Returns no pairs if it is not a mappings annotation.
pub fn parse(name: &str, form: Form, annotation: &str) -> Result<Vec<Pair>, MappingError> {
    let Some(body) = annotation.trim().strip_prefix(ANNOTATION) else {
        return Ok(Vec::new());
    };
    let (expected, example) = match form {
        Form::Strings => ("a string", "\"a\""),
        Form::Bits(_) => ("a number", "500"),
    };
    let syntax = |found: String| MappingError::Syntax {
        name: name.to_owned(),
        expected,
        example,
        found,
    };
    let mut tokens = tokens(body).map_err(syntax)?.into_iter().peekable();
    let next = |tokens: &mut std::iter::Peekable<std::vec::IntoIter<Token>>| {
        tokens.next().ok_or_else(|| syntax("the end".to_owned()))
    };
    for sign in ['(', '{'] {
        match next(&mut tokens)? {
            Token::Sign(found) if found == sign => {}
            other => return Err(syntax(shown(&other))),
        }
    }
    let mut pairs = Vec::new();
    loop {
        match next(&mut tokens)? {
            Token::Sign('}') => break,
            Token::Sign(',') => continue,
            Token::Sign('{') => {}
            other => return Err(syntax(shown(&other))),
        }
        let controller = match (next(&mut tokens)?, form) {
            (Token::Text(text), Form::Strings) => text.into_bytes(),
            (Token::Number(number), Form::Bits(_)) => bytestring::encode(number),
            (other, _) => return Err(syntax(shown(&other))),
        };
        let comma = next(&mut tokens)?;
        let (Token::Sign(','), Token::Number(data)) = (&comma, next(&mut tokens)?) else {
            return Err(syntax(shown(&comma)));
        };
        if tokens.peek() == Some(&Token::Sign(',')) {
            tokens.next();
        }
        match next(&mut tokens)? {
            Token::Sign('}') => pairs.push((controller, bytestring::encode(data))),
            other => return Err(syntax(shown(&other))),
        }
    }
    Ok(pairs)
}

fn shown(token: &Token) -> String {
    match token {
        Token::Text(text) => format!("{text:?}"),
        Token::Number(number) => format!("`{number}`"),
        Token::Sign(sign) => format!("`{sign}`"),
    }
}

/// Splits text into strings, P4 numbers (`10`, `0x1f`, `8w3`) and punctuation.
fn tokens(mut text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    loop {
        text = text.trim_start();
        let Some(first) = text.chars().next() else {
            return Ok(tokens);
        };
        if let Some(quoted) = text.strip_prefix('"') {
            let (value, rest) = string(quoted).ok_or("an unterminated string")?;
            tokens.push(Token::Text(value));
            text = rest;
        } else if first.is_ascii_digit() {
            let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (word, rest) = text.split_at(end.unwrap_or(text.len()));
            let number = number(word).ok_or_else(|| format!("`{word}`"))?;
            tokens.push(Token::Number(number));
            text = rest;
        } else {
            tokens.push(Token::Sign(first));
            text = &text[first.len_utf8()..];
        }
    }
}

/// Splits off a string up to its closing quotation mark; returns it with the remaining text.
fn string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

fn number(word: &str) -> Option<u128> {
    let word = word.replace('_', "");
    let digits = match word.split_once(['w', 's']) {
        Some((width, digits)) if width.bytes().all(|b| b.is_ascii_digit()) => digits,
        _ => &word,
    };
    let lower = digits.to_ascii_lowercase();
    let radix = [("0x", 16), ("0o", 8), ("0b", 2), ("0d", 10)];
    let found = radix.iter().find(|(prefix, _)| lower.starts_with(prefix));
    match found {
        Some((_, base)) => u128::from_str_radix(&lower[2..], *base).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(form: Form, text: &str) -> Result<Vec<Pair>, MappingError> {
        parse("t", form, text)
    }

    #[test]
    fn pairs_are_parsed_as_compilers_print_them() {
        let text = "@p4runtime_translation_mappings({ { \"\" , 0 } , {\"a\\\"b\", 10w0x1ff,}, })";
        assert_eq!(
            of(Form::Strings, text),
            Ok(vec![
                (b"".to_vec(), vec![0]),
                (b"a\"b".to_vec(), vec![0x01, 0xff])
            ])
        );
        let text = "@p4runtime_translation_mappings({{ 0xfffffffd , 510 }})";
        assert_eq!(
            of(Form::Bits(32), text),
            Ok(vec![(vec![0xff, 0xff, 0xff, 0xfd], vec![0x01, 0xfe])])
        );
        assert_eq!(of(Form::Strings, "@other({1})"), Ok(vec![]));
    }

    #[test]
    fn errors_name_the_text_that_is_not_a_pair() {
        for (text, found) in [
            ("({ {5, 1} })", "found `5`"),
            ("({ {\"a\" 1} })", "found `1`"),
            ("({ {\"a\", 1}", "found the end"),
            ("({ {\"a, 1} })", "found an unterminated string"),
            ("(5)", "found `5`"),
        ] {
            let text = format!("{ANNOTATION}{text}");
            let error = of(Form::Strings, &text).unwrap_err().to_string();
            assert!(error.ends_with(found), "{error}");
        }
    }
}
