//! Predefined macros, such as `__FILE__` and `__DATE__`.

use super::macros::Macro;
use super::Preprocessor;
use crate::diag::Span;
use crate::syntax::token::{Token, TokenKind};
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A predefined macro, whose value is computed at its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Line,
    File,
    FileName,
    BaseFile,
    Counter,
    IncludeLevel,
    Date,
    Time,
    Timestamp,
    /// A macro with the constant value 1, such as `__STDC__`.
    One,
    /// `__has_include` and `__has_include_next`, which are operators of `#if` and not expanded elsewhere.
    HasInclude,
}

/// The predefined macros of `cpp -undef -x assembler-with-cpp`, and those that p4c adds for all targets.
const BUILTINS: [(&str, Builtin); 14] = [
    ("__LINE__", Builtin::Line),
    ("__FILE__", Builtin::File),
    ("__FILE_NAME__", Builtin::FileName),
    ("__BASE_FILE__", Builtin::BaseFile),
    ("__COUNTER__", Builtin::Counter),
    ("__INCLUDE_LEVEL__", Builtin::IncludeLevel),
    ("__DATE__", Builtin::Date),
    ("__TIME__", Builtin::Time),
    ("__TIMESTAMP__", Builtin::Timestamp),
    ("__STDC__", Builtin::One),
    ("__STDC_HOSTED__", Builtin::One),
    ("__ASSEMBLER__", Builtin::One),
    ("__has_include", Builtin::HasInclude),
    ("__has_include_next", Builtin::HasInclude),
];

impl Preprocessor<'_> {
    pub(super) fn define_builtins(&mut self) {
        let of_target = self.options.target_macro.map(|name| (name, Builtin::One));
        for (name, builtin) in BUILTINS.into_iter().chain(of_target) {
            let name = self.names.intern(name);
            let mac = Macro {
                name: name.clone(),
                params: None,
                variadic: false,
                body: Vec::new(),
                span: Span::default(),
                builtin: Some(builtin),
            };
            self.macros.insert(name, Rc::new(mac));
        }
    }

    /// The expansion of a predefined macro at token `at`; `None` for macros that are not expanded.
    pub(super) fn builtin(&mut self, builtin: Builtin, at: &Token) -> Option<Token> {
        let number = |value: u32| (TokenKind::Number, value.to_string());
        let text = |text: &str| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            (TokenKind::String, format!("\"{text}\""))
        };
        let (kind, text) = match builtin {
            // The line of the last token read: in a call over several lines, the line of its end, as in `cpp`.
            Builtin::Line => number(self.map.location(self.last_read).line),
            Builtin::File => text(&self.map.location(self.last_read).file),
            Builtin::FileName => {
                let file = self.map.location(self.last_read).file;
                let name = Path::new(&file).file_name().and_then(|name| name.to_str());
                text(name.unwrap_or(&file))
            }
            Builtin::BaseFile => text(&self.map.file(self.main).name),
            Builtin::Counter => {
                self.counter += 1;
                number(self.counter - 1)
            }
            Builtin::IncludeLevel => number(self.files.len().saturating_sub(1) as u32),
            Builtin::Date => {
                let now = DateTime::of(self.options.now);
                text(&format!("{} {:2} {}", now.month(), now.day, now.year))
            }
            Builtin::Time => text(&DateTime::of(self.options.now).clock()),
            Builtin::Timestamp => {
                let file = &self.map.file(self.last_read.file).name;
                let text_of = |time| {
                    let at = DateTime::of(Some(time));
                    let (weekday, month) = (at.weekday(), at.month());
                    format!("{weekday} {month} {:2} {} {}", at.day, at.clock(), at.year)
                };
                let changed = self.loader.modified(Path::new(file)).map(text_of);
                text(changed.as_deref().unwrap_or("??? ??? ?? ??:??:?? ????"))
            }
            Builtin::One => number(1),
            Builtin::HasInclude => return None,
        };
        let token = self.synthetic(kind, &text, at.span);
        Some(Token {
            space_before: at.space_before,
            first_on_line: at.first_on_line,
            ..token
        })
    }
}

/// A point in time as calendar date and time of day, in UTC (Gregorian calendar).
struct DateTime {
    year: i64,
    /// Month, 0 to 11.
    month: usize,
    day: i64,
    /// Days since the first of January 1970, a Thursday.
    days: i64,
    /// Seconds since midnight, 0 to 86,399.
    seconds: i64,
}

impl DateTime {
    fn of(time: Option<SystemTime>) -> DateTime {
        let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let seconds = since.map_or(0, |since| since.as_secs()) as i64;
        let days = seconds / 86_400;
        // Count years from 1 March, so that the leap day is their last day; 400 years have 146,097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = (month_from_march + 2) % 12;
        DateTime {
            year: era * 400 + year_of_era + i64::from(month < 2),
            month: month as usize,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            days,
            seconds: seconds % 86_400,
        }
    }

    fn month(&self) -> &'static str {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        MONTHS[self.month]
    }

    fn weekday(&self) -> &'static str {
        ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(self.days % 7) as usize]
    }

    fn clock(&self) -> String {
        let seconds = self.seconds;
        format!(
            "{:02}:{:02}:{:02}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (seconds, date) in [
            (0, "Thu Jan 1 1970"),
            (951_782_400, "Tue Feb 29 2000"),
            (951_868_800, "Wed Mar 1 2000"),
            (1_709_164_800, "Thu Feb 29 2024"),
            (4_107_542_399, "Sun Feb 28 2100"),
            (4_107_542_400, "Mon Mar 1 2100"),
        ] {
            let at = DateTime::of(Some(UNIX_EPOCH + Duration::from_secs(seconds)));
            let (weekday, month) = (at.weekday(), at.month());
            assert_eq!(format!("{weekday} {month} {} {}", at.day, at.year), date);
        }
    }
}
