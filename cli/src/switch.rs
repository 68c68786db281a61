//! `alfirk switch`.

use alfirk_switch::{SwitchArgs, SwitchError};

use crate::exit::{print, Failure, Outcome};

pub fn start_logging(args: &SwitchArgs, filter: &str) -> Outcome {
    args.start_logging(filter).map_err(failure)
}

pub fn run(args: &SwitchArgs) -> Outcome {
    match alfirk_switch::run(args) {
        Ok(()) => Ok(()),
        Err(SwitchError::Usage(help)) if help.exit_code() == 0 => print(help),
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: SwitchError) -> Failure {
    match error.exit_code() {
        2 => Failure::bad_input(error.to_string().trim_end()),
        _ => Failure::failed(error),
    }
}
