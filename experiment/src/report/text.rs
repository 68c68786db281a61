//! Formatting of numbers, times and columns.

/// Aligns lines of cells in columns, two blanks apart: the first column to the left, the others to the right.
pub fn aligned<L: AsRef<[String]>>(lines: &[L]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        for (column, cell) in line.as_ref().iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(column) {
                Some(widest) => *widest = width.max(*widest),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for line in lines {
        let mut cells = line.as_ref().iter().zip(&widths);
        if let Some((name, &width)) = cells.next() {
            out += &format!("{name:<width$}");
        }
        for (cell, &width) in cells {
            out += &format!("  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

/// Formats nanoseconds with three decimals, in the unit that has one to three digits before the decimal point.
pub fn duration(ns: u64) -> String {
    let (unit, divisor) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{:.3} {unit}", ns as f64 / divisor)
}

/// Formats a number with a comma between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a goodput in Gbit/s; `-` for `None`.
pub(super) fn gbps(goodput: Option<f64>) -> String {
    goodput.map_or_else(|| "-".to_string(), |gbps| format!("{gbps:.3} Gbit/s"))
}

/// Formats bits per second with up to three decimals, in the unit that has one to three digits before the decimal
/// point.
pub(super) fn rate(bps: u64) -> String {
    let (unit, divisor) = match bps {
        0..1_000_000 => ("kbit/s", 1e3),
        1_000_000..1_000_000_000 => ("Mbit/s", 1e6),
        _ => ("Gbit/s", 1e9),
    };
    format!("{} {unit}", (bps as f64 / divisor * 1e3).round() / 1e3)
}
