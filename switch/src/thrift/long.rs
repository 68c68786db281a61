//! Thrift requests that process many entries or cells. They are executed in steps, so that packets are not delayed.
//! Other requests wait until they are complete.

use std::ops::Range;

use alfirk_thrift::{
    standard::{BmMtEntry, Call as Standard, Reply as StandardReply},
    Call, Reply,
};

use super::{
    codes,
    runtime::{Ports, Runtime},
    standard::{entry_to_wire, find_table, register_value, TableRef},
    Request, Response,
};
use alfirk_bmv2::EntryHandle;

/// State of a request that is executed in steps.
pub enum LongRequest {
    /// `bm_mt_get_entries`
    Entries {
        /// Table whose entries are read.
        table: TableRef,
        /// Handles of entries that are not read yet.
        handles: std::vec::IntoIter<EntryHandle>,
        /// Entries read so far.
        found: Vec<BmMtEntry>,
    },
    /// `bm_register_read_all`
    ReadCells {
        /// Name of the register array.
        register: String,
        /// Indexes of cells that are not read yet.
        left: Range<u64>,
        /// Values read so far.
        found: Vec<i64>,
    },
    /// `bm_register_write_range`
    WriteCells {
        /// Name of the register array.
        register: String,
        /// Indexes of cells that are not written yet.
        left: Range<u64>,
        /// Value that all cells get.
        value: i64,
    },
}

/// Result of the start of a request.
pub enum Started {
    /// The request is complete.
    Done(Response),
    /// The request needs more steps: [`Runtime::continue_request`].
    LongRequest(LongRequest),
}

impl<P: Ports> Runtime<'_, P> {
    /// Executes a request completely, or starts it if it is a long one.
    pub fn start(&mut self, request: Request) -> Started {
        let long = match &request {
            Request::Call(call) => self.long_request(call),
            _ => None,
        };
        match long {
            Some(long) => Started::LongRequest(long),
            None => Started::Done(self.handle(request)),
        }
    }

    /// Returns the state of a request that is executed in steps; `None` for other requests, and for invalid ones.
    fn long_request(&self, call: &Call) -> Option<LongRequest> {
        match call {
            Call::Standard(Standard::BmMtGetEntries(args)) => {
                let table = find_table(self.switch(), &args.table_name).ok()?;
                let mut handles = self.switch().entry_handles(table.id).ok()?;
                handles.sort_by_key(|handle| handle.slot());
                Some(LongRequest::Entries {
                    table,
                    found: Vec::with_capacity(handles.len()),
                    handles: handles.into_iter(),
                })
            }
            Call::Standard(Standard::BmRegisterReadAll(args)) => {
                let register = args.register_array_name.clone();
                let size = self.switch().register_size(&register).ok()?;
                Some(LongRequest::ReadCells {
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
                is_right.then_some(LongRequest::WriteCells {
                    register,
                    left,
                    value: args.value,
                })
            }
            _ => None,
        }
    }

    /// Processes up to `steps` entries or cells. Returns the response once the request is complete, else `None`.
    pub fn continue_request(&mut self, long: &mut LongRequest, steps: usize) -> Option<Response> {
        let reply = match long {
            LongRequest::Entries {
                table,
                handles,
                found,
            } => {
                for handle in handles.by_ref().take(steps) {
                    // Handles stay valid, since no other request is executed between the steps.
                    if let Ok(entry) = self.switch().entry(table.id, handle) {
                        found.push(entry_to_wire(&table.info, entry, self.now));
                    }
                }
                if handles.len() > 0 {
                    return None;
                }
                StandardReply::BmMtGetEntries(Ok(std::mem::take(found)))
            }
            LongRequest::ReadCells {
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
            LongRequest::WriteCells {
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

fn done(reply: StandardReply) -> Option<Response> {
    Some(Response::Reply(Box::new(Reply::Standard(reply))))
}
