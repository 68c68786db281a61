//! The services "simple_pre" and "simple_pre_lag": multicast groups with and without link aggregation, on the same
//! state.

use alfirk_thrift::{
    simple_pre::{self, InvalidMcOperation as Refusal},
    simple_pre_lag::{self, InvalidMcOperation as LagRefusal, McOperationErrorCode as Code},
};
use serde_json::json;

use super::{
    codes,
    runtime::{Ports, Runtime},
};
use alfirk_bmv2::{NodeHandle, Pre, PreError};

/// Maximum number of digits of a port map or of a map of link aggregation groups, as in BMv2.
const MAP_SIZE: usize = 512;
/// Highest number of a link aggregation group.
const MAX_LAG: i16 = 256;

/// Parses a map of binary digits to the numbers whose digit is 1. The last digit belongs to number 0.
fn port_map(digits: &str) -> Result<Vec<u32>, Code> {
    let mut numbers = Vec::new();
    for (number, digit) in digits.bytes().rev().enumerate() {
        match digit {
            b'0' => {}
            b'1' if number < MAP_SIZE => numbers.push(number as u32),
            _ => return Err(Code::Error),
        }
    }
    Ok(numbers)
}

impl<P: Ports> Runtime<'_, P> {
    /// Changes the packet replication engine of the switch.
    fn change_pre<R>(
        &mut self,
        change: impl FnOnce(&mut Pre) -> Result<R, PreError>,
    ) -> Result<R, Code> {
        let mut switch = self.switch_mut();
        let pre = switch.pre_mut().map_err(codes::multicast)?;
        change(pre).map_err(|error| codes::multicast(error.into()))
    }

    fn create_mgrp(&mut self, group: i32) -> Result<i32, Code> {
        self.change_pre(|pre| match pre.create_group(group as u32) {
            // Creating an existing group succeeds, as in BMv2.
            Ok(()) | Err(PreError::GroupExists(_)) => Ok(group),
            Err(error) => Err(error),
        })
    }

    fn destroy_mgrp(&mut self, group: i32) -> Result<(), Code> {
        self.change_pre(|pre| match pre.delete_group(group as u32) {
            // Deleting a missing group succeeds, as in BMv2.
            Ok(()) | Err(PreError::NoGroup(_)) => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn create_node(&mut self, rid: i32, ports: &str, lags: &str) -> Result<i32, Code> {
        let (ports, lags) = (port_map(ports)?, lag_map(lags)?);
        // The rid has 16 bits in programs.
        let node = self.change_pre(|pre| pre.create_node(rid as u16, &ports, &lags))?;
        Ok(node.0 as i32)
    }

    fn associate_node(&mut self, group: i32, node: i32) -> Result<(), Code> {
        self.change_pre(|pre| pre.associate(group as u32, NodeHandle(node as u32)))
    }

    fn dissociate_node(&mut self, group: i32, node: i32) -> Result<(), Code> {
        self.change_pre(|pre| pre.dissociate(group as u32, NodeHandle(node as u32)))
    }

    fn destroy_node(&mut self, node: i32) -> Result<(), Code> {
        self.change_pre(|pre| pre.delete_node(NodeHandle(node as u32)))
    }

    fn update_node(&mut self, node: i32, ports: &str, lags: &str) -> Result<(), Code> {
        let (ports, lags) = (port_map(ports)?, lag_map(lags)?);
        self.change_pre(|pre| pre.update_node(NodeHandle(node as u32), &ports, &lags))
    }

    fn set_lag(&mut self, lag: i16, ports: &str) -> Result<(), Code> {
        let ports = port_map(ports)?;
        let index = u16::try_from(lag).map_err(|_| Code::Error)?;
        if lag > MAX_LAG {
            return Err(Code::Error);
        }
        self.change_pre(|pre| {
            pre.set_lag(index, &ports);
            Ok(())
        })
    }

    /// Lists multicast groups, their nodes (l1), the nodes' ports (l2), and link aggregation groups, as JSON.
    fn multicast_entries(&self) -> Result<serde_json::Value, Code> {
        let pre = self.switch().pre().map_err(codes::multicast)?;
        let groups = pre.groups().into_iter().map(|group| {
            let nodes = pre.nodes_of(group).unwrap_or_default();
            let nodes: Vec<u32> = nodes.iter().map(|node| node.0).collect();
            json!({ "id": group, "l1_handles": nodes })
        });
        // Each node has one list of ports, with the node's number.
        let nodes = pre.nodes().map(
            |(handle, node)| json!({ "handle": handle.0, "rid": node.rid, "l2_handle": handle.0 }),
        );
        let lists = pre.nodes().map(
            |(handle, node)| json!({ "handle": handle.0, "ports": node.ports, "lags": node.lags }),
        );
        Ok(json!({
            "mgrps": groups.collect::<Vec<_>>(),
            "l1_handles": nodes.collect::<Vec<_>>(),
            "l2_handles": lists.collect::<Vec<_>>(),
        }))
    }
}

fn lag_map(digits: &str) -> Result<Vec<u16>, Code> {
    Ok(port_map(digits)?
        .into_iter()
        .map(|lag| lag as u16)
        .collect())
}

/// Converts an error code of the service "simple_pre_lag" to the equal code of "simple_pre".
fn without_lag(code: Code) -> Refusal {
    match code {
        Code::TableFull => simple_pre::McOperationErrorCode::TableFull,
        Code::InvalidMgid => simple_pre::McOperationErrorCode::InvalidMgid,
        Code::InvalidMgrpHandle => simple_pre::McOperationErrorCode::InvalidMgrpHandle,
        Code::InvalidL1Handle => simple_pre::McOperationErrorCode::InvalidL1Handle,
        Code::Error => simple_pre::McOperationErrorCode::Error,
    }
    .into()
}

impl<P: Ports> simple_pre_lag::Handler for Runtime<'_, P> {
    fn bm_mc_mgrp_create(&mut self, _: i32, group: i32) -> Result<i32, LagRefusal> {
        Ok(self.create_mgrp(group)?)
    }

    fn bm_mc_mgrp_destroy(&mut self, _: i32, group: i32) -> Result<(), LagRefusal> {
        Ok(self.destroy_mgrp(group)?)
    }

    fn bm_mc_node_create(
        &mut self,
        _: i32,
        rid: i32,
        ports: String,
        lags: String,
    ) -> Result<i32, LagRefusal> {
        Ok(self.create_node(rid, &ports, &lags)?)
    }

    fn bm_mc_node_associate(&mut self, _: i32, group: i32, node: i32) -> Result<(), LagRefusal> {
        Ok(self.associate_node(group, node)?)
    }

    fn bm_mc_node_dissociate(&mut self, _: i32, group: i32, node: i32) -> Result<(), LagRefusal> {
        Ok(self.dissociate_node(group, node)?)
    }

    fn bm_mc_node_destroy(&mut self, _: i32, node: i32) -> Result<(), LagRefusal> {
        Ok(self.destroy_node(node)?)
    }

    fn bm_mc_node_update(
        &mut self,
        _: i32,
        node: i32,
        ports: String,
        lags: String,
    ) -> Result<(), LagRefusal> {
        Ok(self.update_node(node, &ports, &lags)?)
    }

    fn bm_mc_set_lag_membership(
        &mut self,
        _: i32,
        lag: i16,
        ports: String,
    ) -> Result<(), LagRefusal> {
        Ok(self.set_lag(lag, &ports)?)
    }

    fn bm_mc_get_entries(&mut self, _: i32) -> Result<String, LagRefusal> {
        let mut entries = self.multicast_entries()?;
        let pre = self.switch().pre().map_err(codes::multicast)?;
        let lags = pre.lags();
        let lags: Vec<_> = lags
            .map(|(lag, ports)| json!({ "id": lag, "ports": ports }))
            .collect();
        entries["lags"] = lags.into();
        Ok(format!("{entries:#}"))
    }
}

impl<P: Ports> simple_pre::Handler for Runtime<'_, P> {
    fn bm_mc_mgrp_create(&mut self, _: i32, group: i32) -> Result<i32, Refusal> {
        self.create_mgrp(group).map_err(without_lag)
    }

    fn bm_mc_mgrp_destroy(&mut self, _: i32, group: i32) -> Result<(), Refusal> {
        self.destroy_mgrp(group).map_err(without_lag)
    }

    fn bm_mc_node_create(&mut self, _: i32, rid: i32, ports: String) -> Result<i32, Refusal> {
        self.create_node(rid, &ports, "").map_err(without_lag)
    }

    fn bm_mc_node_associate(&mut self, _: i32, group: i32, node: i32) -> Result<(), Refusal> {
        self.associate_node(group, node).map_err(without_lag)
    }

    fn bm_mc_node_dissociate(&mut self, _: i32, group: i32, node: i32) -> Result<(), Refusal> {
        self.dissociate_node(group, node).map_err(without_lag)
    }

    fn bm_mc_node_destroy(&mut self, _: i32, node: i32) -> Result<(), Refusal> {
        self.destroy_node(node).map_err(without_lag)
    }

    fn bm_mc_node_update(&mut self, _: i32, node: i32, ports: String) -> Result<(), Refusal> {
        self.update_node(node, &ports, "").map_err(without_lag)
    }

    fn bm_mc_get_entries(&mut self, _: i32) -> Result<String, Refusal> {
        let entries = self.multicast_entries().map_err(without_lag)?;
        Ok(format!("{entries:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_maps_are_parsed_from_the_right() {
        assert_eq!(port_map("10110").unwrap(), [1, 2, 4]);
        assert_eq!(port_map("").unwrap(), [0u32; 0]);
        assert_eq!(port_map(&format!("1{}", "0".repeat(511))).unwrap(), [511]);
        assert_eq!(port_map(&format!("1{}", "0".repeat(512))), Err(Code::Error));
        assert_eq!(port_map("2"), Err(Code::Error));
    }
}
