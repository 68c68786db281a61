//! The enum `HashAlgorithm`.

use crate::diag::{Code, Span};
use crate::ir::Algorithm;
use crate::passes::externs::call::ExternArg;
use crate::passes::externs::{enum_argument, Lowering};

impl Lowering<'_> {
    /// The algorithm that the argument for the parameter `wanted` names. Reports an argument that is not constant.
    pub fn algorithm(&mut self, args: &[ExternArg], wanted: &str, span: Span) -> Algorithm {
        let known = enum_argument(self, args, wanted).and_then(|name| algorithm_named(&name));
        known.unwrap_or_else(|| {
            self.error(
                Code::NOT_CONSTANT,
                span,
                "the algorithm must be a member of HashAlgorithm known at compile time",
            );
            Algorithm::Crc16
        })
    }
}

/// The algorithm of a member of `HashAlgorithm`; `None` for an unknown name.
pub fn algorithm_named(name: &str) -> Option<Algorithm> {
    Some(match name {
        "crc32" => Algorithm::Crc32,
        "crc32_custom" => Algorithm::Crc32Custom,
        "crc16" => Algorithm::Crc16,
        "crc16_custom" => Algorithm::Crc16Custom,
        "random" => Algorithm::Random,
        "identity" => Algorithm::Identity,
        "csum16" => Algorithm::Csum16,
        "xor16" => Algorithm::Xor16,
        _ => return None,
    })
}
