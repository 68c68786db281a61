//! Errors of updates and reads, with the codes that BfRuntime's clients map to exceptions.

use alfirk_bmv2::{ManageError, PreError};
use alfirk_p4rt::error::core_error;
pub(crate) use alfirk_p4rt::error::{exists, invalid, not_found, unimplemented as unsupported};
use alfirk_p4runtime::{bfrt_proto::Error, pack, Code, Status};

/// Result of one update of a Write, or of one entity of a Read.
pub(crate) type Outcome<T = ()> = Result<T, Status>;

/// Converts an error of the switch core (the crate `alfirk_bmv2`) to a status. Its codes are those of P4Runtime, except for an index
/// beyond the end of an array.
pub(crate) fn core(error: ManageError) -> Status {
    match error {
        ManageError::IndexOutOfRange { .. } => invalid(error.to_string()),
        error => core_error(error),
    }
}

/// Converts an error of the replication engine to a status.
pub(crate) fn pre(error: PreError) -> Status {
    let code = match &error {
        PreError::GroupExists(_) => Code::AlreadyExists,
        PreError::NoGroup(_) | PreError::NoNode(_) | PreError::NoSession(_) => Code::NotFound,
        PreError::Full { .. } => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// The error of an update or entity, for the details of a status; code 0 without an error.
pub(crate) fn detail(outcome: &Outcome) -> Error {
    match outcome {
        Ok(()) => Error::default(),
        Err(status) => Error {
            canonical_code: status.code,
            message: status.message.clone(),
            space: String::new(),
            code: status.code,
        },
    }
}

/// The status of a batch with failed parts: UNKNOWN, with one error per part in its details.
pub(crate) fn of_batch(errors: &[Error]) -> Status {
    let failed = errors.iter().filter(|error| error.canonical_code != 0);
    let (count, first) = (failed.clone().count(), failed.clone().next());
    let first = first.map_or("", |error| &error.message);
    Status {
        code: Code::Unknown.into(),
        message: format!("{count} of {} parts failed: {first}", errors.len()),
        details: errors.iter().map(pack).collect(),
    }
}
