//! Translated types (`@p4runtime_translation`), whose values differ between the controller and the data plane
//! (P4Runtime, "User-defined types" and "PSA Metadata Translation").
//!
//! The controller's value is a string, or a number of another width. The specification leaves the mapping to the
//! target. Here it is, in order of precedence:
//!
//! 1. The mapping that the program defines (`@p4runtime_translation_mappings`).
//! 2. A number, or a string that is a decimal number, maps to itself, if it fits the type and is not in use for
//!    another value.
//! 3. Any other value gets the first free data plane value when it is first written. For strings, candidates count
//!    from 1, and 0 is last, since unset fields contain 0. For numbers, they count from the middle of the range up.
//!    This avoids small numbers, which map to themselves, and the largest, which often have a special meaning (CPU
//!    port, drop port).
//!
//! An allocated value stays allocated while an entry, a member or a value set uses it. When no free value is left,
//! all unused values are freed at once ([`collect`]).

pub mod collect;
mod mappings;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alfirk_p4runtime::bytestring::{self, BytestringError};
use alfirk_p4runtime::p4::config::v1::{
    p4_new_type_spec::Representation, p4_new_type_translation::SdnType, P4NamedType, P4TypeInfo,
};
use alfirk_p4runtime::{Code, Status};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;

pub use mappings::MappingError;

/// The translated types of a P4Info, by name.
pub type Translations = BTreeMap<String, Arc<Translation>>;

/// Maximum length of a controller's value that is a string, in bytes.
const MAX_STRING: usize = 4096;

/// Number of allocations before the first garbage collection.
const FIRST_LIMIT: usize = 4096;

/// Maximum width of automatically allocated data plane values, in bits. Values of wider types have leading zeros.
const MAX_ALLOCATED_BITS: usize = 127;

/// Form of a translated type's values in the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// UTF-8 strings.
    Strings,
    /// Numbers of this width, in bits.
    Bits(usize),
}

/// A translated type, with the mapping between the controller's values and the data plane's.
#[derive(Debug)]
pub struct Translation {
    name: String,
    form: Form,
    maps: Mutex<Maps>,
}

/// Mapping between controller's and data plane's values, in both directions. All values are in canonical form.
#[derive(Clone, Debug, Default)]
struct Maps {
    /// Width of data plane values in bits; `None` while no object with the type is known.
    bits: Option<usize>,
    to_data: FxHashMap<Vec<u8>, Vec<u8>>,
    to_controller: FxHashMap<Vec<u8>, Vec<u8>>,
    /// Data plane values of the mappings that the program defines. They are never freed.
    pinned: FxHashSet<Vec<u8>>,
    /// Number of candidates tried for allocation since the last collection.
    tried: u128,
    /// Maximum number of mappings. Beyond it, an allocation fails, which triggers a collection.
    limit: usize,
    /// Whether the allocation of a value has failed since the last collection.
    is_exhausted: bool,
}

/// Error of translating a value between controller and data plane.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranslationError {
    #[error("a value of type {0} must be UTF-8 text (@p4runtime_translation)")]
    NotText(String),
    #[error("a string of type {name} has {bytes} bytes; the limit is {MAX_STRING}")]
    TooLong { name: String, bytes: usize },
    /// A number that does not fit the width of the controller's values.
    #[error("{error} (type {name})")]
    Bytes {
        name: String,
        error: BytestringError,
    },
    #[error(
        "type {name} has no value {value} in the data plane: no entry has been written with it"
    )]
    Unknown { name: String, value: String },
    #[error("type {name} has no free value in the data plane for {value}: all {count} of bit<{bits}> are in use")]
    Exhausted {
        name: String,
        value: String,
        count: u128,
        bits: usize,
    },
    #[error(
        "the width of type {0} in the data plane is unknown: no object of the program has this type"
    )]
    NoWidth(String),
}

impl TranslationError {
    /// Converts the error to a status; `place` names the field of the request.
    pub fn at(&self, place: &str) -> Status {
        let code = match self {
            TranslationError::Unknown { .. } => Code::NotFound,
            TranslationError::Exhausted { .. } => Code::ResourceExhausted,
            TranslationError::NoWidth(_) => Code::Unimplemented,
            _ => Code::InvalidArgument,
        };
        Status::new(code, format!("{place}: {self}"))
    }
}

/// Purpose of a translation, which determines whether a data plane value may be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A write: allocates a data plane value if the controller's value has none.
    Write,
    /// A lookup: never allocates a value.
    Find,
}

/// Returns the translated types of a P4Info, by name.
///
/// # Errors
/// When a program's own mappings cannot be parsed or contradict each other.
pub fn of_types(types: &P4TypeInfo) -> Result<Translations, MappingError> {
    let mut translations = Translations::new();
    for (name, spec) in &types.new_types {
        let Some(Representation::TranslatedType(translated)) = &spec.representation else {
            continue;
        };
        let form = match translated.sdn_type {
            Some(SdnType::SdnBitwidth(bits)) => Form::Bits(usize::try_from(bits).unwrap_or(0)),
            _ => Form::Strings,
        };
        let translation = Translation::new(name.clone(), form);
        for annotation in &spec.annotations {
            for (controller, data) in mappings::parse(name, form, annotation)? {
                translation.pin(controller, data)?;
            }
        }
        translations.insert(name.clone(), Arc::new(translation));
    }
    Ok(translations)
}

/// Returns the translation of a type by its name in P4Info; `None` for a type that is not translated.
pub fn of_name(
    translations: &Translations,
    name: Option<&P4NamedType>,
) -> Option<Arc<Translation>> {
    translations.get(&name?.name).cloned()
}

impl Translation {
    fn new(name: String, form: Form) -> Translation {
        let maps = Maps {
            limit: FIRST_LIMIT,
            ..Maps::default()
        };
        Translation {
            name,
            form,
            maps: Mutex::new(maps),
        }
    }

    fn maps(&self) -> MutexGuard<'_, Maps> {
        // The maps stay consistent even if a thread panics while holding the lock.
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a mapping that the program defines.
    fn pin(&self, controller: Vec<u8>, data: Vec<u8>) -> Result<(), MappingError> {
        let mut maps = self.maps();
        if maps.to_data.contains_key(&controller) || maps.to_controller.contains_key(&data) {
            return Err(MappingError::Twice {
                name: self.name.clone(),
                value: self.text(&controller),
            });
        }
        maps.pinned.insert(data.clone());
        maps.join(controller, data);
        Ok(())
    }

    /// Returns the form of the controller's values.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the width of data plane values in bits, or that of the controller's values while the former is unknown.
    pub fn bits(&self) -> usize {
        match (self.maps().bits, self.form) {
            (Some(bits), _) | (None, Form::Bits(bits)) => bits,
            (None, Form::Strings) => 0,
        }
    }

    /// Returns whether the width of data plane values is known.
    pub fn has_width(&self) -> bool {
        self.maps().bits.is_some()
    }

    /// Sets the width of data plane values in bits, when an object with the type is found.
    pub fn set_width(&self, bits: usize) {
        let known = &mut self.maps().bits;
        *known = Some(known.map_or(bits, |known| known.min(bits)));
    }

    /// Returns whether every value maps to itself. This holds for numbers that fit the data plane's width `bits`.
    pub fn is_identity(&self, bits: usize) -> bool {
        matches!(self.form, Form::Bits(own) if own <= bits) && self.maps().pinned.is_empty()
    }

    /// Returns whether the mapping is the identity whatever is written, so that servers may share it. False while the width
    /// of data plane values is unknown.
    pub fn is_shareable(&self) -> bool {
        let bits = self.maps().bits;
        bits.is_some_and(|bits| self.is_identity(bits))
    }

    /// Returns the data plane's value for a controller's value.
    ///
    /// # Errors
    /// When the value is not of the type, or has no counterpart and none can be allocated.
    pub fn data_value(&self, value: &[u8], how: Use) -> Result<Vec<u8>, TranslationError> {
        let value = self.canonical(value)?;
        let mut maps = self.maps();
        if let Some(data) = maps.to_data.get(&value) {
            return Ok(data.clone());
        }
        let identity_value = self.identity_value(&maps, &value);
        match (identity_value, how) {
            (Some(data), Use::Find) => Ok(data),
            (None, Use::Find) => Err(TranslationError::Unknown {
                name: self.name.clone(),
                value: self.text(&value),
            }),
            (identity_value, Use::Write) => {
                let data = match identity_value {
                    Some(data) => data,
                    None => self.free_value(&mut maps, &value)?,
                };
                maps.join(value, data.clone());
                Ok(data)
            }
        }
    }

    /// Returns the controller's value for a data plane value.
    pub fn controller_value(&self, data: &[u8]) -> Vec<u8> {
        let data = bytestring::canonical(if data.is_empty() { &[0] } else { data });
        let mut maps = self.maps();
        if let Some(known) = maps.to_controller.get(data) {
            return known.clone();
        }
        let mut own = self.identity_name(data);
        if !maps.to_data.contains_key(&own) {
            return own;
        }
        // The program maps the controller value of the same number to another data plane value.
        while maps.to_data.contains_key(&own) {
            match self.form {
                Form::Strings => own.push(b'\''),
                Form::Bits(_) => own = successor(&own),
            }
        }
        maps.join(own.clone(), data.to_vec());
        own
    }

    /// Maps a data plane value that the program itself uses, so that it is not allocated for another controller's
    /// value.
    pub fn reserve(&self, data: &[u8]) {
        let own = self.controller_value(data);
        let data = bytestring::canonical(if data.is_empty() { &[0] } else { data });
        let mut maps = self.maps();
        if !maps.to_controller.contains_key(data) {
            maps.join(own, data.to_vec());
        }
    }

    /// Copies the mappings of another translation of the same type.
    pub fn adopt(&self, old: &Translation) {
        if (&self.name, self.form) != (&old.name, old.form) {
            return;
        }
        let old = old.maps().clone();
        let mut maps = self.maps();
        for (controller, data) in old.to_data {
            let is_known =
                maps.to_data.contains_key(&controller) || maps.to_controller.contains_key(&data);
            let fits = maps
                .bits
                .is_none_or(|bits| bytestring::significant_bits(&data) <= bits);
            if !is_known && fits {
                maps.join(controller, data);
            }
        }
    }

    /// Frees the data plane values for which `is_used` is false, except those of the program's mappings.
    fn retain(&self, is_used: impl Fn(&[u8]) -> bool) {
        let mut maps = self.maps();
        let kept = |data: &Vec<u8>| maps.pinned.contains(data) || is_used(data);
        let unused: Vec<Vec<u8>> = (maps.to_controller.keys())
            .filter(|data| !kept(data))
            // Keeps a mapping whose data plane value, as a controller value, means another value.
            .filter(|data| {
                let own = self.identity_name(data);
                maps.to_data.get(&own).is_none_or(|known| known == *data)
            })
            .cloned()
            .collect();
        for data in unused {
            if let Some(controller) = maps.to_controller.remove(&data) {
                maps.to_data.remove(&controller);
            }
        }
        maps.is_exhausted = false;
        maps.tried = 0;
        maps.limit = FIRST_LIMIT.max(maps.to_data.len().saturating_mul(2));
    }

    /// Returns whether the allocation of a value has failed since the last collection.
    fn is_exhausted(&self) -> bool {
        self.maps().is_exhausted
    }

    fn canonical(&self, value: &[u8]) -> Result<Vec<u8>, TranslationError> {
        let name = || self.name.clone();
        match self.form {
            Form::Strings if value.len() > MAX_STRING => Err(TranslationError::TooLong {
                name: name(),
                bytes: value.len(),
            }),
            Form::Strings => match std::str::from_utf8(value) {
                Ok(_) => Ok(value.to_vec()),
                Err(_) => Err(TranslationError::NotText(name())),
            },
            Form::Bits(bits) => match bytestring::check(value, bits) {
                Ok(()) => Ok(bytestring::canonical(value).to_vec()),
                Err(error) => Err(TranslationError::Bytes {
                    name: name(),
                    error,
                }),
            },
        }
    }

    /// Returns the identity mapping of a number, or of a string that is a number; `None` when the result is in use or
    /// too wide.
    fn identity_value(&self, maps: &Maps, value: &[u8]) -> Option<Vec<u8>> {
        let data = match self.form {
            Form::Bits(_) => value.to_vec(),
            Form::Strings => number_of(value)?,
        };
        let used = bytestring::significant_bits(&data);
        let fits = maps.bits.is_none_or(|bits| used <= bits);
        (fits && !maps.to_controller.contains_key(&data)).then_some(data)
    }

    /// Returns the controller's value of a data plane value without a mapping: the number itself.
    fn identity_name(&self, data: &[u8]) -> Vec<u8> {
        match self.form {
            Form::Bits(_) => data.to_vec(),
            Form::Strings => match bytestring::decode(data, 128) {
                Ok(number) => number.to_string().into_bytes(),
                Err(_) => {
                    let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                    format!("0x{digits}").into_bytes()
                }
            },
        }
    }

    fn free_value(&self, maps: &mut Maps, value: &[u8]) -> Result<Vec<u8>, TranslationError> {
        let bits = maps.bits;
        let bits = bits.ok_or_else(|| TranslationError::NoWidth(self.name.clone()))?;
        let count = 1u128 << bits.min(MAX_ALLOCATED_BITS);
        let is_full = maps.to_controller.len() as u128 >= count;
        if !is_full && maps.to_data.len() < maps.limit {
            while maps.tried < count {
                let value = match self.form {
                    Form::Strings => (maps.tried + 1) % count,
                    Form::Bits(_) => (count / 2 + maps.tried) % count,
                };
                maps.tried += 1;
                let data = bytestring::encode(value);
                if !maps.to_controller.contains_key(&data) {
                    return Ok(data);
                }
            }
        }
        maps.is_exhausted = true;
        Err(TranslationError::Exhausted {
            name: self.name.clone(),
            value: self.text(value),
            count,
            bits,
        })
    }

    /// Formats a controller's value for error messages.
    fn text(&self, value: &[u8]) -> String {
        match self.form {
            Form::Strings => format!("{:?}", String::from_utf8_lossy(value)),
            Form::Bits(_) => match bytestring::decode(value, 128) {
                Ok(number) => number.to_string(),
                Err(_) => format!("0x{}", hex(value)),
            },
        }
    }
}

impl Maps {
    fn join(&mut self, controller: Vec<u8>, data: Vec<u8>) {
        self.to_controller.insert(data.clone(), controller.clone());
        self.to_data.insert(controller, data);
    }
}

/// Two translations are equal if they describe the same type; allocated values are not compared.
impl PartialEq for Translation {
    fn eq(&self, other: &Translation) -> bool {
        self.name == other.name && self.form == other.form
    }
}

impl Eq for Translation {}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a decimal string without leading zeros, below 2^128, as a number; `None` for other text.
fn number_of(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal || text.is_empty() || text.len() > 1 && text.starts_with('0') {
        return None;
    }
    Some(bytestring::encode(text.parse::<u128>().ok()?))
}

/// Returns a number plus 1, in canonical form.
fn successor(number: &[u8]) -> Vec<u8> {
    let mut next = number.to_vec();
    for byte in next.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return next;
        }
    }
    next.insert(0, 1);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(bits: usize) -> Translation {
        let translation = Translation::new("name_t".into(), Form::Strings);
        translation.set_width(bits);
        translation
    }

    fn numbers(own: usize, bits: usize) -> Translation {
        let translation = Translation::new("port_t".into(), Form::Bits(own));
        translation.set_width(bits);
        translation
    }

    fn write(translation: &Translation, value: &[u8]) -> Result<Vec<u8>, TranslationError> {
        translation.data_value(value, Use::Write)
    }

    #[test]
    fn strings_get_values_from_1_and_0_last() {
        let names = strings(2);
        assert_eq!(write(&names, b"a"), Ok(vec![1]));
        assert_eq!(write(&names, b"b"), Ok(vec![2]));
        assert_eq!(write(&names, b"a"), Ok(vec![1]));
        assert_eq!(write(&names, b""), Ok(vec![3]));
        assert_eq!(write(&names, b"d"), Ok(vec![0]));
        let error = write(&names, b"e").unwrap_err();
        assert_eq!(
            error.to_string(),
            "type name_t has no free value in the data plane for \"e\": all 4 of bit<2> are in use"
        );
        assert_eq!(names.controller_value(&[2]), b"b");
    }

    #[test]
    fn numbers_map_to_themselves_if_they_are_free() {
        let names = strings(8);
        assert_eq!(write(&names, b"1"), Ok(vec![1]));
        assert_eq!(write(&names, b"a"), Ok(vec![2]));
        assert_eq!(write(&names, b"2"), Ok(vec![3]), "2 is that of a");
        assert_eq!(write(&names, b"256"), Ok(vec![4]), "it is too wide");
        assert_eq!(write(&names, b"01"), Ok(vec![5]), "it is another string");
        let ports = numbers(32, 9);
        assert_eq!(write(&ports, &[0, 7]), Ok(vec![7]));
        assert_eq!(write(&ports, &[1, 0, 0]), Ok(vec![1, 0]));
        assert_eq!(ports.controller_value(&[1, 0]), [1, 0, 0]);
        assert_eq!(ports.controller_value(&[3]), [3]);
        assert!(write(&ports, &[1, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn only_identity_mappings_are_shareable() {
        assert!(numbers(9, 9).is_shareable());
        assert!(!numbers(32, 9).is_shareable(), "2^31 needs another number");
        assert!(!strings(9).is_shareable());
        let unused = Translation::new("port_t".into(), Form::Bits(9));
        assert!(!unused.is_shareable(), "its width is unknown");
        let pinned = numbers(9, 9);
        pinned.pin(vec![1], vec![2]).unwrap();
        assert!(!pinned.is_shareable());
        let written = numbers(9, 9);
        write(&written, &[7]).unwrap();
        assert!(written.is_shareable());
    }

    #[test]
    fn unwritten_values_are_not_found() {
        let names = strings(8);
        let find = |value: &[u8]| names.data_value(value, Use::Find);
        assert!(matches!(find(b"a"), Err(TranslationError::Unknown { .. })));
        assert_eq!(find(b"12"), Ok(vec![12]));
        assert!(matches!(find(&[0xff]), Err(TranslationError::NotText(_))));
    }

    #[test]
    fn unused_values_are_allocated_again() {
        let names = strings(1);
        write(&names, b"a").unwrap();
        write(&names, b"b").unwrap();
        assert!(write(&names, b"c").is_err() && names.is_exhausted());
        names.retain(|data| data == [0]);
        assert_eq!(write(&names, b"c"), Ok(vec![1]));
        assert_eq!(names.controller_value(&[0]), b"b");
    }

    #[test]
    fn names_are_unique_in_both_directions() {
        let names = strings(8);
        names.pin(b"5".to_vec(), vec![7]).unwrap();
        assert_eq!(write(&names, b"5"), Ok(vec![7]));
        assert_eq!(names.controller_value(&[5]), b"5'");
        assert_eq!(write(&names, b"5'"), Ok(vec![5]));
        assert_eq!(names.controller_value(&[7]), b"5");
        assert!(names.pin(b"x".to_vec(), vec![7]).is_err());
    }

    #[test]
    fn mappings_are_copied_to_another_pipeline() {
        let old = strings(8);
        write(&old, b"a").unwrap();
        write(&old, b"b").unwrap();
        let new = strings(8);
        new.pin(b"c".to_vec(), vec![1]).unwrap();
        new.adopt(&old);
        assert_eq!(write(&new, b"b"), Ok(vec![2]));
        assert_eq!(write(&new, b"a"), Ok(vec![3]), "1 is that of c");
    }
}
