//! Pages that explain the codes of errors and the names of warnings: `alfirk p4c --explain CODE`.
//!
//! Each page is a Markdown file in the crate's folder `explain`, named after its code. A page has a title, the reason, a wrong
//! program and a right one. `tests/explain.rs` compiles the programs; `docs/book/build.py` makes an appendix of the pages.

use super::{Code, Diagnostic, Warning};

/// The explanation of an error code or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The error code, such as `E0408`, or the name of the warning, such as `unused`.
    pub code: &'static str,
    /// The explanation in Markdown. Its code fences have attributes for `tests/explain.rs`, such as `p4,wrong`.
    pub markdown: &'static str,
}

impl Page {
    /// All pages: errors in order of codes, then warnings.
    pub fn all() -> impl Iterator<Item = Page> {
        let pages = Code::PAGES.iter().chain(Warning::PAGES);
        pages.map(|(code, markdown)| Page { code, markdown })
    }

    /// The page of an error code (`E0408`, `e0408` or `408`) or of a warning's name; `None` if it is unknown.
    pub fn of(code: &str) -> Option<Page> {
        let plain = |code: &str| code.to_ascii_lowercase().replace('-', "_");
        let wanted = match code.parse::<u16>() {
            Ok(number) => plain(&format!("E{number:04}")),
            Err(_) => plain(code),
        };
        Page::all().find(|page| plain(page.code) == wanted)
    }

    /// The page of a diagnostic; `None` if it has no code.
    pub fn of_diagnostic(diagnostic: &Diagnostic) -> Option<Page> {
        match (diagnostic.code, diagnostic.warning) {
            (Some(code), _) => Page::of(&code.to_string()),
            (None, Some(warning)) => Page::of(warning.name()),
            (None, None) => None,
        }
    }

    /// The page's anchor in the book's appendix, without `#`.
    pub fn anchor(self) -> String {
        self.code.to_ascii_lowercase()
    }

    /// The text for a terminal: Markdown without the attributes of code fences.
    pub fn text(self) -> String {
        let lines = self.markdown.lines().map(|line| match line {
            line if line.starts_with("```p4") => "```p4\n".to_owned(),
            line => format!("{line}\n"),
        });
        lines.collect()
    }
}

/// Maximum number of codes that [`nearest`] returns.
const MAX_NEAREST: usize = 3;

/// The most similar codes or names of warnings for an unknown one: by number for error codes, by edit distance for names.
pub fn nearest(code: &str) -> Vec<&'static str> {
    let digits = code.trim_start_matches(['E', 'e']);
    let Ok(number) = digits.parse::<u16>() else {
        let names = Warning::ALL.iter().map(|warning| warning.name());
        return super::closest(code, names).into_iter().collect();
    };
    let mut codes: Vec<(u16, &str)> = Code::ALL
        .iter()
        .zip(Code::PAGES)
        .map(|(known, (name, _))| (known.number().abs_diff(number), *name))
        .collect();
    codes.sort_unstable();
    codes.truncate(MAX_NEAREST);
    codes.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_found_by_every_spelling_of_its_code() {
        for code in ["E0408", "e0408", "408", "0408"] {
            assert_eq!(Page::of(code).map(|page| page.code), Some("E0408"));
        }
        for name in ["ignore-prop", "ignore_prop", "IGNORE_PROP"] {
            assert_eq!(Page::of(name).map(|page| page.code), Some("ignore-prop"));
        }
        assert_eq!(Page::of("E0543"), None);
    }

    #[test]
    fn unknown_code_lists_the_nearest_codes() {
        assert_eq!(nearest("E0543"), ["E0501", "E0500", "E0600"]);
        assert_eq!(nearest("unusd"), ["unused"]);
        assert!(nearest("something else").is_empty());
    }

    #[test]
    fn terminal_text_omits_attributes_of_code_fences() {
        let text = Page::of("E0408").expect("the code exists").text();
        assert!(
            text.contains("```p4\n") && !text.contains("wrong\n"),
            "{text}"
        );
    }
}
