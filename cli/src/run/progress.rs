//! The progress bar, on a terminal only.

use std::io::IsTerminal;

use alfirk_roce::collective::{Algorithm, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows on stderr how many bytes the receivers of one algorithm have together.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn start(algorithm: Algorithm) -> Bar {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template(
            "{prefix:<10} {bar:40} {binary_bytes:>11} of {binary_total_bytes}, {elapsed}",
        );
        bar.set_style(style.expect("the template is right"));
        bar.set_prefix(algorithm.name());
        Bar(bar)
    }

    pub fn show(&self, progress: Progress) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.bytes);
    }

    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}
