//! The progress bars, on a terminal only.

use std::io::IsTerminal;

use alfirk_roce::collective::{Algorithm, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bars of algorithms that run side by side, on stderr.
pub struct Bars(MultiProgress);

/// Shows how many bytes the receivers of one algorithm have together.
pub struct Bar(ProgressBar);

impl Bars {
    pub fn new() -> Bars {
        Bars(MultiProgress::with_draw_target(target()))
    }

    /// Of runs whose progress somebody else shows.
    pub fn hidden() -> Bars {
        Bars(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()))
    }

    pub fn start(&self, algorithm: Algorithm) -> Bar {
        let bar = self.0.add(ProgressBar::new(0));
        let style = ProgressStyle::with_template(
            "{prefix:<10} {bar:40} {binary_bytes:>11} of {binary_total_bytes}, {elapsed}",
        );
        bar.set_style(style.expect("the template is right"));
        bar.set_prefix(algorithm.to_string());
        Bar(bar)
    }
}

/// Where progress is drawn.
pub fn target() -> ProgressDrawTarget {
    match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    }
}

impl Bar {
    pub fn show(&self, progress: Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.bytes);
    }

    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}
