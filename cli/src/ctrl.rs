//! `alfirk ctrl`.

mod bfrt;
mod dry_run;
mod page;

use alfirk_ctrl::{CtrlArgs, CtrlError};

use crate::exit::{print, Failure, Outcome};

pub fn run(args: &CtrlArgs) -> Outcome {
    if let Some(format) = args.dry_run {
        return dry_run::run(args, format);
    }
    // Whoever waits for the line reads it from a pipe; with nobody there, the controller works all the same.
    let announce = |line| {
        let _ = print(format_args!("{line}\n"));
    };
    let journal = match args.web {
        Some(address) => Some(page::serve(address, &args.topology)?),
        None => None,
    };
    alfirk_ctrl::run(args, announce, journal).map_err(|error: CtrlError| {
        if error.is_bad_input() {
            Failure::bad_input(error)
        } else {
            Failure::failed(error)
        }
    })
}
