//! Shares on the command line, and quantities that are parts of longer values. (What is a quantity alone is read by clap.)

use alfirk_units::{Quantity, TIME};

use crate::exit::Failure;

/// A rate, a size or a time.
///
/// # Errors
/// What is wrong, with the flag's name.
pub(super) fn quantity(flag: &str, text: &str, kind: &Quantity) -> Result<u64, Failure> {
    kind.parse(text)
        .map_err(|error| Failure::bad_input(format_args!("{flag}: {error}")))
}

/// `1ms-5ms`, or `1ms` for what has no end: from when to when after the post, in nanoseconds.
///
/// # Errors
/// What is wrong, with the flag's name; what `refuse` makes of an end before the beginning.
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
        true => Err(refuse("it ends before it begins")),
        false => Ok((from, until)),
    }
}

/// `50%` or `0.5`.
///
/// # Errors
/// It is no number, or 0, or the whole.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number < unit => Ok(number / unit),
        _ => Err("a share above 0 and below 1 is expected, as 0.5 or 50%".to_owned()),
    }
}
