//! Statuses that clients can take: gRPC puts them into trailers, whose length clients limit.

use tonic::{Request, Status};

/// What an answer's trailers may hold for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of `grpc-status-details-bin`, as encoded there.
    details: usize,
}

/// Characters of a status's message; each may become several bytes on its way.
const MAX_MESSAGE: usize = 512;

impl Room {
    /// By the client's name for itself, since nothing else distinguishes them: gRPC in Go takes 16 MiB of headers, tonic 16 KiB, and the C core,
    /// which Python and C++ use, is sure to take 8 KiB. A longer status would fail the call with a message about headers.
    pub fn of<T>(request: &Request<T>) -> Room {
        let agent = request.metadata().get("user-agent");
        let agent = agent
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or_default();
        let details = if agent.contains("grpc-go/") {
            15 << 20
        } else if agent.contains("tonic/") {
            14 << 10
        } else {
            6 << 10
        };
        Room { details }
    }

    /// The status, without its details where they are too long: the message says so, and what failed first.
    pub fn fit(self, status: impl Into<Status>) -> Status {
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
            "; what became of each update takes {encoded} bytes, and this client no more than {}: write smaller batches to see it",
            self.details
        ));
        Status::new(status.code(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::{p4::v1::Error, Code};

    fn room(agent: &'static str) -> Room {
        let mut request = Request::new(());
        request
            .metadata_mut()
            .insert("user-agent", agent.parse().unwrap());
        Room::of(&request)
    }

    /// A write of so many updates, all of which failed.
    fn failures(updates: usize) -> alfirk_p4runtime::Status {
        let failed: Error =
            alfirk_p4runtime::Status::new(Code::AlreadyExists, "there is such an entry").into();
        alfirk_p4runtime::Status::of_updates(&vec![failed; updates])
    }

    #[test]
    fn details_reach_clients_that_can_take_them() {
        let python = room("grpc-python/1.66.1 grpc-c/43.0.0 (linux; chttp2)");
        let go = room("grpc-go/1.64.0");
        assert!(!python.fit(failures(40)).details().is_empty());
        let cut = python.fit(failures(1000));
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
        assert!(!go.fit(failures(1000)).details().is_empty());
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let status = alfirk_p4runtime::Status::new(Code::NotFound, "\u{e9}".repeat(2000));
        let cut = room("").fit(status);
        assert_eq!(cut.message(), "\u{e9}".repeat(MAX_MESSAGE) + "...");
    }
}
