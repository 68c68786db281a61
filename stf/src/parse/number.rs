//! Numbers of STF tests.

/// Splits a number with a base prefix (`0x`, `0o`, `0b`) into the bits per digit and the digits. `None` without such a
/// prefix.
pub(super) fn split_base(text: &str) -> Option<(u32, &str)> {
    let (base, digits) = text.split_at_checked(2)?;
    let bits = match base {
        "0x" | "0X" => 4,
        "0o" | "0O" => 3,
        "0b" | "0B" => 1,
        _ => return None,
    };
    Some((bits, digits))
}

/// Returns the value and the mask of digits in big endian; `bits` is the number of bits of a digit. The mask has ones
/// at the bits of digits, and zeros at those of each `*`.
pub(super) fn digits_and_mask(digits: &str, bits: u32) -> Option<(Vec<u8>, Vec<u8>)> {
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

pub(super) fn not_a_number(text: &str) -> String {
    format!("`{text}` is not a number")
}

/// Maximum number of digits of a decimal number; enough for values of 1,024 bits.
const MAX_DIGITS: usize = 1 << 10;

/// Parses a number of any width, such as `0x1f`, `0o17`, `0b101` or `31`, or an IPv4 or MAC address. Returns big-endian
/// bytes.
pub(super) fn value(text: &str) -> Result<Vec<u8>, String> {
    let text = text.trim();
    let wrong = || not_a_number(text);
    if let Some((bits, digits)) = split_base(text).filter(|(_, digits)| !digits.contains('*')) {
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
    decimal(text).ok_or_else(wrong)
}

/// Converts a decimal number of up to [`MAX_DIGITS`] digits to big-endian bytes.
fn decimal(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > MAX_DIGITS {
        return None;
    }
    // Least significant byte first.
    let mut bytes = vec![0u8];
    for c in text.chars() {
        let mut carry = c.to_digit(10)?;
        for byte in &mut bytes {
            let sum = u32::from(*byte) * 10 + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
    }
    bytes.reverse();
    Some(bytes)
}

/// Parses a number of the type `T`; `what` names the number in the error message.
pub(super) fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T, String> {
    let parsed = match split_base(text) {
        Some((bits, digits)) => u64::from_str_radix(digits, 1 << bits).ok(),
        None => text.parse::<u64>().ok(),
    };
    let number = parsed.ok_or_else(|| format!("the {what} `{text}` is not a number"))?;
    T::try_from(number).map_err(|_| format!("the {what} `{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_may_exceed_128_bits() {
        assert_eq!(value("65536"), Ok(vec![1, 0, 0]));
        let power = value("340282366920938463463374607431768211456").unwrap();
        assert_eq!((power.len(), power[0]), (17, 1));
        assert!(value("-1").is_err() && value("").is_err());
        assert!(value(&"9".repeat(MAX_DIGITS + 1)).is_err());
    }

    #[test]
    fn numbers_may_have_base_2_8_10_or_16() {
        assert_eq!(number("0X1f", "port"), Ok(31u32));
        assert_eq!(number("0b11", "port"), Ok(3u32));
        assert_eq!(
            number::<u8>("256", "port"),
            Err("the port `256` is too large".to_owned())
        );
    }
}
