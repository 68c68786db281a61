use super::*;
use crate::diag::Span;
use crate::ir::{HeaderId, ParseState, Parser, Source, StateId, Stmt};
use crate::passes::externs::call::{Call, CallResult, InstanceId, Region};
use crate::sema::Type;

fn stmt<K>(kind: impl Into<K>) -> ir::Stmt<K> {
    ir::Stmt {
        kind: kind.into(),
        source: Source::default(),
    }
}

fn with_pipeline(body: Vec<Stmt>) -> FlatProgram {
    FlatProgram {
        pipelines: vec![Pipeline {
            name: "ingress",
            body,
            source: Source::default(),
        }],
        ..FlatProgram::default()
    }
}

fn with_action(body: Vec<inlined::Stmt>) -> InlinedProgram {
    let mut program = InlinedProgram::default();
    program.objects.actions.push(ir::Action {
        meta: ir::Meta::default(),
        params: Vec::new(),
    });
    program.action_bodies.push(body);
    program
}

fn apply(site: Option<Expr>) -> Stmt {
    stmt(StmtKind::Apply(Box::new(ir::Apply {
        table: TableId(0),
        then: ir::Follow::default(),
        own: ir::Site { here: site },
    })))
}

#[test]
fn break_must_leave_an_enclosing_block() {
    let leave = || stmt(StmtKind::Break(Label(1)));
    let block = |label| {
        stmt(StmtKind::Block {
            label: Label(label),
            body: vec![leave()],
        })
    };
    assert_eq!(flat(&with_pipeline(vec![block(1)])), Ok(()));
    assert!(flat(&with_pipeline(vec![block(2)])).is_err());
    assert!(flat(&with_pipeline(vec![block(1), leave()])).is_err());
}

#[test]
fn sites_are_required_exactly_for_tables_with_several_applications() {
    let site = || Some(Expr::Bool(true));
    assert_eq!(flat(&with_pipeline(vec![apply(None)])), Ok(()));
    assert!(flat(&with_pipeline(vec![apply(site())])).is_err());
    let twice = |second| flat(&with_pipeline(vec![apply(site()), apply(second)]));
    assert_eq!(twice(site()), Ok(()));
    assert!(twice(None).is_err());
}

#[test]
fn stored_value_must_have_the_width_of_the_field() {
    let mut program = with_pipeline(Vec::new());
    let storage = &mut program.objects.storage;
    storage.header_types.push(ir::HeaderType {
        name: "scalars_0".to_owned(),
        fields: Vec::new(),
    });
    storage.headers.push(ir::Header {
        name: "scalars".to_owned(),
        ty: ir::HeaderTypeId(0),
        metadata: true,
    });
    let field: FieldRef = storage.add_scalar("x".to_owned(), Scalar::Bit(8));
    let mut store = |width| {
        let effect = Effect::Assign {
            target: field.into(),
            value: Expr::bits(1, width),
        };
        program.pipelines[0].body = vec![stmt(effect)];
        flat(&program)
    };
    assert_eq!(store(8), Ok(()));
    assert!(store(9).is_err());
}

#[test]
fn states_must_have_unique_names_and_be_reachable() {
    let state = |name: &str, next| ParseState {
        name: name.to_owned(),
        body: Vec::new(),
        transition: Transition::Always(next),
        source: Source::default(),
    };
    let check = |states| {
        let parser = Parser {
            name: "parser",
            states,
            source: Source::default(),
        };
        flat(&FlatProgram {
            parsers: vec![parser],
            ..FlatProgram::default()
        })
    };
    let second = StateRef::State(StateId(1));
    let end = StateRef::End;
    assert_eq!(check(vec![state("a", second), state("b", end)]), Ok(()));
    assert!(check(vec![state("a", second), state("a", end)]).is_err());
    assert!(check(vec![state("a", end), state("b", end)]).is_err());
    assert!(check(vec![state("a", second)]).is_err());
}

#[test]
fn exactly_the_last_case_must_match_everything() {
    let keys = || {
        let place = FieldRef {
            header: HeaderId(0),
            field: 0,
        };
        vec![ir::SelectKey {
            place: place.into(),
            width: 8,
        }]
    };
    let one = |value: u32, mask: u32| Keyset::Values(vec![(value.into(), mask.into())]);
    let check = |cases: Vec<Keyset>| {
        let cases = cases.into_iter().map(|keyset| (keyset, StateRef::End));
        select_is_valid(&Transition::Select {
            keys: keys(),
            cases: cases.collect(),
            sources: Vec::new(),
        })
    };
    assert_eq!(check(vec![one(1, 0xff), Keyset::Default]), Ok(()));
    assert!(check(vec![one(1, 0xff)]).is_err());
    assert!(check(vec![Keyset::Default, Keyset::Default]).is_err());
    assert!(check(vec![one(1, 0xfe), Keyset::Default]).is_err());
    assert!(check(vec![one(1, 0x1ff), Keyset::Default]).is_err());
}

#[test]
fn entries_must_have_the_match_kinds_of_the_key_and_differ() {
    let entry = |value: u32, priority: u32| ir::Entry {
        keys: vec![EntryKey::Exact(value.into())],
        action: ir::ActionId(0),
        args: Vec::new(),
        priority,
        control_priority: 1,
        constant: true,
        source: Source::default(),
    };
    let check = |kind, entries| {
        entries_are_valid(&Table {
            keys: vec![Key::of(kind)],
            entries,
            ..Table::new(ir::Meta::default())
        })
    };
    let exact = |entries| check(MatchKind::Exact, entries);
    assert_eq!(exact(vec![entry(1, 1), entry(2, 2)]), Ok(()));
    assert!(exact(vec![entry(1, 1), entry(1, 2)]).is_err());
    assert!(exact(vec![entry(1, 2), entry(2, 1)]).is_err());
    assert!(check(MatchKind::Ternary, vec![entry(1, 1)]).is_err());
}

fn assign(value: Expr) -> inlined::Stmt {
    let target = FieldRef {
        header: HeaderId(0),
        field: 0,
    };
    let target = target.into();
    stmt(Effect::Assign { target, value })
}

#[test]
fn elaborated_program_has_only_known_calls_and_no_target_primitives() {
    let call = || stmt(Inlined::Own(Pending::Call(ir::CallId(0))));
    let drop = stmt(Effect::Primitive(ir::Primitive::MarkToDrop {
        metadata: HeaderId(0),
    }));
    assert_eq!(elaborated(&with_action(Vec::new())), Ok(()));
    assert!(elaborated(&with_action(vec![drop])).is_err());
    assert!(elaborated(&with_action(vec![call()])).is_err());
    let mut program = with_action(vec![call()]);
    program.externs.calls.push(Call {
        callee: Callee::Function("f".into()),
        args: Vec::new(),
        ret: Type::Void,
        result: CallResult::None,
        implementations: Vec::new(),
        region: Region::Ingress,
        scope: String::new(),
        span: Span::default(),
    });
    assert_eq!(elaborated(&program), Ok(()));
    program.externs.calls[0].callee = Callee::Method(InstanceId(0), "m".into());
    assert!(elaborated(&program).is_err());
}

#[test]
fn calls_and_results_must_not_remain_after_the_pass_externs() {
    let result = Expr::Result {
        call: ir::CallId(0),
        ty: Scalar::Bit(8),
    };
    let shifted = Expr::binary(ir::BinaryOp::Shr, result, Expr::bits(1, 8));
    assert_eq!(
        lowered(&with_action(vec![assign(Expr::bits(1, 8))])),
        Ok(())
    );
    assert!(lowered(&with_action(vec![assign(shifted)])).is_err());
    let call = stmt(Inlined::Own(Pending::Call(ir::CallId(0))));
    let inner = stmt(Inlined::Block {
        label: Label(0),
        body: vec![call],
    });
    assert!(lowered(&with_action(vec![inner])).is_err());
}

#[test]
fn statements_must_be_allowed_in_their_block() {
    let exit = || stmt(Inlined::Exit);
    assert_eq!(inlined(&with_action(vec![exit()])), Ok(()));
    let emit = stmt(Inlined::Own(Pending::Emit(HeaderId(0))));
    assert!(inlined(&with_action(vec![emit])).is_err());
    let mut parser = with_action(Vec::new());
    parser.blocks.push(inlined::Block {
        name: "parser",
        source: Source::default(),
        code: BlockCode::Parser(vec![inlined::State {
            name: "start".to_owned(),
            code: Some(inlined::StateCode {
                body: vec![exit()],
                scope: String::new(),
                transition: inlined::Transition::Always(inlined::Next::End),
            }),
            source: Source::default(),
            synthetic: false,
        }]),
    });
    assert!(inlined(&parser).is_err());
}

/// A program with one block.
fn with_block(code: BlockCode) -> InlinedProgram {
    let mut program = with_action(Vec::new());
    program.blocks.push(inlined::Block {
        name: "block",
        source: Source::default(),
        code,
    });
    program
}

fn checksum(condition: Expr) -> Checksum {
    Checksum {
        verify: false,
        condition,
        target: FieldRef {
            header: HeaderId(0),
            field: 0,
        },
        calculation: ir::CalculationId(0),
        source: Source::default(),
    }
}

#[test]
fn checksums_and_headers_are_only_in_their_blocks() {
    let emit = || stmt(Inlined::Own(Pending::Emit(HeaderId(0))));
    let sum = || {
        stmt(Inlined::Own(Pending::Checksum(Box::new(checksum(
            Expr::Bool(true),
        )))))
    };
    let leave = || stmt(Inlined::Break(Label(0)));
    let deparser = |body| inlined(&with_block(BlockCode::Deparser(body)));
    let checksums = |body| inlined(&with_block(BlockCode::Checksums(body)));
    assert_eq!(deparser(vec![emit()]), Ok(()));
    assert_eq!(checksums(vec![sum()]), Ok(()));
    for wrong in [deparser(vec![sum()]), deparser(vec![leave()])] {
        assert!(wrong.is_err());
    }
    for wrong in [checksums(vec![emit()]), checksums(vec![leave()])] {
        assert!(wrong.is_err());
    }
}

#[test]
fn checksums_and_deparsers_refer_to_what_exists() {
    let mut program = FlatProgram::default();
    let storage = &mut program.objects.storage;
    storage.header_types.push(ir::HeaderType {
        name: "h".to_owned(),
        fields: Vec::new(),
    });
    storage.headers.push(ir::Header {
        name: "h".to_owned(),
        ty: ir::HeaderTypeId(0),
        metadata: true,
    });
    storage.add_scalar("x".to_owned(), Scalar::Bit(16));
    program.objects.calculations.push(ir::Calculation {
        algorithm: ir::Algorithm::Csum16,
        inputs: Vec::new(),
        source: Source::default(),
    });
    let deparser = |header| Deparser {
        name: "deparser",
        headers: vec![HeaderId(header)],
        calls: Vec::new(),
        source: Source::default(),
    };
    program.deparsers.push(deparser(0));
    program.checksums.push(checksum(Expr::Bool(true)));
    assert_eq!(flat(&program), Ok(()));
    program.checksums[0].condition = Expr::bits(1, 8);
    let pass = |program: &FlatProgram| flat(program).map_err(|violation| violation.pass);
    assert_eq!(pass(&program), Err("checksums"));
    program.checksums[0] = checksum(Expr::Bool(true));
    program.checksums[0].target.field = 1;
    assert_eq!(pass(&program), Err("checksums"));
    program.checksums.clear();
    program.deparsers.push(deparser(1));
    assert_eq!(pass(&program), Err("deparsers"));
}
