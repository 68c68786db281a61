//! Limits for the length of gRPC statuses. gRPC sends a status in trailers (headers after the reply), whose length
//! clients limit.

use tonic::{Request, Status};

/// Maximum length of a gRPC status that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailerLimit {
    /// Maximum length in bytes of the encoded header `grpc-status-details-bin`.
    details: usize,
}

/// Maximum length of a status message in characters. Each character may become several bytes on the wire.
const MAX_MESSAGE: usize = 512;

impl TrailerLimit {
    /// The limit of clients that accept long headers, as those of BfRuntime do.
    pub const LONG: TrailerLimit = TrailerLimit { details: 15 << 20 };

    /// Determines the limit from the user agent of the client's request. gRPC in Go accepts 16 MiB of headers, tonic 16
    /// KiB, and the C core, which Python and C++ use, at least 8 KiB. A longer status would fail the call with an error
    /// about headers.
    pub fn of<T>(request: &Request<T>) -> TrailerLimit {
        let agent = request.metadata().get("user-agent");
        let agent = agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let details = if agent.contains("grpc-go/") {
            return TrailerLimit::LONG;
        } else if agent.contains("tonic/") {
            14 << 10
        } else {
            6 << 10
        };
        TrailerLimit { details }
    }

    /// Shortens a status so that the client accepts it. Details that are too long are removed, and the message then
    /// reports the removal and the first error.
    pub fn shorten(self, status: impl Into<Status>) -> Status {
        let status = status.into();
        let encoded = status.details().len().div_ceil(3) * 4;
        let end = status.message().char_indices().nth(MAX_MESSAGE);
        if encoded <= self.details && end.is_none() {
            return status;
        }
        let mut message = status.message().to_owned();
        if let Some((end, _)) = end {
            message.truncate(end);
            message.push_str("...");
        }
        if encoded <= self.details {
            let details = status.details().to_vec();
            return Status::with_details(status.code(), message, details.into());
        }
        message.push_str(&format!(
            "; the errors per update take {encoded} bytes, but this client accepts at most {}: write smaller batches to receive them",
            self.details
        ));
        Status::new(status.code(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::{p4::v1::Error, Code};

    fn limit_of(agent: &'static str) -> TrailerLimit {
        let mut request = Request::new(());
        request
            .metadata_mut()
            .insert("user-agent", agent.parse().unwrap());
        TrailerLimit::of(&request)
    }

    /// Returns the status of a write of `updates` updates, all of which failed.
    fn failures(updates: usize) -> alfirk_p4runtime::Status {
        let failed: Error =
            alfirk_p4runtime::Status::new(Code::AlreadyExists, "there is such an entry").into();
        alfirk_p4runtime::Status::of_updates(&vec![failed; updates])
    }

    #[test]
    fn details_reach_clients_that_accept_them() {
        let python = limit_of("grpc-python/1.66.1 grpc-c/43.0.0 (linux; chttp2)");
        let go = limit_of("grpc-go/1.64.0");
        assert!(!python.shorten(failures(40)).details().is_empty());
        let cut = python.shorten(failures(1000));
        assert!(cut.details().is_empty());
        assert_eq!(cut.code(), tonic::Code::Unknown);
        let message = cut.message();
        assert!(
            message.starts_with(
                "1000 of 1000 updates failed; first is update 0: there is such an entry"
            ),
            "{message}"
        );
        assert!(message.contains("write smaller batches"), "{message}");
        assert!(!go.shorten(failures(1000)).details().is_empty());
    }

    #[test]
    fn long_messages_are_truncated_between_characters() {
        let status = alfirk_p4runtime::Status::new(Code::NotFound, "\u{e9}".repeat(2000));
        let cut = limit_of("").shorten(status);
        assert_eq!(cut.message(), "\u{e9}".repeat(MAX_MESSAGE) + "...");
    }
}
