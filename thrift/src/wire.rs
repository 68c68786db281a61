//! Encoding and decoding of the types of Thrift's interface files.

use std::collections::BTreeMap;

use thrift::{
    protocol::{
        TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol,
        TStructIdentifier, TType,
    },
    ProtocolError, ProtocolErrorKind, Result,
};

/// Maximum capacity that is reserved for a list or map before its elements are received. The sender may claim any
/// length.
const RESERVED: i32 = 256;

/// A type of the interface files, which can be sent and received.
pub trait Wire: Sized {
    /// Thrift's id of the type. It is sent before fields, and before the elements of lists and maps.
    const TYPE: TType;
    /// Decodes a value that was received.
    fn read(p: &mut dyn TInputProtocol) -> Result<Self>;
    /// Encodes a value to be sent.
    fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()>;
    /// Returns the value of a method's result that has no fields. This is `Some` only for `void` methods.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! scalar {
    ($rust:ty, $ty:ident, $read:ident, |$p:ident, $value:ident| $write:expr) => {
        impl Wire for $rust {
            const TYPE: TType = TType::$ty;
            fn read(p: &mut dyn TInputProtocol) -> Result<Self> {
                p.$read()
            }
            fn write(&self, $p: &mut dyn TOutputProtocol) -> Result<()> {
                let $value = self;
                $write
            }
        }
    };
}

scalar!(bool, Bool, read_bool, |p, value| p.write_bool(*value));
scalar!(i16, I16, read_i16, |p, value| p.write_i16(*value));
scalar!(i32, I32, read_i32, |p, value| p.write_i32(*value));
scalar!(i64, I64, read_i64, |p, value| p.write_i64(*value));
scalar!(f64, Double, read_double, |p, value| p.write_double(*value));
scalar!(String, String, read_string, |p, value| p
    .write_string(value));
scalar!(Vec<u8>, String, read_bytes, |p, value| p.write_bytes(value));

/// The value of a `void` method, whose result has no fields.
impl Wire for () {
    const TYPE: TType = TType::Void;
    fn read(_: &mut dyn TInputProtocol) -> Result<Self> {
        Ok(())
    }
    fn write(&self, _: &mut dyn TOutputProtocol) -> Result<()> {
        Ok(())
    }
    fn absent() -> Option<()> {
        Some(())
    }
}

impl<T: Wire> Wire for Vec<T> {
    const TYPE: TType = TType::List;
    fn read(p: &mut dyn TInputProtocol) -> Result<Self> {
        let list = p.read_list_begin()?;
        // The element type of an empty list is ignored.
        if list.size > 0 && list.element_type != T::TYPE {
            return Err(invalid(format!(
                "unexpected element type {} of a list",
                list.element_type
            )));
        }
        let mut value = Vec::with_capacity(list.size.clamp(0, RESERVED) as usize);
        for _ in 0..list.size {
            value.push(T::read(p)?);
        }
        p.read_list_end()?;
        Ok(value)
    }
    fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
        p.write_list_begin(&TListIdentifier::new(T::TYPE, size(self.len())?))?;
        self.iter().try_for_each(|value| value.write(p))?;
        p.write_list_end()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    const TYPE: TType = TType::Map;
    fn read(p: &mut dyn TInputProtocol) -> Result<Self> {
        let map = p.read_map_begin()?;
        let types = (map.key_type, map.value_type);
        if map.size > 0 && types != (Some(K::TYPE), Some(V::TYPE)) {
            return Err(invalid("unexpected key or value type of a map".into()));
        }
        let mut value = BTreeMap::new();
        for _ in 0..map.size {
            let key = K::read(p)?;
            value.insert(key, V::read(p)?);
        }
        p.read_map_end()?;
        Ok(value)
    }
    fn write(&self, p: &mut dyn TOutputProtocol) -> Result<()> {
        p.write_map_begin(&TMapIdentifier::new(K::TYPE, V::TYPE, size(self.len())?))?;
        for (key, value) in self {
            key.write(p)?;
            value.write(p)?;
        }
        p.write_map_end()
    }
}

/// Decodes a structure. Calls `read` for each field with its id and type; `read` must decode the field or skip it.
pub fn read_fields(
    p: &mut dyn TInputProtocol,
    mut read: impl FnMut(&mut dyn TInputProtocol, i16, TType) -> Result<()>,
) -> Result<()> {
    p.read_struct_begin()?;
    loop {
        let field = p.read_field_begin()?;
        if field.field_type == TType::Stop {
            return p.read_struct_end();
        }
        read(p, field.id.unwrap_or_default(), field.field_type)?;
        p.read_field_end()?;
    }
}

/// Encodes one field of a structure, with its name, id and type.
pub fn write_field<T: Wire>(
    p: &mut dyn TOutputProtocol,
    name: &str,
    id: i16,
    value: &T,
) -> Result<()> {
    p.write_field_begin(&TFieldIdentifier::new(name, T::TYPE, id))?;
    value.write(p)?;
    p.write_field_end()
}

/// Encodes the result of a method: its return value as field 0, or its exception as field 1.
pub fn write_result<T: Wire, E: Wire>(
    p: &mut dyn TOutputProtocol,
    value: Option<&T>,
    error: Option<&E>,
) -> Result<()> {
    p.write_struct_begin(&TStructIdentifier::new("result"))?;
    match (value, error) {
        (_, Some(error)) => write_field(p, "ouch", 1, error)?,
        (Some(value), None) if T::TYPE != TType::Void => write_field(p, "success", 0, value)?,
        _ => {}
    }
    p.write_field_stop()?;
    p.write_struct_end()
}

/// Decodes the result of a method, as [`write_result`] encodes it. For a `void` method the result has no value.
pub fn read_result<T: Wire, E: Wire>(
    p: &mut dyn TInputProtocol,
) -> Result<std::result::Result<Option<T>, E>> {
    let mut result = Ok(None);
    read_fields(p, |p, id, ty| {
        match id {
            0 if ty == T::TYPE => result = Ok(Some(T::read(p)?)),
            1 if ty == E::TYPE => result = Err(E::read(p)?),
            _ => p.skip(ty)?,
        }
        Ok(())
    })?;
    Ok(result)
}

/// Returns the error for a received number that is not a constant of the enum `name`.
pub fn no_such(name: &str, number: i32) -> thrift::Error {
    invalid(format!("{number} is not a value of {name}"))
}

fn invalid(why: String) -> thrift::Error {
    ProtocolError::new(ProtocolErrorKind::InvalidData, why).into()
}

fn size(len: usize) -> Result<i32> {
    i32::try_from(len)
        .map_err(|_| ProtocolError::new(ProtocolErrorKind::SizeLimit, "too many elements").into())
}
