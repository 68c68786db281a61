//! Reads the state of a group from the registers of the compiled pipelines, and writes it back.
//!
//! A *path* of a group is a port of the switch that leads to members. The registers hold, for each path, the newest PSN
//! and MSN that it has acknowledged; see [`alfirk_aggregation`].

use alfirk_aggregation::{
    Config, Group, LastAcked, Leaf, Nak, PathCongestion, PathPsn, Point, QueuedPacket,
    ReportedLoss, SavedRegisters, SelectiveNak, Space, Strategy, WaitingNak,
};
use alfirk_bmv2::{Counter, Switch};
use alfirk_contract::{Drop, PATH_OF_SENDER};
use alfirk_ctrl::tables::ReceiverRewrite;

use super::fast_group::{BridgeExit, FastGroup, GroupEntries, Region};
use crate::engine::PortMap;

/// Number of bits of a PSN or an MSN.
const PSN_BITS: u32 = 24;
const PSN_MASK: u64 = (1 << PSN_BITS) - 1;
/// Width in bits of a path's CNP count in its register cell. The count is in the low bits; above it is the number of
/// the time window in which the last CNP arrived.
const CNP_BITS: u32 = 6;
/// Mask of the window number in a path's register cell, once the cell is shifted right by the CNP count's width.
const CNP_WINDOWS: u64 = (1 << 10) - 1;

fn register_name(part: &str) -> String {
    format!("ingress.ack_aggregate.{part}")
}

/// Name of the register that holds losses reported by selective NAKs; [`register_name`] adds the prefix.
const LOSSES: &str = "selective_nak.losses";
const FILTER: &str = "egress.retransmission_filter.acked";

/// Reads a register cell. The register always exists, because the controller has accepted the program.
fn read(switch: &Switch, register: &str, index: u64) -> u64 {
    let bytes = switch.read_register(register, index);
    let bytes = bytes.unwrap_or_default();
    bytes.iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
}

fn write(switch: &mut Switch, register: &str, index: u64, value: u64) {
    let written = switch.write_register(register, index, &value.to_be_bytes());
    debug_assert!(written.is_ok(), "{register}: {written:?}");
}

/// Whether packets of a group carry VLAN tags (`source_tags.p4`). The fast data plane does not support tags.
pub(super) fn has_tags(switch: &Switch, group: u16) -> bool {
    let tags = switch.read_register(&register_name("source_tags.tags"), group.into());
    tags.is_ok_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// Index of the cell of a group's path, in registers that have one cell per group and path.
fn path_cell(paths: u32, group: u16, path: usize) -> u64 {
    u64::from(group) * u64::from(paths) + path as u64
}

/// Register value of a path's last acknowledgement: PSN (24 bits), path number (8 bits), lower half of the MSN (16
/// bits); see `types.p4`. If `by_sender`, [`PATH_OF_SENDER`] replaces the path number.
fn ack_register_value(psn: u32, by_sender: bool, path: usize, msn: u32) -> u64 {
    let path = match by_sender {
        true => u64::from(PATH_OF_SENDER),
        false => path as u64,
    };
    u64::from(psn) << 24 | path << 16 | u64::from(msn & 0xffff)
}

/// Reads the state of a group from the registers. `now`: time in microseconds.
pub(super) fn load(
    switch: &Switch,
    paths: u32,
    index: u16,
    entries: GroupEntries,
    now: u64,
) -> FastGroup {
    let group = u64::from(index);
    let last_acked = read(switch, &register_name("agg"), group);
    let last_acked = Point {
        psn: (last_acked >> PSN_BITS) as u32,
        msn: (last_acked & PSN_MASK) as u32,
    };
    let nak = read(switch, &register_name("waiting_nak.nak"), group);
    let senders = read(switch, &register_name("sender.senders"), group);
    let worst = read(switch, &register_name("cnp_filter.worst"), group);
    let ports: Vec<u32> = entries.paths.iter().map(|path| path.port).collect();
    let numbers = 0..ports.len();
    let of_paths = |register: &str| -> Vec<u32> {
        let cell = |path| read(switch, register, path_cell(paths, index, path)) as u32;
        numbers.clone().map(cell).collect()
    };
    let leaf = |path: usize| {
        let child = register_name(&format!("leaves.child_{}", path % 4));
        let word = read(switch, &child, path_cell(paths, index, path) / 4);
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
        let cell = read(
            switch,
            &register_name("cnp_filter.paths"),
            path_cell(paths, index, path),
        );
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
    let losses = (0..config.loss_slots).map(|slot| {
        let cell = group * config.loss_slots as u64 + slot as u64;
        let loss = read(switch, &register_name(LOSSES), cell);
        ReportedLoss {
            psn: (loss >> 8) as u32,
            reports: loss as u8,
        }
    });
    let kept = SavedRegisters {
        last_acked: LastAcked {
            point: last_acked,
            msn_base: read(switch, &register_name("last_acked.msn_bases"), group) as u32,
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
        acked: of_paths(&register_name("sender.acked")),
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

/// Reads the rewrite for one receiver, with the memory region that the sender has announced.
pub(super) fn exit(switch: &Switch, delivery: &ReceiverRewrite) -> BridgeExit {
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

/// Writes the state of a group to the registers, and adds its work to the counters.
pub(super) fn store(switch: &mut Switch, paths: u32, index: u16, group: FastGroup) {
    let (model, work) = group.into_parts();
    let kept = model.saved_registers();
    let cell = u64::from(index);
    let last_acked =
        u64::from(kept.last_acked.point.psn) << PSN_BITS | u64::from(kept.last_acked.point.msn);
    write(switch, &register_name("agg"), cell, last_acked);
    let base = kept.last_acked.msn_base;
    write(
        switch,
        &register_name("last_acked.msn_bases"),
        cell,
        base.into(),
    );
    let nak = kept.waiting_nak;
    let nak = nak.nak.map_or(0, |nak| {
        u64::from(nak.syndrome) << PSN_BITS | u64::from(nak.psn)
    }) | u64::from(nak.is_sent) << 31;
    write(switch, &register_name("waiting_nak.nak"), cell, nak);
    let losses = kept.selective_nak.slots();
    for (slot, loss) in losses.iter().enumerate() {
        let at = cell * losses.len() as u64 + slot as u64;
        let loss = u64::from(loss.psn) << 8 | u64::from(loss.reports);
        write(switch, &register_name(LOSSES), at, loss);
    }
    let source = u64::from(kept.source.unwrap_or(0));
    let senders = source << PSN_BITS | u64::from(kept.sent);
    write(switch, &register_name("sender.senders"), cell, senders);
    let worst = kept.most_congested.map_or(0, |(path, congested)| {
        (congested.window & 0xffff) << 16 | (path as u64) << 8 | u64::from(congested.cnps)
    });
    write(switch, &register_name("cnp_filter.worst"), cell, worst);
    for (path, leaf) in kept.leaves.iter().enumerate() {
        let at = path_cell(paths, index, path);
        let child = register_name(&format!("leaves.child_{}", path % 4));
        let word = ack_register_value(leaf.newest.psn, leaf.by_sender, path, leaf.newest.msn);
        write(switch, &child, at / 4, word);
        write(
            switch,
            &register_name("sender.acked"),
            at,
            kept.acked[path].into(),
        );
        write(switch, FILTER, at, kept.filter[path].into());
        let congested = kept.congested[path];
        let cnps = (congested.window & CNP_WINDOWS) << CNP_BITS | u64::from(congested.cnps);
        write(switch, &register_name("cnp_filter.paths"), at, cnps);
    }
    store_tree(switch, paths, index, &model);
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
        count_packets(switch, &register_name("work"), at as u64, count);
    }
}

/// Writes the inner levels of the group's minimum tree. Each inner node holds the oldest PSN of the paths below it.
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
            let register = register_name(&format!("min_psn.tree.level_{level}.child_{child}"));
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
                ack_register_value(psn, by_sender, path, msn),
            );
        }
    }
}

/// Applies the retransmission filter to a packet of a group whose state is in the registers. Returns whether the packet
/// leaves the switch.
pub(super) fn filter(switch: &mut Switch, paths: u32, group: u16, queued: QueuedPacket) -> bool {
    let precedes = |a: u64, b: u32| Space::PSN.lt(a as u32, b);
    match queued {
        QueuedPacket::Copy {
            path,
            psn,
            is_retransmission,
        } => {
            !is_retransmission || precedes(read(switch, FILTER, path_cell(paths, group, path)), psn)
        }
        QueuedPacket::UpdateFilter { path, acked } => {
            let at = path_cell(paths, group, path);
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
