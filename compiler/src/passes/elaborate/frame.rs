//! The environment of elaboration: bindings of names.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ir::{ActionId, FieldRef, Label, TableId, ValueSetId};
use crate::passes::builder::data::{Data, Place};
use crate::passes::externs::call::InstanceId;
use crate::sema::{Substitution, Type};
use crate::syntax::ast::{ControlDecl, DeclId, ExprId, ParserDecl};

/// The binding of a declaration.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value that is immutable in its scope.
    Data(Data),
    /// A variable, or a parameter that aliases storage of the caller.
    Place(Place),
    /// An instance.
    Instance(Instance),
}

/// A compile-time instance.
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
    /// An object that the program declares.
    Object(InstanceId),
}

/// An instance of a control: the data shared by its applications.
#[derive(Debug)]
pub struct ControlInstance {
    /// The control.
    pub decl: Rc<ControlDecl>,
    /// Full name, empty for a control whose objects are named from the top.
    pub name: String,
    /// Constructor arguments by parameter.
    pub arguments: Vec<(DeclId, Binding)>,
    /// Environment of the instantiation: type arguments and names.
    pub substitution: Substitution,
    /// Whether the source has several applications. Parameters are then copied to variables of the
    /// instance, so that its tables have one key for all of them.
    pub shared: Cell<bool>,
    /// Data of the first application.
    pub state: RefCell<ControlState>,
}

/// Data that later applications of a control reuse.
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

/// A table, with the computations before its application.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The table.
    pub id: TableId,
    /// Positions of computed key elements, and the fields that store them.
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
    /// Value sets, shared by all applications.
    pub value_sets: RefCell<BTreeMap<DeclId, ValueSetId>>,
    /// Instances made so far.
    pub instances: RefCell<BTreeMap<DeclId, Instance>>,
}

/// Target of `return`.
#[derive(Clone, Debug)]
pub struct ReturnTarget {
    /// The block to leave.
    pub label: Label,
    /// Destination and type of the result.
    pub result: Option<(Place, Type)>,
}

/// An environment: the bindings of one body, with those of the enclosing ones.
#[derive(Debug, Default)]
pub struct Frame {
    bindings: RefCell<BTreeMap<DeclId, Binding>>,
    /// The enclosing environment.
    pub parent: Option<Rc<Frame>>,
    /// Types of the type parameters in scope.
    pub substitution: Substitution,
    /// Prefix of generated names, without a final dot.
    pub name: String,
    /// The enclosing control instance.
    pub control: Option<Rc<ControlInstance>>,
    /// The enclosing parser instance.
    pub parser: Option<Rc<ParserInstance>>,
    /// Target of `return`.
    pub returns: Option<ReturnTarget>,
    /// Whether this is within the body of an action.
    pub in_action: bool,
}

impl Frame {
    /// Creates an environment within `parent`, with its control, parser, name and types.
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

    /// Binds a declaration in this environment.
    pub fn bind(&self, id: DeclId, binding: Binding) {
        self.bindings.borrow_mut().insert(id, binding);
    }

    /// Replaces the binding of a declaration.
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

    /// The binding of a declaration, in this or an enclosing environment.
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
