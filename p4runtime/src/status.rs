//! Statuses: errors of calls, updates and stream messages (P4Runtime § 12.3, § 16.6).

use std::fmt;

use prost::{Message, Name};

use crate::{p4::v1, pack, Code, Status};

impl Status {
    /// Creates a gRPC status without details.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status {
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// Builds the status of a failed Write from one error per update, in order; code 0 marks an update that
    /// succeeded.
    ///
    /// The overall code is UNKNOWN, as § 12.3 requires for a batch in which some updates failed.
    pub fn of_updates(errors: &[v1::Error]) -> Status {
        Status::of_parts("update", errors)
    }

    /// Builds the status of a failed Read from one error per requested entity, in order, as [`Status::of_updates`] does.
    pub fn of_requests(errors: &[v1::Error]) -> Status {
        Status::of_parts("request", errors)
    }

    fn of_parts(part: &str, errors: &[v1::Error]) -> Status {
        let failed = errors.iter().filter(|e| e.canonical_code != 0).count();
        let first = errors
            .iter()
            .enumerate()
            .find(|(_, e)| e.canonical_code != 0)
            .map(|(i, e)| format!("; first is {part} {i}: {}", e.message))
            .unwrap_or_default();
        Status {
            code: Code::Unknown.into(),
            message: format!("{failed} of {} {part}s failed{first}", errors.len()),
            details: errors.iter().map(pack).collect(),
        }
    }

    /// Returns the status code as an enum; UNKNOWN for a number that is not assigned.
    pub fn canonical_code(&self) -> Code {
        Code::try_from(self.code).unwrap_or(Code::Unknown)
    }

    /// Returns the errors of a failed Write, one per update. Empty for a status of another call.
    pub fn update_errors(&self) -> Vec<v1::Error> {
        self.details
            .iter()
            .filter(|any| is_a::<v1::Error>(&any.type_url))
            .filter_map(|any| v1::Error::decode(any.value.as_slice()).ok())
            .collect()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}",
            self.canonical_code().as_str_name(),
            self.message
        )
    }
}

impl std::error::Error for Status {}

impl v1::Error {
    /// Creates the error entry of an update that succeeded, with code 0.
    pub fn ok() -> v1::Error {
        v1::Error::default()
    }

    /// Converts the error of an update to a status.
    pub fn to_status(&self) -> Status {
        Status {
            code: self.canonical_code,
            message: self.message.clone(),
            details: self.details.clone().into_iter().collect(),
        }
    }
}

impl From<Status> for v1::Error {
    fn from(status: Status) -> v1::Error {
        v1::Error {
            canonical_code: status.code,
            message: status.message,
            details: status.details.into_iter().next(),
            ..Default::default()
        }
    }
}

fn is_a<M: Name>(type_url: &str) -> bool {
    type_url.rsplit('/').next() == Some(M::full_name().as_str())
}

#[cfg(feature = "grpc")]
impl From<Status> for tonic::Status {
    /// Converts a status for gRPC. The whole status is encoded in `grpc-status-details-bin`, from which clients read
    /// the details.
    fn from(status: Status) -> tonic::Status {
        let code = tonic::Code::from_i32(status.code);
        let message = status.message.clone();
        if status.details.is_empty() {
            tonic::Status::new(code, message)
        } else {
            tonic::Status::with_details(code, message, status.encode_to_vec().into())
        }
    }
}

#[cfg(feature = "grpc")]
impl From<tonic::Status> for Status {
    fn from(status: tonic::Status) -> Status {
        let details = Status::decode(status.details())
            .map(|s| s.details)
            .unwrap_or_default();
        Status {
            code: i32::from(status.code()),
            message: status.message().to_owned(),
            details,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_errors_round_trip_in_order() {
        let errors = vec![
            v1::Error::ok(),
            Status::new(Code::NotFound, "no such entry").into(),
            v1::Error::ok(),
        ];
        let status = Status::of_updates(&errors);
        assert_eq!(status.canonical_code(), Code::Unknown);
        assert_eq!(
            status.message,
            "1 of 3 updates failed; first is update 1: no such entry"
        );
        assert_eq!(status.update_errors(), errors);
        assert_eq!(
            Status::of_requests(&errors).message,
            "1 of 3 requests failed; first is request 1: no such entry"
        );
    }

    #[test]
    #[cfg(feature = "grpc")]
    fn details_round_trip_over_grpc() {
        let status = Status::of_updates(&[Status::new(Code::AlreadyExists, "twice").into()]);
        assert_eq!(Status::from(tonic::Status::from(status.clone())), status);
    }
}
