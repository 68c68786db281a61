//! Parsers of shares, and of quantities inside longer values. (clap parses values that are a quantity alone.)

use alfirk_units::{Quantity, TIME};

use crate::exit::Failure;

/// Parses a rate, a size or a time, as `kind` says. `flag`: name of the flag for messages.
///
/// # Errors
/// The text is not such a quantity; the message begins with `flag`.
pub(super) fn quantity(flag: &str, text: &str, kind: &Quantity) -> Result<u64, Failure> {
    kind.parse(text)
        .map_err(|error| Failure::bad_input(format_args!("{flag}: {error}")))
}

/// Parses a time span after the post, `1ms-5ms` or `1ms` for a span without an end. Returns start and end in
/// nanoseconds.
///
/// # Errors
/// A time is not valid; the message begins with the flag's name. If the end is not after the start, the error is the
/// result of `refuse`.
pub(super) fn span(
    flag: &str,
    text: &str,
    refuse: impl FnOnce(&str) -> Failure,
) -> Result<(u64, Option<u64>), Failure> {
    let (from, until) = match text.split_once('-') {
        Some((from, until)) => (from, Some(until)),
        None => (text, None),
    };
    let time = |text| quantity(flag, text, &TIME);
    let from = time(from)?;
    let until = until.map(time).transpose()?;
    match until.is_some_and(|until| until <= from) {
        true => Err(refuse("the end must be after the start")),
        false => Ok((from, until)),
    }
}

/// Parses a share: `50%` or `0.5`.
///
/// # Errors
/// The text is not a number, or not above 0 and below 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number < unit => Ok(number / unit),
        _ => Err("expected a share above 0 and below 1, as 0.5 or 50%".to_owned()),
    }
}
