//! Text of plots in PNG: letters stand where the font places them, at fractions of pixels.
//!
//! The crate plotters moves each letter to a whole pixel and ignores its left side bearing, so that distances between
//! letters vary.

use ab_glyph::{point, Font, FontRef, OutlinedGlyph, ScaleFont};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// The font, which is embedded in the executable, since the machine may have no fonts.
pub const FONT: &[u8] = epaint_default_fonts::UBUNTU_LIGHT;

/// A backend that draws on pixels; all but text is drawn by the backend within.
pub struct Letters<B> {
    pixels: B,
    font: FontRef<'static>,
}

impl<B: DrawingBackend> Letters<B> {
    /// Draws on `pixels`.
    pub fn new(pixels: B) -> Letters<B> {
        let font = FontRef::try_from_slice(FONT).expect("the font is one");
        Letters { pixels, font }
    }
}

/// A line of text: its letters, whose upper left corner is at 0, and its size in pixels.
struct Line {
    letters: Vec<OutlinedGlyph>,
    width: f32,
    height: f32,
}

/// Places the letters of a line of text of a font size in pixels.
fn line(font: &FontRef<'static>, text: &str, size: f32) -> Line {
    let scaled = font.as_scaled(size);
    let mut letters = Vec::new();
    let mut width = 0.0;
    for letter in text.chars() {
        let id = scaled.glyph_id(letter);
        let glyph = id.with_scale_and_position(size, point(width, scaled.ascent()));
        letters.extend(scaled.outline_glyph(glyph));
        width += scaled.h_advance(id);
    }
    let height = scaled.height();
    Line {
        letters,
        width,
        height,
    }
}

impl<B: DrawingBackend> DrawingBackend for Letters<B> {
    type ErrorType = B::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.pixels.get_size()
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.pixels.ensure_prepared()
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.pixels.present()
    }

    fn draw_pixel(
        &mut self,
        at: BackendCoord,
        colour: BackendColor,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.pixels.draw_pixel(at, colour)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.pixels.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        self.pixels.draw_rect(upper_left, bottom_right, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Result<(), DrawingErrorKind<Self::ErrorType>> {
        let line = line(&self.font, text, style.size() as f32);
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0.0,
            HPos::Center => -line.width / 2.0,
            HPos::Right => -line.width,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0.0,
            VPos::Center => -line.height / 2.0,
            VPos::Bottom => -line.height,
        };
        let (left, top) = (left.round() as i32, top.round() as i32);
        let (width, height) = self.get_size();
        let (colour, transform) = (style.color(), style.transform());
        let mut drawn = Ok(());
        for letter in line.letters {
            let bounds = letter.px_bounds();
            let (x0, y0) = (left + bounds.min.x as i32, top + bounds.min.y as i32);
            letter.draw(|x, y, coverage| {
                let (x, y) = transform.transform(x0 + x as i32, y0 + y as i32);
                let (x, y) = (at.0 + x, at.1 + y);
                let inside = (0..width as i32).contains(&x) && (0..height as i32).contains(&y);
                if drawn.is_ok() && inside && coverage > 0.0 {
                    let alpha = colour.alpha * f64::from(coverage.min(1.0));
                    drawn = self
                        .pixels
                        .draw_pixel((x, y), BackendColor { alpha, ..colour });
                }
            });
        }
        drawn
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        let line = line(&self.font, text, style.size() as f32);
        Ok((line.width.ceil() as u32, line.height.ceil() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(text: &str) -> f32 {
        let font = FontRef::try_from_slice(FONT).unwrap();
        line(&font, text, 14.0).width
    }

    #[test]
    fn letters_stand_at_fractions_of_pixels() {
        assert!((width("10 hosts") - width("10 ") - width("hosts")).abs() < 0.01);
        let (one, ten) = (width("m"), width(&"m".repeat(10)));
        assert!(
            (ten - 10.0 * one).abs() < 0.01 && one.fract() > 0.01,
            "{one}, {ten}"
        );
    }
}
