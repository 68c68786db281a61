//! Two-rate three-colour markers (RFC 2698), which meter packets or bytes. A packet that already has a colour is
//! metered in colour-aware mode, others in colour-blind mode.

use alfirk_bmv2_json::MeterType;

/// Rates and burst sizes of a meter, in packets or bytes depending on the meter's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed information rate, in packets or bytes per second.
    pub cir: u64,
    /// Committed burst size, in packets or bytes.
    pub cburst: u64,
    /// Peak information rate, in packets or bytes per second; at least `cir`.
    pub pir: u64,
    /// Peak burst size, in packets or bytes.
    pub pburst: u64,
}

/// Colour of a packet; the discriminant is the value in P4 programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// The packet is within the committed rate and burst size.
    Green = 0,
    /// Above the committed, within the peak rate and burst.
    Yellow = 1,
    /// The packet exceeds the peak rate and burst size.
    Red = 2,
}

impl Color {
    /// Converts a colour value of BMv2 or Tofino; values beyond yellow are red.
    pub(crate) fn of(value: u64) -> Color {
        match value {
            0 => Color::Green,
            1 => Color::Yellow,
            _ => Color::Red,
        }
    }
}

/// The length in bytes with which a packet is metered: its own with an adjustment, for example for bytes that the
/// switch adds or removes.
pub(crate) fn adjusted(length: usize, adjustment: i32) -> usize {
    length.saturating_add_signed(adjustment as isize)
}

/// A two-rate three-colour meter for one cell or table entry. Without a configuration all packets are green.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    config: Option<Box<Buckets>>,
}

#[derive(Clone, Debug)]
struct Buckets {
    config: MeterConfig,
    committed: Bucket,
    peak: Bucket,
}

/// A token bucket. Tokens are in millionths of a packet or byte, so that rates below one per microsecond accumulate.
#[derive(Clone, Debug)]
struct Bucket {
    tokens: u128,
    /// Time at which tokens were last added, in microseconds.
    at: u64,
}

const UNIT: u128 = 1_000_000;

impl Bucket {
    fn refill(&mut self, rate: u64, burst: u64, now: u64) {
        let elapsed = u128::from(now.saturating_sub(self.at));
        self.at = self.at.max(now);
        self.tokens = (self.tokens + elapsed * u128::from(rate)).min(u128::from(burst) * UNIT);
    }

    fn has(&self, amount: u64) -> bool {
        self.tokens >= u128::from(amount) * UNIT
    }

    fn take(&mut self, amount: u64) {
        self.tokens -= u128::from(amount) * UNIT;
    }
}

impl Meter {
    /// Returns the meter's rates and burst sizes; `None` if they were not set.
    pub fn config(&self) -> Option<MeterConfig> {
        self.config.as_ref().map(|b| b.config)
    }

    /// Sets the rates, and fills the buckets; `None` removes the rates.
    pub fn configure(&mut self, config: Option<MeterConfig>, now_us: u64) {
        self.config = config.map(|config| {
            let full = |burst: u64| Bucket {
                tokens: u128::from(burst) * UNIT,
                at: now_us,
            };
            Box::new(Buckets {
                config,
                committed: full(config.cburst),
                peak: full(config.pburst),
            })
        });
    }

    /// Meters a packet and returns its colour. `before` is the colour that an earlier meter gave to the packet, or
    /// green. The result is never better than `before`.
    pub(crate) fn execute(
        &mut self,
        kind: MeterType,
        bytes: usize,
        now_us: u64,
        before: Color,
    ) -> Color {
        let Some(b) = &mut self.config else {
            return before;
        };
        let amount = match kind {
            MeterType::Packets => 1,
            MeterType::Bytes => bytes as u64,
        };
        b.committed.refill(b.config.cir, b.config.cburst, now_us);
        b.peak.refill(b.config.pir, b.config.pburst, now_us);
        if before == Color::Red || !b.peak.has(amount) {
            return Color::Red;
        }
        b.peak.take(amount);
        if before == Color::Yellow || !b.committed.has(amount) {
            return Color::Yellow;
        }
        b.committed.take(amount);
        Color::Green
    }
}

/// Number of cells per page.
const PAGE: usize = 64;

/// The cells of one meter array. Programs declare arrays for the largest network they support, so memory is allocated by
/// pages, when a cell of a page is first configured or used.
#[derive(Clone, Debug)]
pub(crate) struct MeterCells {
    /// Number of cells of the array.
    size: usize,
    /// The first pages, each with all of its cells or none. Cells of other pages have no configuration.
    pages: Vec<Vec<Meter>>,
}

impl MeterCells {
    pub(crate) fn new(size: usize) -> MeterCells {
        MeterCells {
            size,
            pages: Vec::new(),
        }
    }

    /// Number of cells of the array.
    pub(crate) fn len(&self) -> usize {
        self.size
    }

    /// Returns the rates of a cell; `None` for an index beyond the array.
    pub(crate) fn config(&self, index: u64) -> Option<Option<MeterConfig>> {
        let index = self.position(index)?;
        let page = self.pages.get(index / PAGE);
        let cell = page.and_then(|page| page.get(index % PAGE));
        Some(cell.and_then(Meter::config))
    }

    /// Returns a cell to meter a packet or to set its rates; `None` for an index beyond the array.
    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut Meter> {
        let index = self.position(index)?;
        if self.pages.len() <= index / PAGE {
            self.pages.resize_with(index / PAGE + 1, Vec::new);
        }
        let page = self.pages.get_mut(index / PAGE)?;
        if page.is_empty() {
            page.resize_with(PAGE, Meter::default);
        }
        page.get_mut(index % PAGE)
    }

    /// Sets the rates of all cells, or removes them.
    pub(crate) fn fill(&mut self, config: Option<MeterConfig>, now_us: u64) {
        self.pages.clear();
        if config.is_some() {
            for index in 0..self.size as u64 {
                if let Some(cell) = self.get_mut(index) {
                    cell.configure(config, now_us);
                }
            }
        }
    }

    fn position(&self, index: u64) -> Option<usize> {
        let index = usize::try_from(index).ok()?;
        (index < self.size).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_allocated_when_a_cell_is_first_configured() {
        let config = MeterConfig {
            cir: 1,
            cburst: 1,
            pir: 2,
            pburst: 2,
        };
        let cells_in_use = |cells: &MeterCells| cells.pages.iter().flatten().count();
        let mut cells = MeterCells::new(1000);
        assert_eq!((cells.len(), cells_in_use(&cells)), (1000, 0));
        assert_eq!(cells.config(999), Some(None));
        assert_eq!(cells.config(1000), None);
        assert!(cells.get_mut(1000).is_none());
        cells.get_mut(200).unwrap().configure(Some(config), 0);
        assert_eq!(cells_in_use(&cells), PAGE);
        assert_eq!(cells.config(200), Some(Some(config)));
        for unconfigured in [0, 199, 999] {
            assert_eq!(cells.config(unconfigured), Some(None));
        }
        cells.fill(Some(config), 0);
        assert_eq!(cells.config(999), Some(Some(config)));
        cells.fill(None, 0);
        assert_eq!(cells.config(200), Some(None));
        assert_eq!(cells_in_use(&cells), 0);
    }

    #[test]
    fn bursts_beyond_the_committed_are_yellow_and_beyond_the_peak_red() {
        let mut meter = Meter::default();
        assert_eq!(
            meter.execute(MeterType::Packets, 64, 0, Color::Green),
            Color::Green
        );
        let config = MeterConfig {
            cir: 1,
            cburst: 2,
            pir: 2,
            pburst: 3,
        };
        meter.configure(Some(config), 0);
        let colors: Vec<_> = (0..5)
            .map(|_| meter.execute(MeterType::Packets, 64, 0, Color::Green))
            .collect();
        use Color::*;
        assert_eq!(colors, [Green, Green, Yellow, Red, Red]);
        // After one second: one committed token and two peak tokens.
        let colors: Vec<_> = (0..3)
            .map(|_| meter.execute(MeterType::Packets, 64, 1_000_000, Color::Green))
            .collect();
        assert_eq!(colors, [Green, Yellow, Red]);
        assert_eq!(meter.config(), Some(config));
    }

    #[test]
    fn rates_below_one_per_microsecond_accumulate() {
        let mut meter = Meter::default();
        meter.configure(
            Some(MeterConfig {
                cir: 1000,
                cburst: 1,
                pir: 1000,
                pburst: 1,
            }),
            0,
        );
        assert_eq!(
            meter.execute(MeterType::Packets, 1, 0, Color::Green),
            Color::Green
        );
        let green = (1..=10_000)
            .filter(|now| meter.execute(MeterType::Packets, 1, *now, Color::Green) == Color::Green)
            .count();
        assert_eq!(green, 10);
    }

    #[test]
    fn bytes_are_metered_by_length() {
        let mut meter = Meter::default();
        meter.configure(
            Some(MeterConfig {
                cir: 0,
                cburst: 100,
                pir: 0,
                pburst: 100,
            }),
            0,
        );
        assert_eq!(
            meter.execute(MeterType::Bytes, 60, 0, Color::Green),
            Color::Green
        );
        assert_eq!(
            meter.execute(MeterType::Bytes, 60, 0, Color::Green),
            Color::Red
        );
    }

    #[test]
    fn a_packet_keeps_its_colour_or_gets_a_worse_one() {
        use Color::*;
        let mut meter = Meter::default();
        assert_eq!(meter.execute(MeterType::Packets, 1, 0, Yellow), Yellow);
        let config = MeterConfig {
            cir: 0,
            cburst: 2,
            pir: 0,
            pburst: 4,
        };
        meter.configure(Some(config), 0);
        let before = [Red, Yellow, Green, Red, Yellow, Green, Green];
        let after = before.map(|color| meter.execute(MeterType::Packets, 1, 0, color));
        // Red packets took no tokens, yellow ones only peak tokens.
        assert_eq!(after, [Red, Yellow, Green, Red, Yellow, Green, Red]);
        assert_eq!([0, 1, 2, 3].map(Color::of), [Green, Yellow, Red, Red]);
    }
}
