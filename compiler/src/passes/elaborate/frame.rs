//! The environment of elaboration: bindings of names.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ir::{ActionId, FieldRef, Label, TableId, ValueSetId};
use crate::passes::builder::data::{Data, Place};
use crate::passes::externs::call::InstanceId;
use crate::sema::{Substitution, Type};
use crate::syntax::ast::{ControlDecl, DeclId, ExprId, ParserDecl};

/// What a declaration is bound to.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value that the code at hand cannot change.
    Data(Data),
    /// A variable, or a parameter that stands for the caller's place.
    Place(Place),
    /// An instance.
    Instance(Instance),
}

/// A thing that exists from compile time on.
#[derive(Clone, Debug)]
pub enum Instance {
    /// A control.
    Control(Rc<ControlInstance>),
    /// A parser.
    Parser(Rc<ParserInstance>),
    /// An extern object.
    Extern(ExternObject),
}

/// An extern object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternObject {
    /// `packet_in`.
    PacketIn,
    /// `packet_out`.
    PacketOut,
    /// One that the program declares.
    Object(InstanceId),
}

/// An instance of a control: what is shared by all its applications.
#[derive(Debug)]
pub struct ControlInstance {
    /// The control.
    pub decl: Rc<ControlDecl>,
    /// Full name, empty for a control whose objects are named from the top.
    pub name: String,
    /// Constructor arguments by parameter.
    pub arguments: Vec<(DeclId, Binding)>,
    /// Type arguments and names of the place of instantiation.
    pub substitution: Substitution,
    /// Whether more than one application was seen in the source; parameters are then copied to variables of the
    /// instance, so that its tables have one key for all of them.
    pub shared: Cell<bool>,
    /// Made on the first application.
    pub state: RefCell<ControlState>,
}

/// What the first application of a control leaves for the next.
#[derive(Debug, Default)]
pub struct ControlState {
    /// Instances and variables.
    pub frame: Option<Rc<Frame>>,
    /// Tables made so far.
    pub tables: BTreeMap<DeclId, TableInfo>,
    /// Instances made by direct application, by the call that made them.
    pub direct: BTreeMap<ExprId, Rc<ControlInstance>>,
    /// Actions made so far that no table binds arguments of.
    pub actions: BTreeMap<DeclId, ActionId>,
    /// Control-plane names of actions of the top level that the body calls.
    pub called_globals: Vec<String>,
}

/// A table and what must happen before it is applied.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The table.
    pub id: TableId,
    /// Positions of key elements that are computed, and the fields that then hold them.
    pub computed: Vec<(usize, FieldRef)>,
    /// Actions by declaration, for `switch`.
    pub actions: Vec<(DeclId, ActionId)>,
}

/// An instance of a parser.
#[derive(Debug)]
pub struct ParserInstance {
    /// The parser.
    pub decl: Rc<ParserDecl>,
    /// Full name.
    pub name: String,
    /// Constructor arguments by parameter.
    pub arguments: Vec<(DeclId, Binding)>,
    /// Type arguments.
    pub substitution: Substitution,
    /// Value sets made so far: they are shared by all applications.
    pub value_sets: RefCell<BTreeMap<DeclId, ValueSetId>>,
    /// Instances made so far.
    pub instances: RefCell<BTreeMap<DeclId, Instance>>,
}

/// Where `return` goes.
#[derive(Clone, Debug)]
pub struct ReturnTarget {
    /// The block to leave.
    pub label: Label,
    /// Where the result goes, and its type.
    pub result: Option<(Place, Type)>,
}

/// Names of one body, and the ones around it.
#[derive(Debug, Default)]
pub struct Frame {
    bindings: RefCell<BTreeMap<DeclId, Binding>>,
    /// The frame around.
    pub parent: Option<Rc<Frame>>,
    /// Types of type parameters here and around.
    pub substitution: Substitution,
    /// Prefix of names made here, without a dot at its end.
    pub name: String,
    /// The control instance whose body this is, or is in.
    pub control: Option<Rc<ControlInstance>>,
    /// The parser instance whose body this is, or is in.
    pub parser: Option<Rc<ParserInstance>>,
    /// Where `return` goes.
    pub returns: Option<ReturnTarget>,
    /// Whether this is the body of an action, or in one.
    pub in_action: bool,
}

impl Frame {
    /// A frame inside of `parent` with its control, parser, name and types.
    pub fn inside(parent: &Rc<Frame>) -> Frame {
        Frame {
            bindings: RefCell::default(),
            parent: Some(Rc::clone(parent)),
            substitution: parent.substitution.clone(),
            name: parent.name.clone(),
            control: parent.control.clone(),
            parser: parent.parser.clone(),
            returns: parent.returns.clone(),
            in_action: parent.in_action,
        }
    }

    /// Binds a declaration here.
    pub fn bind(&self, id: DeclId, binding: Binding) {
        self.bindings.borrow_mut().insert(id, binding);
    }

    /// Binds a declaration anew, where it is bound now.
    pub fn rebind(&self, id: DeclId, binding: Binding) {
        let mut frame = self;
        loop {
            if let Some(known) = frame.bindings.borrow_mut().get_mut(&id) {
                *known = binding;
                return;
            }
            match frame.parent.as_deref() {
                Some(parent) => frame = parent,
                None => return,
            }
        }
    }

    /// What a declaration is bound to, here or around.
    pub fn find(&self, id: DeclId) -> Option<Binding> {
        let mut frame = self;
        loop {
            if let Some(binding) = frame.bindings.borrow().get(&id) {
                return Some(binding.clone());
            }
            frame = frame.parent.as_deref()?;
        }
    }
}
