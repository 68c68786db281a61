//! Control plane requests for registers, counters, meters, value sets and the replication engine.

use super::error::unknown;
use super::{Change, ManageError, TableId};
use crate::exec::big::Big;
use crate::externs::counter::Counter;
use crate::externs::hash::{Algorithm, CrcParams};
use crate::externs::meter::MeterConfig;
use crate::numbers::{shortest, to_words};
use crate::pre::Pre;
use crate::switch::Switch;
use crate::value_set::Member;
use alfirk_bmv2_json::MeterType;
use std::ops::Range;

/// Properties of a register array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterInfo {
    /// Full name of the register array.
    pub name: String,
    /// Number of cells.
    pub size: usize,
    /// Width of a cell in bits.
    pub bits: u32,
}

/// Properties of a counter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Full name of the counter array.
    pub name: String,
    /// Number of counters of an indirect array; 0 for a direct counter.
    pub size: usize,
    /// Table of a direct counter; `None` for an indirect one.
    pub table: Option<TableId>,
}

/// Properties of a meter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterInfo {
    /// Full name of the meter array.
    pub name: String,
    /// Number of meters of an indirect array; 0 for a direct meter.
    pub size: usize,
    /// Unit of the meter's rates: packets or bytes.
    pub unit: MeterType,
    /// Table of a direct meter; `None` for an indirect one.
    pub table: Option<TableId>,
}

type Result<T> = std::result::Result<T, ManageError>;

/// Creates the error for an index beyond the end of an array.
fn beyond(what: &'static str, name: &str, index: u64, size: usize) -> ManageError {
    ManageError::IndexOutOfRange {
        what,
        name: name.to_owned(),
        index,
        size: size as u64,
    }
}

/// Checks that the committed rate is not above the peak rate.
pub(super) fn check_rates(name: &str, config: Option<MeterConfig>) -> Result<()> {
    match config {
        Some(config) if config.cir > config.pir => Err(ManageError::MeterRates {
            name: name.to_owned(),
        }),
        _ => Ok(()),
    }
}

impl Switch {
    /// Describes all register arrays.
    pub fn registers(&self) -> Vec<RegisterInfo> {
        self.parts()
            .map_or_else(|_| Vec::new(), |(program, _)| program.registers())
    }

    /// Returns the number of cells of a register array.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn register_size(&self, name: &str) -> Result<usize> {
        let at = self.register_at(name)?;
        Ok(self.parts()?.0.registers[at].size)
    }

    fn register_at(&self, name: &str) -> Result<usize> {
        let (program, _) = self.parts()?;
        let at = program.registers.iter().position(|r| r.name == name);
        at.ok_or_else(|| unknown("register array", name))
    }

    /// Returns the value of a register cell in big endian, without leading zeros.
    ///
    /// # Errors
    /// When there is no such array or cell.
    pub fn read_register(&self, name: &str, index: u64) -> Result<Vec<u8>> {
        let at = self.register_at(name)?;
        let (program, state) = self.parts()?;
        let info = &program.registers[at];
        if index >= info.size as u64 {
            return Err(beyond("register array", name, index, info.size));
        }
        let value = state.registers[at].read(index);
        let words: Vec<u64> = (0..crate::exec::words::words_of(info.bits))
            .map(|i| value.word(i))
            .collect();
        Ok(shortest(&words))
    }

    /// Sets a register cell to a big-endian value.
    ///
    /// # Errors
    /// When there is no such array or cell, or the value is too wide.
    pub fn write_register(&mut self, name: &str, index: u64, value: &[u8]) -> Result<()> {
        let at = self.register_at(name)?;
        let (program, state) = self.parts_mut()?;
        let info = &program.registers[at];
        if index >= info.size as u64 {
            return Err(beyond("register array", name, index, info.size));
        }
        let words = to_words(value, info.bits).ok_or_else(|| ManageError::ValueTooWide {
            what: "register array",
            name: name.to_owned(),
            bits: info.bits,
        })?;
        state.registers[at].write(index, &Big::from_unsigned(&words));
        Ok(())
    }

    /// Sets the cells `range` of a register array. A value that is too wide wraps.
    ///
    /// # Errors
    /// When there is no such array, or the range is not within it.
    pub fn fill_register(&mut self, name: &str, range: Range<u64>, value: i64) -> Result<()> {
        let at = self.register_at(name)?;
        let (program, state) = self.parts_mut()?;
        let size = program.registers[at].size;
        if range.end > size as u64 || range.start > range.end {
            let index = range.start.max(range.end);
            return Err(beyond("register array", name, index, size));
        }
        let value = Big::from_i64(value);
        for index in range {
            state.registers[at].write(index, &value);
        }
        Ok(())
    }

    /// Sets all cells of a register array to zero.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn clear_register(&mut self, name: &str) -> Result<()> {
        let at = self.register_at(name)?;
        self.parts_mut()?.1.registers[at].clear();
        Ok(())
    }

    /// Sets all cells of a register array to the initial value of the program.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn reset_register(&mut self, name: &str) -> Result<()> {
        let at = self.register_at(name)?;
        let (program, state) = self.parts_mut()?;
        program.registers[at].reset(&mut state.registers[at]);
        Ok(())
    }

    /// Returns the initial value of the cells of a register array, as big-endian bytes.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn initial_register(&self, name: &str) -> Result<Vec<u8>> {
        let at = self.register_at(name)?;
        let info = &self.parts()?.0.registers[at];
        let words = 0..crate::exec::words::words_of(info.bits);
        let words: Vec<u64> = words.map(|i| info.initial.word(i)).collect();
        Ok(shortest(&words))
    }

    /// Describes all counter arrays.
    pub fn counters(&self) -> Vec<CounterInfo> {
        self.parts()
            .map_or_else(|_| Vec::new(), |(program, _)| program.counters())
    }

    fn counter_at(&self, name: &str) -> Result<usize> {
        let (program, _) = self.parts()?;
        let at = program.counters.iter().position(|c| c.name == name);
        at.ok_or_else(|| unknown("counter array", name))
    }

    /// Returns a cell of an indirect counter.
    ///
    /// # Errors
    /// When there is no such array or cell.
    pub fn read_counter(&self, name: &str, index: u64) -> Result<Counter> {
        let cells = &self.parts()?.1.counters[self.counter_at(name)?];
        let cell = usize::try_from(index).ok().and_then(|i| cells.get(i));
        cell.copied()
            .ok_or_else(|| beyond("counter array", name, index, cells.len()))
    }

    /// Sets a cell of an indirect counter.
    ///
    /// # Errors
    /// When there is no such array or cell.
    pub fn write_counter(&mut self, name: &str, index: u64, value: Counter) -> Result<()> {
        let at = self.counter_at(name)?;
        let cells = &mut self.parts_mut()?.1.counters[at];
        let size = cells.len();
        let cell = usize::try_from(index).ok().and_then(|i| cells.get_mut(i));
        *cell.ok_or_else(|| beyond("counter array", name, index, size))? = value;
        Ok(())
    }

    /// Sets all cells of an indirect counter to zero.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn clear_counter(&mut self, name: &str) -> Result<()> {
        let at = self.counter_at(name)?;
        self.parts_mut()?.1.counters[at].fill(Counter::default());
        Ok(())
    }

    /// Describes all meter arrays.
    pub fn meters(&self) -> Vec<MeterInfo> {
        self.parts()
            .map_or_else(|_| Vec::new(), |(program, _)| program.meters())
    }

    fn meter_at(&self, name: &str) -> Result<usize> {
        let (program, _) = self.parts()?;
        let at = program.meters.iter().position(|m| m.name == name);
        at.ok_or_else(|| unknown("meter array", name))
    }

    /// Returns the rates of a cell of an indirect meter; `None` if no rates are set.
    ///
    /// # Errors
    /// When there is no such array or cell.
    pub fn read_meter(&self, name: &str, index: u64) -> Result<Option<MeterConfig>> {
        let cells = &self.parts()?.1.meters[self.meter_at(name)?];
        let config = cells.config(index);
        config.ok_or_else(|| beyond("meter array", name, index, cells.len()))
    }

    /// Sets the rates of a cell of an indirect meter, or removes them.
    ///
    /// # Errors
    /// When there is no such array or cell, or the rates contradict each other.
    pub fn write_meter(
        &mut self,
        name: &str,
        index: u64,
        config: Option<MeterConfig>,
        now: u64,
    ) -> Result<()> {
        let at = self.meter_at(name)?;
        check_rates(name, config)?;
        let cells = &mut self.parts_mut()?.1.meters[at];
        let size = cells.len();
        let cell = cells.get_mut(index);
        cell.ok_or_else(|| beyond("meter array", name, index, size))?
            .configure(config, now / 1000);
        Ok(())
    }

    /// Sets the rates of all cells of an indirect meter, or removes them.
    ///
    /// # Errors
    /// When there is no such array, or the rates contradict each other.
    pub fn fill_meter(&mut self, name: &str, config: Option<MeterConfig>, now: u64) -> Result<()> {
        let at = self.meter_at(name)?;
        check_rates(name, config)?;
        self.parts_mut()?.1.meters[at].fill(config, now / 1000);
        Ok(())
    }

    /// Sets the number of bytes that a meter array adds to the length of each packet.
    ///
    /// # Errors
    /// When there is no such array.
    pub fn adjust_meter(&mut self, name: &str, bytes: i32) -> Result<()> {
        let at = self.meter_at(name)?;
        self.parts_mut()?.1.meter_adjustments[at] = bytes;
        Ok(())
    }

    /// Sets the parameters of a calculation with a custom CRC.
    ///
    /// # Errors
    /// When there is no such calculation, or its CRC is not custom or has another width.
    pub fn set_crc(&mut self, name: &str, params: CrcParams) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let at = program.calculations.iter().position(|c| c.name == name);
        let at = at.ok_or_else(|| unknown("calculation", name))?;
        match program.calculations[at].algorithm {
            Algorithm::Custom(own) if own.bits == params.bits => {
                state.hashes[at].crc = Some(params);
                Ok(())
            }
            _ => Err(ManageError::NotCustom {
                calculation: name.to_owned(),
                bits: params.bits,
            }),
        }
    }

    /// Returns whether the program has a calculation of this name.
    pub fn has_calculation(&self, name: &str) -> bool {
        self.parts()
            .is_ok_and(|(program, _)| program.calculations.iter().any(|c| c.name == name))
    }

    /// Returns the name of the learn list with this id.
    pub fn learn_list(&self, id: u32) -> Option<String> {
        let (program, _) = self.parts().ok()?;
        Some(program.learn_lists.get(&id)?.name.clone())
    }

    /// Returns names, widths in bits and maximum sizes of all parser value sets.
    pub fn value_sets(&self) -> Vec<(String, u32, Option<u64>)> {
        self.parts()
            .map_or_else(|_| Vec::new(), |(program, _)| program.value_sets())
    }

    /// Returns the values of the members of a parser value set, in the order of insertion.
    ///
    /// # Errors
    /// When there is no such set.
    pub fn value_set(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let members = self.value_set_members(name)?.iter();
        Ok(members.map(|member| member.value.clone()).collect())
    }

    /// Returns the members of a parser value set, in the order of insertion.
    ///
    /// # Errors
    /// When there is no such set.
    pub fn value_set_members(&self, name: &str) -> Result<&[Member]> {
        let (program, state) = self.parts()?;
        let at = program.vsets.iter().position(|v| v.name == name);
        let at = at.ok_or_else(|| unknown("parser value set", name))?;
        Ok(&state.vsets[at].members)
    }

    /// Sets all members of a parser value set, without masks. A value's fields are concatenated without padding and
    /// right-aligned.
    ///
    /// # Errors
    /// When there is no such set, a value is too wide, or there are too many.
    pub fn set_value_set(&mut self, name: &str, values: &[Vec<u8>]) -> Result<()> {
        let members = values.iter().map(|value| Member {
            value: value.clone(),
            mask: None,
        });
        self.set_value_set_members(name, members.collect())
    }

    /// Sets all members of a parser value set.
    ///
    /// # Errors
    /// When there is no such set, a value or mask is too wide, or there are too many.
    pub fn set_value_set_members(&mut self, name: &str, members: Vec<Member>) -> Result<()> {
        let (program, state) = self.parts_mut()?;
        let at = program.vsets.iter().position(|v| v.name == name);
        let at = at.ok_or_else(|| unknown("parser value set", name))?;
        let info = &program.vsets[at];
        if let Some(size) = info.max_size.filter(|size| members.len() as u64 > *size) {
            return Err(ManageError::ValueSetFull {
                set: name.to_owned(),
                size,
            });
        }
        let bytes = info.bits.div_ceil(8).max(1) as usize;
        let full = |value: &[u8]| -> Result<Vec<u8>> {
            let words = to_words(value, info.bits).ok_or_else(|| ManageError::ValueTooWide {
                what: "parser value set",
                name: name.to_owned(),
                bits: info.bits,
            })?;
            let value = shortest(&words);
            let mut full = vec![0; bytes.saturating_sub(value.len())];
            full.extend_from_slice(&value);
            Ok(full)
        };
        let padded = members.iter().map(|member| {
            Ok(Member {
                value: full(&member.value)?,
                mask: member.mask.as_deref().map(full).transpose()?,
            })
        });
        let padded: Vec<Member> = padded.collect::<Result<_>>()?;
        let set = &mut state.vsets[at];
        for shadow in &mut set.shadows {
            shadow.clear();
            padded.iter().for_each(|member| shadow.insert(member));
        }
        set.members = members;
        state.changes.record(|| Change::ValueSet(name.to_owned()));
        Ok(())
    }

    /// Clears tables, action profiles, registers, counters, meters and multicast groups. As in BMv2, const entries are
    /// removed too; value sets and clone sessions stay.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn reset_state(&mut self) -> Result<()> {
        self.parts()?;
        for table in self.tables() {
            self.reset_default(table)?;
            self.reset_table(table)?;
        }
        for profile in self.profiles() {
            self.clear_profile(profile)?;
        }
        let (_, state) = self.parts_mut()?;
        state.registers.iter_mut().for_each(|r| r.clear());
        state
            .counters
            .iter_mut()
            .for_each(|c| c.fill(Counter::default()));
        state.meters.iter_mut().for_each(|m| m.fill(None, 0));
        state.pre.clear_groups();
        state.changes.record(|| Change::Cleared);
        Ok(())
    }

    /// Returns the multicast groups and clone sessions.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn pre(&self) -> Result<&Pre> {
        Ok(&self.parts()?.1.pre)
    }

    /// Returns the multicast groups and clone sessions for changes.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn pre_mut(&mut self) -> Result<&mut Pre> {
        Ok(&mut self.parts_mut()?.1.pre)
    }
}
