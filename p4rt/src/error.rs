//! Constructors of statuses, one per gRPC code.

use alfirk_p4runtime::{Code, Status};

use alfirk_bmv2::ManageError;

/// Result of one update, or of one entity read.
pub type UpdateResult<T = ()> = Result<T, Status>;

/// INVALID_ARGUMENT: the request itself is wrong.
pub fn invalid(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}

/// NOT_FOUND: no such object or entry exists.
pub fn not_found(why: impl Into<String>) -> Status {
    Status::new(Code::NotFound, why)
}

/// ALREADY_EXISTS: the entry exists already.
pub fn exists(why: impl Into<String>) -> Status {
    Status::new(Code::AlreadyExists, why)
}

/// RESOURCE_EXHAUSTED: a table, group or other resource is full.
pub fn exhausted(why: impl Into<String>) -> Status {
    Status::new(Code::ResourceExhausted, why)
}

/// FAILED_PRECONDITION: not allowed in the present state of the switch.
pub fn failed_precondition(why: impl Into<String>) -> Status {
    Status::new(Code::FailedPrecondition, why)
}

/// PERMISSION_DENIED for every client.
pub fn denied(why: impl Into<String>) -> Status {
    Status::new(Code::PermissionDenied, why)
}

/// OUT_OF_RANGE: an index past the end.
pub fn out_of_range(why: impl Into<String>) -> Status {
    Status::new(Code::OutOfRange, why)
}

/// UNIMPLEMENTED: not supported by this switch.
pub fn unimplemented(why: impl Into<String>) -> Status {
    Status::new(Code::Unimplemented, why)
}

/// Converts an error of the switch core to a status. Requests are validated before, so most errors concern capacity,
/// missing or existing objects, and const tables.
pub fn core_error(error: ManageError) -> Status {
    use ManageError as E;
    let code = match &error {
        E::ConstEntries { .. } | E::ConstEntry { .. } | E::ConstDefault { .. } => {
            Code::PermissionDenied
        }
        E::TableFull { .. }
        | E::ProfileFull { .. }
        | E::SelectorFull { .. }
        | E::GroupFull { .. }
        | E::ValueSetFull { .. } => Code::ResourceExhausted,
        E::EntryExists { .. } | E::MemberExists { .. } | E::GroupExists { .. } => {
            Code::AlreadyExists
        }
        E::NoEntry { .. } | E::StaleEntry { .. } | E::NoMember { .. } | E::NoGroup { .. } => {
            Code::NotFound
        }
        E::MemberInUse { .. } | E::GroupInUse { .. } | E::NoProgram => Code::FailedPrecondition,
        E::IndexOutOfRange { .. } => Code::OutOfRange,
        E::Unknown { .. } => Code::Unimplemented,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}
