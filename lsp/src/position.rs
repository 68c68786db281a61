//! Converts paths and positions. In the protocol, a file is a URI, and a position is a line and a UTF-16 code unit,
//! both from 0.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use alfirk_compiler::diag::{SourceFile, SourceMap, Span};
use lsp_types::{Position, Range, Uri};
use percent_encoding::{percent_decode_str, percent_encode, AsciiSet, NON_ALPHANUMERIC};

/// Returns the path of a `file:` URI, percent-decoded; `None` for other schemes.
pub fn path_of(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    // Skip the host name, which is usually empty.
    let path = &rest[rest.find('/')?..];
    let decoded = percent_decode_str(path).collect();
    path_from(decoded)
}

/// Returns the path with these bytes.
#[cfg(unix)]
fn path_from(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Returns the path with these bytes; `None` if they are not UTF-8, which paths are in WebAssembly.
#[cfg(not(unix))]
fn path_from(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Bytes that are percent-encoded in URIs: all but letters, digits, `/` and the unreserved `-._~` (RFC 3986, section
/// 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the `file:` URI of a path; `None` if the path cannot be expressed as a URI.
pub fn uri_of(path: &Path) -> Option<Uri> {
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED);
    Uri::from_str(&format!("file://{path}")).ok()
}

/// Returns the byte offset of a position in a text. For a position beyond the end of its line or of the text, it is
/// that end.
pub fn offset_of(text: &str, position: Position) -> usize {
    let mut start = 0;
    for _ in 0..position.line {
        match text[start..].find('\n') {
            Some(end) => start += end + 1,
            None => return text.len(),
        }
    }
    let line = text[start..].split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut units = 0;
    for (at, c) in line.char_indices() {
        if units >= position.character {
            return start + at;
        }
        units += c.len_utf16() as u32;
    }
    start + line.len()
}

/// Returns the position (line and UTF-16 code unit) of the byte at `offset` of a file.
pub fn position_of(file: &SourceFile, offset: u32) -> Position {
    let line = file.line_index(offset);
    let start = file.line_start(line) as usize;
    let before = file.text.get(start..offset as usize).unwrap_or_default();
    Position {
        line: line as u32,
        character: before.encode_utf16().count() as u32,
    }
}

/// Returns the range of a span in its file.
pub fn range_of(sources: &SourceMap, span: Span) -> Range {
    let file = sources.file(span.file);
    Range {
        start: position_of(file, span.lo),
        end: position_of(file, span.hi),
    }
}

/// Returns the range from the start to the end of a text.
pub fn whole_range(text: &str) -> Range {
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() as u32;
    let last = text.rsplit('\n').next().unwrap_or_default();
    Range {
        start: Position::default(),
        end: Position {
            line: lines,
            character: last.encode_utf16().count() as u32,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_count_utf16_units() {
        let text = "a\nß𝄞x\r\ny";
        let at = |line, character| offset_of(text, Position { line, character });
        assert_eq!(
            [at(0, 0), at(0, 9), at(1, 0), at(1, 1), at(1, 3)],
            [0, 1, 2, 4, 8]
        );
        assert_eq!([at(1, 4), at(1, 99), at(2, 0), at(9, 0)], [9, 9, 11, 12]);
    }

    #[test]
    fn paths_round_trip_through_uris() {
        for path in ["/a/b.p4", "/with space/ü%20.p4", "/"] {
            let uri = uri_of(Path::new(path)).unwrap();
            assert_eq!(path_of(&uri).unwrap(), Path::new(path), "{}", uri.as_str());
        }
        assert_eq!(
            path_of(&Uri::from_str("untitled:Untitled-1").unwrap()),
            None
        );
    }

    proptest! {
        #[test]
        fn any_position_is_a_character_boundary(text in "\\PC{0,20}(\n\\PC{0,10}){0,3}", line in 0_u32..6, character in 0_u32..30) {
            let offset = offset_of(&text, Position { line, character });
            prop_assert!(text.is_char_boundary(offset));
        }
    }
}
