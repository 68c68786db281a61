//! Actions with their arguments, converted between P4Runtime messages and the switch core, which is the crate
//! `alfirk_bmv2` (P4Runtime § 9.1.2).

use alfirk_p4runtime::p4::{config::v1::action_ref::Scope as ActionScope, v1::Action};

use super::{
    error::{denied, invalid, UpdateResult},
    schema::{Schema, Table},
    translation::Use,
};

/// Checks an action of a request against the actions of a table. Returns the action's name, and its arguments in the
/// order of the parameters.
pub fn check_action(
    schema: &Schema,
    table: &Table,
    action: &Action,
    default: bool,
) -> UpdateResult<(String, Vec<Vec<u8>>)> {
    use alfirk_p4runtime::bytestring;
    let id = action.action_id;
    let used = table.actions.iter().find(|used| used.id == id);
    let (Some(used), Some(known)) = (used, schema.actions.get(&id)) else {
        return Err(invalid(format!(
            "table {}: no action has id {id:#010x}",
            table.name
        )));
    };
    let name = &known.name;
    let out_of_scope = match used.scope {
        ActionScope::TableOnly => default,
        ActionScope::DefaultOnly => !default,
        _ => false,
    };
    if out_of_scope {
        let place = if default {
            "the default entry"
        } else {
            "table entries"
        };
        return Err(denied(format!(
            "table {}: action {name} is not allowed in {place}",
            table.name
        )));
    }
    for (i, param) in action.params.iter().enumerate() {
        if !known.params.iter().any(|p| p.id == param.param_id) {
            return Err(invalid(format!(
                "action {name}: no parameter has id {}",
                param.param_id
            )));
        }
        if action.params[..i]
            .iter()
            .any(|other| other.param_id == param.param_id)
        {
            return Err(invalid(format!(
                "action {name}: parameter {} occurs twice",
                param.param_id
            )));
        }
    }
    let args = known.params.iter().map(|param| {
        let given = action
            .params
            .iter()
            .find(|given| given.param_id == param.id);
        let given = given.ok_or_else(|| {
            invalid(format!(
                "action {name}: parameter {} is missing",
                param.name
            ))
        })?;
        let place = || format!("action {name}: parameter {}", param.name);
        if let Some(of) = &param.translation {
            let data = of.data_value(&given.value, Use::Write);
            return data.map_err(|error| error.at(&place()));
        }
        bytestring::check(&given.value, param.bits)
            .map_err(|e| invalid(format!("{}: {e}", place())))?;
        Ok(bytestring::canonical(&given.value).to_vec())
    });
    Ok((name.clone(), args.collect::<UpdateResult<_>>()?))
}

/// Converts an action of the switch core to a P4Runtime message; `None` if the P4Info has no action of this name.
pub fn show_action(schema: &Schema, name: &str, args: &[Vec<u8>]) -> Option<Action> {
    use alfirk_p4runtime::p4::v1::action::Param;
    let action_id = schema.action_id(name)?;
    let params = schema.actions[&action_id].params.iter().zip(args);
    Some(Action {
        action_id,
        params: params
            .map(|(param, value)| Param {
                param_id: param.id,
                value: match &param.translation {
                    Some(of) => of.controller_value(value),
                    None => value.clone(),
                },
            })
            .collect(),
    })
}
