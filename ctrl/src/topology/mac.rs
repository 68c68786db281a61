//! Ethernet addresses as written in topology files.

use std::fmt;
use std::str::FromStr;

/// An Ethernet (EUI-48) address, in the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Whether a single station can own this address: not multicast, not all zero.
    pub fn is_station(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// The address as a 48-bit number, the first byte on the wire being the most significant.
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> MacAddr {
        MacAddr(bytes)
    }
}

impl From<MacAddr> for [u8; 6] {
    fn from(mac: MacAddr) -> [u8; 6] {
        mac.0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not six colon-separated pairs of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ethernet address; write six pairs of hex digits as \"02:00:00:00:00:01\"")]
pub struct ParseMacError(String);

impl FromStr for MacAddr {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let error = || ParseMacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().ok_or_else(error)?;
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(error());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        match pairs.next() {
            None => Ok(MacAddr(bytes)),
            Some(_) => Err(error()),
        }
    }
}
