//! The state of a switch that packets and the control plane change.

use std::collections::BTreeMap;

use crate::coverage::Counters;
use crate::exec::join::SLACK;
use crate::externs::cells::Cells;
use crate::externs::counter::Counter;
use crate::externs::hash::{BitBuffer, HashState};
use crate::externs::meter::MeterCells;
use crate::externs::random::Random;
use crate::externs::register::Register;
use crate::manage::Changes;
use crate::pre::{Pre, Replica};
use crate::program::LoadedProgram;
use crate::tables::{ProfileState, TableState, Target};
use crate::trace::Recorder;
use crate::value_set::{value_sets, ValueSetState};

/// State of a program's objects and of the replication engine. Lists are in the order of the program's objects.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub tables: Vec<TableState>,
    pub profiles: Vec<ProfileState>,
    pub registers: Vec<Register>,
    /// Number of times that packets have read or written register cells.
    pub register_accesses: u64,
    /// Number of packets that were interpreted, modulo 2^32; ingress and egress count separately.
    pub interpreted: u32,
    pub counters: Vec<Cells<Counter>>,
    pub meters: Vec<MeterCells>,
    /// Number of bytes that each meter array adds to the length of a packet; that of a direct meter is in its table.
    pub meter_adjustments: Vec<i32>,
    pub vsets: Vec<ValueSetState>,
    /// Tofino: port to which packets are copied for the CPU; `None` for that of the options.
    pub copy_to_cpu_port: Option<u32>,
    /// Tofino: metadata in front of packets by the number of the port that receives them, in bytes; ports with zeros are absent.
    pub port_metadata: BTreeMap<u32, Vec<u8>>,
    pub hashes: Vec<HashState>,
    pub selector_hashes: Vec<HashState>,
    pub pre: Pre,
    /// Recorded changes of all objects except those of the replication engine.
    pub changes: Changes,
    pub random: Random,
    pub buffer: BitBuffer,
    /// Buffer for headers that the deparser emits, reused to avoid allocations.
    pub headers: Vec<u8>,
    /// Buffer in which machine code concatenates the inputs of a hash.
    #[cfg(feature = "jit")]
    pub inputs: Vec<u8>,
    /// Counts what packets execute, if the program was loaded for coverage.
    pub coverage: Counters,
    /// Records the steps of packets, if tracing or the log is on.
    pub recorder: Option<Box<Recorder>>,
    /// Buffer for lists of a packet's copies, reused to avoid allocations.
    pub scratch: Vec<Replica>,
}

/// Returns the length in bytes of the longest inputs that machine code concatenates.
#[cfg(feature = "jit")]
fn longest_inputs(program: &LoadedProgram) -> usize {
    let calculations = program.calculations.iter();
    let joined = calculations.filter_map(|calculation| calculation.joined_statelessly());
    joined.map(|inputs| inputs.join.bytes()).max().unwrap_or(0)
}

impl State {
    /// Creates the state of a newly loaded program: its own entries and default actions, initial register values,
    /// and zeros.
    pub fn new(program: &LoadedProgram, seed: u64) -> State {
        let tofino = program.tofino.iter();
        let tofino = tofino.flat_map(|of| [&of.ingress.deparser, &of.egress.deparser]);
        let deparsers = std::iter::once(&program.deparser).chain(tofino);
        let longest = deparsers.map(|deparser| deparser.max_bytes).max();
        let longest = longest.unwrap_or(0);
        let mut state = State {
            tables: program.tables.iter().map(TableState::new).collect(),
            profiles: (program.profiles.iter())
                .map(|profile| ProfileState::new(profile.group_limits()))
                .collect(),
            registers: program
                .registers
                .iter()
                .map(|r| {
                    let mut register = Register::new(r.size, r.bits);
                    r.reset(&mut register);
                    register
                })
                .collect(),
            register_accesses: 0,
            interpreted: 0,
            counters: program
                .counters
                .iter()
                .map(|c| {
                    let size = if c.table.is_some() { 0 } else { c.size };
                    Cells::new(vec![Counter::default(); size].into())
                })
                .collect(),
            meters: program
                .meters
                .iter()
                .map(|m| MeterCells::new(if m.table.is_some() { 0 } else { m.size }))
                .collect(),
            meter_adjustments: vec![0; program.meters.len()],
            vsets: value_sets(program),
            copy_to_cpu_port: None,
            port_metadata: BTreeMap::new(),
            hashes: vec![HashState::default(); program.calculations.len()],
            selector_hashes: vec![HashState::default(); program.profiles.len()],
            pre: Pre::default(),
            changes: Changes::default(),
            random: Random::new(seed),
            buffer: BitBuffer::default(),
            headers: vec![0; longest + SLACK],
            #[cfg(feature = "jit")]
            inputs: vec![0; longest_inputs(program) + SLACK],
            coverage: Counters::new(program.sites.counters()),
            recorder: None,
            scratch: Vec::new(),
        };
        for (table, state) in program.tables.iter().zip(&mut state.tables) {
            state.default = table.initial_default(program);
            for initial in &table.entries {
                state.insert(table, initial.entry.clone(), initial.is_const, 0);
            }
        }
        state
    }

    /// Adds `change` to the number of references to the member or group that is the target of an entry.
    pub fn count_use(&mut self, profile: usize, target: &Target, change: isize) {
        let profile = &mut self.profiles[profile];
        let uses = match target {
            Target::Action(_) => None,
            Target::Member(id) => profile.members.get_mut(id).map(|m| &mut m.uses),
            Target::Group(id) => profile.groups.get_mut(id).map(|g| &mut g.uses),
        };
        if let Some(uses) = uses {
            *uses = uses.saturating_add_signed(change);
        }
    }
}
