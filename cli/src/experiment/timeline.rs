//! Plots of each flow's throughput over time, for runs with `--throughput-every`.

use alfirk_experiment::duration;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

use super::drawing::{
    legend_heights, titled, Drawing, LineStyle, Painted, Picture, LEGEND_WIDTH, SIZE,
};
use super::plot::trim_zeros;
use super::points::{file_word, Point};
use super::store::Record;

/// Throughput of flows over time: for each flow its name and its Gbit/s in each interval.
struct Throughput {
    /// The phase of the workload, and values of the swept flags.
    about: String,
    interval_ns: u64,
    flows: Vec<(String, Vec<f64>)>,
}

/// Draws one plot for each phase of a workload whose report has throughput samples. `axes`: the swept flags, whose
/// values are in the titles.
pub fn draw(axes: &[&str], records: &[(&Point, &Record)]) -> Vec<Drawing> {
    let mut all = Vec::new();
    for (point, record) in records {
        let phases = record.report.pointer("/results/0/phases");
        for phase in phases.and_then(Value::as_array).into_iter().flatten() {
            let name = phase.get("name").and_then(Value::as_str).unwrap_or("");
            let swept = axes
                .iter()
                .map(|axis| format!(", {axis} {}", point.value(axis)));
            let about = format!("{name}{}", swept.collect::<String>());
            let file = file_word(&format!("throughput-{name}-{}", point.id)).collect();
            let series = phase.get("throughput").and_then(|of| series(about, of));
            all.extend(series.map(|series| Drawing::new(file, &series)));
        }
    }
    all
}

fn series(about: String, throughput: &Value) -> Option<Throughput> {
    let flows = throughput.get("flows")?.as_array()?.iter().map(|flow| {
        let numbers = flow.get("gbps")?.as_array()?.iter();
        let numbers: Option<Vec<f64>> = numbers.map(Value::as_f64).collect();
        Some((flow.get("flow")?.as_str()?.to_owned(), numbers?))
    });
    Some(Throughput {
        about,
        interval_ns: throughput.get("interval_ns")?.as_u64()?,
        flows: flows.collect::<Option<_>>()?,
    })
}

impl Picture for Throughput {
    fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB> {
        let below = titled(root, "Throughput of flows", &self.about)?;
        let (canvas, legend) = below.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
        let lengths = self.flows.iter().map(|(_, gbps)| gbps.len());
        let end = lengths.max().unwrap_or(0).max(1) as f64 * self.interval_ns as f64;
        let numbers = self.flows.iter().flat_map(|(_, gbps)| gbps);
        let most = numbers.copied().fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(&canvas)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..end, 0.0..most * 1.1)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("time")
            .y_desc("Gbit/s")
            .x_label_formatter(&|at| trim_zeros(&duration(*at as u64)))
            .y_label_formatter(&|gbps| trim_zeros(&gbps.to_string()))
            .label_style(("sans-serif", 13))
            .draw()?;
        let heights = legend_heights(self.flows.len());
        for ((index, (name, gbps)), y) in self.flows.iter().enumerate().zip(heights) {
            // A sample holds for its whole interval.
            let steps = gbps.iter().enumerate().flat_map(|(at, gbps)| {
                let edge = |at: usize| at as f64 * self.interval_ns as f64;
                [(edge(at), *gbps), (edge(at + 1), *gbps)]
            });
            let style = LineStyle::of(index);
            style.draw_line(&mut chart, steps.collect())?;
            style.draw_entry(&legend, y, name)?;
        }
        Ok(())
    }
}
