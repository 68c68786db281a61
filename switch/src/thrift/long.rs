//! Requests about many entries or cells, processed in steps so that packets are not delayed. Other requests wait until
//! they are complete.

use std::ops::Range;

use alfirk_thrift::{
    standard::{BmMtEntry, Call as Standard, Reply as StandardReply},
    Call, Reply,
};

use super::{
    codes,
    runtime::{Ports, Runtime},
    standard::{find_table, register_value, shown, TableRef},
    Request, Response,
};
use alfirk_bmv2::EntryHandle;

/// A request in progress.
pub enum LongRequest {
    Entries {
        table: TableRef,
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

/// Result of starting a request.
pub enum Started {
    Done(Response),
    LongRequest(LongRequest),
}

impl<P: Ports> Runtime<'_, P> {
    /// Executes a request, or starts a long one.
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

    /// Returns the state of a request if it is a valid long one.
    fn long_request(&self, call: &Call) -> Option<LongRequest> {
        match call {
            Call::Standard(Standard::BmMtGetEntries(args)) => {
                let table = find_table(self.switch(), &args.table_name).ok()?;
                let mut handles = self.switch().entry_handles(table.id).ok()?;
                handles.sort_by_key(|handle| handle.place());
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

    /// Processes up to `steps` entries or cells. Returns the response when the request is complete.
    pub fn continue_request(&mut self, long: &mut LongRequest, steps: usize) -> Option<Response> {
        let reply = match long {
            LongRequest::Entries {
                table,
                handles,
                found,
            } => {
                for handle in handles.by_ref().take(steps) {
                    // Handles stay valid, since no other request is processed meanwhile.
                    if let Ok(entry) = self.switch().entry(table.id, handle) {
                        found.push(shown(&table.info, entry, self.now));
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
