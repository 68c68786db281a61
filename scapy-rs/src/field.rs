//! Fields of a header: position, form of the values, and access to the bytes.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use alfirk_roce::wire::MacAddr;

use crate::options;
use crate::value::{big_endian, parse_number, Value};

/// Names of numbers, such as `(6, "TCP")`.
pub type Names = &'static [(u64, &'static str)];

/// Form of a field's values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// An unsigned number, shown in decimal.
    Decimal,
    /// An unsigned number, shown in hexadecimal.
    Hex,
    /// A number whose values have names.
    Named(Names),
    /// Bits with names, the least significant first. Names of one letter are written together (`SA`), longer ones
    /// with `+` between (`DF+MF`).
    Flags(&'static [&'static str]),
    /// A MAC address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// Bytes.
    Bytes,
    /// A list of options, in the form of the protocol.
    Options(options::Form),
}

/// Way to read and write a field.
#[derive(Clone, Copy)]
pub enum Access {
    /// By the accessors of a library: `pnet_packet` or `alfirk_roce::wire`.
    Library {
        /// Reads the field of a header; `None` if the header is too short.
        get: fn(&[u8]) -> Option<u128>,
        /// Writes the field of a header; without effect if the header is too short.
        set: fn(&mut [u8], u128),
    },
    /// By the position of its bits, for headers without a library.
    Bits,
    /// All bytes from the field's offset to the end of the header.
    Rest,
}

/// A field of a header.
#[derive(Clone)]
pub struct Field {
    /// Name, as in scapy where scapy has the layer.
    pub name: Cow<'static, str>,
    /// Form of the values.
    pub kind: Kind,
    /// Distance from the start of the header in bits.
    pub offset: usize,
    /// Width in bits; 0 for a field of variable length.
    pub width: usize,
    /// Way to read and write the field.
    pub access: Access,
    /// Whether the field is computed when a packet is built without a value for it.
    pub is_computed: bool,
    /// Whether a header has the field; `None` if every header has it.
    pub exists: Option<fn(&[u8]) -> bool>,
    /// Offset in bits if it depends on other fields.
    pub locate: Option<fn(&[u8]) -> usize>,
    /// Name of the flag that must be set for the header to have the field.
    pub flag: Option<&'static str>,
}

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} bits at {}", self.name, self.width, self.offset)
    }
}

impl Field {
    /// A field of a fixed width, at `offset` bits.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        offset: usize,
        width: usize,
        access: Access,
    ) -> Field {
        Field {
            name: Cow::Borrowed(name),
            kind,
            offset,
            width,
            access,
            is_computed: false,
            exists: None,
            locate: None,
            flag: None,
        }
    }

    /// The same field, computed when it has no value.
    pub const fn computed(mut self) -> Field {
        self.is_computed = true;
        self
    }

    /// The same field, in headers for which the condition holds.
    pub const fn when(mut self, exists: fn(&[u8]) -> bool) -> Field {
        self.exists = Some(exists);
        self
    }

    /// The same field, behind a flag of the header: `locate` returns its offset in bits.
    pub const fn behind(mut self, flag: &'static str, locate: fn(&[u8]) -> usize) -> Field {
        self.locate = Some(locate);
        self.flag = Some(flag);
        self
    }

    /// Whether the header has this field.
    pub fn exists(&self, header: &[u8]) -> bool {
        self.exists.is_none_or(|exists| exists(header))
    }

    /// Position in the header in bits.
    pub fn position(&self, header: &[u8]) -> usize {
        self.locate.map_or(self.offset, |locate| locate(header))
    }

    /// Width in bits in this header.
    pub fn width_in(&self, header: &[u8]) -> usize {
        match self.access {
            Access::Rest => (header.len() * 8).saturating_sub(self.position(header)),
            _ => self.width,
        }
    }

    /// The field as a number; `None` if the header does not have it or it is wider than 128 bits.
    pub fn number(&self, header: &[u8]) -> Option<u128> {
        if !self.exists(header) || self.width_in(header) > 128 {
            return None;
        }
        match self.access {
            Access::Library { get, .. } => get(header),
            Access::Bits | Access::Rest => {
                read_bits(header, self.position(header), self.width_in(header))
            }
        }
    }

    /// The field as bytes, right-aligned if its width is not a multiple of 8; `None` if the header does not have it.
    pub fn bytes(&self, header: &[u8]) -> Option<Vec<u8>> {
        if !self.exists(header) {
            return None;
        }
        let (position, width) = (self.position(header), self.width_in(header));
        if position % 8 == 0 && width % 8 == 0 {
            return header
                .get(position / 8..(position + width) / 8)
                .map(<[u8]>::to_vec);
        }
        let mut bytes = vec![0; width.div_ceil(8)];
        for bit in 0..width {
            let from = position + bit;
            let value = header.get(from / 8)? >> (7 - from % 8) & 1;
            let to = bytes.len() * 8 - width + bit;
            bytes[to / 8] |= value << (7 - to % 8);
        }
        Some(bytes)
    }

    /// The field's value as text, as `show` prints it; `None` if the header does not have the field.
    pub fn text(&self, header: &[u8]) -> Option<String> {
        if !self.exists(header) {
            return None;
        }
        let number = || self.number(header);
        Some(match self.kind {
            Kind::Decimal => number().map_or_else(|| self.hex(header), |n| n.to_string()),
            Kind::Hex => number().map_or_else(|| self.hex(header), |n| format!("{n:#x}")),
            Kind::Named(names) => {
                let n = number()?;
                match names.iter().find(|(value, _)| u128::from(*value) == n) {
                    Some((_, name)) => (*name).to_owned(),
                    None => n.to_string(),
                }
            }
            Kind::Flags(names) => flags_text(names, number()?),
            Kind::Mac => {
                let bytes = number()?.to_be_bytes();
                let mut mac = [0; 6];
                mac.copy_from_slice(&bytes[10..]);
                MacAddr(mac).to_string()
            }
            Kind::Ipv4 => Ipv4Addr::from(number()? as u32).to_string(),
            Kind::Ipv6 => Ipv6Addr::from(number()?).to_string(),
            Kind::Bytes => bytes_text(&self.bytes(header)?),
            Kind::Options(form) => options::text(form, &self.bytes(header)?),
        })
    }

    fn hex(&self, header: &[u8]) -> String {
        let bytes = self.bytes(header).unwrap_or_default();
        format!("0x{}", hex(&bytes))
    }

    /// Converts a value to the bits of this field, as bytes: right-aligned for a number.
    ///
    /// # Errors
    /// The problem, as the end of a sentence that begins with the name of the field.
    pub fn encode(&self, value: &Value) -> Result<Vec<u8>, String> {
        if let Kind::Options(form) = self.kind {
            return options::encode(form, value);
        }
        if matches!(self.kind, Kind::Bytes) {
            return self.encode_bytes(value);
        }
        let number = match value {
            Value::Number(number) => *number,
            Value::Text(text) => self.parse(text)?,
            Value::Bytes(bytes) if bytes.len() * 8 == self.width.next_multiple_of(8) => {
                if bytes.len() > 16 {
                    return Ok(bytes.clone());
                }
                big_endian(bytes)
            }
            Value::Bytes(bytes) => {
                return Err(format!(
                    "{} bytes do not fill {} bits",
                    bytes.len(),
                    self.width
                ))
            }
            Value::List(_) => return Err("expected one value, found a list".to_owned()),
            Value::Computed => 0,
        };
        if self.width < 128 && number >> self.width != 0 {
            if number >> 127 == 1 {
                return Err(format!(
                    "a negative number does not fit into {} unsigned bits",
                    self.width
                ));
            }
            return Err(format!(
                "{number} does not fit into {} bits; the largest value is {}",
                self.width,
                (1_u128 << self.width) - 1
            ));
        }
        let mut bytes = vec![0; self.width.div_ceil(8)];
        for (byte, part) in bytes
            .iter_mut()
            .rev()
            .zip(number.to_be_bytes().iter().rev())
        {
            *byte = *part;
        }
        Ok(bytes)
    }

    fn encode_bytes(&self, value: &Value) -> Result<Vec<u8>, String> {
        let mut bytes = match value {
            Value::Bytes(bytes) => bytes.clone(),
            Value::Text(text) => text.clone().into_bytes(),
            Value::Computed => Vec::new(),
            Value::Number(_) | Value::List(_) => {
                return Err("expected bytes or text, such as \"abc\" or b\"\\x01\"".to_owned())
            }
        };
        if !matches!(self.access, Access::Rest) {
            let size = self.width / 8;
            if bytes.len() > size {
                return Err(format!(
                    "{} bytes do not fit into {size} bytes",
                    bytes.len()
                ));
            }
            bytes.resize(size, 0);
        }
        Ok(bytes)
    }

    /// Converts text to a number, by the field's kind.
    ///
    /// # Errors
    /// As for [`Field::encode`].
    pub fn parse(&self, text: &str) -> Result<u128, String> {
        let number = || {
            parse_number(text).ok_or_else(|| {
                format!("`{text}` is not a number; write it in decimal, or hexadecimal as in 0x1f")
            })
        };
        match self.kind {
            Kind::Mac => text
                .parse::<MacAddr>()
                .map(|mac| big_endian(&mac.0))
                .map_err(|error| error.to_string()),
            Kind::Ipv4 => text
                .parse::<Ipv4Addr>()
                .map(|address| u32::from(address).into())
                .map_err(|_| format!("`{text}` is not an IPv4 address; one looks like 10.0.0.1")),
            Kind::Ipv6 => text.parse::<Ipv6Addr>().map(u128::from).map_err(|_| {
                format!("`{text}` is not an IPv6 address; one looks like 2001:db8::1")
            }),
            Kind::Named(names) => {
                let found = names
                    .iter()
                    .find(|(_, name)| name.eq_ignore_ascii_case(text));
                match found {
                    Some((number, _)) => Ok((*number).into()),
                    None => parse_number(text).ok_or_else(|| {
                        let names = names.iter().map(|(_, name)| *name);
                        match nearest(text, names) {
                            Some(name) => format!("has no value `{text}`; did you mean `{name}`?"),
                            None => format!("has no value `{text}`; write its number"),
                        }
                    }),
                }
            }
            Kind::Flags(names) => parse_flags(names, text),
            Kind::Decimal | Kind::Hex | Kind::Bytes | Kind::Options(_) => number(),
        }
    }

    /// Writes encoded bits into a header. The header must have the field.
    pub(crate) fn write(&self, header: &mut Vec<u8>, bits: &[u8]) {
        match self.access {
            Access::Rest => {
                let start = self.position(header) / 8;
                header.truncate(start);
                header.extend(bits);
            }
            Access::Library { set, .. } => set(header, big_endian(bits)),
            Access::Bits => {
                let position = self.position(header);
                write_bits(header, position, self.width, bits);
            }
        }
    }

    /// Writes a number into a header of a packet that is being built.
    pub(crate) fn write_number(&self, header: &mut [u8], number: u128) {
        match self.access {
            Access::Library { set, .. } => set(header, number),
            Access::Bits | Access::Rest => {
                let position = self.position(header);
                let bits = number.to_be_bytes();
                let bytes = self.width.div_ceil(8).min(16);
                write_bits(header, position, self.width, &bits[16 - bytes..]);
            }
        }
    }
}

/// Reads up to 128 bits; `None` behind the end.
pub(crate) fn read_bits(bytes: &[u8], position: usize, width: usize) -> Option<u128> {
    let mut number = 0;
    let mut bit = position;
    let end = position + width;
    if end > bytes.len() * 8 || width > 128 {
        return None;
    }
    while bit < end {
        if bit % 8 == 0 && end - bit >= 8 {
            number = number << 8 | u128::from(bytes[bit / 8]);
            bit += 8;
        } else {
            number = number << 1 | u128::from(bytes[bit / 8] >> (7 - bit % 8) & 1);
            bit += 1;
        }
    }
    Some(number)
}

/// Writes the last `width` bits of `bits`; without effect if `bytes` is too short.
pub(crate) fn write_bits(bytes: &mut [u8], position: usize, width: usize, bits: &[u8]) {
    if position + width > bytes.len() * 8 || width > bits.len() * 8 {
        return;
    }
    for bit in 0..width {
        let from = bits.len() * 8 - width + bit;
        let value = bits[from / 8] >> (7 - from % 8) & 1;
        let to = position + bit;
        let mask = 1 << (7 - to % 8);
        bytes[to / 8] = (bytes[to / 8] & !mask) | (value * mask);
    }
}

fn flags_text(names: &[&str], number: u128) -> String {
    let set = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| number >> bit & 1 == 1)
        .map(|(_, name)| *name);
    let separator = if names.iter().all(|name| name.len() == 1) {
        ""
    } else {
        "+"
    };
    let text = set.collect::<Vec<_>>().join(separator);
    match number >> names.len() {
        0 => text,
        _ => format!("{number:#x}"),
    }
}

fn parse_flags(names: &[&str], text: &str) -> Result<u128, String> {
    if text.is_empty() {
        return Ok(0);
    }
    if let Some(number) = parse_number(text) {
        return Ok(number);
    }
    let letters = names.iter().all(|name| name.len() == 1);
    let words: Vec<String> = if letters {
        text.chars().map(String::from).collect()
    } else {
        text.split(['+', '|', ',', ' '])
            .map(str::to_owned)
            .collect()
    };
    let mut flags = 0;
    for word in words.iter().filter(|word| !word.is_empty()) {
        let bit = names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(word))
            .ok_or_else(|| format!("has no flag `{word}`; its flags are {}", names.join(", ")))?;
        flags |= 1 << bit;
    }
    Ok(flags)
}

/// Bytes as text in quotes; bytes other than printable ASCII as `\x..`.
pub(crate) fn bytes_text(bytes: &[u8]) -> String {
    let mut text = String::from("b\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text += &format!("\\x{byte:02x}"),
        }
    }
    text.push('"');
    text
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The name that is most similar to `text`; `None` if none is similar.
pub(crate) fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase();
    names
        .map(|name| {
            (
                strsim::damerau_levenshtein(&lower, &name.to_ascii_lowercase()),
                name,
            )
        })
        .min()
        .filter(|(distance, _)| *distance <= 1 + text.len() / 4)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_written_where_they_are_read() {
        let mut bytes = [0xff; 5];
        write_bits(&mut bytes, 3, 13, &[0x0a, 0x5a]);
        assert_eq!(read_bits(&bytes, 3, 13), Some(0x0a5a));
        assert_eq!(bytes, [0xe0 | 0x0a, 0x5a, 0xff, 0xff, 0xff]);
        assert_eq!(read_bits(&bytes, 33, 8), None);
    }

    #[test]
    fn flags_have_letters_or_names() {
        let letters = ["F", "S", "R", "P", "A"];
        assert_eq!(parse_flags(&letters, "SA"), Ok(0x12));
        assert_eq!(flags_text(&letters, 0x12), "SA");
        assert_eq!(parse_flags(&["MF", "DF"], "DF+MF"), Ok(3));
        assert_eq!(flags_text(&["MF", "DF"], 3), "MF+DF");
        let error = parse_flags(&["MF", "DF"], "XF").unwrap_err();
        assert_eq!(error, "has no flag `XF`; its flags are MF, DF");
    }
}
