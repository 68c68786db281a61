//! Short ways to say why an update or request is refused.

use alfirk_p4runtime::{Code, Status};

use alfirk_bmv2::ManageError;

/// Result of one update, or of one entity read.
pub type UpdateResult<T = ()> = Result<T, Status>;

/// The request itself is wrong.
pub fn invalid(why: impl Into<String>) -> Status {
    Status::new(Code::InvalidArgument, why)
}

/// There is no such object or entry.
pub fn not_found(why: impl Into<String>) -> Status {
    Status::new(Code::NotFound, why)
}

/// The entry is there already.
pub fn exists(why: impl Into<String>) -> Status {
    Status::new(Code::AlreadyExists, why)
}

/// No room.
pub fn exhausted(why: impl Into<String>) -> Status {
    Status::new(Code::ResourceExhausted, why)
}

/// Not as things are.
pub fn failed_precondition(why: impl Into<String>) -> Status {
    Status::new(Code::FailedPrecondition, why)
}

/// Not allowed, whoever asks.
pub fn denied(why: impl Into<String>) -> Status {
    Status::new(Code::PermissionDenied, why)
}

/// An index past the end.
pub fn out_of_range(why: impl Into<String>) -> Status {
    Status::new(Code::OutOfRange, why)
}

/// Not something this switch does.
pub fn unimplemented(why: impl Into<String>) -> Status {
    Status::new(Code::Unimplemented, why)
}

/// What the core refuses, in P4Runtime's codes. Requests are checked before, so most of this is
/// about room, presence and const tables.
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
