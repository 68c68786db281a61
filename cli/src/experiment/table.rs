//! Tables of results as text.

use std::fmt::Write;

use alfirk_experiment::{aligned, duration};

use super::points::Point;
use super::rows::{measured, values, Stats};
use super::spec::Table;
use super::store::Record;

/// The part of the results that one table or plot shows: runs that differ only in two swept flags and in the seed.
pub struct Slice<'r> {
    /// Values of all other swept flags, such as `size 1MiB`; empty if there are none.
    pub title: String,
    pub records: Vec<(&'r Point, &'r Record)>,
}

/// Splits results into slices: one for each combination of values of the swept flags (`axes`) other than the two
/// `shown`.
pub fn slices<'r>(
    axes: &[&str],
    shown: [&str; 2],
    records: &[(&'r Point, &'r Record)],
) -> Vec<Slice<'r>> {
    let mut slices: Vec<Slice<'r>> = Vec::new();
    for (point, record) in records {
        let others = axes.iter().filter(|axis| !shown.contains(*axis));
        let title = others.map(|axis| format!("{axis} {}", point.value(axis)));
        let title = title.collect::<Vec<_>>().join(", ");
        match slices.iter_mut().find(|slice| slice.title == title) {
            Some(slice) => slice.records.push((point, record)),
            None => slices.push(Slice {
                title,
                records: vec![(point, record)],
            }),
        }
    }
    slices
}

/// Statistics of a results column over the runs of the slice that have the values `at` for two flags.
pub fn stats(slice: &Slice<'_>, at: [(&str, &str); 2], column: &str) -> Option<Stats> {
    let here = slice
        .records
        .iter()
        .filter(|(point, _)| at.iter().all(|(axis, value)| point.value(axis) == *value));
    let numbers: Vec<f64> = here
        .filter_map(|(_, record)| measured(record, column))
        .collect();
    Stats::of(&numbers)
}

/// A table of results as rows of cells.
pub struct CellTable {
    pub title: String,
    /// Rows of cells; the first row has the headings of columns.
    pub lines: Vec<Vec<String>>,
}

/// Formats one table for each slice of the results. Cells have the mean, and the range if repeated runs differ.
pub fn cell_tables(table: &Table, axes: &[&str], records: &[(&Point, &Record)]) -> Vec<CellTable> {
    let mut cell_tables = Vec::new();
    for slice in slices(axes, [&table.rows, &table.columns], records) {
        let comma = if slice.title.is_empty() { "" } else { ", " };
        let points = || slice.records.iter().map(|(point, _)| *point);
        let columns = values(&table.columns, points());
        let mut lines = vec![vec![table.rows.clone()]];
        lines[0].extend(columns.iter().map(|value| (*value).to_owned()));
        for row in values(&table.rows, points()) {
            let mut line = vec![row.to_owned()];
            line.extend(columns.iter().map(|column| {
                let at = [(&*table.rows, row), (&*table.columns, *column)];
                cell(&table.value, stats(&slice, at, &table.value))
            }));
            lines.push(line);
        }
        let title = format!("{}{comma}{}", table.value, slice.title);
        cell_tables.push(CellTable { title, lines });
    }
    cell_tables
}

/// Formats the tables as text with aligned columns.
pub fn text(table: &Table, axes: &[&str], records: &[(&Point, &Record)]) -> String {
    let mut out = String::new();
    for sheet in cell_tables(table, axes, records) {
        let _ = writeln!(out, "\n{}", sheet.title);
        out += &aligned(&sheet.lines);
    }
    out
}

fn cell(column: &str, stats: Option<Stats>) -> String {
    let Some(stats) = stats else {
        return "-".to_owned();
    };
    let show = |number| show(column, number);
    match stats.least == stats.most {
        true => show(stats.mean),
        false => format!(
            "{} ({} to {})",
            show(stats.mean),
            show(stats.least),
            show(stats.most)
        ),
    }
}

/// Formats a number of a column, with its unit if the column's name has one.
pub fn show(column: &str, number: f64) -> String {
    match column {
        name if name.ends_with("_ns") => duration(number.round() as u64),
        name if name.ends_with("_gbps") => format!("{number:.3}"),
        "fairness" => format!("{number:.3}"),
        _ if number.fract() == 0.0 => format!("{number:.0}"),
        _ => format!("{number:.1}"),
    }
}
