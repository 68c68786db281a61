//! Draws plots as SVG and PNG.

use std::sync::Once;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::register_font;

use super::letters::{self, Letters};

/// Width and height of a plot in pixels.
pub const SIZE: (u32, u32) = (960, 600);
/// Colours that are distinguishable with colour blindness: the palette of Okabe and Ito, without black.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(150, 140, 20),
];

/// Width of the legend at the right of a plot, in pixels.
pub const LEGEND_WIDTH: i32 = 210;

/// First and last pixel of the piece of a line in a legend.
pub const SAMPLE: (i32, i32) = (4, 40);

/// Lengths of dashes and gaps in pixels of lines that have a colour for the second, third and each further time.
const DASHES: [(i32, i32); 3] = [(9, 5), (2, 4), (15, 9)];

/// Look of one of many lines: colours repeat after some lines, with other dashes and another mark.
#[derive(Clone, Copy)]
pub struct LineStyle {
    pub colour: RGBColor,
    /// Number of times that the colours have been used up.
    pub turn: usize,
}

impl LineStyle {
    /// Style of the line with this index in its plot.
    pub fn of(index: usize) -> LineStyle {
        LineStyle {
            colour: COLOURS[index % COLOURS.len()],
            turn: index / COLOURS.len(),
        }
    }

    /// Lengths of dashes and gaps in pixels; `None` for a solid line.
    fn dashes(self) -> Option<(i32, i32)> {
        let turn = self.turn.checked_sub(1)?;
        Some(DASHES[turn.min(DASHES.len() - 1)])
    }

    /// Draws a line through points.
    pub fn draw_line<'a, DB, X, Y>(
        self,
        chart: &mut ChartContext<'a, DB, Cartesian2d<X, Y>>,
        points: Vec<(f64, f64)>,
    ) -> Painted<DB>
    where
        DB: DrawingBackend + 'a,
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let stroke = self.colour.stroke_width(2);
        match self.dashes() {
            None => chart.draw_series(LineSeries::new(points, stroke))?,
            Some((dash, gap)) => {
                chart.draw_series(DashedLineSeries::new(points, dash, gap, stroke))?
            }
        };
        Ok(())
    }

    /// Draws an entry of a legend at a height in pixels: a piece of the line, and its name.
    pub fn draw_entry<DB: DrawingBackend>(
        self,
        legend: &DrawingArea<DB, Shift>,
        y: i32,
        name: &str,
    ) -> Painted<DB> {
        let (ends, stroke) = ([(SAMPLE.0, y), (SAMPLE.1, y)], self.colour.stroke_width(2));
        match self.dashes() {
            None => legend.draw(&PathElement::new(ends, stroke))?,
            Some((dash, gap)) => {
                legend.draw(&DashedPathElement::new(ends, dash, gap, stroke))?;
            }
        }
        draw_name(legend, y, name)
    }
}

/// Letters in a line of a title, and in a line of what follows it, that surely fit above a plot.
const TITLE_LETTERS: usize = 100;
const REST_LETTERS: usize = 135;

/// Draws a title, and below it in smaller letters the values that hold for the whole plot, if there are any. Returns the
/// area below.
pub fn titled<DB: DrawingBackend>(
    root: &DrawingArea<DB, Shift>,
    title: &str,
    rest: &str,
) -> Result<DrawingArea<DB, Shift>, DrawingAreaErrorKind<DB::ErrorType>> {
    let mut area = root.clone();
    for (text, letters, size) in [(title, TITLE_LETTERS, 18), (rest, REST_LETTERS, 13)] {
        for line in lines(text, letters) {
            area = area.titled(&line, ("sans-serif", size))?;
        }
    }
    Ok(area)
}

/// Splits text between words into lines of at most this many letters. A longer word has a line of its own.
fn lines(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                *line = format!("{line} {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Draws the name of an entry of a legend, at the right of what it names.
pub fn draw_name<DB: DrawingBackend>(
    legend: &DrawingArea<DB, Shift>,
    y: i32,
    name: &str,
) -> Painted<DB> {
    legend.draw(&Text::new(
        name.to_owned(),
        (SAMPLE.1 + 6, y - 7),
        ("sans-serif", 14),
    ))
}

/// Heights in pixels of the entries of a legend, which are closer to each other if they are many.
pub fn legend_heights(entries: usize) -> impl Iterator<Item = i32> {
    // The title and the values below it have up to four lines.
    let room = SIZE.1 as i32 - 120;
    let distance = (room / entries.max(1) as i32).min(22);
    (0..entries as i32).map(move |entry| 24 + distance * entry)
}

/// Result of painting with the backend `DB` of the crate plotters.
pub type Painted<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A plot that any backend of the crate plotters can paint, such as SVG or PNG.
pub trait Picture {
    /// Paints the picture on `root`, a white area of [`SIZE`].
    fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB>;
}

/// A plot, drawn as SVG and as PNG.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// File name without extension.
    pub name: String,
    pub svg: String,
    pub png: Vec<u8>,
}

impl Drawing {
    /// Draws a picture as SVG and PNG.
    pub fn new(name: String, picture: &impl Picture) -> Drawing {
        static LETTERS: Once = Once::new();
        LETTERS.call_once(|| {
            let registered = register_font("sans-serif", FontStyle::Normal, letters::FONT);
            assert!(registered.is_ok(), "the font is one");
        });
        let mut svg = String::new();
        paint_on(SVGBackend::with_string(&mut svg, SIZE), picture);
        let mut pixels = vec![0; 3 * SIZE.0 as usize * SIZE.1 as usize];
        let canvas = BitMapBackend::with_buffer(&mut pixels, SIZE);
        paint_on(Letters::new(canvas), picture);
        Drawing {
            name,
            svg,
            png: encode_png(&pixels),
        }
    }
}

/// Paints a picture on a backend that writes to memory.
fn paint_on<DB: DrawingBackend>(backend: DB, picture: &impl Picture) {
    let root = backend.into_drawing_area();
    let painted = root.fill(&WHITE);
    let painted = painted.and_then(|()| picture.paint(&root));
    let painted = painted.and_then(|()| root.present());
    painted.expect("memory is always painted on");
}

/// Encodes pixels of three bytes (red, green, blue) as PNG.
fn encode_png(pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(pixels)?;
        writer.finish()
    });
    written.expect("memory takes everything");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word;

    impl Picture for Word {
        fn paint<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Painted<DB> {
            root.draw(&Text::new("goodput", (10, 10), ("sans-serif", 40)))
        }
    }

    #[test]
    fn titles_are_split_between_words() {
        assert_eq!(lines("", 10), [""; 0]);
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("a-long-word b", 5), ["a-long-word", "b"]);
    }

    #[test]
    fn both_formats_contain_the_text() {
        let drawing = Drawing::new("a".to_owned(), &Word);
        assert!(drawing.svg.contains("goodput"));
        let decoder = png::Decoder::new(std::io::Cursor::new(&drawing.png));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), SIZE);
        let dark = pixels.chunks(3).filter(|rgb| rgb[0] < 100).count();
        assert!(dark > 200, "{dark} dark pixels");
    }
}
