//! Constructors of statuses, one per gRPC code, and the conversion of errors of the switch core.

use alfirk_p4runtime::{Code, Status};

use alfirk_bmv2::ManageError;

/// Result of one update of a Write, or of one entity of a Read.
pub type UpdateResult<T = ()> = Result<T, Status>;

/// Creates INVALID_ARGUMENT: the request is invalid in every state of the switch.
pub fn invalid(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}

/// Creates NOT_FOUND: the object or entry does not exist.
pub fn not_found(why: impl Into<String>) -> Status {
    Status::new(Code::NotFound, why)
}

/// Creates ALREADY_EXISTS: the entry exists already.
pub fn exists(why: impl Into<String>) -> Status {
    Status::new(Code::AlreadyExists, why)
}

/// Creates RESOURCE_EXHAUSTED: a table, group or other resource is full.
pub fn exhausted(why: impl Into<String>) -> Status {
    Status::new(Code::ResourceExhausted, why)
}

/// Creates FAILED_PRECONDITION: the request is not allowed in the current state of the switch.
pub fn failed_precondition(why: impl Into<String>) -> Status {
    Status::new(Code::FailedPrecondition, why)
}

/// Creates PERMISSION_DENIED: the program or the role does not allow the request.
pub fn denied(why: impl Into<String>) -> Status {
    Status::new(Code::PermissionDenied, why)
}

/// Creates OUT_OF_RANGE: an index is beyond the end of an array.
pub fn out_of_range(why: impl Into<String>) -> Status {
    Status::new(Code::OutOfRange, why)
}

/// Creates UNIMPLEMENTED: this switch does not support the request.
pub fn unimplemented(why: impl Into<String>) -> Status {
    Status::new(Code::Unimplemented, why)
}

/// Converts an error of the switch core (the crate `alfirk_bmv2`) to a status. Requests are validated before, so most
/// errors concern capacity, missing or existing objects, and const tables.
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
