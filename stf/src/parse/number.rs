//! Numbers as tests write them.

/// A number whose digits are whole bits: bits of each digit, and the digits.
pub(super) fn based(text: &str) -> Option<(u32, &str)> {
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

/// A number of any width: `0x1f`, `0o17`, `0b101`, `31`, also a dotted IPv4 or a MAC address.
pub(super) fn value(text: &str) -> Result<Vec<u8>, String> {
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

pub(super) fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    parsed
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("{text} is no {what}"))
}
