//! Coverage: how often packets have executed each statement, branch, parser transition and table action.
//!
//! The sites come from the program, so that those which no packet has reached are known, too. Sites that are always
//! executed together share a counter. Code that the compiler has removed has no site.

use crate::program::LoadedProgram;
use crate::trace::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A place of the program whose executions are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What is counted.
    pub kind: SiteKind,
    /// Position in the P4 source.
    pub source: Source,
}

/// What is counted at a [`Site`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteKind {
    /// A parser state, action, control or deparser begins.
    Function {
        /// Name of the declaration.
        name: String,
    },
    /// A statement is executed.
    Statement,
    /// A condition has this outcome.
    Branch {
        /// Value of the condition.
        holds: bool,
    },
    /// A case of a parser state's `select` is chosen.
    Case {
        /// Name of the next state; `None` at the end of the parser.
        next: Option<String>,
    },
    /// A table is applied with this result.
    Table {
        /// Name of the table.
        table: String,
        /// Whether an entry matches.
        hit: bool,
    },
    /// A table runs an action.
    TableAction {
        /// Name of the table.
        table: String,
        /// Number of the action in the table, from 0.
        number: u32,
        /// Name of the action.
        action: String,
    },
}

/// A site, and the number of its executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The place in the program.
    pub site: Site,
    /// Number of executions.
    pub count: u64,
}

/// A number of executions as a sum of counters: each with its factor, ordered by counter.
///
/// Where a path of the code is executed as often as another one without a third one, it needs no counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Count(Vec<(u32, i64)>);

impl Count {
    /// Creates the value of a counter.
    pub fn of(counter: u32) -> Count {
        Count(vec![(counter, 1)])
    }

    /// Returns the sum.
    pub fn plus(&self, other: &Count) -> Count {
        self.combine(other, 1)
    }

    /// Returns the difference.
    pub fn minus(&self, other: &Count) -> Count {
        self.combine(other, -1)
    }

    fn combine(&self, other: &Count, sign: i64) -> Count {
        let mut sum: BTreeMap<u32, i64> = self.0.iter().copied().collect();
        for (counter, factor) in &other.0 {
            *sum.entry(*counter).or_default() += sign * factor;
        }
        Count(sum.into_iter().filter(|(_, factor)| *factor != 0).collect())
    }

    fn value(&self, counters: &Counters) -> u64 {
        let terms = self.0.iter().map(|(counter, factor)| {
            let value = counters.0.get(*counter as usize).copied().unwrap_or(0);
            i128::from(value) * i128::from(*factor)
        });
        // A packet that is dropped in the middle of a path may be missing in one of the terms.
        u64::try_from(terms.sum::<i128>()).unwrap_or(0)
    }
}

/// A site with the number of its executions.
#[derive(Debug)]
struct CountedSite {
    kind: SiteKind,
    source: Source,
    count: Count,
}

/// All sites of a program.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    sites: Vec<CountedSite>,
    counters: u32,
}

impl Sites {
    /// Returns the number of counters.
    pub fn counters(&self) -> u32 {
        self.counters
    }

    /// Allocates `n` consecutive counters, and returns the first.
    pub fn allocate(&mut self, n: u32) -> u32 {
        let first = self.counters;
        self.counters += n;
        first
    }

    pub fn add(&mut self, kind: SiteKind, source: Source, count: Count) {
        self.sites.push(CountedSite {
            kind,
            source,
            count,
        });
    }
}

/// The counters of a program's sites.
#[derive(Clone, Debug)]
pub(crate) struct Counters(Box<[u64]>);

impl Counters {
    /// Creates `n` counters of value 0.
    pub fn new(n: u32) -> Counters {
        Counters(vec![0; n as usize].into())
    }

    /// Counts an execution.
    #[inline]
    pub fn count(&mut self, counter: u32) {
        if let Some(count) = self.0.get_mut(counter as usize) {
            *count += 1;
        }
    }

    /// Pointer to the first counter, for compiled code.
    #[cfg(feature = "jit")]
    pub fn as_mut_ptr(&mut self) -> *mut u64 {
        self.0.as_mut_ptr()
    }
}

/// Counts of programs that a switch ran before, each once.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<(Arc<LoadedProgram>, Counters)>);

impl History {
    /// Adds the counts of a program.
    pub fn add(&mut self, program: &Arc<LoadedProgram>, counters: &Counters) {
        if program.sites.sites.is_empty() {
            return;
        }
        let known = self.0.iter_mut().find(|(of, _)| Arc::ptr_eq(of, program));
        match known {
            Some((_, sum)) => {
                let pairs = sum.0.iter_mut().zip(&counters.0);
                pairs.for_each(|(sum, count)| *sum += count);
            }
            None => self.0.push((program.clone(), counters.clone())),
        }
    }

    /// Returns the sites of all programs with their counts, ordered by position. Copies of a site are one.
    pub fn covered(&self) -> Vec<Covered> {
        type Place<'a> = (&'a str, u64, u64, &'a SiteKind);
        // A statement may be several instructions with one count, of one of the programs.
        type Counts<'a> = BTreeSet<(usize, &'a Count)>;
        let mut sums: BTreeMap<Place, (&Source, Counts)> = BTreeMap::new();
        for (number, (program, _)) in self.0.iter().enumerate() {
            for site in &program.sites.sites {
                let source = &site.source;
                let place = (&*source.file, source.line, source.column, &site.kind);
                let (_, counts) = sums.entry(place).or_insert((source, BTreeSet::new()));
                counts.insert((number, &site.count));
            }
        }
        let sites = sums.into_iter().map(|((.., kind), (source, counts))| {
            let counts = counts
                .into_iter()
                .map(|(program, count)| count.value(&self.0[program].1));
            Covered {
                site: Site {
                    kind: kind.clone(),
                    source: source.clone(),
                },
                count: counts.sum(),
            }
        });
        sites.collect()
    }

    /// Returns a copy.
    pub fn copy(&self) -> History {
        History(self.0.clone())
    }
}
