//! Announcement of a receiver's memory region to the switches, in band: a WRITE whose payload the receiver's leaf switch
//! takes as the target of the next WRITE of the group ([`mr_info`]).

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::icrc::neutral::Unsolvable;
use crate::rc::{Payload, SendOperation, SendRequest};
use crate::wire::mr_info;

/// Creates the request that announces a region of the host `receiver`. `sent`: virtual address and R_Key in the
/// source's packets; `received`: those of the region.
pub(crate) fn announce_region(
    wr_id: u64,
    receiver: Ipv4Addr,
    sent: (u64, u32),
    received: (u64, u32),
) -> Result<SendRequest, Unsolvable> {
    let info = mr_info::Repr::between(sent, received)?;
    let mut bytes = [0; mr_info::PAYLOAD_LEN];
    info.emit(&mut bytes);
    Ok(SendRequest {
        wr_id,
        operation: SendOperation::Write {
            remote_va: u32::from(receiver).into(),
            rkey: mr_info::R_KEY,
            immediate: None,
        },
        payload: Payload::Bytes(Arc::from(bytes)),
    })
}
