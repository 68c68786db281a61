//! Each member in turn sends a pattern to all others, by SEND and by WRITE. The same as `broadcast.c`, in Rust.
//!
//! usage: broadcast DEVICE GROUP LEADER MEMBERS, with the same arguments on every member, e.g. `broadcast rxe0
//! 10.255.0.1 10.0.0.1 3`

use std::error::Error;
use std::time::Duration;

use alfirk_verbs::group::{Group, GroupConfig, Transport};

const LEN: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, address, leader, members] = arguments.as_slice() else {
        return Err("usage: broadcast DEVICE GROUP LEADER MEMBERS".into());
    };
    let config = GroupConfig {
        device: device.clone(),
        address: address.parse()?,
        leader: leader.parse()?,
        port: 4792,
        members: members.parse()?,
        buffer: LEN,
        timeout: Duration::from_secs(30),
        fallback: Transport::Chain,
    };
    let members = config.members;
    let mut group = Group::join(config)?;
    println!(
        "rank {} of {members}, {:?}",
        group.rank(),
        group.transport()
    );
    for source in 0..members {
        let pattern = |add: u32| -> Vec<u8> {
            let bytes = 0..LEN as u32;
            bytes.map(|at| (at + source * 31 + add) as u8).collect()
        };
        let (sent, written) = (pattern(0), pattern(7));
        if source == group.rank() {
            group.fill(0, &sent)?;
        }
        group.broadcast(source, 0, LEN)?;
        assert_eq!(group.buffer(), sent);
        if source == group.rank() {
            group.fill(0, &written)?;
        }
        group.write(source, 0, LEN)?;
        assert_eq!(group.buffer(), written);
    }
    group.leave()?;
    println!("all data is correct");
    Ok(())
}
