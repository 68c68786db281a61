//! `alfirk p4c`: compiles P4 programs; also under the name `p4c`, with the flags of the p4c driver.

use std::io::{self, IsTerminal};

use alfirk_compiler::driver::{self, P4cArgs, StepArgs};

use crate::exit::{Failure, Outcome};

/// Runs `alfirk p4c`.
pub fn run(args: &P4cArgs) -> Outcome {
    let args = args.clone().name_explain(io::stderr().is_terminal());
    outcome(driver::run(&args, &mut io::stdout(), &mut io::stderr()))
}

/// Runs the names of p4c's separate programs, such as `p4c-bm2-ss`.
pub fn run_steps(args: &StepArgs) -> Outcome {
    outcome(driver::run_steps(
        args,
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}

fn outcome(code: u8) -> Outcome {
    match code {
        0 => Ok(()),
        code => Err(Failure::AlreadyReported(code)),
    }
}
