//! Match keys: converts P4Runtime's match fields, which have ids, to the core's key fields, which have an order
//! (P4Runtime § 9.1.1).

use std::fmt::Write as _;

use alfirk_p4runtime::{
    bytestring,
    p4::v1::{field_match, FieldMatch},
};

use super::{
    error::{invalid, UpdateResult},
    schema::{Field, MatchKind},
    translation::{Form, Translation, Use},
};
use alfirk_bmv2::KeyMatch;

/// Checks the match fields of a request, and returns them in the order of the table's key. Omitted fields match every
/// value. Values of translated types are converted to the data plane's.
pub fn parse(
    owner: &str,
    fields: &[Field],
    match_fields: &[FieldMatch],
    how: Use,
) -> UpdateResult<Vec<KeyMatch>> {
    for (i, field) in match_fields.iter().enumerate() {
        if !fields.iter().any(|f| f.id == field.field_id) {
            return Err(invalid(format!(
                "{owner}: key has no field with id {}",
                field.field_id
            )));
        }
        if match_fields[..i]
            .iter()
            .any(|other| other.field_id == field.field_id)
        {
            return Err(invalid(format!(
                "{owner}: key field {} occurs twice",
                field.field_id
            )));
        }
    }
    fields
        .iter()
        .map(
            |field| match match_fields.iter().find(|g| g.field_id == field.id) {
                Some(match_field) => match &field.translation {
                    Some(of) => translated(owner, field, of, match_field, how),
                    None => parse_field(field, match_field).map_err(|why| {
                        invalid(format!("{owner}: key field {}: {why}", field.name))
                    }),
                },
                None => any(field).ok_or_else(|| {
                    invalid(format!("{owner}: key field {} is missing", field.name))
                }),
            },
        )
        .collect()
}

/// Converts a key of the switch core to match fields in P4Runtime's canonical form. Fields that match every value are
/// omitted.
pub fn print(fields: &[Field], key: &[KeyMatch]) -> Vec<FieldMatch> {
    fields
        .iter()
        .zip(key)
        .filter_map(|(field, key)| {
            let field_match_type = print_field(field, key)?;
            Some(FieldMatch {
                field_id: field.id,
                field_match_type: Some(field_match_type),
            })
        })
        .collect()
}

fn any(field: &Field) -> Option<KeyMatch> {
    match field.kind {
        MatchKind::Exact => None,
        MatchKind::Lpm => Some(KeyMatch::Lpm {
            value: vec![0],
            prefix_len: 0,
        }),
        MatchKind::Ternary | MatchKind::Optional => Some(KeyMatch::Ternary {
            value: vec![0],
            mask: vec![0],
        }),
        MatchKind::Range => Some(KeyMatch::Range {
            low: vec![0],
            high: ones(field.bits),
        }),
    }
}

fn parse_field(field: &Field, match_field: &FieldMatch) -> Result<KeyMatch, String> {
    use field_match::FieldMatchType;
    let value = |bytes: &[u8]| {
        bytestring::check(bytes, field.bits).map_err(|e| e.to_string())?;
        Ok::<_, String>(bytestring::canonical(bytes).to_vec())
    };
    Ok(match (field.kind, match_field.field_match_type.as_ref()) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) if field.is_validity => {
            KeyMatch::Valid {
                value: value(&exact.value)? != [0],
            }
        }
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => KeyMatch::Exact {
            value: value(&exact.value)?,
        },
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let value = value(&lpm.value)?;
            let len = usize::try_from(lpm.prefix_len).unwrap_or(0);
            if len == 0 || len > field.bits {
                return Err(format!(
                    "prefix length {} is not from 1 to {}; leave out a field that matches every value",
                    lpm.prefix_len, field.bits
                ));
            }
            if trailing_zeros(&value) < field.bits - len {
                return Err(format!("value has bits set beyond the prefix length {len}"));
            }
            KeyMatch::Lpm {
                value,
                prefix_len: len as u32,
            }
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let (value, mask) = (value(&ternary.value)?, value(&ternary.mask)?);
            if mask == [0] {
                return Err("mask is zero; leave out a field that matches every value".into());
            }
            if !is_within(&value, &mask) {
                return Err("value has bits set outside of the mask".into());
            }
            KeyMatch::Ternary { value, mask }
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            let (low, high) = (value(&range.low)?, value(&range.high)?);
            if (low.len(), &low) > (high.len(), &high) {
                return Err("low end of the range is above its high end".into());
            }
            if low == [0] && high == ones(field.bits) {
                return Err(
                    "range covers all values; leave out a field that matches every value".into(),
                );
            }
            KeyMatch::Range { low, high }
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => KeyMatch::Ternary {
            value: value(&optional.value)?,
            mask: ones(field.bits),
        },
        (kind, _) => {
            let mut why = String::new();
            let kind = format!("{kind:?}").to_lowercase();
            // Writing to a String cannot fail.
            let _ = write!(why, "expected a match of kind {kind}");
            return Err(why);
        }
    })
}

/// Parses a field whose values are translated. It matches either one whole value or every value, since the bits of the
/// data plane's value have no meaning to the controller.
fn translated(
    owner: &str,
    field: &Field,
    of: &Translation,
    match_field: &FieldMatch,
    how: Use,
) -> UpdateResult<KeyMatch> {
    use field_match::FieldMatchType;
    let place = || format!("{owner}: key field {}", field.name);
    let reject = |why: &str| Err(invalid(format!("{}: {why}", place())));
    let data = |value: &[u8]| {
        of.data_value(value, how)
            .map_err(|error| error.at(&place()))
    };
    const WHOLE: &str = "its type is translated (@p4runtime_translation), so match one whole value, or leave out the field to match every value";
    // Masks, prefixes and ranges must cover one whole value; strings have no bits to mask.
    let whole = match of.form() {
        Form::Bits(bits) => bits,
        Form::Strings => 0,
    };
    match (field.kind, match_field.field_match_type.as_ref()) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => Ok(KeyMatch::Exact {
            value: data(&exact.value)?,
        }),
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => Ok(KeyMatch::Ternary {
            value: data(&optional.value)?,
            mask: ones(field.bits),
        }),
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            match whole > 0 && is_mask(&ternary.mask, whole) {
                true => Ok(KeyMatch::Ternary {
                    value: data(&ternary.value)?,
                    mask: ones(field.bits),
                }),
                false => reject(WHOLE),
            }
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            match whole > 0 && usize::try_from(lpm.prefix_len) == Ok(whole) {
                true => Ok(KeyMatch::Lpm {
                    value: data(&lpm.value)?,
                    prefix_len: field.bits as u32,
                }),
                false => reject(WHOLE),
            }
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            match whole > 0 && range.low == range.high {
                true => {
                    let value = data(&range.low)?;
                    Ok(KeyMatch::Range {
                        low: value.clone(),
                        high: value,
                    })
                }
                false => reject(WHOLE),
            }
        }
        (kind, _) => reject(&format!(
            "expected a match of kind {}",
            format!("{kind:?}").to_lowercase()
        )),
    }
}

/// Converts a key field with a translated type to a match field; the inverse of [`translated`]. `None` for a field that
/// matches more than one value.
fn print_translated(
    field: &Field,
    of: &Translation,
    key: &KeyMatch,
) -> Option<field_match::FieldMatchType> {
    use field_match::FieldMatchType;
    let own = |value: &[u8]| of.controller_value(value);
    let whole = match of.form() {
        Form::Bits(bits) => bits,
        Form::Strings => 0,
    };
    Some(match key {
        KeyMatch::Exact { value } => {
            FieldMatchType::Exact(field_match::Exact { value: own(value) })
        }
        KeyMatch::Ternary { value, .. } if field.kind == MatchKind::Optional => {
            FieldMatchType::Optional(field_match::Optional { value: own(value) })
        }
        KeyMatch::Ternary { value, mask } if *mask == ones(field.bits) => {
            FieldMatchType::Ternary(field_match::Ternary {
                value: own(value),
                mask: ones(whole),
            })
        }
        KeyMatch::Lpm { value, prefix_len } if *prefix_len as usize == field.bits => {
            FieldMatchType::Lpm(field_match::Lpm {
                value: own(value),
                prefix_len: i32::try_from(whole).unwrap_or(i32::MAX),
            })
        }
        KeyMatch::Range { low, high } if low == high => FieldMatchType::Range(field_match::Range {
            low: own(low),
            high: own(high),
        }),
        // Such an entry can only have been written by another server than P4Runtime.
        _ => return None,
    })
}

fn print_field(field: &Field, key: &KeyMatch) -> Option<field_match::FieldMatchType> {
    use field_match::FieldMatchType;
    let matches_all = match key {
        KeyMatch::Lpm { prefix_len, .. } => *prefix_len == 0,
        KeyMatch::Ternary { mask, .. } => bytestring::canonical(mask) == [0],
        KeyMatch::Range { low, high } => {
            bytestring::canonical(low) == [0] && *high == ones(field.bits)
        }
        _ => false,
    };
    if matches_all {
        return None;
    }
    if let Some(of) = &field.translation {
        if let Some(shown) = print_translated(field, of, key) {
            return Some(shown);
        }
    }
    Some(match key {
        KeyMatch::Exact { value } => FieldMatchType::Exact(field_match::Exact {
            value: value.clone(),
        }),
        KeyMatch::Valid { value } => FieldMatchType::Exact(field_match::Exact {
            value: vec![u8::from(*value)],
        }),
        KeyMatch::Lpm { value, prefix_len } => FieldMatchType::Lpm(field_match::Lpm {
            value: value.clone(),
            prefix_len: i32::try_from(*prefix_len).unwrap_or(i32::MAX),
        }),
        KeyMatch::Ternary { value, .. } if field.kind == MatchKind::Optional => {
            FieldMatchType::Optional(field_match::Optional {
                value: value.clone(),
            })
        }
        KeyMatch::Ternary { value, mask } => FieldMatchType::Ternary(field_match::Ternary {
            value: value.clone(),
            mask: mask.clone(),
        }),
        KeyMatch::Range { low, high } => FieldMatchType::Range(field_match::Range {
            low: low.clone(),
            high: high.clone(),
        }),
    })
}

/// Returns whether exactly the lowest `bits` bits of the mask are set.
fn is_mask(mask: &[u8], bits: usize) -> bool {
    !mask.is_empty() && bytestring::canonical(mask) == ones(bits)
}

/// Returns the greatest value of a field of `bits` bits, in canonical form.
fn ones(bits: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; bits.div_ceil(8).max(1)];
    bytes[0] = match bits % 8 {
        0 if bits == 0 => 0,
        0 => 0xff,
        rest => 0xff >> (8 - rest),
    };
    bytes
}

/// Returns the number of trailing zero bits of a big-endian number; `usize::MAX` for zero.
fn trailing_zeros(value: &[u8]) -> usize {
    match value.iter().rposition(|&byte| byte != 0) {
        Some(last) => (value.len() - 1 - last) * 8 + value[last].trailing_zeros() as usize,
        None => usize::MAX,
    }
}

/// Returns whether every bit that is set in the value is set in the mask, too. Both are in canonical form.
fn is_within(value: &[u8], mask: &[u8]) -> bool {
    value == [0]
        || value.len() <= mask.len()
            && value
                .iter()
                .rev()
                .zip(mask.iter().rev())
                .all(|(v, m)| v & !m == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::text;

    fn field(id: u32, bits: usize, kind: MatchKind) -> Field {
        Field {
            id,
            name: format!("f{id}"),
            bits,
            kind,
            is_validity: false,
            translation: None,
        }
    }

    fn fields() -> Vec<Field> {
        vec![
            field(1, 9, MatchKind::Exact),
            field(2, 32, MatchKind::Lpm),
            field(3, 12, MatchKind::Ternary),
            field(4, 16, MatchKind::Range),
            field(5, 48, MatchKind::Optional),
        ]
    }

    fn match_fields(texts: &[&str]) -> Vec<FieldMatch> {
        texts.iter().map(|t| text::parse(t).unwrap()).collect()
    }

    const EXACT: &str = r#"field_id: 1 exact { value: "\x01\x00" }"#;

    fn why(last: &str) -> String {
        parse("t", &fields(), &match_fields(&[EXACT, last]), Use::Find)
            .unwrap_err()
            .message
    }

    #[test]
    fn keys_are_converted_back_to_canonical_form() {
        let all = match_fields(&[
            EXACT,
            r#"field_id: 2 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 }"#,
            r#"field_id: 3 ternary { value: "\x01" mask: "\x0f\xff" }"#,
            r#"field_id: 4 range { low: "\x01" high: "\x01\x00" }"#,
            r#"field_id: 5 optional { value: "\x00" }"#,
        ]);
        let mut shuffled = all.clone();
        shuffled.reverse();
        let key = parse("t", &fields(), &shuffled, Use::Find).unwrap();
        assert_eq!(print(&fields(), &key), all);
    }

    #[test]
    fn leading_zeros_are_accepted_and_removed() {
        let long = match_fields(&[r#"field_id: 1 exact { value: "\x00\x00\x00\x07" }"#]);
        let key = parse("t", &fields(), &long, Use::Find).unwrap();
        let shown = print(&fields(), &key);
        assert_eq!(
            shown,
            match_fields(&[r#"field_id: 1 exact { value: "\x07" }"#])
        );
    }

    #[test]
    fn omitted_fields_match_every_value_and_are_not_returned() {
        let key = parse("t", &fields(), &match_fields(&[EXACT]), Use::Find).unwrap();
        assert_eq!(key.len(), 5);
        assert_eq!(print(&fields(), &key), match_fields(&[EXACT]));
    }

    #[test]
    fn malformed_fields_are_rejected_with_a_reason() {
        let missing = parse("t", &fields(), &[], Use::Find).unwrap_err().message;
        assert_eq!(missing, "t: key field f1 is missing");
        assert!(why(EXACT).contains("occurs twice"));
        assert!(why(r#"field_id: 9 exact { value: "1" }"#).contains("no field with id 9"));
        assert!(why(r#"field_id: 2 exact { value: "1" }"#).contains("expected a match of kind lpm"));
        assert!(why("field_id: 2").contains("expected a match of kind lpm"));
        assert!(why(r#"field_id: 2 lpm { value: "\x01" prefix_len: 31 }"#)
            .contains("beyond the prefix length 31"));
        assert!(
            why(r#"field_id: 2 lpm { value: "\x00" prefix_len: 0 }"#).contains("prefix length 0")
        );
        assert!(
            why(r#"field_id: 2 lpm { value: "\x00" prefix_len: 33 }"#).contains("prefix length 33")
        );
        assert!(why(r#"field_id: 3 ternary { value: "\x01" mask: "\x02" }"#)
            .contains("outside of the mask"));
        assert!(
            why(r#"field_id: 3 ternary { value: "\x00" mask: "\x00" }"#).contains("mask is zero")
        );
        assert!(
            why(r#"field_id: 3 ternary { value: "\x00" mask: "\x10\x00" }"#).contains("13 bits")
        );
        assert!(
            why(r#"field_id: 4 range { low: "\x02" high: "\x01" }"#).contains("above its high end")
        );
        assert!(why(r#"field_id: 4 range { low: "\x00" high: "\xff\xff" }"#).contains("all values"));
        assert!(why(r#"field_id: 5 optional { value: "" }"#).contains("empty"));
    }
}
