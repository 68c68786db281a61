//! Plots of each flow's throughput over time, for runs with `--throughput-every`.

use alfirk_experiment::duration;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::Value;

use super::drawing::{Drawing, Painted, Picture, COLOURS, SIZE};
use super::plot::trim_zeros;
use super::points::{file_word, Point};
use super::store::Record;

/// Throughput of flows over time: for each flow its name and its Gbit/s in each interval.
struct Throughput {
    title: String,
    interval_ns: u64,
    flows: Vec<(String, Vec<f64>)>,
}

/// Draws one plot for each phase of a workload whose report has throughput samples.
pub fn draw(records: &[(&Point, &Record)]) -> Vec<Drawing> {
    let mut all = Vec::new();
    for (point, record) in records {
        let phases = record.report.pointer("/results/0/phases");
        for phase in phases.and_then(Value::as_array).into_iter().flatten() {
            let name = phase.get("name").and_then(Value::as_str).unwrap_or("");
            let title = format!("throughput, {name}, {}", point.id);
            let file = file_word(&title.replace(", ", "-")).collect();
            let series = phase.get("throughput").and_then(|of| series(title, of));
            all.extend(series.map(|series| Drawing::new(file, &series)));
        }
    }
    all
}

fn series(title: String, throughput: &Value) -> Option<Throughput> {
    let flows = throughput.get("flows")?.as_array()?.iter().map(|flow| {
        let numbers = flow.get("gbps")?.as_array()?.iter();
        let numbers: Option<Vec<f64>> = numbers.map(Value::as_f64).collect();
        Some((flow.get("flow")?.as_str()?.to_owned(), numbers?))
    });
    Some(Throughput {
        title,
        interval_ns: throughput.get("interval_ns")?.as_u64()?,
        flows: flows.collect::<Option<_>>()?,
    })
}

impl Picture for Throughput {
    fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB> {
        let (canvas, legend) = root.split_horizontally(SIZE.0 as i32 - 210);
        let lengths = self.flows.iter().map(|(_, gbps)| gbps.len());
        let end = lengths.max().unwrap_or(0).max(1) as f64 * self.interval_ns as f64;
        let numbers = self.flows.iter().flat_map(|(_, gbps)| gbps);
        let most = numbers.copied().fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(&canvas)
            .margin(12)
            .caption(&self.title, ("sans-serif", 18))
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
        for (index, (name, gbps)) in self.flows.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            // A sample holds for its whole interval.
            let steps = gbps.iter().enumerate().flat_map(|(at, gbps)| {
                let edge = |at: usize| at as f64 * self.interval_ns as f64;
                [(edge(at), *gbps), (edge(at + 1), *gbps)]
            });
            chart.draw_series(LineSeries::new(steps, colour.stroke_width(2)))?;
            let y = 40 + 22 * index as i32;
            legend.draw(&PathElement::new([(4, y), (28, y)], colour.stroke_width(2)))?;
            legend.draw(&Text::new(name.clone(), (34, y - 7), ("sans-serif", 14)))?;
        }
        Ok(())
    }
}
