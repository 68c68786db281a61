//! High-performance Linpack: communication and computation of each epoch.

use alfirk_ctrl::topology::HostIndex;
use alfirk_roce::collective::Algorithm;

use super::{value_error, Kind, KindError, Values};
use crate::workload::{Flow, FlowAlgorithm, Phase, Workload};

/// Bytes of a double, which is one matrix element of HPL.
const ELEMENT_BYTES: u64 = 8;

/// Lengths of HPL's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HplLengths {
    /// Lengths in bytes of the panel and of the swapped rows, the same in all epochs.
    Fixed { panel: u64, swap: u64 },
    /// Lengths as in HPL for a matrix of order `n` in blocks of `nb`. They decrease from epoch to epoch.
    Matrix { n: u64, nb: u64 },
}

impl HplLengths {
    /// Returns the bytes of an epoch's panel, and the bytes of the rows that a column swaps.
    ///
    /// HPL sends in one message the rows of the panel that a process holds, the factored block, its pivots, and one word
    /// (`HPL_pdpanel_init`: `L2`, `L1`, `DPIV`, `DINFO`). A column of processes sends the `nb` pivot rows of its part of the rest
    /// (`HPL_pdlaswp01T`: `U`). In HPL the process row with the factored block holds `nb` rows less; this model neglects that.
    pub(super) fn lengths_in_epoch(self, epoch: u32, rows: u32, columns: u32) -> (u64, u64) {
        match self {
            HplLengths::Fixed { panel, swap } => (panel, swap),
            HplLengths::Matrix { n, nb } => {
                let left = n.saturating_sub(u64::from(epoch) * nb);
                let width = nb.min(left);
                let below = left.saturating_sub(width);
                let mine = left.div_ceil(rows.into());
                let panel = mine * width + width * width + width + 1;
                let swap = width * below.div_ceil(columns.into());
                (panel * ELEMENT_BYTES, swap * ELEMENT_BYTES)
            }
        }
    }

    /// Number of floating-point operations of a host in an epoch: the factorization of the panel, and the host's part
    /// of the update of the trailing matrix, two operations for each element and column of the panel. Hosts without a
    /// panel wait for it, as in HPL without look-ahead.
    fn operations(self, epoch: u32, rows: u32, columns: u32) -> u64 {
        let HplLengths::Matrix { n, nb } = self else {
            return 0;
        };
        let left = n.saturating_sub(u64::from(epoch) * nb);
        let width = nb.min(left);
        let mine = left.div_ceil(rows.into());
        let right = (left - width).div_ceil(columns.into());
        mine * width * width + 2 * width * mine * right
    }
}

/// Creates the phases of all epochs: the panel broadcasts in all rows, the row swaps in all columns, and the
/// computation.
pub(super) fn workload(
    hosts: &[HostIndex],
    (rows, columns): (u32, u32),
    epochs: u32,
    lengths: HplLengths,
    swap_by: Algorithm,
    gflops: Option<u32>,
) -> Workload {
    let (p, q) = (rows as usize, columns as usize);
    let at = |row: usize, column: usize| hosts[row * q + column];
    let broadcast = |members: Vec<HostIndex>, first: usize, bytes, by| {
        let mut members = members;
        members.rotate_left(first);
        Flow {
            members,
            bytes,
            by,
            messages: None,
            depth: None,
            after: 0,
        }
    };
    let mut phases = Vec::new();
    for epoch in 0..epochs {
        let (panel, swap) = lengths.lengths_in_epoch(epoch, rows, columns);
        let number = match epochs {
            1 => String::new(),
            _ => format!(" {}", epoch + 1),
        };
        let in_rows = (0..p).map(|row| {
            let members = (0..q).map(|column| at(row, column)).collect();
            broadcast(members, epoch as usize % q, panel, FlowAlgorithm::Compared)
        });
        let in_columns = (0..q).map(|column| {
            let members = (0..p).map(|row| at(row, column)).collect();
            broadcast(
                members,
                epoch as usize % p,
                swap,
                FlowAlgorithm::ComparedOr(swap_by),
            )
        });
        let both = [
            ("PB", q, panel, in_rows.collect::<Vec<_>>()),
            ("RS", p, swap, in_columns.collect()),
        ];
        for (name, size, bytes, flows) in both {
            // A grid of one row or column has no receivers there.
            if size > 1 && bytes > 0 {
                phases.push(Phase {
                    name: format!("{name}{number}"),
                    flows,
                    background: Vec::new(),
                    computing: 0,
                });
            }
        }
        if let Some(gflops) = gflops {
            let operations = lengths.operations(epoch, rows, columns);
            phases.push(Phase {
                name: format!("computation{number}"),
                flows: Vec::new(),
                background: Vec::new(),
                // `gflops` is the number of operations per nanosecond.
                computing: operations / u64::from(gflops),
            });
        }
    }
    Workload {
        phases,
        interval: None,
    }
}

/// Parses the parameters of HPL; `bytes` is the default size of panels.
pub(super) fn read(values: &Values, bytes: u64) -> Result<Kind, KindError> {
    let kind = values.kind;
    let Some(grid) = values.given.get("grid") else {
        return Err(KindError::Missing {
            kind,
            key: "grid",
            example: "8x8",
        });
    };
    let sides = grid.split_once('x').map(|(p, q)| (p.parse(), q.parse()));
    let Some((Ok(rows @ 1..=65_536), Ok(columns @ 1..=65_536))) = sides else {
        return Err(value_error("grid", grid, "give rows and columns, as 8x8"));
    };
    let fixed = values.has("panel") || values.has("swap");
    let lengths = match (values.has("n"), values.has("nb")) {
        (false, false) => {
            let panel = values.size("panel", bytes)?;
            let swap = values.size("swap", panel)?;
            HplLengths::Fixed { panel, swap }
        }
        (true, true) if !fixed => HplLengths::Matrix {
            n: values.number("n", 1)?.into(),
            nb: values.number("nb", 1)?.into(),
        },
        _ => return Err(KindError::Lengths),
    };
    let swap_by = match values.given.get("swap-by") {
        None => Algorithm::Long,
        Some(name) => name
            .parse()
            .map_err(|why| value_error("swap-by", name, why))?,
    };
    let gflops = match values.has("gflops") {
        false => None,
        true => Some(values.number("gflops", 1)?),
    };
    if gflops.is_some() && matches!(lengths, HplLengths::Fixed { .. }) {
        return Err(KindError::NoMatrix);
    }
    Ok(Kind::Hpl {
        rows,
        columns,
        epochs: values.number("epochs", 1)?,
        lengths,
        swap_by,
        gflops,
    })
}
