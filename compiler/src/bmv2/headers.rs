//! Header types and instances.

use alfirk_bmv2_json as json;

use crate::ir::{FieldWidth, FlatProgram, HeaderType};

/// Writes all header types. Types of metadata are padded to whole bytes, as BMv2 requires.
pub fn types(program: &FlatProgram) -> Vec<json::HeaderType> {
    let storage = &program.objects.storage;
    storage
        .header_types
        .iter()
        .enumerate()
        .map(|(id, ty)| {
            let metadata = storage
                .headers
                .iter()
                .any(|header| header.metadata && header.ty.index() == id);
            header_type(ty, id as i64, metadata)
        })
        .collect()
}

fn header_type(ty: &HeaderType, id: i64, metadata: bool) -> json::HeaderType {
    let mut fields: Vec<json::HeaderField> = ty
        .fields
        .iter()
        .map(|field| match field.width {
            FieldWidth::Fixed(width) => {
                json::HeaderField::bits(field.name.clone(), width, field.signed)
            }
            FieldWidth::Varbit(_) => json::HeaderField::varbit(field.name.clone()),
        })
        .collect();
    let bits = ty.max_bits();
    if metadata && bits % 8 != 0 {
        let name = (0..)
            .map(|n| {
                if n == 0 {
                    "_padding".to_owned()
                } else {
                    format!("_padding_{n}")
                }
            })
            .find(|name| ty.position(name).is_none())
            .expect("some number is free");
        fields.push(json::HeaderField::bits(name, 8 - (bits % 8) as u32, false));
    }
    json::HeaderType {
        name: ty.name.clone(),
        id,
        fields,
        length_exp: None,
        max_length: ty.has_varbit().then(|| bits.div_ceil(8)),
    }
}

/// Writes all header instances.
pub fn instances(program: &FlatProgram) -> Vec<json::Header> {
    let storage = &program.objects.storage;
    (storage.headers.iter().enumerate())
        .map(|(id, header)| json::Header {
            name: header.name.clone(),
            id: id as i64,
            source_info: None,
            header_type: storage.header_types[header.ty.index()].name.clone(),
            metadata: header.metadata,
            pi_omit: true,
        })
        .collect()
}

/// Writes all header stacks.
pub fn stacks(program: &FlatProgram) -> Vec<json::HeaderStack> {
    let storage = &program.objects.storage;
    (storage.stacks.iter().enumerate())
        .map(|(id, stack)| json::HeaderStack {
            name: stack.name.clone(),
            id: id as i64,
            header_type: storage.header_types[stack.ty.index()].name.clone(),
            size: Some(stack.elements.len() as u64),
            header_ids: stack
                .elements
                .iter()
                .map(|header| i64::from(header.0))
                .collect(),
        })
        .collect()
}

/// Writes all header union types.
pub fn union_types(program: &FlatProgram) -> Vec<json::HeaderUnionType> {
    let storage = &program.objects.storage;
    (storage.union_types.iter().enumerate())
        .map(|(id, ty)| json::HeaderUnionType {
            name: ty.name.clone(),
            id: id as i64,
            headers: (ty.members.iter())
                .map(|(name, ty)| (name.clone(), storage.header_types[ty.index()].name.clone()))
                .collect(),
        })
        .collect()
}

/// Writes all header unions, including the elements of stacks.
pub fn unions(program: &FlatProgram) -> Vec<json::HeaderUnion> {
    let storage = &program.objects.storage;
    (storage.unions.iter().enumerate())
        .map(|(id, union)| json::HeaderUnion {
            name: union.name.clone(),
            id: id as i64,
            union_type: storage.union_types[union.ty.index()].name.clone(),
            header_ids: union
                .members
                .iter()
                .map(|header| i64::from(header.0))
                .collect(),
            pi_omit: true,
        })
        .collect()
}

/// Writes all stacks of header unions.
pub fn union_stacks(program: &FlatProgram) -> Vec<json::HeaderUnionStack> {
    let storage = &program.objects.storage;
    (storage.union_stacks.iter().enumerate())
        .map(|(id, stack)| json::HeaderUnionStack {
            name: stack.name.clone(),
            id: id as i64,
            union_type: storage.union_types[stack.ty.index()].name.clone(),
            size: Some(stack.elements.len() as u64),
            header_union_ids: stack
                .elements
                .iter()
                .map(|union| i64::from(union.0))
                .collect(),
        })
        .collect()
}

/// Writes the aliases: the target's names for fields that it reads or writes, each with its field.
pub fn aliases(program: &FlatProgram) -> Vec<(String, json::FieldRef)> {
    let storage = &program.objects.storage;
    (program.objects.aliases.iter())
        .map(|(alias, field)| {
            let header = &storage.header(field.header).name;
            let field = &storage.field(*field).name;
            (
                alias.clone(),
                json::FieldRef::new(header.clone(), field.clone()),
            )
        })
        .collect()
}
