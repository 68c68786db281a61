//! `alfirk switch`.

use alfirk_bmv2::driver::{self, SwitchArgs, SwitchError};

use crate::exit::{Failure, Outcome};

pub fn run(args: &SwitchArgs) -> Outcome {
    driver::run(args).map_err(|error| match error {
        SwitchError::Usage(_) | SwitchError::BadInput(_) => Failure::bad_input(error),
        SwitchError::Failed(_) => Failure::failed(error),
    })
}
