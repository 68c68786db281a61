//! Plots of experiment results: lines over a swept flag, and ratios of claims over a varied flag.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::claims::{self, Dependence, Finding};
use super::drawing::{Drawing, Painted, Picture, COLOURS, SIZE};
use super::points::{file_word, Point};
use super::quantity::number;
use super::rows::{values, Stats};
use super::spec::Plot;
use super::store::Record;
use super::table::{show, slices, stats, Slice};

/// Horizontal axis of a plot: logarithmic if all values are numbers above 0; else values have equal distances.
struct HorizontalAxis<'v> {
    values: Vec<&'v str>,
    /// Coordinate of each value on the axis: its logarithm or its index.
    coordinates: Vec<f64>,
}

impl<'v> HorizontalAxis<'v> {
    fn new(mut values: Vec<&'v str>) -> HorizontalAxis<'v> {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let coordinates = match numbers {
            Some(mut numbers) if numbers.iter().all(|number| *number > 0.0) => {
                values.sort_by(|a, b| {
                    number(a)
                        .unwrap_or(0.0)
                        .total_cmp(&number(b).unwrap_or(0.0))
                });
                numbers.sort_by(f64::total_cmp);
                numbers.iter().map(|number| number.ln()).collect()
            }
            _ => (0..values.len()).map(|index| index as f64).collect(),
        };
        HorizontalAxis {
            values,
            coordinates,
        }
    }

    /// Range of the axis in its own coordinates, with a margin at both ends.
    fn range(&self) -> std::ops::Range<f64> {
        let first = self.coordinates.first().copied().unwrap_or(0.0);
        let last = self.coordinates.last().copied().unwrap_or(1.0);
        let margin = if last > first {
            (last - first) * 0.03
        } else {
            0.5
        };
        first - margin..last + margin
    }
}

impl Ranged for &HorizontalAxis<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let range = HorizontalAxis::range(self);
        let share = (value - range.start) / (range.end - range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.coordinates.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        HorizontalAxis::range(self)
    }
}

impl ValueFormatter<f64> for &HorizontalAxis<'_> {
    fn format_ext(&self, place: &f64) -> String {
        let index = self.coordinates.iter().position(|at| at == place);
        index.map_or_else(String::new, |index| self.values[index].to_owned())
    }
}

/// Draws a plot of an experiment file: one drawing for each combination of values of the swept flags that are neither
/// on the horizontal axis nor lines.
pub fn draw(plot: &Plot, axes: &[&str], records: &[(&Point, &Record)]) -> Vec<Drawing> {
    let slices = slices(axes, [&plot.x, &plot.lines], records);
    let one = slices.len() == 1;
    let drawn = slices.iter().map(|slice| {
        let name = match one {
            true => plot.name.clone(),
            false => {
                let title: String = file_word(&slice.title).collect();
                format!("{}-{title}", plot.name)
            }
        };
        Drawing::new(name, &LinePlot::of(plot, slice))
    });
    drawn.collect()
}

/// Draws how a claim's ratio depends on each flag that it varies, one drawing per flag. `number`: index of the claim in
/// the experiment.
pub fn draw_dependences(number: usize, finding: &Finding<'_>) -> Vec<Drawing> {
    let dependences = finding.dependences.iter().enumerate();
    let drawn = dependences.filter(|(_, dependence)| dependence.measured().count() > 1);
    drawn
        .map(|(at, dependence)| {
            let flag = &dependence.variation.flag;
            let name = format!("claim-{}-{}-{flag}", number + 1, at + 1);
            Drawing::new(name, &LinePlot::of_dependence(finding, dependence))
        })
        .collect()
}

/// A line plot: measured lines over a horizontal axis, and published values.
struct LinePlot<'s> {
    title: String,
    /// Label of the horizontal axis.
    x_label: &'s str,
    /// Label of the vertical axis.
    y_label: &'s str,
    x_axis: HorizontalAxis<'s>,
    /// Lines by name: the points of each with their coordinate on the horizontal axis.
    lines: Vec<(&'s str, Vec<(f64, Stats)>)>,
    /// Published values with their names, drawn as horizontal lines.
    published: Vec<(String, f64)>,
    y_axis: VerticalAxis,
    /// Formats a number for the labels of the vertical axis.
    show: Box<dyn Fn(f64) -> String + 's>,
}

impl<'s> LinePlot<'s> {
    fn of(plot: &'s Plot, slice: &'s Slice<'s>) -> LinePlot<'s> {
        let points = || slice.records.iter().map(|(point, _)| *point);
        let x_axis = HorizontalAxis::new(values(&plot.x, points()));
        let lines: Vec<(&str, Vec<(f64, Stats)>)> = values(&plot.lines, points())
            .into_iter()
            .map(|line| {
                let here =
                    x_axis
                        .values
                        .iter()
                        .zip(&x_axis.coordinates)
                        .filter_map(|(x, place)| {
                            let stats =
                                stats(slice, [(&*plot.lines, line), (&*plot.x, *x)], &plot.y)?;
                            (stats.least > 0.0).then_some((*place, stats))
                        });
                (line, here.collect())
            })
            .collect();
        let title = match slice.title.is_empty() {
            true => plot.name.clone(),
            false => format!("{}, {}", plot.name, slice.title),
        };
        LinePlot {
            title,
            x_label: &plot.x,
            y_label: axis_name(&plot.y),
            y_axis: VerticalAxis::around(&lines, &[]),
            x_axis,
            lines,
            published: Vec::new(),
            show: Box::new(|number| trim_zeros(&show(&plot.y, number))),
        }
    }

    fn of_dependence(finding: &'s Finding<'_>, dependence: &'s Dependence<'_>) -> LinePlot<'s> {
        let measured: Vec<(&str, Stats)> = dependence.measured().collect();
        let x_axis = HorizontalAxis::new(measured.iter().map(|(name, _)| *name).collect());
        let at = |name: &str| {
            let mut stats = measured.iter().filter(|(other, _)| *other == name);
            stats.next().map(|(_, stats)| *stats)
        };
        let coordinates = x_axis.values.iter().zip(&x_axis.coordinates);
        let line = coordinates.filter_map(|(name, place)| Some((*place, at(name)?)));
        let lines = vec![("measured", line.collect())];
        let ends = finding.claim.paper.ends().into_iter();
        let published = ends.map(|end| (format!("paper: {}", claims::ratio_text(end)), end));
        let published: Vec<(String, f64)> = published.collect();
        LinePlot {
            title: finding.claim.text.clone(),
            x_label: &dependence.variation.about,
            y_label: "ratio",
            y_axis: VerticalAxis::around(&lines, &published),
            x_axis,
            lines,
            published,
            show: Box::new(claims::ratio_text),
        }
    }
}

/// Label of a results column on the vertical axis. Times have no unit in the label, because their numbers have one.
fn axis_name(column: &str) -> &str {
    match column {
        "completion_ns" => "completion time",
        "goodput_gbps" => "goodput in Gbit/s",
        "registration_ns" => "registration",
        other => other,
    }
}

/// Vertical axis of a plot: logarithmic, with labels at 1, 2 and 5 times powers of ten, more for small ranges and fewer
/// for large ones.
#[derive(Clone)]
struct VerticalAxis {
    from: f64,
    to: f64,
    labels: Vec<f64>,
}

impl VerticalAxis {
    fn around(lines: &[(&str, Vec<(f64, Stats)>)], published: &[(String, f64)]) -> VerticalAxis {
        let measured = lines.iter().flat_map(|(_, line)| line);
        let ends = measured.flat_map(|(_, stats)| [stats.least, stats.most]);
        let ends: Vec<f64> = ends.chain(published.iter().map(|(_, end)| *end)).collect();
        let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ends.iter().copied().fold(0.0, f64::max);
        match most > 0.0 {
            true => VerticalAxis::new(least / 1.15, most * 1.15),
            false => VerticalAxis::new(1.0, 10.0),
        }
    }

    fn new(from: f64, to: f64) -> VerticalAxis {
        const FINE: [f64; 10] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
        const COARSE: [f64; 3] = [1.0, 2.0, 5.0];
        let steps: &[f64] = match to / from {
            ..2.0 => return VerticalAxis::evenly(from, to),
            ..8.0 => &FINE,
            ..2_000.0 => &COARSE,
            _ => &COARSE[..1],
        };
        let mut labels = Vec::new();
        for power in from.log10().floor() as i32..=to.log10().ceil() as i32 {
            let all = steps.iter().map(|step| step * 10_f64.powi(power));
            labels.extend(all.filter(|label| (from..=to).contains(label)));
        }
        VerticalAxis { from, to, labels }
    }

    /// An axis with labels at equal distances, for ranges below a factor of 2, where logarithms are almost linear.
    fn evenly(from: f64, to: f64) -> VerticalAxis {
        let least = (to - from) / 8.0;
        let power = 10_f64.powf(least.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= least);
        let step = step.unwrap_or(least);
        let first = (from / step).ceil() as u64;
        let labels = (first..).map(|n| n as f64 * step);
        let labels = labels.take_while(|label| *label <= to).collect();
        VerticalAxis { from, to, labels }
    }
}

impl Ranged for VerticalAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for VerticalAxis {}

impl Picture for LinePlot<'_> {
    fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB> {
        let (x_axis, show) = (&self.x_axis, &self.show);
        let (canvas, legend) = root.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&canvas)
            .margin(12)
            .caption(&self.title, ("sans-serif", title_size(&self.title)))
            .x_label_area_size(52)
            .y_label_area_size(92)
            .build_cartesian_2d(x_axis, self.y_axis.clone())?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .x_labels(x_axis.coordinates.len())
            .y_labels(self.y_axis.labels.len())
            .y_label_formatter(&|number| show(*number))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .draw()?;
        let range = HorizontalAxis::range(x_axis);
        for (index, (name, height)) in self.published.iter().enumerate() {
            let ends = [(range.start, *height), (range.end, *height)];
            let dashed = DashedLineSeries::new(ends, 7, 5, BLACK.stroke_width(1));
            chart.draw_series(dashed)?;
            let y = 40 + 22 * (self.lines.len() + index) as i32;
            legend.draw(&PathElement::new([(4, y), (12, y)], BLACK.stroke_width(1)))?;
            legend.draw(&PathElement::new([(18, y), (26, y)], BLACK.stroke_width(1)))?;
            legend.draw(&Text::new(name.clone(), (34, y - 7), ("sans-serif", 14)))?;
        }
        for (index, (name, line)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            // Colours repeat after some lines, with another mark.
            let turn = index / COLOURS.len();
            chart.draw_series(LineSeries::new(
                line.iter().map(|(x, stats)| (*x, stats.mean)),
                colour.stroke_width(2),
            ))?;
            let bars = line.iter().filter(|(_, stats)| stats.least < stats.most);
            chart.draw_series(bars.map(|(x, stats)| {
                ErrorBar::new_vertical(*x, stats.least, stats.mean, stats.most, colour.filled(), 8)
            }))?;
            chart.draw_series(
                line.iter()
                    .map(|(x, stats)| EmptyElement::at((*x, stats.mean)) + mark(turn, colour)),
            )?;
            let y = 40 + 22 * index as i32;
            legend.draw(&PathElement::new([(4, y), (28, y)], colour.stroke_width(2)))?;
            legend.draw(&(EmptyElement::at((16, y)) + mark(turn, colour)))?;
            legend.draw(&Text::new(
                (*name).to_owned(),
                (34, y - 7),
                ("sans-serif", 14),
            ))?;
        }
        Ok(())
    }
}

/// Width of the legend in pixels.
const LEGEND_WIDTH: i32 = 210;

/// Font size with which a title fits above its plot.
fn title_size(title: &str) -> u32 {
    match title.chars().count() {
        0..75 => 18,
        75..100 => 14,
        _ => 11,
    }
}

/// Marker of a data point, around its position: an octagon, a square or a triangle. `turn`: number of times that the
/// colours have been used up.
fn mark(turn: usize, colour: RGBColor) -> Polygon<(i32, i32)> {
    let corners = match turn % 3 {
        0 => vec![
            (-2, -5),
            (2, -5),
            (5, -2),
            (5, 2),
            (2, 5),
            (-2, 5),
            (-5, 2),
            (-5, -2),
        ],
        1 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        _ => vec![(0, -6), (6, 5), (-6, 5)],
    };
    Polygon::new(corners, colour.filled())
}

/// Removes trailing zeros after the decimal point of a number with a unit.
pub fn trim_zeros(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_logarithmic_and_words_are_equidistant() {
        let x_axis = HorizontalAxis::new(vec!["1MiB", "1KiB", "32KiB"]);
        assert_eq!(x_axis.values, ["1KiB", "32KiB", "1MiB"]);
        let step = |at: usize| x_axis.coordinates[at + 1] - x_axis.coordinates[at];
        assert!((step(0) - step(1)).abs() < 1e-9);
        let x_axis = HorizontalAxis::new(vec!["0", "0.1", "0.2"]);
        assert_eq!(x_axis.coordinates, [0.0, 1.0, 2.0], "0 has no logarithm");
    }

    #[test]
    fn vertical_axis_has_labels_for_any_range() {
        for (from, to) in [
            (0.9, 1.1),
            (2.0, 6.0),
            (1.0, 300.0),
            (2e3, 3e9),
            (0.01, 0.2),
        ] {
            let labels = VerticalAxis::new(from, to).labels;
            assert!(
                (3..=12).contains(&labels.len()),
                "{from} to {to}: {labels:?}"
            );
            assert!(labels.is_sorted() && labels.iter().all(|label| (from..=to).contains(label)));
        }
    }

    #[test]
    fn labels_have_no_trailing_zeros() {
        assert_eq!(trim_zeros("100.000 us"), "100 us");
        assert_eq!(trim_zeros("1.500"), "1.5");
        assert_eq!(trim_zeros("100 ns"), "100 ns");
    }
}
