//! Stacks of layers as text: `Ether()/IP(dst="10.0.0.2")/UDP(dport=4791)/Raw("abc")`.

use std::fmt;

use crate::field::nearest;
use crate::layer::{Layer, ProtocolRef};
use crate::packet::is_called;
use crate::protocols;
use crate::value::{parse_number, Value};
use crate::Packet;

/// Maximum length of the repetition `"a" * N`, in bytes: larger than any frame.
const MAX_REPEATED: usize = 1 << 20;
/// Maximum depth of lists in lists.
const MAX_DEPTH: usize = 8;

/// Error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Column of the error in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub problem: String,
    /// The expression.
    pub expression: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpressionError {
            column,
            problem,
            expression,
        } = self;
        write!(f, "column {column}: {problem}")?;
        if !expression.is_empty() && !expression.contains('\n') {
            write!(f, "\n  {expression}\n  {:>column$}", "^")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExpressionError {}

/// Parses a stack of layers.
///
/// A layer is its name with the values of fields in parentheses. Values are numbers, text in quotes, bytes (`b"\x00"`),
/// `True`, `False`, `None` (left to be computed), lists and tuples. Text or bytes in the place of a layer are a payload;
/// `*` repeats them.
///
/// ```
/// let packet = scapy::parse(r#"Ether()/IP(dst="10.0.0.2", flags="DF")/TCP(options=[("MSS", 1460)])/"x"*100"#).unwrap();
/// assert_eq!(packet.build().unwrap().len(), 14 + 20 + 24 + 100);
/// ```
///
/// # Errors
/// With the column, and a proposal.
///
/// ```
/// let error = scapy::parse(r#"Ether()/IP(dts="10.0.0.2")"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "column 12: IP has no field `dts`; did you mean `dst`?\n  Ether()/IP(dts=\"10.0.0.2\")\n             ^"
/// );
/// ```
pub fn parse(expression: &str) -> Result<Packet, ExpressionError> {
    parse_with(expression, &[])
}

/// Parses a stack of layers, which may also be of these protocols, such as the headers of a P4 program. Their names have
/// precedence.
///
/// # Errors
/// As for [`parse`].
pub fn parse_with(expression: &str, more: &[ProtocolRef]) -> Result<Packet, ExpressionError> {
    let chars: Vec<char> = expression.chars().collect();
    let mut parser = Parser {
        chars: &chars,
        at: 0,
        more,
    };
    parser.stack().map_err(|(at, problem)| ExpressionError {
        column: at + 1,
        problem,
        expression: expression.to_owned(),
    })
}

/// Position of a problem, and the problem.
type Problem = (usize, String);

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
    more: &'a [ProtocolRef],
}

impl Parser<'_> {
    fn stack(&mut self) -> Result<Packet, Problem> {
        let mut packet = Packet::new();
        loop {
            packet.push(self.layer()?);
            self.space();
            if self.at == self.chars.len() {
                return Ok(packet);
            }
            if !self.eat('/') {
                return Err(self.unexpected("expected `/` and a layer, or the end"));
            }
        }
    }

    fn layer(&mut self) -> Result<Layer, Problem> {
        self.space();
        let start = self.at;
        if self.is_text() {
            let load = self.repeated(0)?;
            return self.raw(start, load);
        }
        let name = self.word();
        if name.is_empty() {
            return Err(self.unexpected("expected a layer, such as IP(dst=\"10.0.0.2\")"));
        }
        let protocol = self.protocol(&name).ok_or_else(|| {
            let names = self.names();
            let near = nearest(&name, names.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the layers are {}", names.join(", ")),
            };
            (start, format!("no layer has the name `{name}`; {hint}"))
        })?;
        let mut layer = Layer::new(protocol);
        self.space();
        if self.eat('(') {
            self.fields(&mut layer)?;
        }
        Ok(layer)
    }

    fn raw(&self, start: usize, load: Value) -> Result<Layer, Problem> {
        let mut layer = Layer::new(&protocols::RAW);
        let set = layer.try_set("load", load);
        set.map_err(|error| (start, error.problem))?;
        Ok(layer)
    }

    fn protocol(&self, name: &str) -> Option<ProtocolRef> {
        let own = self.more.iter().find(|protocol| is_called(protocol, name));
        own.cloned()
            .or_else(|| protocols::by_name(name).map(ProtocolRef::Known))
    }

    fn names(&self) -> Vec<String> {
        let more = self.more.iter().map(|protocol| protocol.name.to_string());
        let known = protocols::ALL.iter().flat_map(|protocol| {
            std::iter::once(protocol.name.to_string())
                .chain(protocol.aliases.iter().map(|alias| (*alias).to_owned()))
        });
        more.chain(known).collect()
    }

    /// Fields of a layer after `(`, up to and including `)`.
    fn fields(&mut self, layer: &mut Layer) -> Result<(), Problem> {
        let mut is_first = true;
        loop {
            self.space();
            if self.eat(')') {
                return Ok(());
            }
            if !is_first {
                if !self.eat(',') {
                    return Err(self.unexpected("expected `,` or `)`"));
                }
                self.space();
                if self.eat(')') {
                    return Ok(());
                }
            }
            is_first = false;
            let start = self.at;
            let (name, value_at) = if self.is_text() {
                // Only a payload has a field that needs no name.
                match &*layer.protocol().fields {
                    [field] => (field.name.to_string(), start),
                    _ => {
                        return Err((
                            start,
                            format!("name the field, as in {}(field=...)", layer.name()),
                        ))
                    }
                }
            } else {
                let name = self.word();
                if name.is_empty() {
                    return Err(self.unexpected("expected the name of a field"));
                }
                layer
                    .protocol()
                    .require(&name)
                    .map_err(|problem| (start, problem))?;
                self.space();
                if !self.eat('=') {
                    return Err(
                        self.unexpected(&format!("expected `=` and a value after `{name}`"))
                    );
                }
                self.space();
                (name, self.at)
            };
            let value = self.repeated(0)?;
            layer
                .try_set(&name, value)
                .map_err(|error| (value_at, error.problem))?;
        }
    }

    /// A value, or text `* N`.
    fn repeated(&mut self, depth: usize) -> Result<Value, Problem> {
        let start = self.at;
        let value = self.value(depth)?;
        let before = self.at;
        self.space();
        if !self.eat('*') {
            self.at = before;
            return Ok(value);
        }
        self.space();
        let count_at = self.at;
        let bytes = match value {
            Value::Text(text) => text.into_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => return Err((start, "only text and bytes can be repeated".to_owned())),
        };
        let count = parse_number(&self.word())
            .and_then(|count| usize::try_from(count).ok())
            .ok_or((count_at, "expected a number after `*`".to_owned()))?;
        if bytes.len().saturating_mul(count) > MAX_REPEATED {
            return Err((
                count_at,
                format!("a payload has at most {MAX_REPEATED} bytes"),
            ));
        }
        Ok(Value::Bytes(bytes.repeat(count)))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Problem> {
        self.space();
        let start = self.at;
        match self.peek() {
            Some('"' | '\'') => {
                let bytes = self.quoted()?;
                Ok(match String::from_utf8(bytes) {
                    Ok(text) => Value::Text(text),
                    Err(error) => Value::Bytes(error.into_bytes()),
                })
            }
            Some('b') if matches!(self.chars.get(start + 1), Some('"' | '\'')) => {
                self.at += 1;
                Ok(Value::Bytes(self.quoted()?))
            }
            Some('[' | '(') if depth < MAX_DEPTH => {
                let close = if self.eat('[') { ']' } else { ')' };
                if close == ')' {
                    self.at += 1;
                }
                let mut values = Vec::new();
                loop {
                    self.space();
                    if self.eat(close) {
                        return Ok(Value::List(values));
                    }
                    if !values.is_empty() {
                        if !self.eat(',') {
                            return Err(self.unexpected(&format!("expected `,` or `{close}`")));
                        }
                        self.space();
                        if self.eat(close) {
                            return Ok(Value::List(values));
                        }
                    }
                    values.push(self.repeated(depth + 1)?);
                }
            }
            Some('[' | '(') => Err((start, "too many lists in lists".to_owned())),
            _ => {
                let word = self.word();
                match word.as_str() {
                    "" => Err(self.unexpected("expected a value")),
                    "True" | "true" => Ok(Value::Number(1)),
                    "False" | "false" => Ok(Value::Number(0)),
                    "None" => Ok(Value::Computed),
                    word => parse_number(word).map(Value::Number).ok_or_else(|| {
                        (
                            start,
                            format!("`{word}` is not a number; write text in quotes: \"{word}\""),
                        )
                    }),
                }
            }
        }
    }

    /// Text in quotes, as bytes.
    fn quoted(&mut self) -> Result<Vec<u8>, Problem> {
        let start = self.at;
        let quote = self.chars[start];
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let at = self.at;
            let c = self
                .peek()
                .ok_or((start, format!("the text has no closing {quote}")))?;
            self.at += 1;
            match c {
                c if c == quote => return Ok(bytes),
                '\\' => {
                    let escaped = self.peek();
                    self.at += 1;
                    match escaped {
                        Some('n') => bytes.push(b'\n'),
                        Some('r') => bytes.push(b'\r'),
                        Some('t') => bytes.push(b'\t'),
                        Some('0') => bytes.push(0),
                        Some(c @ ('\\' | '"' | '\'')) => bytes.push(c as u8),
                        Some('x') => {
                            let digits: String = self.chars.iter().skip(self.at).take(2).collect();
                            let byte = u8::from_str_radix(&digits, 16)
                                .ok()
                                .filter(|_| digits.len() == 2 && !digits.starts_with('+'));
                            bytes.push(byte.ok_or((
                                at,
                                "expected two hexadecimal digits after `\\x`".to_owned(),
                            ))?);
                            self.at += 2;
                        }
                        _ => {
                            return Err((
                                at,
                                "unknown escape; known are \\n \\r \\t \\0 \\\\ \\\" \\' and \\x00"
                                    .to_owned(),
                            ))
                        }
                    }
                }
                c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
    }

    fn is_text(&self) -> bool {
        match self.peek() {
            Some('"' | '\'') => true,
            Some('b') => matches!(self.chars.get(self.at + 1), Some('"' | '\'')),
            _ => false,
        }
    }

    /// Letters, digits, `_`, `.`, `-` and `$` from here on.
    fn word(&mut self) -> String {
        let rest = self.chars[self.at..].iter();
        let word: String = rest
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '$'))
            .collect();
        self.at += word.chars().count();
        word
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, expected: char) -> bool {
        let is_next = self.peek() == Some(expected);
        self.at += usize::from(is_next);
        is_next
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let found = match self.peek() {
            Some(c) => format!("found `{c}`"),
            None => "found the end".to_owned(),
        };
        (self.at, format!("{expected}; {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(expression: &str) -> (usize, String) {
        let error = parse(expression).unwrap_err();
        (error.column, error.problem)
    }

    #[test]
    fn text_is_a_payload() {
        let packet = parse(r#"IP()/UDP(dport=9)/"ab\x00"/b'\xff'*2"#).unwrap();
        assert_eq!(packet.build().unwrap()[28..], *b"ab\0\xff\xff");
    }

    #[test]
    fn problems_have_their_columns() {
        let cases = [
            (
                "",
                1,
                "expected a layer, such as IP(dst=\"10.0.0.2\"); found the end",
            ),
            (
                "IP()/UPD()",
                6,
                "no layer has the name `UPD`; did you mean `UDP`?",
            ),
            (
                "IP(ttl=300)",
                8,
                "IP.ttl: 300 does not fit into 8 bits; the largest value is 255",
            ),
            (
                "IP(dst=10.0.0.1)",
                8,
                "`10.0.0.1` is not a number; write text in quotes: \"10.0.0.1\"",
            ),
            (
                "IP(dst=\"10.0.0\")",
                8,
                "IP.dst: `10.0.0` is not an IPv4 address; one looks like 10.0.0.1",
            ),
            ("IP(\"10.0.0.1\")", 4, "name the field, as in IP(field=...)"),
            (
                "IP() UDP()",
                6,
                "expected `/` and a layer, or the end; found `U`",
            ),
            ("Raw(\"abc)", 5, "the text has no closing \""),
            (
                "Raw(\"\\q\")",
                6,
                "unknown escape; known are \\n \\r \\t \\0 \\\\ \\\" \\' and \\x00",
            ),
            (
                "IP(ttl 3)",
                8,
                "expected `=` and a value after `ttl`; found `3`",
            ),
            (
                "BTH(opcode=\"SEND_ONY\")",
                12,
                "BTH.opcode: has no value `SEND_ONY`; did you mean `SEND_ONLY`?",
            ),
            (
                "Raw(\"a\"*9999999)",
                9,
                "a payload has at most 1048576 bytes",
            ),
            (
                "TCP(options=[(((((((((1)))))))))])",
                21,
                "too many lists in lists",
            ),
        ];
        for (expression, column, text) in cases {
            assert_eq!(
                problem(expression),
                (column, text.to_owned()),
                "{expression}"
            );
        }
    }

    #[test]
    fn none_leaves_a_field_to_be_computed() {
        let with = parse("IP(chksum=None)/UDP()").unwrap().build();
        assert_eq!(with, parse("IP()/UDP()").unwrap().build());
    }
}
