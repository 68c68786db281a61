//! Draws plots as SVG and PNG. The font for PNG is embedded in the executable, since the machine may have no fonts.

use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

/// Width and height of a plot in pixels.
pub const SIZE: (u32, u32) = (960, 600);
/// Colours that are distinguishable with colour blindness: the palette of Okabe and Ito, without black.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(150, 140, 20),
];

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
            let font = epaint_default_fonts::UBUNTU_LIGHT;
            let registered = register_font("sans-serif", FontStyle::Normal, font);
            assert!(registered.is_ok(), "the font is one");
        });
        let mut svg = String::new();
        paint_on(SVGBackend::with_string(&mut svg, SIZE), picture);
        let mut pixels = vec![0; 3 * SIZE.0 as usize * SIZE.1 as usize];
        paint_on(BitMapBackend::with_buffer(&mut pixels, SIZE), picture);
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
