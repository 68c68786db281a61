//! Conditions on packets: `UDP.dport == 4791 and BTH.opcode == SEND_ONLY`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::expression::ExpressionError;
use crate::field::{Field, Kind};
use crate::layer::{Layer, ProtocolRef};
use crate::packet::is_called;
use crate::{protocols, Packet};

/// A condition on the fields of a packet.
///
/// - `UDP`: the packet has the layer.
/// - `IP.ttl < 5`: a layer of that name has a field with such a value. The operators are `==`, `!=`, `<`, `<=`, `>`,
///   `>=`, and `&`, which compares bits (`TCP.flags & SA`: one of them is set). Values are written as in
///   [`crate::parse`]; quotes may be left out.
/// - `IP.dst in 10.0.0.0/8`: the address is in the network.
/// - `and`, `or`, `not` and parentheses combine conditions.
///
/// ```
/// use scapy::{Ether, Filter, Ipv4, Udp};
///
/// let filter: Filter = "IP.dst in 10.0.0.0/8 and not UDP.dport == 53".parse().unwrap();
/// assert!(filter.matches(&(Ether::new() / Ipv4::to("10.0.0.2") / Udp::port(9))));
/// assert!(!filter.matches(&(Ether::new() / Ipv4::to("10.0.0.2") / Udp::port(53))));
/// ```
#[derive(Clone, Debug)]
pub struct Filter(Condition);

#[derive(Clone, Debug)]
enum Condition {
    Has(ProtocolRef),
    Field {
        protocol: ProtocolRef,
        field: usize,
        test: Test,
    },
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

#[derive(Clone, Debug)]
enum Test {
    Equal(Vec<u8>),
    Unequal(Vec<u8>),
    Below(u128),
    AtMost(u128),
    Above(u128),
    AtLeast(u128),
    AnyBit(u128),
    Network { prefix: u128, mask: u128 },
}

impl Filter {
    /// Parses a condition, which may also name these protocols.
    ///
    /// # Errors
    /// With the column, and a proposal.
    pub fn parse_with(text: &str, more: &[ProtocolRef]) -> Result<Filter, ExpressionError> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser {
            tokens: tokens(&chars),
            at: 0,
            end: chars.len(),
            more,
            depth: 0,
        };
        let parsed = parser
            .either()
            .and_then(|condition| match parser.tokens.get(parser.at) {
                None => Ok(Filter(condition)),
                Some((at, token)) => Err((
                    *at,
                    format!("expected `and`, `or` or the end; found `{token}`"),
                )),
            });
        parsed.map_err(|(at, problem)| ExpressionError {
            column: at + 1,
            problem,
            expression: text.to_owned(),
        })
    }

    /// Whether the packet meets the condition. Fields that are left to be computed are 0.
    pub fn matches(&self, packet: &Packet) -> bool {
        self.0.holds(packet.layers())
    }
}

impl std::str::FromStr for Filter {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Filter, ExpressionError> {
        Filter::parse_with(text, &[])
    }
}

impl Condition {
    fn holds(&self, layers: &[Layer]) -> bool {
        let of = |protocol: &ProtocolRef| {
            let name = protocol.name.clone();
            layers.iter().filter(move |layer| layer.name() == name)
        };
        match self {
            Condition::Has(protocol) => of(protocol).next().is_some(),
            Condition::Not(inner) => !inner.holds(layers),
            Condition::And(left, right) => left.holds(layers) && right.holds(layers),
            Condition::Or(left, right) => left.holds(layers) || right.holds(layers),
            Condition::Field {
                protocol,
                field,
                test,
            } => of(protocol).any(|layer| {
                let field = &layer.protocol().fields[*field];
                test.holds(field, layer.header())
            }),
        }
    }
}

impl Test {
    fn holds(&self, field: &Field, header: &[u8]) -> bool {
        let number = |holds: &dyn Fn(u128) -> bool| field.number(header).is_some_and(holds);
        match self {
            Test::Equal(bits) => field.bytes(header).is_some_and(|own| own == *bits),
            Test::Unequal(bits) => field.bytes(header).is_some_and(|own| own != *bits),
            Test::Below(limit) => number(&|own| own < *limit),
            Test::AtMost(limit) => number(&|own| own <= *limit),
            Test::Above(limit) => number(&|own| own > *limit),
            Test::AtLeast(limit) => number(&|own| own >= *limit),
            Test::AnyBit(bits) => number(&|own| own & bits != 0),
            Test::Network { prefix, mask } => number(&|own| own & mask == *prefix),
        }
    }
}

type Problem = (usize, String);

/// Splits a condition into words, with their positions.
fn tokens(chars: &[char]) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        let c = chars[at];
        at += 1;
        let token: String = match c {
            c if c.is_whitespace() => continue,
            '(' | ')' => c.to_string(),
            '"' | '\'' => {
                while at < chars.len() && chars[at] != c {
                    at += 1;
                }
                at = (at + 1).min(chars.len());
                chars[start..at].iter().collect()
            }
            c if "=!<>&|".contains(c) => {
                while at < chars.len() && "=&|".contains(chars[at]) {
                    at += 1;
                }
                chars[start..at].iter().collect()
            }
            _ => {
                while at < chars.len()
                    && !chars[at].is_whitespace()
                    && !"()=!<>&|\"'".contains(chars[at])
                {
                    at += 1;
                }
                chars[start..at].iter().collect()
            }
        };
        tokens.push((start, token));
    }
    tokens
}

/// Maximum depth of parentheses and `not`.
const MAX_DEPTH: usize = 64;

struct Parser<'a> {
    tokens: Vec<(usize, String)>,
    at: usize,
    /// Length of the text in characters.
    end: usize,
    more: &'a [ProtocolRef],
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(|(_, token)| token.as_str())
    }

    fn eat(&mut self, words: &[&str]) -> bool {
        let is_next = self
            .peek()
            .is_some_and(|token| words.iter().any(|word| word.eq_ignore_ascii_case(token)));
        self.at += usize::from(is_next);
        is_next
    }

    fn next(&mut self, expected: &str) -> Result<(usize, String), Problem> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.ok_or_else(|| (self.end, format!("expected {expected}; found the end")))
    }

    fn either(&mut self) -> Result<Condition, Problem> {
        let mut left = self.both()?;
        while self.eat(&["or", "||"]) {
            left = Condition::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Condition, Problem> {
        let mut left = self.single()?;
        while self.eat(&["and", "&&"]) {
            left = Condition::And(Box::new(left), Box::new(self.single()?));
        }
        Ok(left)
    }

    fn single(&mut self) -> Result<Condition, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.tokens.get(self.at).map_or(self.end, |(at, _)| *at);
            return Err((at, "too many parentheses".to_owned()));
        }
        let condition = if self.eat(&["not", "!"]) {
            Condition::Not(Box::new(self.single()?))
        } else if self.eat(&["("]) {
            let inner = self.either()?;
            let (at, token) = self.next("`)`")?;
            if token != ")" {
                return Err((at, format!("expected `)`; found `{token}`")));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Condition, Problem> {
        let (at, word) = self.next("a layer or a field, such as UDP.dport")?;
        let (layer, field) = match word.split_once('.') {
            Some((layer, field)) => (layer, Some(field)),
            None => (word.as_str(), None),
        };
        let own = self.more.iter().find(|protocol| is_called(protocol, layer));
        let protocol = own
            .cloned()
            .or_else(|| protocols::by_name(layer).map(ProtocolRef::Known))
            .ok_or_else(|| {
                let names = protocols::ALL.iter().map(|protocol| protocol.name.as_ref());
                let hint = match crate::field::nearest(layer, names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "a condition begins with a layer, such as UDP.dport == 53".to_owned(),
                };
                (at, format!("no layer has the name `{layer}`; {hint}"))
            })?;
        let Some(name) = field else {
            return Ok(Condition::Has(protocol));
        };
        let (index, _) = protocol
            .require(name)
            .map_err(|problem| (at + layer.chars().count() + 1, problem))?;
        let (operator_at, operator) = self.next(&format!("an operator after `{word}`"))?;
        let (value_at, value) = self.next(&format!("a value after `{operator}`"))?;
        let test = test_of(&protocol.fields[index], &operator, unquoted(&value));
        let test = test.map_err(|problem| match problem {
            None => (
                operator_at,
                format!("`{operator}` is not an operator; they are == != < <= > >= & in"),
            ),
            Some(problem) => (value_at, format!("{}.{name}: {problem}", protocol.name)),
        })?;
        Ok(Condition::Field {
            protocol,
            field: index,
            test,
        })
    }
}

fn unquoted(token: &str) -> &str {
    let quote = token.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => token.trim_start_matches(quote).trim_end_matches(quote),
        None => token,
    }
}

/// The test for an operator and a value; the error is `None` for an unknown operator.
fn test_of(field: &Field, operator: &str, text: &str) -> Result<Test, Option<String>> {
    let bits = || field.encode(&text.into()).map_err(Some);
    let number = || -> Result<u128, Option<String>> {
        if field.width == 0 || field.width > 128 {
            return Err(Some(
                "only == and != compare fields without a number".to_owned(),
            ));
        }
        field.parse(text).map_err(Some)
    };
    Ok(match operator {
        "==" | "=" => Test::Equal(bits()?),
        "!=" => Test::Unequal(bits()?),
        "<" => Test::Below(number()?),
        "<=" => Test::AtMost(number()?),
        ">" => Test::Above(number()?),
        ">=" => Test::AtLeast(number()?),
        "&" => Test::AnyBit(number()?),
        "in" => network(field, text).map_err(Some)?,
        _ => return Err(None),
    })
}

fn network(field: &Field, text: &str) -> Result<Test, String> {
    let problem =
        || format!("`{text}` is not a network; one looks like 10.0.0.0/8 or 2001:db8::/32");
    let (address, length) = text.split_once('/').ok_or_else(problem)?;
    let length: u32 = length.parse().map_err(|_| problem())?;
    let (address, width) = match field.kind {
        Kind::Ipv4 => (
            u128::from(u32::from(
                address.parse::<Ipv4Addr>().map_err(|_| problem())?,
            )),
            32,
        ),
        Kind::Ipv6 => (
            u128::from(address.parse::<Ipv6Addr>().map_err(|_| problem())?),
            128,
        ),
        _ => return Err("`in` needs a field with an IP address".to_owned()),
    };
    let rest = u32::checked_sub(width, length).ok_or_else(problem)?;
    let mask = match rest {
        128 => 0,
        rest => (u128::MAX >> (128 - width)) >> rest << rest,
    };
    Ok(Test::Network {
        prefix: address & mask,
        mask,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ether, Ipv4, Tcp, Udp};

    fn matches(filter: &str, packet: impl Into<Packet>) -> bool {
        filter.parse::<Filter>().unwrap().matches(&packet.into())
    }

    #[test]
    fn operators_compare_numbers_names_and_networks() {
        let tcp = || Ether::new() / Ipv4::to("10.0.0.2").ttl(5) / Tcp::port(80).flags("SA");
        for filter in [
            "TCP",
            "tcp.dport == 80",
            "TCP.dport==http",
            "IP.ttl < 6 and IP.ttl >= 5",
            "IP.dst in 10.0.0.0/24",
            "IP.dst in 0.0.0.0/0",
            "not IP.dst in 10.0.1.0/24",
            "TCP.flags & S",
            "TCP.flags == \"SA\"",
            "UDP or (TCP and not ARP)",
            "IP.dst == 10.0.0.2",
            "IP.dst != 10.0.0.3",
        ] {
            assert!(matches(filter, tcp()), "{filter}");
        }
        for filter in [
            "UDP",
            "IP.ttl > 5",
            "TCP.flags & F",
            "not TCP",
            "IPv6.hlim != 3",
        ] {
            assert!(!matches(filter, tcp()), "{filter}");
        }
        assert!(matches("UDP.dport == 4791", Udp::port(4791)));
    }

    #[test]
    fn problems_have_their_columns() {
        let cases = [
            (
                "UDP.port == 3",
                5,
                "UDP has no field `port`; did you mean `dport`?",
            ),
            ("UPD", 1, "no layer has the name `UPD`; did you mean `UDP`?"),
            (
                "UDP.dport",
                10,
                "expected an operator after `UDP.dport`; found the end",
            ),
            (
                "UDP.dport ~ 3",
                11,
                "`~` is not an operator; they are == != < <= > >= & in",
            ),
            (
                "IP.dst in 10.0.0.0",
                11,
                "IP.dst: `10.0.0.0` is not a network; one looks like 10.0.0.0/8 or 2001:db8::/32",
            ),
            ("(UDP", 5, "expected `)`; found the end"),
            ("UDP TCP", 5, "expected `and`, `or` or the end; found `TCP`"),
            (
                "IP.ttl == 256",
                11,
                "IP.ttl: 256 does not fit into 8 bits; the largest value is 255",
            ),
        ];
        for (filter, column, problem) in cases {
            let error = filter.parse::<Filter>().unwrap_err();
            assert_eq!(
                (error.column, error.problem.as_str()),
                (column, problem),
                "{filter}"
            );
        }
    }
}
