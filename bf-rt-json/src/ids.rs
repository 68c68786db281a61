//! Ids of the schema: prefixes of the kinds of objects, and ids of fields that are not declared in a program.

/// Highest byte of the id of an extern object, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Prefix {
    ActionProfile = 0x81,
    ActionSelector = 0x82,
    Counter = 0x83,
    DirectCounter = 0x84,
    Meter = 0x85,
    DirectMeter = 0x86,
    Wred = 0x87,
    Lpf = 0x89,
    Register = 0x8b,
    DirectRegister = 0x8c,
    RegisterParam = 0x8d,
    Digest = 0x8e,
    PortMetadata = 0x90,
    DebugCounter = 0x99,
    SelectorGetMember = 0x9a,
    ValueSet = 0xfe,
}

impl Prefix {
    /// The id `id` with this prefix in place of its own.
    pub fn of(self, id: u32) -> u32 {
        (id & 0x00ff_ffff) | (u32::from(self as u8) << 24)
    }
}

/// First id of fields that are not declared in a program.
const FIXED: u32 = 1 << 16;
/// First id of fields that only Tofino has.
const TOFINO: u32 = FIXED + 22;

/// Key field `$MATCH_PRIORITY`.
pub const MATCH_PRIORITY: u32 = FIXED + 1;
/// Data field `$ACTION_MEMBER_ID`, and the key of an action profile.
pub const ACTION_MEMBER_ID: u32 = FIXED + 3;
/// Data field `$SELECTOR_GROUP_ID`, and the key of an action selector.
pub const SELECTOR_GROUP_ID: u32 = FIXED + 4;
/// Data field `$ENTRY_TTL`.
pub const ENTRY_TTL: u32 = FIXED + 7;
/// Data field `$ENTRY_HIT_STATE`.
pub const ENTRY_HIT_STATE: u32 = FIXED + 8;
/// Data field `$METER_SPEC_CIR_KBPS`.
pub const METER_CIR_KBPS: u32 = FIXED + 9;
/// Data field `$METER_SPEC_PIR_KBPS`.
pub const METER_PIR_KBPS: u32 = FIXED + 10;
/// Data field `$METER_SPEC_CBS_KBITS`.
pub const METER_CBS_KBITS: u32 = FIXED + 11;
/// Data field `$METER_SPEC_PBS_KBITS`.
pub const METER_PBS_KBITS: u32 = FIXED + 12;
/// Data field `$METER_SPEC_CIR_PPS`.
pub const METER_CIR_PPS: u32 = FIXED + 13;
/// Data field `$METER_SPEC_PIR_PPS`.
pub const METER_PIR_PPS: u32 = FIXED + 14;
/// Data field `$METER_SPEC_CBS_PKTS`.
pub const METER_CBS_PKTS: u32 = FIXED + 15;
/// Data field `$METER_SPEC_PBS_PKTS`.
pub const METER_PBS_PKTS: u32 = FIXED + 16;
/// Data field `$COUNTER_SPEC_BYTES`.
pub const COUNTER_BYTES: u32 = FIXED + 17;
/// Data field `$COUNTER_SPEC_PKTS`.
pub const COUNTER_PKTS: u32 = FIXED + 18;
/// Key field `$METER_INDEX`.
pub const METER_INDEX: u32 = FIXED + 19;
/// Key field `$COUNTER_INDEX`.
pub const COUNTER_INDEX: u32 = FIXED + 20;
/// Key field `$REGISTER_INDEX`.
pub const REGISTER_INDEX: u32 = FIXED + 21;
/// Key field `$LPF_INDEX`.
pub const LPF_INDEX: u32 = TOFINO + 2;
/// Key field `$WRED_INDEX`.
pub const WRED_INDEX: u32 = TOFINO + 3;
/// Data field `$ACTION_MEMBER_ID` of [`TableType::SelectorGetMember`](crate::TableType::SelectorGetMember).
pub const GET_MEMBER_MEMBER: u32 = TOFINO + 4;
/// Key field `$SELECTOR_GROUP_ID` of [`TableType::SelectorGetMember`](crate::TableType::SelectorGetMember).
pub const GET_MEMBER_GROUP: u32 = TOFINO + 5;
/// Data field `$ACTION_MEMBER_STATUS`.
pub const ACTION_MEMBER_STATUS: u32 = TOFINO + 6;
/// Data field `$MAX_GROUP_SIZE`.
pub const MAX_GROUP_SIZE: u32 = TOFINO + 7;
/// Data field `$ADT_OFFSET`.
pub const ADT_OFFSET: u32 = TOFINO + 8;
/// Data field `$LPF_SPEC_TYPE`.
pub const LPF_TYPE: u32 = TOFINO + 9;
/// Data field `$LPF_SPEC_GAIN_TIME_CONSTANT_NS`.
pub const LPF_GAIN: u32 = TOFINO + 10;
/// Data field `$LPF_SPEC_DECAY_TIME_CONSTANT_NS`.
pub const LPF_DECAY: u32 = TOFINO + 11;
/// Data field `$LPF_SPEC_OUT_SCALE_DOWN_FACTOR`.
pub const LPF_SCALE: u32 = TOFINO + 12;
/// Data field `$WRED_SPEC_TIME_CONSTANT_NS`.
pub const WRED_TIME: u32 = TOFINO + 13;
/// Data field `$WRED_SPEC_MIN_THRESH_CELLS`.
pub const WRED_MIN: u32 = TOFINO + 14;
/// Data field `$WRED_SPEC_MAX_THRESH_CELLS`.
pub const WRED_MAX: u32 = TOFINO + 15;
/// Data field `$WRED_SPEC_MAX_PROBABILITY`.
pub const WRED_PROBABILITY: u32 = TOFINO + 16;
/// Key field with the port, of [`TableType::PortMetadata`](crate::TableType::PortMetadata).
pub const PORT_METADATA_PORT: u32 = TOFINO + 17;
/// Data field `$DEFAULT_FIELD` of [`TableType::PortMetadata`](crate::TableType::PortMetadata).
pub const PORT_METADATA_DEFAULT: u32 = TOFINO + 18;
/// Key field `hash_value` of [`TableType::SelectorGetMember`](crate::TableType::SelectorGetMember).
pub const HASH_VALUE: u32 = TOFINO + 25;
/// Key field `tbl_name` of [`TableType::TblDbgCnt`](crate::TableType::TblDbgCnt).
pub const DEBUG_COUNTER_TABLE: u32 = TOFINO + 68;
/// Data field `type` of [`TableType::TblDbgCnt`](crate::TableType::TblDbgCnt).
pub const DEBUG_COUNTER_TYPE: u32 = TOFINO + 69;
/// Data field `value` of [`TableType::TblDbgCnt`](crate::TableType::TblDbgCnt).
pub const DEBUG_COUNTER_VALUE: u32 = TOFINO + 70;
