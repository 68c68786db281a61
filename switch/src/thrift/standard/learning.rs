//! Thrift requests about learn lists (digests): their buffers, and acknowledgements of clients.

use alfirk_thrift::standard::*;

use super::id;
use crate::thrift::runtime::{Ports, Runtime};

impl<P: Ports> Runtime<'_, P> {
    pub(super) fn learn_list(&self, list: i32) -> Result<u32, InvalidLearnOperation> {
        match self.switch().learn_list(id(list)) {
            Some(_) => Ok(id(list)),
            None => Err(LearnOperationErrorCode::InvalidListId.into()),
        }
    }
}

impl<P: Ports> LearningCalls for Runtime<'_, P> {
    fn bm_learning_ack(
        &mut self,
        _: i32,
        list: i32,
        buffer: i64,
        samples: Vec<i32>,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        let samples = samples.iter().filter_map(|s| usize::try_from(*s).ok());
        let samples: Vec<usize> = samples.collect();
        self.server
            .acknowledge_digests(list, buffer as u64, Some(&samples));
        Ok(())
    }

    fn bm_learning_ack_buffer(
        &mut self,
        _: i32,
        list: i32,
        buffer: i64,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server.acknowledge_digests(list, buffer as u64, None);
        Ok(())
    }

    fn bm_learning_set_timeout(
        &mut self,
        _: i32,
        list: i32,
        timeout_ms: i32,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server
            .set_digest_timeout(list, i64::from(timeout_ms) * 1_000_000);
        Ok(())
    }

    fn bm_learning_set_buffer_size(
        &mut self,
        _: i32,
        list: i32,
        samples: i32,
    ) -> Result<(), InvalidLearnOperation> {
        let list = self.learn_list(list)?;
        self.server.set_digest_list_size(list, samples);
        Ok(())
    }
}
