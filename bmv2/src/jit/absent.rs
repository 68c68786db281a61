//! The switch without the feature `jit`: programs have no machine code.

use crate::exec::deparse::Deparsed;
use crate::exec::ops::Pc;
use crate::exec::run::Context;
use crate::frame::{Frame, Rest};
use crate::program::{CompileError, Deparser, LoadedProgram, Parser};
use crate::state::State;

/// Machine code of a program. There is none.
#[derive(Debug)]
pub(crate) enum Compiled {}

#[allow(clippy::too_many_arguments)]
impl Compiled {
    pub fn new(_: &LoadedProgram) -> Result<Compiled, CompileError> {
        Err(CompileError::new(
            "this build has no compiler (feature `jit`)",
        ))
    }

    pub fn clear_words(&self, _: &mut [u64]) -> bool {
        match *self {}
    }

    pub fn restore_words(&self, _: &[u64], _: &mut [u64]) -> bool {
        match *self {}
    }

    pub fn run(
        &self,
        _: &LoadedProgram,
        _: &mut State,
        _: u32,
        _: &mut [u64],
        _: Rest,
        _: &mut Context,
        _: Pc,
    ) -> bool {
        match *self {}
    }

    pub fn parse(
        &self,
        _: &LoadedProgram,
        _: &Parser,
        _: &mut State,
        _: &mut [u64],
        _: &Frame,
        _: &mut Context,
    ) -> Option<(u64, usize)> {
        match *self {}
    }

    pub fn ingress(
        &self,
        _: &LoadedProgram,
        _: &mut State,
        _: u32,
        _: &mut [u64],
        _: &Frame,
        _: &mut Context,
        _: bool,
    ) -> Option<usize> {
        match *self {}
    }

    pub fn egress(
        &self,
        _: &LoadedProgram,
        _: &mut State,
        _: u32,
        _: &mut [u64],
        _: Rest,
        _: &mut Context,
        _: (&mut Vec<u8>, Option<*mut u8>),
    ) -> Option<Deparsed> {
        match *self {}
    }

    pub fn deparse(
        &self,
        _: &LoadedProgram,
        _: &Deparser,
        _: &mut State,
        _: &mut [u64],
        _: Rest,
        _: &mut Context,
    ) -> usize {
        match *self {}
    }
}
