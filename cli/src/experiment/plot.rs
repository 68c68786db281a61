//! Plots of results.

use alfirk_ctrl::topology::units;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::drawing::{Drawing, Painted, Picture, COLOURS, SIZE};
use super::points::{file_word, Point};
use super::rows::{values, Stats};
use super::spec::Plot;
use super::store::Record;
use super::table::{show, slices, stats, Slice};

/// The values of an axis along a line: by their logarithms where all are numbers above 0, else at equal distances.
struct Scale<'v> {
    values: Vec<&'v str>,
    places: Vec<f64>,
}

impl<'v> Scale<'v> {
    fn new(mut values: Vec<&'v str>) -> Scale<'v> {
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let places = match numbers {
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
        Scale { values, places }
    }

    /// From where to where, with a margin.
    fn range(&self) -> std::ops::Range<f64> {
        let first = self.places.first().copied().unwrap_or(0.0);
        let last = self.places.last().copied().unwrap_or(1.0);
        let margin = if last > first {
            (last - first) * 0.03
        } else {
            0.5
        };
        first - margin..last + margin
    }
}

impl Ranged for &Scale<'_> {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let range = Scale::range(self);
        let share = (value - range.start) / (range.end - range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.places.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        Scale::range(self)
    }
}

impl ValueFormatter<f64> for &Scale<'_> {
    fn format_ext(&self, place: &f64) -> String {
        let index = self.places.iter().position(|at| at == place);
        index.map_or_else(String::new, |index| self.values[index].to_owned())
    }
}

/// A number, or one with a unit of sizes, times or rates.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse().ok();
    let quantities = [&units::SIZE, &units::DELAY, &units::RATE];
    plain.or_else(|| {
        quantities
            .iter()
            .find_map(|unit| unit.parse(text).ok().map(|number| number as f64))
    })
}

/// One for each value of the axes that the plot does not show.
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
        Drawing::of(name, &Lines::of(plot, slice))
    });
    drawn.collect()
}

/// Lines over an axis.
struct Lines<'s> {
    plot: &'s Plot,
    title: &'s str,
    scale: Scale<'s>,
    lines: Vec<(&'s str, Vec<(f64, Stats)>)>,
    heights: std::ops::Range<f64>,
}

impl<'s> Lines<'s> {
    fn of(plot: &'s Plot, slice: &'s Slice<'s>) -> Lines<'s> {
        let points = || slice.records.iter().map(|(point, _)| *point);
        let scale = Scale::new(values(&plot.x, points()));
        let lines: Vec<(&str, Vec<(f64, Stats)>)> = values(&plot.lines, points())
            .into_iter()
            .map(|line| {
                let here = scale
                    .values
                    .iter()
                    .zip(&scale.places)
                    .filter_map(|(x, place)| {
                        let stats = stats(slice, [(&*plot.lines, line), (&*plot.x, *x)], &plot.y)?;
                        (stats.least > 0.0).then_some((*place, stats))
                    });
                (line, here.collect())
            })
            .collect();
        let numbers = || {
            lines
                .iter()
                .flat_map(|(_, line)| line.iter().map(|(_, stats)| stats))
        };
        let least = numbers()
            .map(|stats| stats.least)
            .fold(f64::INFINITY, f64::min);
        let most = numbers().map(|stats| stats.most).fold(0.0, f64::max);
        let (least, most) = if most > 0.0 {
            (least, most)
        } else {
            (1.0, 10.0)
        };
        Lines {
            plot,
            title: &slice.title,
            scale,
            lines,
            heights: least / 1.3..most * 1.3,
        }
    }
}

impl Picture for Lines<'_> {
    fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB> {
        let Lines {
            plot,
            title,
            scale,
            lines,
            heights,
        } = self;
        let (canvas, legend) = root.split_horizontally(SIZE.0 as i32 - 210);
        let caption = match title.is_empty() {
            true => plot.name.clone(),
            false => format!("{}, {title}", plot.name),
        };
        let mut chart = ChartBuilder::on(&canvas)
            .margin(12)
            .caption(caption, ("sans-serif", 18))
            .x_label_area_size(44)
            .y_label_area_size(84)
            .build_cartesian_2d(scale, heights.clone().log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc(&plot.x)
            .y_desc(&plot.y)
            .x_labels(scale.places.len())
            .y_label_formatter(&|number| round(&show(&plot.y, *number)))
            .label_style(("sans-serif", 13))
            .draw()?;
        for (index, (name, line)) in lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            // The same colour comes again after some lines, with another mark.
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

/// A mark around the place that it is drawn at: an octagon, a square, or a triangle.
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

/// A number with a unit, without zeros behind the point.
pub fn round(text: &str) -> String {
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
    fn sizes_stand_at_their_logarithms_and_words_at_equal_distances() {
        let scale = Scale::new(vec!["1MiB", "1KiB", "32KiB"]);
        assert_eq!(scale.values, ["1KiB", "32KiB", "1MiB"]);
        let step = |at: usize| scale.places[at + 1] - scale.places[at];
        assert!((step(0) - step(1)).abs() < 1e-9);
        let scale = Scale::new(vec!["0", "0.1", "0.2"]);
        assert_eq!(scale.places, [0.0, 1.0, 2.0], "0 has no logarithm");
    }

    #[test]
    fn labels_have_no_zeros_that_say_nothing() {
        assert_eq!(round("100.000 us"), "100 us");
        assert_eq!(round("1.500"), "1.5");
        assert_eq!(round("100 ns"), "100 ns");
    }
}
