//! Plots of experiment results: lines over a swept flag, and ratios of claims over a varied flag.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::claims::{self, Dependence, Finding};
use super::drawing::{
    draw_name, legend_heights, titled, Drawing, LineStyle, Painted, Picture, LEGEND_WIDTH, SAMPLE,
    SIZE,
};
use super::points::{file_word, Point};
use super::quantity::number;
use super::rows::{values, Stats};
use super::spec::Plot;
use super::store::Record;
use super::table::{show, slices, stats, Slice};

/// Largest ratio of two values above 0 with which an axis that begins with 0 is linear.
const LINEAR_RANGE: f64 = 20.0;

/// Distances between the values on the horizontal axis of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// As between the numbers.
    Linear,
    /// As between the logarithms of the numbers.
    Logarithmic,
    /// Logarithmic, and 0, which has no logarithm, apart at the left.
    LogarithmicAfterZero,
    /// Equal, as not all values are numbers.
    Equal,
}

impl Scale {
    /// Scale for values; `None` if one of them is not a number.
    fn of(numbers: Option<&[f64]>) -> Scale {
        let Some(numbers) = numbers.filter(|all| all.iter().all(|number| *number >= 0.0)) else {
            return Scale::Equal;
        };
        let above = || numbers.iter().copied().filter(|number| *number > 0.0);
        let (least, most) = (
            above().fold(f64::INFINITY, f64::min),
            above().fold(0.0, f64::max),
        );
        match above().count() == numbers.len() {
            true => Scale::Logarithmic,
            false if most / least <= LINEAR_RANGE => Scale::Linear,
            false => Scale::LogarithmicAfterZero,
        }
    }

    /// Coordinates of sorted numbers.
    fn coordinates(self, numbers: &[f64]) -> Vec<f64> {
        let logarithms = numbers
            .iter()
            .filter(|number| **number > 0.0)
            .map(|n| n.ln());
        let first = logarithms.clone().fold(f64::INFINITY, f64::min);
        let last = logarithms.fold(f64::NEG_INFINITY, f64::max);
        let zero = first - (last - first) / (numbers.len().max(3) - 2) as f64;
        let place = |number: &f64| match self {
            Scale::Linear | Scale::Equal => *number,
            Scale::LogarithmicAfterZero if *number == 0.0 => zero,
            Scale::Logarithmic | Scale::LogarithmicAfterZero => number.ln(),
        };
        numbers.iter().map(place).collect()
    }

    /// What the axis says after its label.
    fn note(self) -> &'static str {
        match self {
            Scale::Linear | Scale::Equal => "",
            Scale::Logarithmic => " (logarithmic)",
            Scale::LogarithmicAfterZero => " (logarithmic, and 0 apart)",
        }
    }
}

/// Horizontal axis of a plot: numbers in their order, at their places on a scale, or other values at equal distances.
struct HorizontalAxis<'v> {
    values: Vec<&'v str>,
    scale: Scale,
    /// Coordinate of each value on the axis.
    coordinates: Vec<f64>,
}

impl<'v> HorizontalAxis<'v> {
    fn new(mut values: Vec<&'v str>) -> HorizontalAxis<'v> {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let scale = Scale::of(numbers.as_deref());
        let coordinates = match numbers {
            Some(mut numbers) if scale != Scale::Equal => {
                let size = |value: &str| number(value).unwrap_or(0.0);
                values.sort_by(|a, b| size(a).total_cmp(&size(b)));
                numbers.sort_by(f64::total_cmp);
                scale.coordinates(&numbers)
            }
            _ => (0..values.len()).map(|index| index as f64).collect(),
        };
        HorizontalAxis {
            values,
            scale,
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
    /// Values of the flags that are the same for the whole plot; may be empty.
    rest: String,
    /// Label of the horizontal axis.
    x_label: &'s str,
    /// Label of the vertical axis.
    y_label: &'s str,
    x_axis: HorizontalAxis<'s>,
    /// The flag whose values name the lines; empty if the lines have other names.
    lines_of: &'s str,
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
        LinePlot {
            title: title(axis_name(&plot.y), &plot.x),
            rest: slice.title.clone(),
            x_label: &plot.x,
            y_label: axis_name(&plot.y),
            y_axis: VerticalAxis::around(&lines, &[]),
            lines_of: &plot.lines,
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
            rest: String::new(),
            x_label: &dependence.variation.about,
            y_label: "ratio",
            y_axis: VerticalAxis::around(&lines, &published),
            lines_of: "",
            x_axis,
            lines,
            published,
            show: Box::new(claims::ratio_text),
        }
    }
}

/// Title of a plot in words, such as `Completion time by size`.
fn title(what: &str, by: &str) -> String {
    let quantity = what.split(" in ").next().unwrap_or(what);
    let mut letters = quantity.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let quantity: String = first.into_iter().chain(letters).collect();
    format!("{quantity} by {by}")
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
/// for large ones; linear for ranges below a factor of 2.
#[derive(Clone)]
struct VerticalAxis {
    from: f64,
    to: f64,
    is_linear: bool,
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
        VerticalAxis {
            from,
            to,
            is_linear: false,
            labels,
        }
    }

    /// What the axis says after its label.
    fn note(&self) -> &'static str {
        match self.is_linear {
            true => Scale::Linear.note(),
            false => Scale::Logarithmic.note(),
        }
    }

    /// A linear axis, with labels at equal distances.
    fn evenly(from: f64, to: f64) -> VerticalAxis {
        let least = (to - from) / 8.0;
        let power = 10_f64.powf(least.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= least);
        let step = step.unwrap_or(least);
        let first = (from / step).ceil() as u64;
        let labels = (first..).map(|n| n as f64 * step);
        let labels = labels.take_while(|label| *label <= to).collect();
        VerticalAxis {
            from,
            to,
            is_linear: true,
            labels,
        }
    }
}

impl Ranged for VerticalAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = match self.is_linear {
            true => (value - self.from) / (self.to - self.from),
            false => (value / self.from).ln() / (self.to / self.from).ln(),
        };
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
        let below = titled(root, &self.title, &self.rest)?;
        let (canvas, legend) = below.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
        let mut chart = ChartBuilder::on(&canvas)
            .margin(12)
            .x_label_area_size(52)
            .y_label_area_size(92)
            .build_cartesian_2d(x_axis, self.y_axis.clone())?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(format!("{}{}", self.x_label, x_axis.scale.note()))
            .y_desc(format!("{}{}", self.y_label, self.y_axis.note()))
            .x_labels(x_axis.coordinates.len())
            .y_labels(self.y_axis.labels.len())
            .y_label_formatter(&|number| show(*number))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .draw()?;
        let range = HorizontalAxis::range(x_axis);
        let mut heights = legend_heights(self.lines.len() + self.published.len() + 1);
        if let Some(y) = heights.next() {
            let at = (SAMPLE.0, y - 7);
            legend.draw(&Text::new(self.lines_of, at, ("sans-serif", 14)))?;
        }
        for ((index, (name, line)), y) in self.lines.iter().enumerate().zip(&mut heights) {
            let style = LineStyle::of(index);
            let means = line.iter().map(|(x, stats)| (*x, stats.mean));
            style.draw_line(&mut chart, means.collect())?;
            let bars = line.iter().filter(|(_, stats)| stats.least < stats.most);
            chart.draw_series(bars.map(|(x, stats)| {
                let filled = style.colour.filled();
                ErrorBar::new_vertical(*x, stats.least, stats.mean, stats.most, filled, 8)
            }))?;
            chart.draw_series(
                line.iter()
                    .map(|(x, stats)| EmptyElement::at((*x, stats.mean)) + mark(style)),
            )?;
            style.draw_entry(&legend, y, name)?;
            legend.draw(&(EmptyElement::at(((SAMPLE.0 + SAMPLE.1) / 2, y)) + mark(style)))?;
        }
        for ((name, height), y) in self.published.iter().zip(&mut heights) {
            let ends = [(range.start, *height), (range.end, *height)];
            let dashed = DashedLineSeries::new(ends, 7, 5, BLACK.stroke_width(1));
            chart.draw_series(dashed)?;
            let sample =
                DashedPathElement::new([(SAMPLE.0, y), (SAMPLE.1, y)], 7, 5, BLACK.stroke_width(1));
            legend.draw(&sample)?;
            draw_name(&legend, y, name)?;
        }
        Ok(())
    }
}

/// Marker of a data point, around its position: an octagon, a square or a triangle.
fn mark(style: LineStyle) -> Polygon<(i32, i32)> {
    let corners = match style.turn % 3 {
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
    Polygon::new(corners, style.colour.filled())
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
    fn places_on_the_horizontal_axis_are_true() {
        let x_axis = HorizontalAxis::new(vec!["1MiB", "1KiB", "32KiB"]);
        assert_eq!(x_axis.values, ["1KiB", "32KiB", "1MiB"]);
        let step = |at: usize| x_axis.coordinates[at + 1] - x_axis.coordinates[at];
        assert!((step(0) - step(1)).abs() < 1e-9);
        let x_axis = HorizontalAxis::new(vec!["0", "0.1", "0.2"]);
        assert_eq!(x_axis.coordinates, [0.0, 0.1, 0.2], "0 has no logarithm");
        let x_axis = HorizontalAxis::new(vec!["2us", "500ns", "0ns"]);
        assert_eq!(x_axis.values, ["0ns", "500ns", "2us"]);
        assert_eq!(x_axis.coordinates, [0.0, 500.0, 2_000.0]);
        let x_axis = HorizontalAxis::new(vec!["0", "0.0001", "0.001", "0.01"]);
        assert_eq!(x_axis.scale, Scale::LogarithmicAfterZero);
        assert!(x_axis.coordinates.is_sorted() && x_axis.coordinates[0].is_finite());
        let x_axis = HorizontalAxis::new(vec!["0", "0.5"]);
        assert_eq!(x_axis.coordinates, [0.0, 0.5]);
        let words = HorizontalAxis::new(vec!["leaf", "core", "1"]);
        assert_eq!(words.coordinates, [0.0, 1.0, 2.0]);
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
    fn titles_are_words() {
        assert_eq!(title("goodput in Gbit/s", "loss"), "Goodput by loss");
        assert_eq!(title("ratio", "size"), "Ratio by size");
    }

    #[test]
    fn labels_have_no_trailing_zeros() {
        assert_eq!(trim_zeros("100.000 us"), "100 us");
        assert_eq!(trim_zeros("1.500"), "1.5");
        assert_eq!(trim_zeros("100 ns"), "100 ns");
    }
}
