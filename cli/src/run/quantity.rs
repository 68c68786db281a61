//! Numbers with units on the command line.

use alfirk_units::Quantity;

use crate::exit::Failure;

/// A rate, a size or a time.
///
/// # Errors
/// What is wrong, with the flag's name.
pub(crate) fn quantity(flag: &str, text: &str, kind: &Quantity) -> Result<u64, Failure> {
    kind.parse(text)
        .map_err(|error| Failure::bad_input(format_args!("{flag}: {error}")))
}

/// `50%` or `0.5`.
///
/// # Errors
/// As [`quantity`].
pub(crate) fn share(flag: &str, text: &str) -> Result<f64, Failure> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number < unit => Ok(number / unit),
        _ => Err(Failure::bad_input(format_args!(
            "{flag} {text}: a share above 0 and below 1 is expected, as 0.5 or 50%"
        ))),
    }
}
