//! Converts results to CSV, and extracts measured numbers from them.

use serde_json::{Map, Value};

use super::points::Point;
use super::store::Record;

/// The result of the record's only algorithm: the first object of `results` in its report.
fn first_result(record: &Record) -> Option<&Map<String, Value>> {
    record.report.get("results")?.get(0)?.as_object()
}

/// Measured number of a result in a column of [`MEASURED`](super::spec::MEASURED); `None` if the report has no such
/// number.
pub fn measured(record: &Record, column: &str) -> Option<f64> {
    let mut names = column.split('.');
    let first = first_result(record)?.get(names.next()?)?;
    let value = names.try_fold(first, |value, name| value.get(name))?;
    value.as_f64()
}

/// Whether every receiver of the run received the bytes that were sent.
pub fn verified(record: &Record) -> bool {
    let verified = first_result(record).and_then(|row| row.get("verified"));
    verified.and_then(Value::as_bool).unwrap_or(false)
}

/// Formats results as CSV (RFC 4180), one row per run: its identification, the swept flags (`axes`), the flags that
/// only some runs have (`varied`), then all fields of its report, with dotted names for nested objects. A cell is empty
/// if the run has no such field.
pub fn csv(axes: &[&str], varied: &[&str], records: &[(&Point, &Record)]) -> Vec<u8> {
    let rows: Vec<Map<String, Value>> = records
        .iter()
        .map(|(point, record)| row(axes, varied, point, record))
        .collect();
    let mut columns: Vec<&String> = Vec::new();
    for name in rows.iter().flat_map(Map::keys) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    let in_memory = "memory takes everything";
    out.write_record(&columns).expect(in_memory);
    for row in &rows {
        let cells = columns
            .iter()
            .map(|name| row.get(*name).map(cell).unwrap_or_default());
        out.write_record(cells).expect(in_memory);
    }
    out.into_inner().expect(in_memory)
}

fn row(axes: &[&str], varied: &[&str], point: &Point, record: &Record) -> Map<String, Value> {
    let mut row = Map::new();
    for (name, value) in [
        ("experiment", &record.experiment),
        ("point", &record.id),
        ("version", &record.version),
        ("program", &record.program),
        ("command", &record.command),
    ] {
        row.insert(name.to_owned(), value.clone().into());
    }
    for axis in axes {
        row.insert(format!("flag.{axis}"), point.value(axis).into());
    }
    for flag in varied.iter().filter(|flag| point.has(flag)) {
        row.insert(format!("flag.{flag}"), point.value(flag).into());
    }
    if let Some(result) = first_result(record) {
        flatten("", result, &mut row);
    }
    if let Some(report) = record.report.as_object() {
        let rest = report.iter().filter(|(name, _)| *name != "results");
        let rest: Map<String, Value> = rest
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        flatten("", &rest, &mut row);
    }
    row
}

fn flatten(prefix: &str, object: &Map<String, Value>, row: &mut Map<String, Value>) {
    for (name, value) in object {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, row),
            other => {
                row.insert(name, other.clone());
            }
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Mean, smallest and largest of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

impl Stats {
    /// Computes the statistics of `numbers`; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Stats> {
        let count = numbers.len();
        (count > 0).then(|| Stats {
            mean: numbers.iter().sum::<f64>() / count as f64,
            least: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            most: numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// The distinct values that points have for a flag (`axis`), in the order of the points.
pub fn values<'p>(axis: &str, points: impl IntoIterator<Item = &'p Point>) -> Vec<&'p str> {
    let mut values = Vec::new();
    for point in points {
        let value = point.value(axis);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}
