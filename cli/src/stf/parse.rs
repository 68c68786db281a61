//! The language of STF tests, as p4c's testers read it: one command a line, `#` begins a comment.

use std::fmt;

/// A command and the line that it stands in, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number.
    pub number: usize,
    /// What to do.
    pub command: Command,
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `packet PORT DATA`
    Packet { port: u32, data: Vec<u8> },
    /// `expect PORT [DATA] [$]`; without data any packet will do in this place.
    Expect { port: u32, data: Option<Pattern> },
    /// `no_packet`
    NoPacket,
    /// `wait`
    Wait,
    /// `add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= HANDLE]`
    Add {
        table: String,
        priority: Option<i32>,
        keys: Vec<(String, KeyValue)>,
        action: Call,
        handle: Option<String>,
    },
    /// `setdefault TABLE ACTION(NAME:VALUE, ...)`
    SetDefault { table: String, action: Call },
    /// `remove all`
    RemoveAll,
    /// `remove HANDLE`
    Remove { handle: String },
    /// `mirroring_add SESSION PORT`
    MirroringAdd { session: u32, port: u32 },
    /// `mirroring_add_mc SESSION GROUP`
    MirroringAddMc { session: u32, group: u32 },
    /// `mirroring_delete SESSION`
    MirroringDelete { session: u32 },
    /// `mirroring_get SESSION`: checks nothing.
    MirroringGet { session: u32 },
    /// `mc_mgrp_create GROUP`
    GroupCreate { group: u32 },
    /// `mc_node_create RID PORT ...`; nodes are numbered from 0 in order.
    NodeCreate { rid: u16, ports: Vec<u32> },
    /// `mc_node_update NODE PORT ...`
    NodeUpdate { node: u32, ports: Vec<u32> },
    /// `mc_node_associate GROUP NODE`
    NodeAssociate { group: u32, node: u32 },
    /// `register_read NAME INDEX [VALUE]`: with a value, checks it.
    RegisterRead {
        name: String,
        index: u64,
        value: Option<Vec<u8>>,
    },
    /// `register_write NAME INDEX VALUE`
    RegisterWrite {
        name: String,
        index: u64,
        value: Vec<u8>,
    },
    /// `register_reset NAME`
    RegisterReset { name: String },
    /// `counter_read NAME INDEX`: checks nothing.
    CounterRead { name: String, index: u64 },
    /// `counter_write NAME INDEX PACKETS BYTES`
    CounterWrite {
        name: String,
        index: u64,
        packets: u64,
        bytes: u64,
    },
    /// `meter_get_rates NAME INDEX`: checks nothing.
    MeterGetRates { name: String, index: u64 },
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`
    MeterSetRates {
        name: String,
        index: u64,
        rates: MeterRates,
    },
    /// `meter_array_set_rates NAME RATE:BURST RATE:BURST`
    MeterArraySetRates { name: String, rates: MeterRates },
    /// `check_counter NAME(INDEX) [[packets|bytes] == N]`; without a comparison it is to be 0, as p4c's grammar has it.
    CheckCounter {
        name: String,
        index: CounterIndex,
        unit: CounterUnit,
        comparison: Comparison,
        value: u64,
    },
    /// `dump ...`: checks nothing.
    Dump,
}

/// Committed and peak rate of a meter, each with its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterRates {
    /// Packets or bytes per second; tests write them per microsecond.
    pub cir: u64,
    pub cburst: u64,
    pub pir: u64,
    pub pburst: u64,
}

/// Which counter is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterIndex {
    /// A cell; of a direct counter, that of the entry in this place.
    Cell(u64),
    /// `$HANDLE`: that of the entry which the test added as `HANDLE`.
    Entry(String),
}

impl fmt::Display for CounterIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterIndex::Cell(index) => write!(f, "{index}"),
            CounterIndex::Entry(handle) => write!(f, "${handle}"),
        }
    }
}

/// What of a counter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    Packets,
    Bytes,
}

/// Bytes that end a frame on the wire and that BMv2 never sees: the check sequence.
const FCS: u64 = 4;

impl CounterUnit {
    /// Compares what was counted with a test's number. Some of p4c's tests were written for hardware, which counts check
    /// sequences too; theirs is as good a count of bytes.
    ///
    /// # Errors
    /// What was counted, if the comparison does not hold.
    pub fn check(
        self,
        (packets, bytes): (u64, u64),
        comparison: Comparison,
        value: u64,
    ) -> Result<(), String> {
        let with_fcs = packets.saturating_mul(FCS).saturating_add(bytes);
        let (holds, found) = match self {
            CounterUnit::Packets => (
                comparison.holds(packets, value),
                format!("{packets} packets"),
            ),
            CounterUnit::Bytes => (
                comparison.holds(bytes, value) || comparison.holds(with_fcs, value),
                format!("{bytes} bytes"),
            ),
        };
        if holds {
            Ok(())
        } else {
            Err(found)
        }
    }
}

/// How a counter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it holds.
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
        }
    }
}

/// An action and its arguments; without names they stand for parameters in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub args: Vec<(Option<String>, Vec<u8>)>,
}

/// The value of a key, before the table tells how it matches.
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

/// Bytes of a packet, of which some half-bytes may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Half-bytes; none for `*`.
    pub digits: Vec<Option<u8>>,
    /// Whether the packet ends there (`$`).
    pub ends: bool,
}

impl Pattern {
    /// Whether a packet fits.
    pub fn matches(&self, packet: &[u8]) -> bool {
        let long_enough = packet.len() * 2 >= self.digits.len();
        let right_length = !self.ends || packet.len() * 2 == self.digits.len();
        long_enough
            && right_length
            && self.digits.iter().enumerate().all(|(position, digit)| {
                let byte = packet[position / 2];
                let half = if position % 2 == 0 {
                    byte >> 4
                } else {
                    byte & 15
                };
                digit.is_none_or(|digit| digit == half)
            })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digit in &self.digits {
            match digit {
                Some(digit) => write!(f, "{digit:x}")?,
                None => f.write_str("*")?,
            }
        }
        f.write_str(if self.ends { " $" } else { "" })
    }
}

/// A line that is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Reads a whole test.
///
/// # Errors
/// The first line that is no command.
pub fn parse(text: &str) -> Result<Vec<Line>, ParseError> {
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let command = command(text).map_err(|what| ParseError { line: number, what })?;
        lines.push(Line { number, command });
    }
    Ok(lines)
}

fn command(text: &str) -> Result<Command, String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let mut words = Words::new(rest);
    let command = match word.to_ascii_lowercase().as_str() {
        "packet" => {
            let port = words.number("port")?;
            let digits = digits(&words.rest())?;
            let data = bytes_of(&digits).ok_or("a packet to send has no wildcards")?;
            Command::Packet { port, data }
        }
        "expect" => {
            let port = words.number("port")?;
            let rest = words.rest();
            let (rest, ends) = match rest.trim_end().strip_suffix('$') {
                Some(rest) => (rest.to_owned(), true),
                None => (rest, false),
            };
            let digits = digits(&rest)?;
            let data = (ends || !digits.is_empty()).then_some(Pattern { digits, ends });
            Command::Expect { port, data }
        }
        "no_packet" => Command::NoPacket,
        "wait" => Command::Wait,
        "add" => return add(rest),
        "setdefault" => {
            let table = words.word("table")?;
            let action = call(&words.rest())?;
            Command::SetDefault { table, action }
        }
        "remove" => match words.word("entry")?.as_str() {
            all if all.eq_ignore_ascii_case("all") => Command::RemoveAll,
            handle => Command::Remove {
                handle: handle.trim_start_matches('$').to_owned(),
            },
        },
        "mirroring_add" => Command::MirroringAdd {
            session: words.number("session")?,
            port: words.number("port")?,
        },
        "mirroring_add_mc" => Command::MirroringAddMc {
            session: words.number("session")?,
            group: words.number("multicast group")?,
        },
        "mirroring_delete" => Command::MirroringDelete {
            session: words.number("session")?,
        },
        "mirroring_get" => Command::MirroringGet {
            session: words.number("session")?,
        },
        "mc_mgrp_create" => Command::GroupCreate {
            group: words.number("multicast group")?,
        },
        "mc_node_create" => Command::NodeCreate {
            rid: words.number("replica id")?,
            ports: words.ports()?,
        },
        "mc_node_update" => Command::NodeUpdate {
            node: words.number("node")?,
            ports: words.ports()?,
        },
        "mc_node_associate" => Command::NodeAssociate {
            group: words.number("multicast group")?,
            node: words.number("node")?,
        },
        "register_read" => Command::RegisterRead {
            name: words.word("register")?,
            index: words.number("index")?,
            value: words.next().map(|text| value(&text)).transpose()?,
        },
        "register_write" => Command::RegisterWrite {
            name: words.word("register")?,
            index: words.number("index")?,
            value: value(&words.word("value")?)?,
        },
        "register_reset" => Command::RegisterReset {
            name: words.word("register")?,
        },
        "counter_read" => Command::CounterRead {
            name: words.word("counter")?,
            index: words.number("index")?,
        },
        "counter_write" => Command::CounterWrite {
            name: words.word("counter")?,
            index: words.number("index")?,
            packets: words.number("packets")?,
            bytes: words.number("bytes")?,
        },
        "meter_get_rates" => Command::MeterGetRates {
            name: words.word("meter")?,
            index: words.number("index")?,
        },
        "meter_set_rates" => Command::MeterSetRates {
            name: words.word("meter")?,
            index: words.number("index")?,
            rates: words.rates()?,
        },
        "meter_array_set_rates" => Command::MeterArraySetRates {
            name: words.word("meter")?,
            rates: words.rates()?,
        },
        "check_counter" => return check_counter(rest),
        "dump" | "mirroring_dump" | "mc_dump" => return Ok(Command::Dump),
        other => return Err(format!("there is no command {other}")),
    };
    match words.next() {
        Some(extra) => Err(format!("{extra} is too much")),
        None => Ok(command),
    }
}

/// `TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= HANDLE]`
fn add(text: &str) -> Result<Command, String> {
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

/// `NAME(INDEX) [[packets|bytes] == N]`
fn check_counter(text: &str) -> Result<Command, String> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let compared = OPERATORS.iter().find_map(|(operator, comparison)| {
        let (left, right) = text.split_once(operator)?;
        Some((left.trim(), *comparison, right.trim()))
    });
    let (left, comparison, value) = compared.unwrap_or((text, Comparison::Equal, "0"));
    let (left, unit) = match left.rsplit_once(char::is_whitespace) {
        Some((left, "packets")) => (left.trim(), CounterUnit::Packets),
        Some((left, "bytes")) => (left.trim(), CounterUnit::Bytes),
        _ => (left, CounterUnit::Packets),
    };
    let (name, index) = match left.split_once(['(', ' ', '\t']) {
        Some((name, index)) => (name.trim(), index.trim_end_matches(')').trim()),
        None => (left, "0"),
    };
    let index = match index.strip_prefix('$') {
        Some(handle) => CounterIndex::Entry(handle.to_owned()),
        None => CounterIndex::Cell(number(index, "index")?),
    };
    Ok(Command::CheckCounter {
        name: name.to_owned(),
        index,
        unit,
        comparison,
        value: number(value, "count")?,
    })
}

/// `ACTION(NAME:VALUE, ...)`, also without names.
fn call(text: &str) -> Result<Call, String> {
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

/// A number whose digits are whole bits: bits of each digit, and the digits.
fn based(text: &str) -> Option<(u32, &str)> {
    let (base, digits) = text.split_at_checked(2)?;
    let bits = match base {
        "0x" | "0X" => 4,
        "0o" | "0O" => 3,
        "0b" | "0B" => 1,
        _ => return None,
    };
    Some((bits, digits))
}

/// The number and which bits of it were given: those of `*` are not.
fn digits_and_mask(digits: &str, bits: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    let whole = (1u32 << bits) - 1;
    let digits: Vec<(u32, u32)> = digits
        .chars()
        .filter(|c| *c != '_')
        .map(|c| match c {
            '*' => Some((0, 0)),
            c => Some((c.to_digit(1 << bits)?, whole)),
        })
        .collect::<Option<_>>()?;
    if digits.is_empty() {
        return None;
    }
    let length = (digits.len() * bits as usize).div_ceil(8);
    let (mut value, mut mask) = (vec![0; length], vec![0; length]);
    for (position, (digit, given)) in digits.iter().rev().enumerate() {
        for bit in 0..bits {
            let at = position * bits as usize + bit as usize;
            let byte = length - 1 - at / 8;
            value[byte] |= ((digit >> bit & 1) as u8) << (at % 8);
            mask[byte] |= ((given >> bit & 1) as u8) << (at % 8);
        }
    }
    Some((value, mask))
}

/// A number of any width: `0x1f`, `0o17`, `0b101`, `31`, also a dotted IPv4 or a MAC address.
fn value(text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim();
    let wrong = || format!("{text} is no number");
    if let Some((bits, digits)) = based(text).filter(|(_, digits)| !digits.contains('*')) {
        let (value, _) = digits_and_mask(digits, bits).ok_or_else(wrong)?;
        return Ok(value);
    }
    if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
        return Ok(address.octets().to_vec());
    }
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() == 6 {
        let (value, _) = digits_and_mask(&parts.concat(), 4).ok_or_else(wrong)?;
        return Ok(value);
    }
    let number: u128 = text.parse().map_err(|_| wrong())?;
    Ok(number.to_be_bytes().to_vec())
}

/// Half-bytes, `*` for any.
fn digits(text: &str) -> Result<Vec<Option<u8>>, String> {
    let mut digits = Vec::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match (c, c.to_digit(16)) {
            ('*', _) => digits.push(None),
            (_, Some(digit)) => digits.push(Some(digit as u8)),
            _ => return Err(format!("{c} is no hexadecimal digit")),
        }
    }
    Ok(digits)
}

/// Two digits are a byte, and so is the last one of an odd number, as in p4c's tester.
fn bytes_of(digits: &[Option<u8>]) -> Option<Vec<u8>> {
    digits
        .chunks(2)
        .map(|digits| {
            digits
                .iter()
                .try_fold(0, |byte, digit| Some(byte << 4 | (*digit)?))
        })
        .collect()
}

fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    parsed
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("{text} is no {what}"))
}

/// The words of a line.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Words { rest: text.trim() }
    }

    fn next(&mut self) -> Option<String> {
        if self.rest.is_empty() {
            return None;
        }
        // Blanks inside of quotes belong to the word.
        let mut quoted = false;
        let end = self.rest.find(|c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        Some(word.to_owned())
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("the {what} is missing"))
    }

    fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        number(&self.word(what)?, what)
    }

    fn ports(&mut self) -> Result<Vec<u32>, String> {
        std::iter::from_fn(|| self.next())
            .map(|port| number(&port, "port"))
            .collect()
    }

    /// `RATE:BURST`, in units per microsecond, committed before peak.
    fn rates(&mut self) -> Result<MeterRates, String> {
        let mut pair = |which: &str| {
            let text = self.word(&format!("{which} RATE:BURST"))?;
            let wrong = || format!("{text} is no RATE:BURST");
            let (rate, burst) = text.split_once(':').ok_or_else(wrong)?;
            let per_microsecond: f64 = rate.parse().map_err(|_| wrong())?;
            let rate = (per_microsecond * 1e6).round();
            if !(0.0..=1e18).contains(&rate) {
                return Err(wrong());
            }
            Ok((rate as u64, number(burst, "burst")?))
        };
        let ((cir, cburst), (pir, pburst)) = (pair("committed")?, pair("peak")?);
        Ok(MeterRates {
            cir,
            cburst,
            pir,
            pburst,
        })
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.rest).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Command {
        parse(text).expect("it is a command").remove(0).command
    }

    #[test]
    fn packets_may_have_spaces() {
        assert_eq!(
            one("packet 1 00 1122 aB"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x11, 0x22, 0xab]
            }
        );
        assert_eq!(
            one("packet 1 001 2"),
            Command::Packet {
                port: 1,
                data: vec![0, 0x12]
            }
        );
        assert_eq!(
            one("packet 1 0a b"),
            Command::Packet {
                port: 1,
                data: vec![0x0a, 0x0b]
            }
        );
    }

    #[test]
    fn expectations_have_wildcards_and_ends() {
        let Command::Expect {
            port: 2,
            data: Some(pattern),
        } = one("expect 2 0a*b **$")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.ends);
        assert!(pattern.matches(&[0x0a, 0x7b, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7c, 0xff]));
        assert!(!pattern.matches(&[0x0a, 0x7b, 0xff, 0]));
        let Command::Expect {
            data: Some(pattern),
            ..
        } = one("expect 2 0a 7")
        else {
            panic!("not an expectation");
        };
        assert!(pattern.matches(&[0x0a, 0x7b]));
        assert!(!pattern.matches(&[0x0a, 0x8b]));
        assert_eq!(
            one("expect 2"),
            Command::Expect {
                port: 2,
                data: None
            }
        );
    }

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

    #[test]
    fn counters_are_compared() {
        assert_eq!(
            one("check_counter ingress.c(3) bytes >= 64"),
            Command::CheckCounter {
                name: "ingress.c".to_owned(),
                index: CounterIndex::Cell(3),
                unit: CounterUnit::Bytes,
                comparison: Comparison::GreaterOrEqual,
                value: 64
            }
        );
    }

    #[test]
    fn counters_of_named_entries_are_compared_with_0_if_with_nothing() {
        assert_eq!(
            one("check_counter cnt($A)"),
            Command::CheckCounter {
                name: "cnt".to_owned(),
                index: CounterIndex::Entry("A".to_owned()),
                unit: CounterUnit::Packets,
                comparison: Comparison::Equal,
                value: 0
            }
        );
    }

    #[test]
    fn bytes_may_be_counted_with_the_check_sequences() {
        let bytes = |value| CounterUnit::Bytes.check((2, 20), Comparison::Equal, value);
        assert_eq!(bytes(20), Ok(()));
        assert_eq!(bytes(28), Ok(()));
        assert_eq!(bytes(24), Err("20 bytes".to_owned()));
        let packets = |value| CounterUnit::Packets.check((2, 20), Comparison::Less, value);
        assert_eq!(packets(3), Ok(()));
        assert_eq!(packets(2), Err("2 packets".to_owned()));
    }

    #[test]
    fn rates_are_told_per_microsecond() {
        assert_eq!(
            one("meter_set_rates c.m 2 0.000005:4 0.00002:5"),
            Command::MeterSetRates {
                name: "c.m".to_owned(),
                index: 2,
                rates: MeterRates {
                    cir: 5,
                    cburst: 4,
                    pir: 20,
                    pburst: 5
                }
            }
        );
        let error = parse("meter_array_set_rates c.m 1:1").expect_err("the peak is missing");
        assert_eq!(error.to_string(), "line 1: the peak RATE:BURST is missing");
    }

    #[test]
    fn commands_may_be_in_capitals() {
        assert_eq!(one("WAIT"), Command::Wait);
        assert_eq!(one("Remove ALL"), Command::RemoveAll);
    }

    #[test]
    fn mistakes_name_their_line() {
        let error = parse("wait\n\npacket x 00").expect_err("x is no port");
        assert_eq!(error.to_string(), "line 3: x is no port");
        let error = parse("fly 1").expect_err("no such command");
        assert_eq!(error.to_string(), "line 1: there is no command fly");
    }
}
