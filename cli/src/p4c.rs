//! `alfirk p4c`.

use std::io;

use alfirk_compiler::driver::{self, P4cArgs};

use crate::exit::{Failure, Outcome};

pub fn run(args: &P4cArgs) -> Outcome {
    match driver::run(args, &mut io::stdout(), &mut io::stderr()) {
        0 => Ok(()),
        code => Err(Failure::Quiet(code)),
    }
}
