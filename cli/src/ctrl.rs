//! `alfirk ctrl`: the controller process.

mod bfrt;
mod dry_run;
mod page;

use alfirk_ctrl::{CtrlArgs, CtrlError};

use crate::exit::{print, Failure, Outcome};

/// Runs `alfirk ctrl` until it is stopped, or writes its dry run.
pub fn run(args: &CtrlArgs) -> Outcome {
    if let Some(format) = args.dry_run {
        return dry_run::run(args, format);
    }
    // A parent process reads this line from a pipe; a closed pipe does not stop the controller.
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
