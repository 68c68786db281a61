//! Thrift requests about ports.

use alfirk_thrift::standard::*;

use super::id;
use crate::thrift::runtime::{Ports, Runtime};

impl<P: Ports> PortCalls for Runtime<'_, P> {
    fn bm_dev_mgr_add_port(
        &mut self,
        interface: String,
        port: i32,
        pcap_path: String,
    ) -> Result<(), InvalidDevMgrOperation> {
        let added = self.ports.add(&interface, id(port), &pcap_path);
        added.map_err(|error| {
            tracing::error!("bm_dev_mgr_add_port: {port}@{interface}: {error}");
            DevMgrErrorCode::Error.into()
        })
    }

    fn bm_dev_mgr_remove_port(&mut self, port: i32) -> Result<(), InvalidDevMgrOperation> {
        match self.ports.remove(id(port)) {
            true => Ok(()),
            false => Err(DevMgrErrorCode::Error.into()),
        }
    }

    fn bm_dev_mgr_show_ports(&mut self) -> Result<Vec<DevMgrPortInfo>, InvalidDevMgrOperation> {
        Ok(self.ports.list())
    }
}
