//! Conversion of the switch's errors to BMv2's Thrift error codes.

use alfirk_thrift::{
    simple_pre_lag::McOperationErrorCode as Mc,
    standard::{
        CounterOperationErrorCode as Counter, InvalidCounterOperation, InvalidMeterOperation,
        InvalidParseVSetOperation, InvalidRegisterOperation, InvalidTableOperation,
        MeterOperationErrorCode as Meter, ParseVSetOperationErrorCode as ValueSet,
        RegisterOperationErrorCode as Register, TableOperationErrorCode as Table,
    },
};

use alfirk_bmv2::{ManageError as E, PreError};

/// Converts errors about tables and action profiles.
pub fn table(error: E) -> InvalidTableOperation {
    let code = match &error {
        E::NoProgram => Table::InvalidTableName,
        E::Unknown { what, .. } if *what == "action profile" => Table::InvalidActionProfileName,
        E::Unknown { what, .. } if *what == "action" => Table::InvalidActionName,
        E::Unknown { .. } => Table::InvalidTableName,
        E::ConstEntries { .. } | E::ConstEntry { .. } => Table::ImmutableTableEntries,
        E::NoKey { .. } => Table::NoTableKey,
        E::ConstDefault { .. } => Table::DefaultEntryIsConst,
        E::TableFull { .. }
        | E::ProfileFull { .. }
        | E::SelectorFull { .. }
        | E::GroupFull { .. } => Table::TableFull,
        E::EntryExists { .. } => Table::DuplicateEntry,
        E::NoEntry { .. } => Table::InvalidHandle,
        E::StaleEntry { .. } => Table::ExpiredHandle,
        E::KeyCount { .. } | E::Key { .. } => Table::BadMatchKey,
        E::ActionNotInTable { .. } => Table::InvalidActionName,
        E::ArgCount { .. } | E::ArgTooWide { .. } => Table::BadActionData,
        E::WrongTarget { .. } => Table::WrongTableType,
        E::NoSuchResource { what, .. } => match *what {
            "direct counter" => Table::CountersDisabled,
            "direct meter" => Table::MetersDisabled,
            _ => Table::AgeingDisabled,
        },
        E::NoMember { .. } => Table::InvalidMbrHandle,
        E::MemberInUse { .. } => Table::MbrStillUsed,
        E::NoGroup { .. } => Table::InvalidGrpHandle,
        E::GroupInUse { .. } => Table::GrpStillUsed,
        E::NoSelector { .. } => Table::NoActionProfileSelection,
        _ => Table::Error,
    };
    code.into()
}

/// Converts errors about counter arrays.
pub fn counter(error: E) -> InvalidCounterOperation {
    let code = match &error {
        E::NoProgram | E::Unknown { .. } => Counter::InvalidCounterName,
        E::IndexOutOfRange { .. } => Counter::InvalidIndex,
        _ => Counter::Error,
    };
    code.into()
}

/// Converts errors about meter arrays.
pub fn meter(error: E) -> InvalidMeterOperation {
    let code = match &error {
        E::NoProgram | E::Unknown { .. } => Meter::InvalidMeterName,
        E::IndexOutOfRange { .. } => Meter::InvalidIndex,
        E::MeterRates { .. } => Meter::InvalidInfoRateValue,
        _ => Meter::Error,
    };
    code.into()
}

/// Converts errors about register arrays.
pub fn register(error: E) -> InvalidRegisterOperation {
    let code = match &error {
        E::NoProgram | E::Unknown { .. } => Register::InvalidRegisterName,
        E::IndexOutOfRange { .. } => Register::InvalidIndex,
        _ => Register::Error,
    };
    code.into()
}

/// Converts errors about parser value sets.
pub fn value_set(error: E) -> InvalidParseVSetOperation {
    let code = match &error {
        E::NoProgram | E::Unknown { .. } => ValueSet::InvalidParseVsetName,
        _ => ValueSet::Error,
    };
    code.into()
}

/// Converts errors about multicast groups.
pub fn multicast(error: E) -> Mc {
    match error {
        E::Pre(PreError::NoNode(_)) => Mc::InvalidL1Handle,
        E::Pre(PreError::Full { .. }) => Mc::TableFull,
        E::Pre(PreError::NoGroup(_)) => Mc::InvalidMgrpHandle,
        _ => Mc::Error,
    }
}
