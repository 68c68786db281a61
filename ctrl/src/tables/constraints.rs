//! Constraints of the P4 program on table entries, checked before any write.
//!
//! `@entry_restriction` of a table is a condition on the keys of its entries, in the language of p4-constraints. It has
//! comparisons of keys (`name`, `name::value`, `name::mask`, `name::prefix_length`) and numbers, joined by `!`, `&&`, `||` and
//! `->`.
//!
//! `@refers_to(table, key)` of a key or action parameter is a foreign key: its value must be that key of an existing entry of
//! `table`. All references of one entry to the same table must be satisfied by a single entry, written before.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_p4runtime::bytestring;
use alfirk_p4runtime::p4::config::v1::{Action, MatchField, P4Info, Preamble, Table};
use alfirk_p4runtime::p4::v1::{
    entity::Entity, field_match::FieldMatchType, table_action, update, TableEntry, Update,
};

/// Constraints of a P4 program on its table entries.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    tables: BTreeMap<u32, TableConstraints>,
}

#[derive(Clone, Debug, Default)]
struct TableConstraints {
    name: String,
    /// Name and width in bits of each key, by id.
    keys: BTreeMap<u32, (String, i32)>,
    restrictions: Vec<(String, Expr)>,
    /// `@refers_to` annotations of keys.
    of_keys: Vec<Reference>,
    /// `@refers_to` annotations of action parameters, by action id.
    of_params: BTreeMap<u32, Vec<Reference>>,
}

/// A foreign key: `from` is a key or parameter, whose value must occur as `key` of an entry of `table`; all are ids.
#[derive(Clone, Copy, Debug)]
struct Reference {
    from: u32,
    table: u32,
    key: u32,
}

/// Error: an annotation of the program cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("P4Info: {name}: {annotation}: {why}")]
pub struct AnnotationError {
    name: String,
    annotation: String,
    why: String,
}

/// Error: an entry violates a constraint of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// The keys violate the `@entry_restriction` of the table.
    #[error("an entry of {table} violates @entry_restriction `{rule}`: {keys}")]
    Restriction {
        /// Name of the table.
        table: String,
        /// The condition of `@entry_restriction`, as written in the program.
        rule: String,
        /// The keys as `name=value`.
        keys: String,
    },
    /// The entry to which this one refers (`@refers_to`) does not exist.
    #[error("an entry of {table} refers to a missing entry of {to}: {keys}")]
    Reference {
        /// Name of the table.
        table: String,
        /// The table with the missing entry.
        to: String,
        /// The keys as `name=value`.
        keys: String,
    },
}

/// A match key: its value, and the bits that are matched.
#[derive(Clone, Copy, Debug)]
struct Key {
    value: u128,
    mask: u128,
    prefix_length: u128,
}

impl Constraints {
    /// Parses the annotations of a program.
    pub fn of(p4info: &P4Info) -> Result<Constraints, AnnotationError> {
        let mut constraints = Constraints::default();
        for table in &p4info.tables {
            let Some(preamble) = &table.preamble else {
                continue;
            };
            let mut of_table = TableConstraints {
                name: preamble.name.clone(),
                ..TableConstraints::default()
            };
            for field in &table.match_fields {
                let key = (field.name.clone(), field.bitwidth);
                of_table.keys.insert(field.id, key);
                let references = references(p4info, &preamble.name, field.id, &field.annotations)?;
                of_table.of_keys.extend(references);
            }
            for text in &preamble.annotations {
                let Some(rule) = text.strip_prefix("@entry_restriction(") else {
                    continue;
                };
                let rule = rule.trim_end_matches(')').trim().trim_matches('"');
                let wrong = |why| AnnotationError {
                    name: preamble.name.clone(),
                    annotation: format!("@entry_restriction({rule:?})"),
                    why,
                };
                let expr = Parser::new(rule, table).whole().map_err(wrong)?;
                of_table.restrictions.push((rule.to_owned(), expr));
            }
            for action in &table.action_refs {
                let found = p4info.actions.iter().find(|a| id(&a.preamble) == action.id);
                for param in found.iter().flat_map(|action| &action.params) {
                    let name = found.map_or("", |action: &Action| name(&action.preamble));
                    let references = references(p4info, name, param.id, &param.annotations)?;
                    let of_action = of_table.of_params.entry(action.id).or_default();
                    of_action.extend(references);
                }
            }
            constraints.tables.insert(preamble.id, of_table);
        }
        Ok(constraints)
    }

    /// Checks that these insertions, applied in this order, satisfy all constraints. References must be to entries among them.
    pub fn check(&self, insertions: &[Update]) -> Result<(), ConstraintError> {
        let mut written: BTreeMap<u32, Vec<BTreeMap<u32, u128>>> = BTreeMap::new();
        let mut known: BTreeSet<(u32, Vec<(u32, u128)>)> = BTreeSet::new();
        let referred: BTreeSet<u32> = self
            .tables
            .values()
            .flat_map(TableConstraints::referred)
            .collect();
        for update in insertions {
            let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
            let Some(Entity::TableEntry(entry)) = entity else {
                continue;
            };
            if update.r#type == update::Type::Delete as i32 {
                continue;
            }
            let Some(constraints) = self.tables.get(&entry.table_id) else {
                continue;
            };
            let keys = constraints.keys_of(entry);
            for (rule, expr) in &constraints.restrictions {
                if expr.eval(&keys) == 0 {
                    return Err(ConstraintError::Restriction {
                        table: constraints.name.clone(),
                        rule: rule.clone(),
                        keys: constraints.shown(&keys),
                    });
                }
            }
            for (table, wanted) in constraints.references_of(entry, &keys) {
                let is_there = known.contains(&(table, wanted.clone()))
                    || written.get(&table).is_some_and(|entries| {
                        let fits = |entry: &BTreeMap<u32, u128>| {
                            let mut parts = wanted.iter();
                            parts.all(|(key, value)| entry.get(key) == Some(value))
                        };
                        entries.iter().any(fits)
                    });
                if !is_there {
                    let to = self.tables.get(&table).map_or("", |to| &to.name);
                    return Err(ConstraintError::Reference {
                        table: constraints.name.clone(),
                        to: to.to_owned(),
                        keys: constraints.shown(&keys),
                    });
                }
                known.insert((table, wanted));
            }
            if referred.contains(&entry.table_id) {
                let values = keys.iter().map(|(id, key)| (*id, key.value)).collect();
                written.entry(entry.table_id).or_default().push(values);
            }
        }
        Ok(())
    }
}

impl TableConstraints {
    fn referred(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.of_keys.iter().chain(self.of_params.values().flatten());
        all.map(|reference| reference.table)
    }

    /// Match keys of an entry by id; an omitted key matches any value.
    fn keys_of(&self, entry: &TableEntry) -> BTreeMap<u32, Key> {
        let keys = self.keys.iter().map(|(id, (_, width))| {
            let field = entry.r#match.iter().find(|field| field.field_id == *id);
            (
                *id,
                key(field.and_then(|f| f.field_match_type.as_ref()), *width),
            )
        });
        keys.collect()
    }

    /// Entries to which this entry refers: for each table, pairs of key id and value.
    fn references_of(
        &self,
        entry: &TableEntry,
        keys: &BTreeMap<u32, Key>,
    ) -> BTreeMap<u32, Vec<(u32, u128)>> {
        let mut wanted: BTreeMap<u32, Vec<(u32, u128)>> = BTreeMap::new();
        for reference in &self.of_keys {
            if let Some(key) = keys.get(&reference.from) {
                let part = (reference.key, key.value);
                wanted.entry(reference.table).or_default().push(part);
            }
        }
        let action = entry
            .action
            .as_ref()
            .and_then(|action| action.r#type.as_ref());
        if let Some(table_action::Type::Action(action)) = action {
            for reference in self.of_params.get(&action.action_id).into_iter().flatten() {
                let mut params = action.params.iter();
                if let Some(param) = params.find(|param| param.param_id == reference.from) {
                    let part = (reference.key, number(&param.value));
                    wanted.entry(reference.table).or_default().push(part);
                }
            }
        }
        wanted
    }

    fn shown(&self, keys: &BTreeMap<u32, Key>) -> String {
        let shown = keys.iter().map(|(id, key)| {
            let name = self.keys.get(id).map_or("", |(name, _)| name);
            format!("{name}={:#x}", key.value)
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

fn id(preamble: &Option<Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

fn name(preamble: &Option<Preamble>) -> &str {
    preamble.as_ref().map_or("", |preamble| &preamble.name)
}

fn number(bytes: &[u8]) -> u128 {
    bytestring::decode(bytes, 128).unwrap_or(u128::MAX)
}

fn ones(width: u32) -> u128 {
    match width {
        0 => 0,
        1..=127 => (1 << width) - 1,
        _ => u128::MAX,
    }
}

fn key(field: Option<&FieldMatchType>, width: i32) -> Key {
    let width = u32::try_from(width).unwrap_or(0);
    let all = |value| Key {
        value,
        mask: ones(width),
        prefix_length: u128::from(width),
    };
    match field {
        Some(FieldMatchType::Exact(exact)) => all(number(&exact.value)),
        Some(FieldMatchType::Optional(optional)) => all(number(&optional.value)),
        Some(FieldMatchType::Lpm(lpm)) => {
            let length = u32::try_from(lpm.prefix_len).unwrap_or(0).min(width);
            Key {
                value: number(&lpm.value),
                mask: ones(width) & !ones(width - length),
                prefix_length: u128::from(length),
            }
        }
        Some(FieldMatchType::Ternary(ternary)) => Key {
            value: number(&ternary.value),
            mask: number(&ternary.mask),
            prefix_length: 0,
        },
        _ => Key {
            value: 0,
            mask: 0,
            prefix_length: 0,
        },
    }
}

/// Parses the `@refers_to(table, key)` annotations of one key or parameter. `from`: its id; `owner`: name of its table or
/// action.
fn references(
    p4info: &P4Info,
    owner: &str,
    from: u32,
    annotations: &[String],
) -> Result<Vec<Reference>, AnnotationError> {
    let mut found = Vec::new();
    for text in annotations {
        let Some(body) = text.strip_prefix("@refers_to(") else {
            continue;
        };
        let wrong = |why: &str| AnnotationError {
            name: owner.to_owned(),
            annotation: text.clone(),
            why: why.to_owned(),
        };
        let body = body.trim_end_matches(')');
        let (table, key) = body
            .split_once(',')
            .ok_or_else(|| wrong("expected a table and a key, as in `@refers_to(table, key)`"))?;
        let (table, key) = (plain(table), plain(key));
        let is_it = |t: &&Table| {
            let preamble = t.preamble.as_ref();
            preamble.is_some_and(|p| p.alias == table || p.name == table)
        };
        let table = p4info.tables.iter().find(is_it);
        let table = table.ok_or_else(|| wrong("there is no such table"))?;
        let mut keys = table.match_fields.iter();
        let key = keys.find(|field| field.name == key);
        found.push(Reference {
            from,
            table: id(&table.preamble),
            key: key.ok_or_else(|| wrong("the table has no such key"))?.id,
        });
    }
    Ok(found)
}

fn plain(text: &str) -> &str {
    text.trim().trim_matches('"')
}

/// A condition; its value is a number, 1 for true and 0 for false.
#[derive(Clone, Debug)]
enum Expr {
    Number(u128),
    Value(u32),
    Mask(u32),
    PrefixLength(u32),
    Not(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Implies,
    Or,
    And,
    Eq,
    Ne,
    Le,
    Lt,
    Ge,
    Gt,
}

impl Expr {
    fn eval(&self, keys: &BTreeMap<u32, Key>) -> u128 {
        let key = |id: &u32, part: fn(&Key) -> u128| keys.get(id).map_or(0, part);
        match self {
            Expr::Number(number) => *number,
            Expr::Value(id) => key(id, |key| key.value),
            Expr::Mask(id) => key(id, |key| key.mask),
            Expr::PrefixLength(id) => key(id, |key| key.prefix_length),
            Expr::Not(inner) => u128::from(inner.eval(keys) == 0),
            Expr::Binary(operator, left, right) => {
                let (left, right) = (left.eval(keys), right.eval(keys));
                u128::from(match operator {
                    Operator::Implies => left == 0 || right != 0,
                    Operator::Or => left != 0 || right != 0,
                    Operator::And => left != 0 && right != 0,
                    Operator::Eq => left == right,
                    Operator::Ne => left != right,
                    Operator::Le => left <= right,
                    Operator::Lt => left < right,
                    Operator::Ge => left >= right,
                    Operator::Gt => left > right,
                })
            }
        }
    }
}

/// Binary operators by increasing precedence. In each level, longer spellings precede their prefixes.
const LEVELS: [&[(&str, Operator)]; 4] = [
    &[("->", Operator::Implies)],
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Eq),
        ("!=", Operator::Ne),
        ("<=", Operator::Le),
        (">=", Operator::Ge),
        ("<", Operator::Lt),
        (">", Operator::Gt),
    ],
];
/// Maximum nesting of parentheses and `!`.
const MAX_DEPTH: usize = 64;

struct Parser<'a> {
    rest: &'a str,
    keys: &'a [MatchField],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(rule: &'a str, table: &'a Table) -> Parser<'a> {
        Parser {
            rest: rule,
            keys: &table.match_fields,
            depth: 0,
        }
    }

    fn whole(mut self) -> Result<Expr, String> {
        let expr = self.level(0)?;
        self.skip();
        match self.rest {
            "" => Ok(expr),
            rest => Err(format!("unexpected `{rest}`")),
        }
    }

    fn level(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else {
            return self.atom();
        };
        let mut left = self.level(level + 1)?;
        while let Some(operator) = self.operator(operators) {
            let right = self.level(level + 1)?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<Operator> {
        operators
            .iter()
            .find_map(|(text, operator)| self.accept(text).then_some(*operator))
    }

    fn atom(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(
                "the condition is nested too deeply; use fewer parentheses and `!`".to_owned(),
            );
        }
        let expr = self.atom_at_depth();
        self.depth -= 1;
        expr
    }

    fn atom_at_depth(&mut self) -> Result<Expr, String> {
        if self.accept("!") {
            return Ok(Expr::Not(Box::new(self.atom()?)));
        }
        if self.accept("(") {
            let inner = self.level(0)?;
            return match self.accept(")") {
                true => Ok(inner),
                false => Err("a `)` is missing".to_owned()),
            };
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        self.skip();
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "" => return Err("a key or a number is missing".to_owned()),
            "true" => return Ok(Expr::Number(1)),
            "false" => return Ok(Expr::Number(0)),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                let number = match word.get(..2) {
                    Some("0x" | "0X") => u128::from_str_radix(&word[2..], 16),
                    Some("0b" | "0B") => u128::from_str_radix(&word[2..], 2),
                    _ => word.parse(),
                };
                let wrong = |_| format!("`{word}` is not a number");
                return number.map(Expr::Number).map_err(wrong);
            }
            _ => {}
        }
        let key = self.keys.iter().find(|key| key.name == word);
        let key = key.ok_or_else(|| format!("there is no key `{word}`"))?.id;
        if self.accept("::mask") {
            return Ok(Expr::Mask(key));
        }
        if self.accept("::prefix_length") {
            return Ok(Expr::PrefixLength(key));
        }
        self.accept("::value");
        Ok(Expr::Value(key))
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn accept(&mut self, text: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
