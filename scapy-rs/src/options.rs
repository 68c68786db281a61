//! Options at the end of headers: lists of a type, mostly a length, and data.

use std::net::{Ipv4Addr, Ipv6Addr};

use pnet_packet::ipv4::Ipv4OptionPacket;
use pnet_packet::tcp::TcpOptionPacket;
use pnet_packet::{Packet as _, PacketSize as _};

use crate::field::{bytes_text, nearest};
use crate::value::{parse_number, Value};

/// Form of a protocol's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// IPv4 (RFC 791, 3.1), padded with zeros to a multiple of 4 bytes.
    Ipv4,
    /// TCP (RFC 9293, 3.1), padded with zeros to a multiple of 4 bytes.
    Tcp,
    /// DHCP (RFC 2132).
    Dhcp,
    /// Hop-by-hop and destination options of IPv6 (RFC 8200, 4.2), padded so that the extension header has a multiple
    /// of 8 bytes.
    Ipv6,
    /// IPv6 addresses of a routing header.
    Addresses,
}

/// Form of an option's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// The option is its type alone, without length and data.
    Alone,
    /// No data.
    Empty,
    /// Numbers of this many bytes each.
    Numbers(usize),
    /// IPv4 addresses.
    Addresses,
    /// Text.
    Text,
    /// Bytes of another form.
    Bytes,
}

type Row = (u8, &'static str, Data);

const IPV4: &[Row] = &[
    (0, "EOL", Data::Alone),
    (1, "NOP", Data::Alone),
    (7, "RR", Data::Bytes),
    (0x44, "Timestamp", Data::Bytes),
    (0x82, "Security", Data::Bytes),
    (0x83, "LSRR", Data::Bytes),
    (0x88, "StreamId", Data::Numbers(2)),
    (0x89, "SSRR", Data::Bytes),
    (0x94, "RouterAlert", Data::Numbers(2)),
];

const TCP: &[Row] = &[
    (0, "EOL", Data::Alone),
    (1, "NOP", Data::Alone),
    (2, "MSS", Data::Numbers(2)),
    (3, "WScale", Data::Numbers(1)),
    (4, "SAckOK", Data::Empty),
    (5, "SAck", Data::Numbers(4)),
    (8, "Timestamp", Data::Numbers(4)),
];

const DHCP: &[Row] = &[
    (0, "pad", Data::Alone),
    (1, "subnet_mask", Data::Addresses),
    (3, "router", Data::Addresses),
    (6, "name_server", Data::Addresses),
    (12, "hostname", Data::Text),
    (15, "domain", Data::Text),
    (28, "broadcast_address", Data::Addresses),
    (50, "requested_addr", Data::Addresses),
    (51, "lease_time", Data::Numbers(4)),
    (53, "message-type", Data::Numbers(1)),
    (54, "server_id", Data::Addresses),
    (55, "param_req_list", Data::Numbers(1)),
    (56, "error_message", Data::Text),
    (57, "max_dhcp_size", Data::Numbers(2)),
    (58, "renewal_time", Data::Numbers(4)),
    (59, "rebinding_time", Data::Numbers(4)),
    (60, "vendor_class_id", Data::Text),
    (61, "client_id", Data::Bytes),
    (255, "end", Data::Alone),
];

const IPV6: &[Row] = &[
    (0, "Pad1", Data::Alone),
    (1, "PadN", Data::Bytes),
    (5, "RouterAlert", Data::Numbers(2)),
    (0xc2, "Jumbo", Data::Numbers(4)),
];

/// Names of the DHCP message types, from 1 (RFC 2132, 9.6).
const DHCP_MESSAGES: [&str; 8] = [
    "discover", "offer", "request", "decline", "ack", "nak", "release", "inform",
];

const DHCP_MESSAGE_TYPE: u8 = 53;

fn rows(form: Form) -> &'static [Row] {
    match form {
        Form::Ipv4 => IPV4,
        Form::Tcp => TCP,
        Form::Dhcp => DHCP,
        Form::Ipv6 => IPV6,
        Form::Addresses => &[],
    }
}

/// Removes the first option of a list; `None` if it is truncated.
fn split(form: Form, bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let kind = *bytes.first()?;
    let is_alone = rows(form)
        .iter()
        .any(|(number, _, data)| *number == kind && *data == Data::Alone);
    if is_alone {
        return Some((kind, &[], &bytes[1..]));
    }
    let length = usize::from(*bytes.get(1)?);
    // The length of DHCP and IPv6 does not count type and length.
    let size = match form {
        Form::Ipv4 => Ipv4OptionPacket::new(bytes)?.packet_size(),
        Form::Tcp => TcpOptionPacket::new(bytes)?.packet_size(),
        Form::Dhcp | Form::Ipv6 | Form::Addresses => length + 2,
    };
    if size < 2 || matches!(form, Form::Ipv4 | Form::Tcp) && size != length {
        return None;
    }
    let (option, rest) = bytes.split_at_checked(size)?;
    let data = match form {
        Form::Ipv4 => &option[option.len() - Ipv4OptionPacket::new(option)?.payload().len()..],
        Form::Tcp => &option[option.len() - TcpOptionPacket::new(option)?.payload().len()..],
        Form::Dhcp | Form::Ipv6 | Form::Addresses => &option[2..],
    };
    Some((kind, data, rest))
}

/// The options as text, in the form that [`encode`] accepts. Options that are not well-formed are shown as bytes.
pub(crate) fn text(form: Form, bytes: &[u8]) -> String {
    if form == Form::Addresses {
        let addresses = bytes.chunks_exact(16);
        if !addresses.remainder().is_empty() {
            return bytes_text(bytes);
        }
        let shown = addresses.map(|bytes| {
            let mut address = [0; 16];
            address.copy_from_slice(bytes);
            format!("\"{}\"", Ipv6Addr::from(address))
        });
        return format!("[{}]", shown.collect::<Vec<_>>().join(", "));
    }
    let mut shown = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some((kind, data, after)) = split(form, rest) else {
            return bytes_text(bytes);
        };
        // The padding after the end of the list.
        if kind == 0 && rest.iter().all(|byte| *byte == 0) && form != Form::Ipv6 {
            shown.extend(std::iter::repeat_n(
                format!("\"{}\"", rows(form)[0].1),
                rest.len(),
            ));
            break;
        }
        shown.push(option_text(form, kind, data));
        rest = after;
    }
    format!("[{}]", shown.join(", "))
}

fn option_text(form: Form, kind: u8, data: &[u8]) -> String {
    let row = rows(form).iter().find(|(number, ..)| *number == kind);
    let (name, of) = match row {
        Some((_, name, of)) => (format!("\"{name}\""), *of),
        None => (kind.to_string(), Data::Bytes),
    };
    let value = match of {
        Data::Alone => return name,
        Data::Empty if data.is_empty() => return name,
        Data::Numbers(size) if data.len() >= size && data.len() % size == 0 => {
            let numbers = data.chunks_exact(size).map(|bytes| {
                let number = crate::value::big_endian(bytes);
                let message = (number as usize)
                    .checked_sub(1)
                    .and_then(|at| DHCP_MESSAGES.get(at))
                    .filter(|_| form == Form::Dhcp && kind == DHCP_MESSAGE_TYPE);
                message.map_or(number.to_string(), |name| format!("\"{name}\""))
            });
            tuple(numbers.collect())
        }
        Data::Addresses if data.len() >= 4 && data.len() % 4 == 0 => {
            let addresses = data.chunks_exact(4);
            tuple(
                addresses
                    .map(|b| format!("\"{}\"", Ipv4Addr::new(b[0], b[1], b[2], b[3])))
                    .collect(),
            )
        }
        Data::Text
            if data
                .iter()
                .all(|b| b.is_ascii_graphic() && !b"\"\\".contains(b)) =>
        {
            format!("\"{}\"", String::from_utf8_lossy(data))
        }
        _ => bytes_text(data),
    };
    format!("({name}, {value})")
}

fn tuple(mut parts: Vec<String>) -> String {
    match parts.len() {
        1 => parts.remove(0),
        _ => format!("({})", parts.join(", ")),
    }
}

/// Converts a list of options to bytes, with padding. Bytes are taken as they are, apart from the padding.
///
/// # Errors
/// The problem, as the end of a sentence that begins with the name of the field.
pub(crate) fn encode(form: Form, value: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    match value {
        Value::Computed => {}
        Value::Bytes(raw) => bytes = raw.clone(),
        Value::List(options) => {
            for option in options {
                encode_option(form, option, &mut bytes)?;
            }
        }
        Value::Text(_) | Value::Number(_) => {
            return Err(match form {
                Form::Addresses => "expected a list of addresses, such as [\"2001:db8::1\"]",
                _ => "expected a list of options, such as [(\"MSS\", 1460), \"NOP\"]",
            }
            .to_owned())
        }
    }
    match form {
        Form::Ipv4 | Form::Tcp => {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            if bytes.len() > 40 {
                return Err(format!(
                    "{} bytes of options exceed the limit of 40",
                    bytes.len()
                ));
            }
        }
        // Next header and length are in front of the options.
        Form::Ipv6 => match (bytes.len() + 2).next_multiple_of(8) - (bytes.len() + 2) {
            0 => {}
            1 => bytes.push(0),
            count => {
                bytes.extend([1, count as u8 - 2]);
                bytes.resize(bytes.len() + count - 2, 0);
            }
        },
        Form::Dhcp | Form::Addresses => {}
    }
    Ok(bytes)
}

fn encode_option(form: Form, option: &Value, bytes: &mut Vec<u8>) -> Result<(), String> {
    if form == Form::Addresses {
        let address = match option {
            Value::Text(text) => text
                .parse::<Ipv6Addr>()
                .map_err(|_| format!("`{text}` is not an IPv6 address"))?,
            Value::Number(number) => Ipv6Addr::from(*number),
            _ => return Err("expected a list of IPv6 addresses".to_owned()),
        };
        bytes.extend(address.octets());
        return Ok(());
    }
    let (kind, value) = match option {
        Value::List(parts) => match parts.as_slice() {
            [kind] => (kind, &Value::Computed),
            [kind, value] => (kind, value),
            [kind, ..] => (kind, option),
            [] => return Err("an option is a name, or a name and a value".to_owned()),
        },
        kind => (kind, &Value::Computed),
    };
    let rows = rows(form);
    let (number, of) = match kind {
        Value::Text(name) => {
            let row = rows
                .iter()
                .find(|(_, other, _)| other.eq_ignore_ascii_case(name));
            match row {
                Some((number, _, of)) => (*number, *of),
                None => {
                    let near = nearest(name, rows.iter().map(|(_, other, _)| *other));
                    let hint = near.map_or_else(
                        || {
                            let names = rows.iter().map(|(_, other, _)| *other);
                            format!("its names are {}", names.collect::<Vec<_>>().join(", "))
                        },
                        |name| format!("did you mean `{name}`?"),
                    );
                    return Err(format!("has no option `{name}`; {hint}"));
                }
            }
        }
        Value::Number(number) => {
            let number = u8::try_from(*number)
                .map_err(|_| format!("{number} is not an option: the largest type is 255"))?;
            let row = rows.iter().find(|(other, ..)| *other == number);
            (number, row.map_or(Data::Bytes, |(_, _, of)| *of))
        }
        _ => return Err("an option begins with its name or its number".to_owned()),
    };
    bytes.push(number);
    if of == Data::Alone {
        return Ok(());
    }
    let mut data = Vec::new();
    match value {
        // Of a tuple of more than two elements all but the name are values.
        Value::List(parts) if std::ptr::eq(value, option) => {
            for part in &parts[1..] {
                encode_data(form, number, of, part, &mut data)?;
            }
        }
        Value::List(parts) => {
            for part in parts {
                encode_data(form, number, of, part, &mut data)?;
            }
        }
        value => encode_data(form, number, of, value, &mut data)?,
    }
    let counted = match form {
        Form::Ipv4 | Form::Tcp => data.len() + 2,
        Form::Dhcp | Form::Ipv6 | Form::Addresses => data.len(),
    };
    let length = u8::try_from(counted)
        .map_err(|_| format!("{counted} bytes are too long for one option; the limit is 255"))?;
    bytes.push(length);
    bytes.extend(data);
    Ok(())
}

fn encode_data(
    form: Form,
    kind: u8,
    of: Data,
    value: &Value,
    data: &mut Vec<u8>,
) -> Result<(), String> {
    match (of, value) {
        (_, Value::Computed) => {}
        (_, Value::Bytes(bytes)) => data.extend(bytes),
        (Data::Numbers(size), Value::Number(_) | Value::Text(_)) => {
            let number = match value {
                Value::Number(number) => *number,
                Value::Text(text) if text.is_empty() => return Ok(()),
                Value::Text(text) => {
                    let message = DHCP_MESSAGES
                        .iter()
                        .position(|name| name == text)
                        .filter(|_| form == Form::Dhcp && kind == DHCP_MESSAGE_TYPE);
                    message
                        .map(|at| at as u128 + 1)
                        .or_else(|| parse_number(text))
                        .ok_or_else(|| format!("`{text}` is not a value of option {kind}"))?
                }
                _ => 0,
            };
            if number >> (8 * size) != 0 {
                return Err(format!("{number} does not fit into option {kind}"));
            }
            data.extend(&number.to_be_bytes()[16 - size..]);
        }
        (Data::Addresses, Value::Text(text)) => {
            let address: Ipv4Addr = text
                .parse()
                .map_err(|_| format!("`{text}` is not an IPv4 address"))?;
            data.extend(address.octets());
        }
        (_, Value::Text(text)) => data.extend(text.as_bytes()),
        _ => {
            return Err(format!(
                "the value of option {kind} must be bytes, such as b\"\\x01\""
            ))
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: impl Into<Value>) -> Value {
        Value::List(vec![name.into(), value.into()])
    }

    #[test]
    fn tcp_options_are_written_as_in_scapy() {
        let timestamp = vec![Value::from(1), Value::from(2)];
        let list = Value::List(vec![
            option("MSS", 1460),
            "SAckOK".into(),
            option("Timestamp", timestamp),
            option("NOP", Value::Computed),
            option("WScale", 7),
        ]);
        let bytes = encode(Form::Tcp, &list).unwrap();
        let expected = [
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(
            text(Form::Tcp, &bytes),
            "[(\"MSS\", 1460), \"SAckOK\", (\"Timestamp\", (1, 2)), \"NOP\", (\"WScale\", 7)]"
        );
    }

    #[test]
    fn malformed_options_are_shown_as_bytes() {
        assert_eq!(text(Form::Tcp, &[2, 0, 0, 0]), "b\"\\x02\\x00\\x00\\x00\"");
        assert_eq!(text(Form::Ipv4, &[7, 200]), "b\"\\x07\\xc8\"");
        assert_eq!(text(Form::Dhcp, &[53, 9, 1]), "b\"5\\x09\\x01\"");
    }

    #[test]
    fn an_unknown_option_is_an_error_with_a_proposal() {
        let list = Value::List(vec![option("MMS", 1)]);
        let error = encode(Form::Tcp, &list).unwrap_err();
        assert_eq!(error, "has no option `MMS`; did you mean `MSS`?");
    }

    #[test]
    fn ipv6_options_fill_eight_bytes() {
        let list = Value::List(vec![option("RouterAlert", 0)]);
        assert_eq!(encode(Form::Ipv6, &list).unwrap(), [5, 2, 0, 0, 1, 0]);
        assert_eq!(encode(Form::Ipv6, &Value::Computed).unwrap().len(), 6);
    }
}
