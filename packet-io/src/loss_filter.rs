//! Deliberate loss of frames, chosen by content and number, such as "the first acknowledgement".

use std::str::FromStr;

/// The direction of a frame at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received from the interface.
    In,
    /// Sent to the interface.
    Out,
}

/// A rule that selects frames to drop at a port, by direction, content and number.
///
/// In text form, `in,1-3,42=11,54=60/e0` drops the first three received frames with 0x11 at offset 42 and a byte at
/// offset 54 that is 0x60 under the mask 0xe0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossFilter {
    direction: Direction,
    /// Number of the first frame to drop, among the frames that match, counted from 1.
    first: u64,
    /// Number of the last frame to drop, among the frames that match.
    last: u64,
    /// Conditions on the frame's content, all of which must hold.
    bytes: Vec<Byte>,
    /// Number of frames that have matched so far.
    seen: u64,
}

/// A condition on a frame: its byte at `offset`, masked by `mask`, equals `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Byte {
    offset: usize,
    value: u8,
    mask: u8,
}

impl LossFilter {
    /// Returns whether a frame must be dropped. Counts the frame if it matches direction and content.
    pub fn matches(&mut self, direction: Direction, frame: &[u8]) -> bool {
        let has = |b: &Byte| frame.get(b.offset).is_some_and(|x| x & b.mask == b.value);
        if direction != self.direction || !self.bytes.iter().all(has) {
            return false;
        }
        self.seen += 1;
        (self.first..=self.last).contains(&self.seen)
    }
}

impl FromStr for LossFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<LossFilter, String> {
        let mut parts = text.split(',');
        let direction = match parts.next() {
            Some("in") => Direction::In,
            Some("out") => Direction::Out,
            _ => return Err("expected `in` or `out`, such as 2=in,1,42=11".into()),
        };
        let range = parts.next().ok_or(
            "expected the frames to lose, such as 1 for the first or 1-3 for the first three",
        )?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            text.parse()
                .map_err(|_| format!("{text:?} is not a number"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first == 0 || last < first {
            return Err(format!(
                "{range:?}: frames are numbered from 1, in ascending order"
            ));
        }
        Ok(LossFilter {
            direction,
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
            return Err(format!("{text:?}: the value has bits outside the mask"));
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

    fn taken(rule: &str, frames: &[(Direction, &[u8])]) -> Vec<bool> {
        let mut rule: LossFilter = rule.parse().unwrap();
        let matches = |(direction, frame): &(Direction, &[u8])| rule.matches(*direction, frame);
        frames.iter().map(matches).collect()
    }

    #[test]
    fn frames_are_counted_by_direction_and_content() {
        use Direction::{In, Out};
        let frames: [(Direction, &[u8]); 6] = [
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
            "a frame that is too short does not match"
        );
        assert_eq!(taken("out,1", &frames), [f, true, f, f, f, f]);
    }

    #[test]
    fn invalid_rules_are_reported() {
        let why = |text: &str| text.parse::<LossFilter>().unwrap_err();
        assert!(why("up,1").contains("`in` or `out`"));
        assert!(why("in").contains("frames to lose"));
        assert!(why("in,0").contains("from 1"));
        assert!(why("in,3-2").contains("from 1"));
        assert!(why("in,x").contains("not a number"));
        assert!(why("in,1,42").contains("OFFSET=HEX"));
        assert!(why("in,1,42=g1").contains("OFFSET=HEX"));
        assert!(why("in,1,42=61/60").contains("outside the mask"));
    }
}
