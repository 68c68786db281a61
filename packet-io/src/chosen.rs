//! Frames that a port loses on purpose, chosen by what they hold and by their number: "the first acknowledgement".

use std::str::FromStr;

/// Whether a frame comes in from the wire or goes out to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    In,
    Out,
}

/// Which frames of a port are lost: `in,1-3,42=11,54=60/e0` are the first three that come in and have 0x11 at offset 42,
/// and at offset 54 a byte that is 0x60 where 0xe0 has ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    way: Way,
    /// The first and the last one, counted from 1.
    first: u64,
    last: u64,
    bytes: Vec<Byte>,
    /// Frames that had those bytes so far.
    seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    offset: usize,
    value: u8,
    mask: u8,
}

impl Chosen {
    /// Counts a frame if it is of the kind, and returns whether it is one to lose.
    pub fn takes(&mut self, way: Way, frame: &[u8]) -> bool {
        let has = |b: &Byte| frame.get(b.offset).is_some_and(|x| x & b.mask == b.value);
        if way != self.way || !self.bytes.iter().all(has) {
            return false;
        }
        self.seen += 1;
        (self.first..=self.last).contains(&self.seen)
    }
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Chosen, String> {
        let mut parts = text.split(',');
        let way = match parts.next() {
            Some("in") => Way::In,
            Some("out") => Way::Out,
            _ => return Err("expected `in` or `out`, such as 2=in,1,42=11".into()),
        };
        let numbers = parts
            .next()
            .ok_or("which ones? 1 is the first, 1-3 are three")?;
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
        let (first, last) = (number(first)?, number(last)?);
        if first == 0 || last < first {
            return Err(format!("{numbers:?}: frames are counted from 1 up"));
        }
        Ok(Chosen {
            way,
            first,
            last,
            bytes: parts.map(Byte::from_str).collect::<Result<_, _>>()?,
            seen: 0,
        })
    }
}

impl FromStr for Byte {
    type Err = String;

    fn from_str(text: &str) -> Result<Byte, String> {
        let bad = || format!("{text:?}: expected OFFSET=HEX or OFFSET=HEX/MASK, such as 54=60/e0");
        let (offset, rest) = text.split_once('=').ok_or_else(bad)?;
        let (value, mask) = rest.split_once('/').unwrap_or((rest, "ff"));
        let hex = |text: &str| u8::from_str_radix(text, 16).map_err(|_| bad());
        let (value, mask) = (hex(value)?, hex(mask)?);
        if value & !mask != 0 {
            return Err(format!("{text:?}: the value has ones that the mask hides"));
        }
        Ok(Byte {
            offset: offset.parse().map_err(|_| bad())?,
            value,
            mask,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rule: &str, frames: &[(Way, &[u8])]) -> Vec<bool> {
        let mut rule: Chosen = rule.parse().unwrap();
        let takes = |(way, frame): &(Way, &[u8])| rule.takes(*way, frame);
        frames.iter().map(takes).collect()
    }

    #[test]
    fn frames_are_counted_by_way_and_content() {
        use Way::{In, Out};
        let frames: [(Way, &[u8]); 6] = [
            (In, &[1, 0x60]),
            (Out, &[1, 0x60]),
            (In, &[2, 0x60]),
            (In, &[1]),
            (In, &[1, 0x7f]),
            (In, &[1, 0x61]),
        ];
        let f = false;
        assert_eq!(
            taken("in,1,0=01", &frames),
            [true, f, f, f, f, f],
            "only the first"
        );
        assert_eq!(
            taken("in,2-3,0=01,1=60/e0", &frames),
            [f, f, f, f, true, true],
            "a frame without the byte has another content"
        );
        assert_eq!(taken("out,1", &frames), [f, true, f, f, f, f]);
    }

    #[test]
    fn nonsense_is_named() {
        let why = |text: &str| text.parse::<Chosen>().unwrap_err();
        assert!(why("up,1").contains("`in` or `out`"));
        assert!(why("in").contains("which ones"));
        assert!(why("in,0").contains("from 1"));
        assert!(why("in,3-2").contains("from 1"));
        assert!(why("in,x").contains("no number"));
        assert!(why("in,1,42").contains("OFFSET=HEX"));
        assert!(why("in,1,42=g1").contains("OFFSET=HEX"));
        assert!(why("in,1,42=61/60").contains("mask hides"));
    }
}
