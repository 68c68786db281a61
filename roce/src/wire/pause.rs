//! Priority-based flow control (PFC) PAUSE: a MAC control frame (IEEE 802.3, annex 31D; IEEE 802.1Q, clause 36).

use super::error::{need, Header, WireError};
use super::ethernet::MacAddr;
use super::field::{get_u16, put_u16};

/// Length in bytes of a PAUSE frame after its Ethernet header, without padding to the shortest frame.
pub const FRAME_LEN: usize = 20;

/// EtherType of MAC control frames.
pub const ETHERTYPE: u16 = 0x8808;

/// Destination MAC address of MAC control frames, which bridges do not forward.
pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

/// Length of a pause quantum, in bit times of the link.
pub const QUANTUM_BITS: u64 = 512;

const OPCODE_PFC: u16 = 0x0101;

const OPCODE: usize = 0;
const ENABLE: usize = 2;
const TIMES: usize = 4;
const CLASSES: usize = 8;

/// View of a PFC PAUSE frame after its Ethernet header.
#[derive(Debug, Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length and the opcode.
    pub fn new_checked(buffer: &'a [u8]) -> Result<View<'a>, WireError> {
        need(Header::Pause, buffer, FRAME_LEN)?;
        match get_u16(buffer, OPCODE) {
            OPCODE_PFC => Ok(View(buffer)),
            other => Err(WireError::bad_field(Header::Pause, "opcode", other.into())),
        }
    }

    /// The pause time of a class, 0 to 7, in quanta; 0 resumes it, `None` leaves it unchanged.
    pub fn quanta(&self, class: u8) -> Option<u16> {
        let enabled = get_u16(self.0, ENABLE) >> class & 1 == 1;
        enabled.then(|| get_u16(self.0, TIMES + 2 * usize::from(class)))
    }
}

/// Pause times in a PFC PAUSE frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Pause time of each class in quanta, indexed by class; 0 resumes the class, `None` leaves it unchanged.
    pub quanta: [Option<u16>; CLASSES],
}

impl Repr {
    /// Creates a frame that changes one class, 0 to 7.
    pub fn of_class(class: u8, quanta: u16) -> Repr {
        let mut all = [None; CLASSES];
        all[usize::from(class)] = Some(quanta);
        Repr { quanta: all }
    }

    /// Decodes a PFC PAUSE frame.
    pub fn parse(view: &View<'_>) -> Repr {
        Repr {
            quanta: [0, 1, 2, 3, 4, 5, 6, 7].map(|class| view.quanta(class)),
        }
    }

    /// Writes the frame to the first [`FRAME_LEN`] bytes of `buffer`; panics if it is shorter.
    pub fn emit(&self, buffer: &mut [u8]) {
        let mut enable = 0;
        for (class, quanta) in self.quanta.iter().enumerate() {
            enable |= u16::from(quanta.is_some()) << class;
            put_u16(buffer, TIMES + 2 * class, quanta.unwrap_or(0));
        }
        put_u16(buffer, OPCODE, OPCODE_PFC);
        put_u16(buffer, ENABLE, enable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{rejects_every_shorter_prefix, unhex};
    use proptest::prelude::*;

    /// Opcode, enable vector, and a time for each of the eight classes.
    const XOFF_3: &str = "0101 0008 0000 0000 0000 ffff 0000 0000 0000 0000";

    #[test]
    fn pause_of_class_3_parses_and_is_emitted() {
        let bytes = unhex(XOFF_3);
        let view = View::new_checked(&bytes).unwrap();
        assert_eq!(view.quanta(3), Some(0xffff));
        assert_eq!(view.quanta(0), None);
        let repr = Repr::of_class(3, 0xffff);
        assert_eq!(Repr::parse(&view), repr);
        let mut out = [0; FRAME_LEN];
        repr.emit(&mut out);
        assert_eq!(out[..], bytes[..]);
    }

    #[test]
    fn shorter_frames_and_other_control_frames_are_refused() {
        let mut bytes = unhex(XOFF_3);
        let check = |bytes: &[u8]| View::new_checked(bytes).map(drop);
        rejects_every_shorter_prefix(&bytes, Header::Pause, check);
        // PAUSE of the whole link (IEEE 802.3, annex 31B), which is another opcode.
        bytes[1] = 1;
        bytes[0] = 0;
        assert_eq!(
            check(&bytes),
            Err(WireError::bad_field(Header::Pause, "opcode", 1))
        );
    }

    proptest! {
        #[test]
        fn emitted_frame_parses_back(quanta in any::<[Option<u16>; CLASSES]>()) {
            let repr = Repr { quanta };
            let mut out = [0; FRAME_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }
}
