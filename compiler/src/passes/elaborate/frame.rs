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
    /// A value that is immutable in its scope, such as a constant or an `in` parameter.
    Data(Data),
    /// Storage of a variable, or of a parameter that aliases storage of the caller.
    Place(Place),
    /// An instance of a control, parser or extern.
    Instance(Instance),
}

/// A compile-time instance.
#[derive(Clone, Debug)]
pub enum Instance {
    /// An instance of a control.
    Control(Rc<ControlInstance>),
    /// An instance of a parser.
    Parser(Rc<ParserInstance>),
    /// An extern object.
    Extern(ExternObject),
}

/// An extern object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternObject {
    /// The `packet_in` of a parser.
    PacketIn,
    /// The `packet_out` of a deparser.
    PacketOut,
    /// An object that the program declares.
    Object(InstanceId),
}

/// An instance of a control, with the data that its applications share.
#[derive(Debug)]
pub struct ControlInstance {
    /// Declaration of the control.
    pub decl: Rc<ControlDecl>,
    /// Control-plane name, the prefix of the names of its objects.
    pub name: String,
    /// Bindings of the constructor parameters.
    pub arguments: Vec<(DeclId, Binding)>,
    /// Type arguments of the instantiation.
    pub substitution: Substitution,
    /// Whether the program has several applications of the instance. Arguments are then copied to variables of the instance, so that its
    /// tables have the same key fields in all applications.
    pub shared: Cell<bool>,
    /// Data of the first application of the instance, which later applications reuse.
    pub state: RefCell<ControlState>,
}

/// Data that later applications of a control reuse.
#[derive(Debug, Default)]
pub struct ControlState {
    /// The environment with the control's variables and instances; `None` before the first application.
    pub frame: Option<Rc<Frame>>,
    /// Tables elaborated so far.
    pub tables: BTreeMap<DeclId, TableInfo>,
    /// Implicit instances of controls that are applied as `Type.apply(...)`, by the call.
    pub direct: BTreeMap<ExprId, Rc<ControlInstance>>,
    /// Actions elaborated so far, without those whose parameters a table binds.
    pub actions: BTreeMap<DeclId, ActionId>,
    /// Control-plane names of top-level actions that the body calls directly.
    pub called_globals: Vec<String>,
}

/// An elaborated table, with the data that its applications need.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The table in the output.
    pub id: TableId,
    /// Key elements that are not fields: their positions in the key, and the fields in which each application stores them.
    pub computed: Vec<(usize, FieldRef)>,
    /// The table's actions, as pairs of the declaration and the action in the output.
    pub actions: Vec<(DeclId, ActionId)>,
}

/// An instance of a parser.
#[derive(Debug)]
pub struct ParserInstance {
    /// Declaration of the parser.
    pub decl: Rc<ParserDecl>,
    /// Control-plane name, the prefix of the names of its objects.
    pub name: String,
    /// Bindings of the constructor parameters.
    pub arguments: Vec<(DeclId, Binding)>,
    /// Type arguments of the instantiation.
    pub substitution: Substitution,
    /// Value sets elaborated so far, which all applications share.
    pub value_sets: RefCell<BTreeMap<DeclId, ValueSetId>>,
    /// Local instances elaborated so far, which all applications share.
    pub instances: RefCell<BTreeMap<DeclId, Instance>>,
}

/// The lowering of `return` in an inlined body.
#[derive(Clone, Debug)]
pub struct ReturnTarget {
    /// Label of the block that `return` leaves.
    pub label: Label,
    /// Variable for the result, and its type; `None` for `void`.
    pub result: Option<(Place, Type)>,
}

/// An environment: the bindings of a body, linked to the environment of the enclosing body.
#[derive(Debug, Default)]
pub struct Frame {
    bindings: RefCell<BTreeMap<DeclId, Binding>>,
    /// The enclosing environment; `None` for the top level.
    pub parent: Option<Rc<Frame>>,
    /// Types of the type parameters in scope.
    pub substitution: Substitution,
    /// Prefix of generated names, without a final dot.
    pub name: String,
    /// The enclosing control instance; `None` outside controls.
    pub control: Option<Rc<ControlInstance>>,
    /// The enclosing parser instance; `None` outside parsers.
    pub parser: Option<Rc<ParserInstance>>,
    /// The lowering of `return`; `None` where `return` is not allowed.
    pub returns: Option<ReturnTarget>,
    /// Whether the environment is that of an action's body, or within it.
    pub in_action: bool,
}

impl Frame {
    /// Creates an empty environment within `parent`, with the control, parser, name and type parameters of `parent`.
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

    /// Replaces the binding of a declaration, in the environment that binds it.
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

    /// The binding of a declaration in this or an enclosing environment; `None` if it is not bound.
    pub fn find(&self, id: DeclId) -> Option<Binding> {
        self.with(id, Binding::clone)
    }

    /// Whether a declaration is bound to storage.
    pub fn is_place(&self, id: DeclId) -> bool {
        self.with(id, |binding| matches!(binding, Binding::Place(_)))
            .unwrap_or(false)
    }

    /// Applies `read` to the binding of a declaration in this or an enclosing environment; `None` if it is not bound.
    fn with<T>(&self, id: DeclId, read: impl FnOnce(&Binding) -> T) -> Option<T> {
        let mut frame = self;
        loop {
            if let Some(binding) = frame.bindings.borrow().get(&id) {
                return Some(read(binding));
            }
            frame = frame.parent.as_deref()?;
        }
    }
}
