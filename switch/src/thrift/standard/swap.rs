//! Thrift requests that load a program beside the running one, and swap it in.

use std::sync::Arc;

use alfirk_thrift::standard::*;

use crate::thrift::runtime::{Ports, Runtime};
use alfirk_bmv2::LoadedProgram;

impl<P: Ports> Runtime<'_, P> {
    /// Loads a program beside the running program. Later requests refer to the new program.
    pub(in super::super) fn load_beside(
        &mut self,
        program: Arc<LoadedProgram>,
        text: Arc<str>,
    ) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        if !self.server.load_beside(program) {
            return Err(SwapOperationErrorCode::OngoingSwap.into());
        }
        *self.config = Some(text);
        Ok(())
    }

    /// Fails if the switch does not allow Thrift clients to replace its program.
    pub(in super::super) fn check_swap(&self) -> Result<(), InvalidSwapOperation> {
        match self.settings.may_swap {
            true => Ok(()),
            false => Err(SwapOperationErrorCode::ConfigSwapDisabled.into()),
        }
    }
}

impl<P: Ports> SwapCalls for Runtime<'_, P> {
    fn bm_load_new_config(&mut self, config: String) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        match LoadedProgram::from_json(&config) {
            Ok(program) => self.load_beside(Arc::new(program), config.into()),
            Err(error) => {
                tracing::error!("bm_load_new_config: {error}");
                Err(SwapOperationErrorCode::NoOngoingSwap.into())
            }
        }
    }

    fn bm_swap_configs(&mut self) -> Result<(), InvalidSwapOperation> {
        self.check_swap()?;
        match self.server.swap() {
            true => Ok(()),
            false => Err(SwapOperationErrorCode::NoOngoingSwap.into()),
        }
    }
}
