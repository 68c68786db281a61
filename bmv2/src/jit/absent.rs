//! The switch without the feature `jit`: programs have no machine code.

use crate::effects::Packet;
use crate::exec::deparse::Deparsed;
use crate::exec::ops::Pc;
use crate::exec::run::Context;
use crate::exec::verdict::{Part, Verdict};
use crate::frame::{Frame, Rest};
use crate::program::{CompileError, Deparser, EgressValues, LoadedProgram, Parser};
use crate::state::State;
use alfirk_packet_io::frame::SplitFrame;
use std::convert::Infallible;
use std::marker::PhantomData;

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

    pub fn copy_words(&self, _: &[u64], _: &mut [u64]) -> bool {
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

    pub fn v1model(&self) -> Option<V1model> {
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

/// The functions of a program for v1model. There are none.
#[derive(Clone, Copy)]
pub(crate) enum V1model {}

impl V1model {
    pub fn start<'a>(
        self,
        _: (&'a LoadedProgram, &'a mut State, u32),
        _: &'a mut Packet,
    ) -> Run<'a> {
        match self {}
    }
}

/// A packet that machine code processes. There is none.
pub(crate) struct Run<'a> {
    never: Infallible,
    borrowed: PhantomData<&'a ()>,
}

impl Run<'_> {
    pub fn ingress(&mut self, _: &Part) -> Option<Verdict> {
        match self.never {}
    }

    pub fn payload(&self) -> usize {
        match self.never {}
    }

    pub fn length(&self) -> u64 {
        match self.never {}
    }

    pub fn words(&mut self) -> &mut [u64] {
        match self.never {}
    }

    pub fn has_requests(&self) -> bool {
        match self.never {}
    }

    pub fn restart(&mut self, _: i64) {
        match self.never {}
    }

    pub fn copy(&self, _: Deparsed, _: Vec<u8>) -> SplitFrame {
        match self.never {}
    }

    pub fn egress(&mut self, _: &EgressValues, _: bool, _: &mut Vec<u8>) -> Option<Deparsed> {
        match self.never {}
    }
}
