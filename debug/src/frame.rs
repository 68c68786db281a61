//! Framing of the protocol's messages: a header with the length, then JSON.

use serde_json::Value;

/// Maximum length of a message in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// Maximum length of a message's header in bytes.
const MAX_HEADER: usize = 4096;

/// The input violates the framing, after which no message can be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header has no length.
    #[error(
        "a message of the Debug Adapter Protocol begins with `Content-Length: N`, found {0:?}"
    )]
    Header(String),
    /// The message is too long.
    #[error("a message of {0} bytes is too long; the limit is {MAX_MESSAGE} bytes")]
    TooLong(usize),
    /// The content is not JSON.
    #[error("the content of a message is not JSON: {0}")]
    Json(String),
    /// The input ends within a message.
    #[error("the input ends within a message")]
    Truncated,
}

/// Splits a stream of bytes into messages.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next message; `None` if it is not complete.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn next_message(&mut self) -> Result<Option<Value>, FrameError> {
        let header_end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(header_end) = header_end else {
            return match self.bytes.len() > MAX_HEADER {
                true => Err(FrameError::Header(excerpt(&self.bytes))),
                false => Ok(None),
            };
        };
        let invalid = || FrameError::Header(excerpt(&self.bytes[..header_end]));
        let header = std::str::from_utf8(&self.bytes[..header_end]).map_err(|_| invalid())?;
        let length = header.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.trim().eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.ok_or_else(invalid)?;
        if length > MAX_MESSAGE {
            return Err(FrameError::TooLong(length));
        }
        let start = header_end + 4;
        let Some(content) = self.bytes.get(start..start + length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(content);
        self.bytes.drain(..start + length);
        message
            .map(Some)
            .map_err(|error| FrameError::Json(error.to_string()))
    }

    /// Checks that the input may end here.
    ///
    /// # Errors
    /// The input ends within a message.
    pub fn end(&self) -> Result<(), FrameError> {
        match self.bytes.is_empty() {
            true => Ok(()),
            false => Err(FrameError::Truncated),
        }
    }
}

/// Returns a message with its header.
pub fn encode(message: &Value) -> Vec<u8> {
    let content = message.to_string();
    format!("Content-Length: {}\r\n\r\n{content}", content.len()).into_bytes()
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_found_in_any_pieces() {
        let messages = [json!({"seq": 1}), json!({"text": "ä"})];
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        for size in 1..bytes.len() {
            let (mut decoder, mut found) = (Decoder::default(), Vec::new());
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(message) = decoder.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages);
            decoder.end().unwrap();
        }
    }

    #[test]
    fn damaged_input_is_an_error() {
        let error = |bytes: &[u8]| {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            match decoder.next_message() {
                Err(error) => error,
                Ok(_) => decoder.end().unwrap_err(),
            }
        };
        assert!(matches!(
            error(b"GET / HTTP/1.1\r\n\r\n"),
            FrameError::Header(_)
        ));
        assert!(matches!(error(&[b'x'; 5000]), FrameError::Header(_)));
        assert!(matches!(
            error(b"Content-Length: 2\r\n\r\n{]"),
            FrameError::Json(_)
        ));
        assert_eq!(error(b"Content-Length: 9\r\n\r\n{}"), FrameError::Truncated);
        let huge = b"Content-Length: 99999999999\r\n\r\n";
        assert_eq!(error(huge), FrameError::TooLong(99_999_999_999));
    }
}
