//! The list of objects in P4Info, in the order of p4c.
//!
//! p4c first inlines all controls. The declarations of an inlined instance then follow the instance, and those of controls applied as
//! `Type.apply(...)` are at the end. Top-level actions are copied into each control that uses them, before the actions of the control.
//! The order is then breadth first: declarations at the top level, the blocks of the package, then the objects of these blocks.

use std::collections::VecDeque;
use std::rc::Rc;

use super::frame::{Binding, ControlInstance, ExternObject, Instance, ParserInstance};
use super::Elaborator;
use crate::ir::ObjectKind;
use crate::passes::annotations::full_name;
use crate::passes::externs::call::Listed;
use crate::syntax::ast::Decl;

/// A listed object, or a container of listed objects.
enum Node {
    /// A control or parser, whose objects are listed.
    Block(Instance),
    /// An object of the control plane, which is listed itself.
    Object(Listed),
}

/// The declarations of a control after all controls that it applies are inlined into it.
#[derive(Default)]
struct Contents {
    /// Names of top-level actions that tables list.
    global_actions: Vec<String>,
    /// Names of top-level actions that statements call.
    called_globals: Vec<String>,
    /// Names of the control's own actions.
    actions: Vec<String>,
    /// Tables, extern objects and other objects.
    objects: Vec<Node>,
}

impl Elaborator<'_> {
    /// Lists the objects of a program, all of whose blocks are elaborated.
    pub fn list_objects(&mut self, blocks: &[Instance]) {
        let checked = self.checked;
        let main = checked.main().map(|main| main.id);
        let mut queue = VecDeque::new();
        let mut package = false;
        for decl in &checked.program.decls {
            let Decl::Instantiation(decl) = decl else {
                continue;
            };
            if Some(decl.id) == main {
                package = true;
            } else if let Some(Binding::Instance(instance)) = self.top.find(decl.id) {
                queue.extend(self.node_of(instance));
            }
        }
        if package {
            queue.extend(blocks.iter().cloned().map(Node::Block));
        }
        let mut seen: Vec<*const ()> = Vec::new();
        while let Some(node) = queue.pop_front() {
            match node {
                Node::Object(listed) => self.into.externs.listing.push(listed),
                Node::Block(Instance::Control(control)) => {
                    let address = Rc::as_ptr(&control).cast();
                    if seen.contains(&address) {
                        continue;
                    }
                    seen.push(address);
                    let mut contents = Contents::default();
                    self.control_contents(&control, &mut contents);
                    let actions = contents
                        .global_actions
                        .into_iter()
                        .chain(contents.called_globals)
                        .chain(contents.actions)
                        .map(|name| Listed::Object(ObjectKind::Action, name));
                    self.into.externs.listing.extend(actions);
                    queue.extend(contents.objects);
                }
                Node::Block(Instance::Parser(parser)) => {
                    queue.extend(self.parser_contents(&parser));
                }
                Node::Block(Instance::Extern(_)) => {}
            }
        }
    }

    /// Adds the declarations of a control and of the controls that it applies.
    fn control_contents(&self, control: &ControlInstance, into: &mut Contents) {
        let state = control.state.borrow();
        let (Some(body), Some(frame)) = (&control.decl.body, &state.frame) else {
            return;
        };
        for decl in &body.locals {
            match decl {
                Decl::Action(decl) => {
                    let name = full_name(&control.name, &decl.annotations, &decl.name.name);
                    into.actions.push(name);
                }
                Decl::Table(decl) => {
                    let Some(info) = state.tables.get(&decl.id) else {
                        continue;
                    };
                    let global = info
                        .actions
                        .iter()
                        .filter(|(id, _)| self.checked.def(*id).parent.is_none())
                        .map(|(_, action)| self.program.action(*action).meta.name.clone());
                    into.global_actions.extend(global);
                    let name = self.program.table(info.id).meta.name.clone();
                    into.objects
                        .push(Node::Object(Listed::Object(ObjectKind::Table, name)));
                }
                Decl::Instantiation(decl) => match frame.find(decl.id) {
                    Some(Binding::Instance(Instance::Control(inner))) => {
                        self.control_contents(&inner, into);
                    }
                    Some(Binding::Instance(instance)) => {
                        into.objects.extend(self.node_of(instance))
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        for inner in state.direct.values() {
            self.control_contents(inner, into);
        }
        into.called_globals
            .extend(state.called_globals.iter().cloned());
    }

    /// The objects of a parser and of its sub-parsers.
    fn parser_contents(&self, parser: &ParserInstance) -> Vec<Node> {
        let mut nodes = Vec::new();
        let locals = parser.decl.body.as_ref().map(|body| &body.locals[..]);
        for decl in locals.unwrap_or_default() {
            match decl {
                Decl::ValueSet(decl) => {
                    if let Some(id) = parser.value_sets.borrow().get(&decl.id) {
                        let name = self.program.value_sets[id.index()].meta.name.clone();
                        nodes.push(Node::Object(Listed::Object(ObjectKind::ValueSet, name)));
                    }
                }
                Decl::Instantiation(decl) => match parser.instances.borrow().get(&decl.id) {
                    Some(Instance::Parser(inner)) => nodes.extend(self.parser_contents(inner)),
                    Some(instance) => nodes.extend(self.node_of(instance.clone())),
                    None => {}
                },
                _ => {}
            }
        }
        nodes
    }

    /// The node of an instance; `None` for packets.
    fn node_of(&self, instance: Instance) -> Option<Node> {
        let Instance::Extern(object) = instance else {
            return Some(Node::Block(instance));
        };
        match object {
            ExternObject::Object(id) => Some(Node::Object(Listed::Extern(id))),
            ExternObject::PacketIn | ExternObject::PacketOut => None,
        }
    }
}
