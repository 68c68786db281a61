//! Coverage: how often packets have executed each statement, branch, parser transition and table action.
//!
//! The sites come from the program, so that those which no packet has reached are known, too. Sites that are always
//! executed together share a counter. Code that the compiler has removed has no site.

use crate::program::{LoadedProgram, Table};
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

/// A number of executions as a sum of counters and of numbers that follow from others: each with its factor, ordered.
///
/// Where a path of the code is executed as often as another one without a third one, it needs no counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Count(Vec<(u32, i64)>);

/// A number of executions that is the sum of others, which are found later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Derived(u32);

/// In the terms of a [`Count`], the bit of those that are [`Derived`].
const DERIVED: u32 = 1 << 31;

impl Count {
    /// Creates the value of a counter.
    pub fn of(counter: u32) -> Count {
        Count(vec![(counter, 1)])
    }

    /// Creates a number that follows from others.
    pub fn derived(derived: Derived) -> Count {
        Count::of(derived.0 | DERIVED)
    }

    /// Returns the sum.
    pub fn plus(&self, other: &Count) -> Count {
        self.plus_multiple(other, 1)
    }

    /// Returns the difference.
    pub fn minus(&self, other: &Count) -> Count {
        self.plus_multiple(other, -1)
    }

    fn plus_multiple(&self, other: &Count, factor: i64) -> Count {
        let mut sum: BTreeMap<u32, i64> = self.0.iter().copied().collect();
        for (term, times) in &other.0 {
            *sum.entry(*term).or_default() += factor * times;
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
    /// What each [`Derived`] number is the sum of. Empty when the program is loaded.
    sums: Vec<Count>,
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

    /// Creates a number of executions that is 0 until others are added.
    pub fn derive(&mut self) -> Derived {
        self.sums.push(Count::default());
        Derived(self.sums.len() as u32 - 1)
    }

    /// Adds a number of executions to one that follows from it.
    pub fn add_to(&mut self, derived: Derived, count: &Count) {
        let sum = &mut self.sums[derived.0 as usize];
        *sum = sum.plus(count);
    }

    pub fn add(&mut self, kind: SiteKind, source: Source, count: Count) {
        self.sites.push(CountedSite {
            kind,
            source,
            count,
        });
    }

    /// Expresses all numbers by counters. Called once, when all sums are complete.
    pub fn resolve(&mut self) {
        let mut resolved = Resolved {
            known: vec![None; self.sums.len()],
            sums: std::mem::take(&mut self.sums),
        };
        for site in &mut self.sites {
            let terms = site.count.0.iter();
            for derived in terms.filter_map(|(term, _)| derived_index(*term)) {
                resolved.find(derived);
            }
            site.count = resolved.expand(&site.count);
        }
    }
}

/// Returns the index of a term that is [`Derived`]; `None` for a counter.
fn derived_index(term: u32) -> Option<usize> {
    (term & DERIVED != 0).then_some((term & !DERIVED) as usize)
}

/// Numbers of executions that are expressed by counters.
struct Resolved {
    sums: Vec<Count>,
    known: Vec<Option<Count>>,
}

impl Resolved {
    /// Expresses a derived number by counters, and before it those that it is the sum of. None is part of its own sum.
    fn find(&mut self, derived: usize) {
        let mut waiting = vec![derived];
        while let Some(&last) = waiting.last() {
            let terms = self.sums[last].0.iter();
            let mut parts = terms.filter_map(|(term, _)| derived_index(*term));
            match parts.find(|part| self.known[*part].is_none()) {
                Some(part) if !waiting.contains(&part) => waiting.push(part),
                _ => {
                    self.known[last] = Some(self.expand(&self.sums[last]));
                    waiting.pop();
                }
            }
        }
    }

    /// Returns the number with what is known in place of its derived terms.
    fn expand(&self, count: &Count) -> Count {
        let mut all = Count::default();
        for &(term, factor) in &count.0 {
            match derived_index(term).map(|derived| &self.known[derived]) {
                None => all = all.plus_multiple(&Count::of(term), factor),
                Some(Some(known)) => all = all.plus_multiple(known, factor),
                Some(None) => {}
            }
        }
        all
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

    /// Counts an application of a table with this result.
    #[inline]
    pub fn count_apply(&mut self, table: &Table, is_hit: bool, action: Option<u16>) {
        let Some(first) = table.coverage else {
            return;
        };
        let actions = &mut table.actions.iter();
        let number = action.and_then(|action| actions.position(|(known, _)| *known == action));
        self.count(first + table_counter(is_hit, number));
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

/// Returns the counter of a table's applications with this result, counted from the table's first one. `action`: number of
/// the action in the table; `None` if none ran.
pub(crate) fn table_counter(is_hit: bool, action: Option<usize>) -> u32 {
    let action = action.map_or(0, |number| number as u32 + 1);
    2 * action + u32::from(is_hit)
}

/// Returns the number of counters of a table with this number of actions.
pub(crate) fn table_counters(actions: usize) -> u32 {
    table_counter(false, Some(actions))
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
