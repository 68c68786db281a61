//! Scopes of tables: sets of pipes whose entries are the same.
//!
//! The switch has one pipe, [`PIPE`]. A table whose scope is not that of all pipes has its entries in the scope of that
//! pipe, and clients access them by a pipe of the scope.

use alfirk_p4runtime::bfrt_proto::{
    mode::{PredefinedMode, Scope},
    EntryScope, TargetDevice,
};
use alfirk_p4runtime::Status;

use crate::error::{invalid, not_found, Outcome};
use crate::PIPE;

/// Pipe of requests for all pipes.
pub(crate) const ALL_PIPES: u32 = 0xffff;
/// Maximum number of pipes of a chip.
const MAX_PIPES: u32 = 8;

/// The scope of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scopes {
    /// One scope with all pipes.
    All,
    /// Several scopes; holds the pipes of the one with the pipe of the switch, one bit each.
    Own(u32),
}

impl Scopes {
    /// The scope of a table with this attribute; `None` without one.
    ///
    /// # Errors
    /// No scope has the pipe of the switch, or the mode is unknown.
    pub fn new(attribute: Option<&EntryScope>) -> Outcome<Scopes> {
        let mode = attribute.and_then(|scope| scope.pipe_scope.as_ref());
        match mode.and_then(|mode| mode.scope.as_ref()) {
            None => Ok(Scopes::All),
            Some(Scope::Predef(mode)) => match PredefinedMode::try_from(*mode) {
                Ok(PredefinedMode::All) => Ok(Scopes::All),
                Ok(PredefinedMode::Single) => Ok(Scopes::Own(1 << PIPE)),
                Err(_) => Err(invalid(format!("the scope {mode} is not defined"))),
            },
            // Each byte is a scope, with a bit for each of its pipes.
            Some(Scope::UserDefined(scopes)) => {
                let pipes = scopes.to_le_bytes().map(u32::from);
                let own = pipes.into_iter().find(|pipes| pipes >> PIPE & 1 == 1);
                own.map(Scopes::Own)
                    .ok_or_else(|| invalid(format!("no scope of {scopes:#x} has the pipe {PIPE}")))
            }
        }
    }

    /// Whether a request for a pipe is about the pipe of the switch.
    pub fn is_here(pipe: u32) -> bool {
        pipe == ALL_PIPES || pipe == PIPE
    }

    /// Checks that entries can be read from a pipe. `is_by_key`: the request names the entry by its key, or all entries; else by its
    /// handle. `from_hardware`: entries are read from the memory of a pipe, else from the driver's copy, which belongs
    /// to the lowest pipe of the scope.
    pub fn check_read(self, pipe: u32, is_by_key: bool, from_hardware: bool) -> Outcome {
        let is_readable = match self {
            Scopes::All => pipe == ALL_PIPES || from_hardware && pipe < MAX_PIPES,
            Scopes::Own(_) if pipe == ALL_PIPES => !is_by_key,
            Scopes::Own(pipes) => {
                let is_in_scope = pipe < MAX_PIPES && pipes >> pipe & 1 == 1;
                is_in_scope && (from_hardware || pipe == pipes.trailing_zeros())
            }
        };
        match is_readable {
            true => Ok(()),
            false if from_hardware && !is_by_key => {
                Err(invalid(format!("the entry is not in pipe {pipe}")))
            }
            false => Err(self.absent(pipe)),
        }
    }

    /// Checks that a pipe has a default entry.
    pub fn check_default(self, pipe: u32) -> Outcome {
        let has_one = match self {
            Scopes::All => true,
            Scopes::Own(pipes) => pipe < MAX_PIPES && pipes >> pipe & 1 == 1,
        };
        match has_one {
            true => Ok(()),
            false => Err(invalid(format!(
                "the table has a default entry in each scope, and none has the pipe {pipe:#x}"
            ))),
        }
    }

    /// Checks that entries of a pipe can be changed.
    pub fn check_write(self, pipe: u32) -> Outcome {
        match self {
            Scopes::Own(pipes) if pipe != ALL_PIPES && pipes >> pipe.min(31) & 1 == 0 => {
                Err(self.absent(pipe))
            }
            _ => Ok(()),
        }
    }

    fn absent(self, pipe: u32) -> Status {
        not_found(match self {
            Scopes::All => format!(
                "the table has one scope with all pipes: pipe {pipe:#x} has no entry of its own"
            ),
            Scopes::Own(_) => format!("no entry of the table is in the scope of pipe {pipe:#x}"),
        })
    }
}

/// The pipe of a request: that of the entry if it has one, else that of the whole request, else all.
pub(crate) fn pipe_of(entry: Option<&TargetDevice>, request: Option<&TargetDevice>) -> u32 {
    entry.or(request).map_or(ALL_PIPES, |target| target.pipe_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::bfrt_proto::Mode;

    fn scopes(scope: Scope) -> Outcome<Scopes> {
        Scopes::new(Some(&EntryScope {
            pipe_scope: Some(Mode {
                scope: Some(scope),
                args: 0,
            }),
            ..EntryScope::default()
        }))
    }

    #[test]
    fn a_table_with_one_scope_is_read_by_all_pipes_and_from_hardware_by_each() {
        let all = Scopes::new(None).unwrap();
        assert!(all.check_read(ALL_PIPES, true, false).is_ok());
        assert!(all.check_read(0, true, true).is_ok());
        assert!(all.check_read(0, true, false).is_err());
        assert!(all.check_default(3).is_ok());
    }

    #[test]
    fn an_entry_of_one_pipe_is_read_by_its_pipe_or_its_handle() {
        let single = scopes(Scope::Predef(PredefinedMode::Single.into())).unwrap();
        assert!(single.check_read(0, true, false).is_ok());
        assert!(single.check_read(1, true, true).is_err());
        assert!(single.check_read(ALL_PIPES, true, true).is_err());
        assert!(single.check_read(ALL_PIPES, false, true).is_ok());
        assert!(single.check_default(ALL_PIPES).is_err());
        assert!(single.check_write(1).is_err());
    }

    #[test]
    fn the_copy_of_the_driver_belongs_to_the_lowest_pipe_of_a_scope() {
        let pairs = scopes(Scope::UserDefined(0x0c03)).unwrap();
        assert_eq!(pairs, Scopes::Own(3));
        assert!(pairs.check_read(1, true, true).is_ok());
        assert!(pairs.check_read(1, true, false).is_err());
        assert!(scopes(Scope::UserDefined(0x0c)).is_err());
    }
}
