//! Control plane requests for objects that only the model of Tofino has.

use std::collections::BTreeMap;

use super::ManageError;
use crate::switch::Switch;

impl Switch {
    /// Returns the port metadata by port number, in bytes: what `port_metadata_unpack` reads for a packet that the port
    /// receives. A port that is absent has zeros.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn port_metadata(&self) -> Result<&BTreeMap<u32, Vec<u8>>, ManageError> {
        Ok(&self.parts()?.1.port_metadata)
    }

    /// Returns the port to which packets are copied for the CPU (`copy_to_cpu`), if the control plane has set one. Else it
    /// is the CPU port of the options.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn copy_to_cpu_port(&self) -> Result<Option<u32>, ManageError> {
        Ok(self.parts()?.1.copy_to_cpu_port)
    }

    /// Sets the port to which packets are copied for the CPU; `None` for that of the options.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn set_copy_to_cpu_port(&mut self, port: Option<u32>) -> Result<(), ManageError> {
        self.parts_mut()?.1.copy_to_cpu_port = port;
        Ok(())
    }

    /// Sets the metadata of a port; `None` removes it. Bytes beyond the architecture's size of port metadata have no
    /// effect, and missing ones are zeros.
    ///
    /// # Errors
    /// When no program is loaded.
    pub fn set_port_metadata(
        &mut self,
        port: u32,
        bytes: Option<Vec<u8>>,
    ) -> Result<(), ManageError> {
        let (_, state) = self.parts_mut()?;
        match bytes {
            Some(bytes) => state.port_metadata.insert(port, bytes),
            None => state.port_metadata.remove(&port),
        };
        Ok(())
    }
}
