//! Reads a group's state from the registers of the pipelines, and writes it back.
//!
//! A *path* of a group is a port of the switch that leads to members. The registers hold, for each path, the newest PSN
//! and MSN that it has acknowledged; see [`alfirk_aggregation`].

use alfirk_aggregation::{
    Config, Group, LastAcked, Leaf, Nak, PathCongestion, PathPsn, Point, QueuedPacket,
    ReportedLoss, SavedRegisters, SelectiveNak, Space, Strategy, WaitingNak,
};
use alfirk_bmv2::{Counter, Switch};
use alfirk_contract::{Drop, PATH_OF_SENDER};
use alfirk_ctrl::tables::Delivery;

use super::group::{BridgeExit, FastGroup, GroupEntries, Region};
use crate::engine::PortMap;

/// Number of bits of a PSN, and of an MSN.
const PSN_BITS: u32 = 24;
const PSN_MASK: u64 = (1 << PSN_BITS) - 1;
/// Width in bits of a path's CNP count. It is in the low bits of the register cell, below the number of the time window
/// in which the last CNP arrived.
const CNP_BITS: u32 = 6;
/// Mask of the window number in the register cell of a path, after the CNP count is shifted out.
const CNP_WINDOWS: u64 = (1 << 10) - 1;

fn name(part: &str) -> String {
    format!("ingress.ack_aggregate.{part}")
}

/// Register of losses that selective NAKs have reported; [`name`] completes the name.
const LOSSES: &str = "selective_nak.losses";
const FILTER: &str = "egress.retransmission_filter.acked";

/// Reads a register cell. The register exists, because the controller has accepted the program.
fn read(switch: &Switch, register: &str, index: u64) -> u64 {
    let bytes = switch.read_register(register, index);
    let bytes = bytes.unwrap_or_default();
    bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

fn write(switch: &mut Switch, register: &str, index: u64, value: u64) {
    let written = switch.write_register(register, index, &value.to_be_bytes());
    debug_assert!(written.is_ok(), "{register}: {written:?}");
}

/// Whether data of a group carries VLAN tags (`source_tags.p4`). Frames of the fast data plane have none.
pub(super) fn has_tags(switch: &Switch, group: u16) -> bool {
    let tags = switch.read_register(&name("source_tags.tags"), group.into());
    tags.is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// Index of a path's cell in registers with one cell per group and path.
fn slot(paths: u32, group: u16, path: usize) -> u64 {
    u64::from(group) * u64::from(paths) + path as u64
}

/// Register value of a path: PSN (24 bits), path number (8 bits), lower half of the MSN (16 bits); see `types.p4`. If
/// `by_sender`, the path number is replaced by [`PATH_OF_SENDER`].
fn word_bits(psn: u32, by_sender: bool, path: usize, msn: u32) -> u64 {
    let path = match by_sender {
        true => u64::from(PATH_OF_SENDER),
        false => path as u64,
    };
    u64::from(psn) << 24 | path << 16 | u64::from(msn & 0xffff)
}

/// Reads a group's state from the registers. `now` is in microseconds.
pub(super) fn load(
    switch: &Switch,
    paths: u32,
    index: u16,
    entries: GroupEntries,
    now: u64,
) -> FastGroup {
    let group = u64::from(index);
    let last_acked = read(switch, &name("agg"), group);
    let last_acked = Point {
        psn: (last_acked >> PSN_BITS) as u32,
        msn: (last_acked & PSN_MASK) as u32,
    };
    let nak = read(switch, &name("waiting_nak.nak"), group);
    let senders = read(switch, &name("sender.senders"), group);
    let worst = read(switch, &name("cnp_filter.worst"), group);
    let ports: Vec<u32> = entries.paths.iter().map(|path| path.port).collect();
    let numbers = 0..ports.len();
    let of_paths = |register: &str| -> Vec<u32> {
        let cell = |path| read(switch, register, slot(paths, index, path)) as u32;
        numbers.clone().map(cell).collect()
    };
    let leaf = |path: usize| {
        let child = name(&format!("leaves.child_{}", path % 4));
        let word = read(switch, &child, slot(paths, index, path) / 4);
        // The register has the lower half of the MSN. The upper half is that of the MSN last acknowledged to the
        // source, or one more.
        let ahead = (word as u16).wrapping_sub(last_acked.msn as u16);
        Leaf {
            newest: Point {
                psn: (word >> 24) as u32,
                msn: last_acked.msn.wrapping_add(ahead.into()) & PSN_MASK as u32,
            },
            by_sender: (word >> 16) as u8 == PATH_OF_SENDER,
        }
    };
    let window = now >> PathCongestion::WINDOW_SHIFT;
    let since =
        |register: u64, mask: u64| window.wrapping_sub(window.wrapping_sub(register) & mask);
    let congested = |path: usize| {
        let cell = read(switch, &name("cnp_filter.paths"), slot(paths, index, path));
        PathCongestion {
            window: since(cell >> CNP_BITS, CNP_WINDOWS),
            cnps: (cell & ((1 << CNP_BITS) - 1)) as u8,
        }
    };
    let config = Config {
        window: entries.window,
        is_selective: entries.is_selective,
        ..Config::pipeline(Strategy::Tree)
    };
    let losses = (0..config.losses).map(|slot| {
        let cell = group * config.losses as u64 + slot as u64;
        let loss = read(switch, &name(LOSSES), cell);
        ReportedLoss {
            psn: (loss >> 8) as u32,
            reports: loss as u8,
        }
    });
    let kept = SavedRegisters {
        last_acked: LastAcked {
            point: last_acked,
            msn_base: read(switch, &name("last_acked.msn_bases"), group) as u32,
        },
        waiting_nak: WaitingNak {
            nak: (nak != 0).then_some(Nak {
                psn: (nak & PSN_MASK) as u32,
                syndrome: (nak >> PSN_BITS) as u8 & 0x7f,
            }),
            is_sent: nak >> 31 != 0,
        },
        selective_nak: SelectiveNak::of(losses.collect()),
        source: (senders >> PSN_BITS != 0).then_some((senders >> PSN_BITS) as u32),
        sent: (senders & PSN_MASK) as u32,
        acked: of_paths(&name("sender.acked")),
        leaves: numbers.clone().map(leaf).collect(),
        filter: of_paths(FILTER),
        congested: numbers.clone().map(congested).collect(),
        most_congested: (worst != 0).then(|| {
            let congested = PathCongestion {
                window: since(worst >> 16, 0xffff),
                cnps: worst as u8,
            };
            ((worst >> 8) as u8 as usize, congested)
        }),
    };
    let mut exits = PortMap::new();
    for path in &entries.paths {
        if let Some(delivery) = &path.delivery {
            exits.add(path.port, exit(switch, delivery));
        }
    }
    let model = Group::restore(config, &ports, kept);
    FastGroup::new(entries, model, exits)
}

/// Reads how packets are rewritten for one receiver, with the memory region that the sender has announced.
pub(super) fn exit(switch: &Switch, delivery: &Delivery) -> BridgeExit {
    let slot = u64::from(delivery.slot);
    let region = |part: &str| read(switch, &format!("egress.memory_regions.{part}"), slot);
    let neutral = region("neutral");
    BridgeExit {
        delivery: *delivery,
        region: Region {
            va: region("va"),
            rkey: region("rkey") as u32,
            identification: (neutral >> 16) as u16,
            source_port: neutral as u16,
        },
    }
}

/// Writes a group's state to the registers, and adds its work to the counters.
pub(super) fn store(switch: &mut Switch, paths: u32, index: u16, group: FastGroup) {
    let model = group.into_model();
    let kept = model.saved_registers();
    let cell = u64::from(index);
    let last_acked =
        u64::from(kept.last_acked.point.psn) << PSN_BITS | u64::from(kept.last_acked.point.msn);
    write(switch, &name("agg"), cell, last_acked);
    let base = kept.last_acked.msn_base;
    write(switch, &name("last_acked.msn_bases"), cell, base.into());
    let nak = kept.waiting_nak;
    let nak = nak.nak.map_or(0, |nak| {
        u64::from(nak.syndrome) << PSN_BITS | u64::from(nak.psn)
    }) | u64::from(nak.is_sent) << 31;
    write(switch, &name("waiting_nak.nak"), cell, nak);
    let losses = kept.selective_nak.slots();
    for (slot, loss) in losses.iter().enumerate() {
        let at = cell * losses.len() as u64 + slot as u64;
        let loss = u64::from(loss.psn) << 8 | u64::from(loss.reports);
        write(switch, &name(LOSSES), at, loss);
    }
    let source = u64::from(kept.source.unwrap_or(0));
    let senders = source << PSN_BITS | u64::from(kept.sent);
    write(switch, &name("sender.senders"), cell, senders);
    let worst = kept.most_congested.map_or(0, |(path, congested)| {
        (congested.window & 0xffff) << 16 | (path as u64) << 8 | u64::from(congested.cnps)
    });
    write(switch, &name("cnp_filter.worst"), cell, worst);
    for (path, leaf) in kept.leaves.iter().enumerate() {
        let at = slot(paths, index, path);
        let child = name(&format!("leaves.child_{}", path % 4));
        let word = word_bits(leaf.newest.psn, leaf.by_sender, path, leaf.newest.msn);
        write(switch, &child, at / 4, word);
        write(switch, &name("sender.acked"), at, kept.acked[path].into());
        write(switch, FILTER, at, kept.filter[path].into());
        let congested = kept.congested[path];
        let cnps = (congested.window & CNP_WINDOWS) << CNP_BITS | u64::from(congested.cnps);
        write(switch, &name("cnp_filter.paths"), at, cnps);
    }
    store_tree(switch, paths, index, &model);
    let work = model.work;
    for (at, count) in [
        work.feedback,
        work.forwarded,
        work.recirculations,
        work.punts,
    ]
    .into_iter()
    .enumerate()
    {
        // The counters of the strategy `tree` are the first.
        count_packets(switch, &name("work"), at as u64, count);
    }
}

/// Writes the levels of the tree above the leaves: each child has the oldest PSN of its paths.
fn store_tree(switch: &mut Switch, paths: u32, index: u16, model: &Group) {
    let path_bits = paths.trailing_zeros();
    let count = model.ports().len();
    for level in (1u32..).take_while(|level| path_bits > 2 * level) {
        let node_bits = path_bits.saturating_sub(2 * level + 2);
        for first in (0..count).step_by(1 << (2 * level)) {
            let below = first..count.min(first + (1 << (2 * level)));
            let Some(oldest) = model.leaves.oldest(Space::PSN, below, None) else {
                continue;
            };
            let child = (first >> (2 * level)) & 3;
            let register = name(&format!("tree.level_{level}.child_{child}"));
            let node = u64::from(index) << node_bits | (first >> (2 * level + 2)) as u64;
            let PathPsn {
                psn,
                by_sender,
                path,
            } = oldest;
            let msn = model.leaves.msn(path);
            write(
                switch,
                &register,
                node,
                word_bits(psn, by_sender, path, msn),
            );
        }
    }
}

/// Applies the retransmission filter to a packet of a group whose state is in the registers. Returns whether the packet
/// leaves.
pub(super) fn filter(switch: &mut Switch, paths: u32, group: u16, queued: QueuedPacket) -> bool {
    let precedes = |a: u64, b: u32| Space::PSN.lt(a as u32, b);
    match queued {
        QueuedPacket::Copy {
            path,
            psn,
            is_retransmission,
        } => !is_retransmission || precedes(read(switch, FILTER, slot(paths, group, path)), psn),
        QueuedPacket::UpdateFilter { path, acked } => {
            let at = slot(paths, group, path);
            if precedes(read(switch, FILTER, at), acked) {
                write(switch, FILTER, at, acked.into());
            }
            false
        }
        QueuedPacket::Transmit(_) => true,
        QueuedPacket::Drop | QueuedPacket::Punt { .. } | QueuedPacket::Recirculate { .. } => false,
    }
}

pub(super) fn count_drops(switch: &mut Switch, reason: Drop, count: u64) {
    let array = match reason {
        Drop::AlreadyAcked => "egress.drops",
        _ => "ingress.drops",
    };
    count_packets(switch, array, reason as u64, count);
}

fn count_packets(switch: &mut Switch, array: &str, at: u64, count: u64) {
    let Ok(counted) = switch.read_counter(array, at) else {
        return;
    };
    let counter = Counter {
        packets: counted.packets + count,
        ..counted
    };
    let written = switch.write_counter(array, at, counter);
    debug_assert!(written.is_ok(), "{array}: {written:?}");
}
