//! The deparser: updates checksums, then writes all valid headers in order.

use super::parse::log;
use super::run::{self, Context};
use super::words::{words_of, wrap};
use crate::frame::Rest;
use crate::jit::Compiled;
use crate::program::{Deparser, Header, LoadedProgram, Place};
use crate::state::State;
use crate::steps::Step;

/// Where a deparser has written the headers of a packet.
pub(crate) enum Deparsed {
    /// `state.headers`, which begins with this number of bytes of headers.
    Buffer(usize),
    /// The buffer of the frame to be sent.
    #[cfg(feature = "jit")]
    Output,
    /// The received frame, over the parsed headers.
    #[cfg(feature = "jit")]
    InPlace,
}

/// Runs a deparser, as machine code if there is some, and writes the headers to the front of `state.headers`. Returns their length in bytes.
pub(crate) fn deparse(
    program: &LoadedProgram,
    (compiled, deparser): (Option<&Compiled>, &Deparser),
    state: &mut State,
    phv: &mut [u64],
    rest: Rest,
    ctx: &mut Context,
) -> usize {
    if let Some(compiled) = compiled {
        return compiled.deparse(program, deparser, state, phv, rest, ctx);
    }
    log(state, || Step::DeparserStart);
    update_checksums(program, state, phv, rest, ctx);
    if let Some(code) = deparser.code {
        run::run(program, state, 0, phv, rest, ctx, code);
    }
    let mut at = 0;
    for &(valid, header) in &deparser.order {
        // Most headers are invalid; for these only the validity is read.
        if phv[usize::from(valid)] != 0 {
            let h = &program.layout.headers[usize::from(header)];
            log(state, || Step::Deparse(h.name.clone()));
            at += emit(h, phv, &mut state.headers[at..]);
        }
    }
    log(state, || Step::DeparserEnd);
    at
}

fn update_checksums(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    rest: Rest,
    ctx: &mut Context,
) {
    for checksum in &program.update {
        let condition = checksum.condition;
        let met = condition.is_none_or(|c| run::test(program, state, phv, ctx, c));
        log(state, || Step::Updated {
            checksum: checksum.name.clone(),
            met,
        });
        if !met {
            continue;
        }
        let at = usize::from(checksum.calculation);
        let value = program.calculations[at].output(
            &program.layout,
            phv,
            rest,
            &mut state.buffer,
            &mut state.hashes[at],
            &mut state.random,
        );
        phv[usize::from(checksum.slot)] = wrap(value, checksum.bits, false);
    }
}

/// Writes a header to the front of `out`, and returns its length in bytes. `out` must have space for the header's
/// maximum length and [`SLACK`](super::join::SLACK) bytes.
#[inline]
pub(crate) fn emit(h: &Header, phv: &[u64], out: &mut [u8]) -> usize {
    match &h.join {
        Some(join) => {
            join.write(phv, out);
            h.bytes
        }
        None => emit_varbit(h, phv, out),
    }
}

/// Writes a header with a variable-length field; see [`emit`].
fn emit_varbit(h: &Header, phv: &[u64], out: &mut [u8]) -> usize {
    let varbit_bits = h.varbit.map_or(0, |v| phv[usize::from(v.length)] as usize);
    let bytes = &mut out[..h.bytes + varbit_bits / 8];
    bytes.fill(0);
    for plan in &h.plan {
        let mut offset = plan.offset as usize;
        let mut bits = plan.bits;
        match plan.place {
            Place::Fixed => {}
            Place::AfterVarbit => offset += varbit_bits,
            Place::Varbit => bits = varbit_bits as u32,
        }
        let slot = usize::from(plan.slot);
        if bits <= 64 {
            put(bytes, offset, bits, phv[slot]);
            continue;
        }
        let mut left = bits;
        for &word in &phv[slot..slot + words_of(bits)] {
            let n = left.min(64);
            left -= n;
            put(bytes, offset + left as usize, n, word);
        }
    }
    bytes.len()
}

/// Writes the low `bits` bits of `value` to `bytes`, from bit `offset` on. These bits must be zero before.
#[inline]
fn put(bytes: &mut [u8], offset: usize, bits: u32, value: u64) {
    if bits == 0 {
        return;
    }
    let (byte, skip) = (offset / 8, (offset % 8) as u32);
    let end = skip + bits;
    let n = end.div_ceil(8) as usize;
    if skip == 0 && bits % 8 == 0 {
        bytes[byte..byte + n].copy_from_slice(&value.to_be_bytes()[8 - n..]);
        return;
    }
    let mut value = u128::from(wrap(value, bits, false)) << (8 * n as u32 - end);
    for at in bytes[byte..byte + n].iter_mut().rev() {
        *at |= value as u8;
        value >>= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    #[test]
    fn written_bits_are_read_back() {
        for offset in 0..17 {
            for bits in 1..=64 {
                let mut bytes = [0; 12];
                let value = 0x9e37_79b9_7f4a_7c15u64.rotate_left(bits);
                put(&mut bytes, offset, bits, value);
                let frame = Frame::copy_of(&bytes);
                assert_eq!(frame.bits(offset, bits), wrap(value, bits, false));
                let ones: u32 = bytes.iter().map(|b| b.count_ones()).sum();
                assert_eq!(
                    ones,
                    wrap(value, bits, false).count_ones(),
                    "nothing else is set"
                );
            }
        }
    }
}
