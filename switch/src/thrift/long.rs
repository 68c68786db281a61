//! Requests that look at many entries or cells: they are taken on in steps, so that packets do not wait for them. No
//! other request comes in between.

use std::ops::Range;

use alfirk_thrift::{
    standard::{BmMtEntry, Call as Standard, Reply as StandardReply},
    Call, Reply,
};

use super::{
    codes,
    runtime::{Ports, Runtime},
    standard::{named, register_value, shown, Named},
    Answer, Request,
};
use alfirk_bmv2::EntryHandle;

/// A request under way.
pub enum Long {
    Entries {
        table: Named,
        handles: std::vec::IntoIter<EntryHandle>,
        found: Vec<BmMtEntry>,
    },
    ReadCells {
        register: String,
        left: Range<u64>,
        found: Vec<i64>,
    },
    WriteCells {
        register: String,
        left: Range<u64>,
        value: i64,
    },
}

/// What becomes of a request at once.
pub enum Begun {
    Done(Answer),
    Long(Long),
}

impl<P: Ports> Runtime<'_, P> {
    /// Does what a client asks for, or begins with it.
    pub fn begin(&mut self, request: Request) -> Begun {
        let long = match &request {
            Request::Call(call) => self.long(call),
            _ => None,
        };
        match long {
            Some(long) => Begun::Long(long),
            None => Begun::Done(self.answer(request)),
        }
    }

    /// The request, if it is a long one and nothing is wrong with it.
    fn long(&self, call: &Call) -> Option<Long> {
        match call {
            Call::Standard(Standard::BmMtGetEntries(args)) => {
                let table = named(self.switch(), &args.table_name).ok()?;
                let mut handles = self.switch().entry_handles(table.id).ok()?;
                handles.sort_by_key(|handle| handle.place());
                Some(Long::Entries {
                    table,
                    found: Vec::with_capacity(handles.len()),
                    handles: handles.into_iter(),
                })
            }
            Call::Standard(Standard::BmRegisterReadAll(args)) => {
                let register = args.register_array_name.clone();
                let size = self.switch().register_size(&register).ok()?;
                Some(Long::ReadCells {
                    register,
                    left: 0..size as u64,
                    found: Vec::with_capacity(size),
                })
            }
            Call::Standard(Standard::BmRegisterWriteRange(args)) => {
                let register = args.register_array_name.clone();
                let size = self.switch().register_size(&register).ok()? as u64;
                let left = args.start_index as u64..args.end_index as u64;
                let is_right = left.start <= left.end && left.end <= size;
                is_right.then_some(Long::WriteCells {
                    register,
                    left,
                    value: args.value,
                })
            }
            _ => None,
        }
    }

    /// Goes on with a request, by so many entries or cells. Gives the answer when that was all.
    pub fn go_on(&mut self, long: &mut Long, steps: usize) -> Option<Answer> {
        let reply = match long {
            Long::Entries {
                table,
                handles,
                found,
            } => {
                for handle in handles.by_ref().take(steps) {
                    // Only timeouts could have taken one away, and they do not.
                    if let Ok(entry) = self.switch().entry(table.id, handle) {
                        found.push(shown(&table.info, entry, self.now));
                    }
                }
                if handles.len() > 0 {
                    return None;
                }
                StandardReply::BmMtGetEntries(Ok(std::mem::take(found)))
            }
            Long::ReadCells {
                register,
                left,
                found,
            } => {
                for index in left.by_ref().take(steps) {
                    match self.switch().read_register(register, index) {
                        Ok(value) => found.push(register_value(&value)),
                        Err(error) => {
                            let error = codes::register(error);
                            return done(StandardReply::BmRegisterReadAll(Err(error)));
                        }
                    }
                }
                if !left.is_empty() {
                    return None;
                }
                StandardReply::BmRegisterReadAll(Ok(std::mem::take(found)))
            }
            Long::WriteCells {
                register,
                left,
                value,
            } => {
                let end = left.end.min(left.start.saturating_add(steps as u64));
                let (part, value) = (left.start..end, *value);
                left.start = end;
                let filled = self.switch_mut().fill_register(register, part, value);
                if filled.is_ok() && !left.is_empty() {
                    return None;
                }
                StandardReply::BmRegisterWriteRange(filled.map_err(codes::register))
            }
        };
        done(reply)
    }
}

fn done(reply: StandardReply) -> Option<Answer> {
    Some(Answer::Reply(Box::new(Reply::Standard(reply))))
}
