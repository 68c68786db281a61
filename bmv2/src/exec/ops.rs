//! The instruction set of compiled programs.
//!
//! [`for_each_op`] is the table of all instructions. From each row come the variants of [`Op`] and [`FusedOp`], the
//! operands, the facts that the analyses use, the text in a disassembly, the page of the book, and the code that the
//! interpreter executes. A row without one of its parts does not match the patterns below, so it does not compile;
//! no analysis has a default for instructions that it does not list.
//!
//! All operands are *slots*: indexes into one flat array of 64-bit words with the packet's fields, the parameters of
//! the running action, temporaries and the program's constants. A field of up to 64 bits occupies one slot,
//! sign-extended if the field is signed. A wider field occupies several, least significant word first. A temporary
//! holds a value modulo 2^64.

/// Index into the array of a packet's 64-bit words: fields, action parameters, temporaries and constants.
pub type Slot = u16;

/// Position of an instruction in `LoadedProgram::code`.
pub type Pc = u32;

/// Passes the table of instructions to the macro `$callback`.
///
/// The table has three groups. Instructions of `frequent` are executed by the interpreter's loop, those of `rare` by
/// `Interpreter::step`. Instructions of `fused` are created by [`crate::load`]'s last pass from the ones after
/// `fuses`. A row of the first two groups has, in this order:
///
/// - documentation, whose first sentence is in the book;
/// - the name, and each operand with its role, which determines its type ([`role`]);
/// - the text of a disassembly, with operands in braces;
/// - `effects`: what the instruction changes besides the words that it writes ([`Effect`]);
/// - `value`: the word that it computes, if the dataflow facts follow its value ([`Computation`]);
/// - `flow`: the next instruction ([`Flow`]); `zero` is the word of the constant 0;
/// - `run`: the code of the interpreter. `w!` is a word, `phv!` are all words, and `vm!` is the `Interpreter`. In the
///   loop, `jump!`, `skip!` and `read!` are as in [`super::run`]; in a rare instruction, `?` drops the packet.
macro_rules! for_each_op {
    ($callback:ident) => { $callback! {
names (zero)
frequent {
    /// Copies a word. Several moves may write the result of a choice, one on each path.
    Mov { d: Def, a: Word } "{d} := {a}",
        effects [], value Some((d, Computation::Copy { a })), flow Flow::Next,
        run w!(d) = w!(a);
    /// Selects the low bits, zero-extended.
    Mask { d: Result, a: Word, bits: Width } "{d} := {a}[0 +: {bits}]",
        effects [], value Some((d, Computation::Field { a, low: 0, bits })), flow Flow::Next,
        run w!(d) = wrap(w!(a), u32::from(bits), false);
    /// Adds modulo 2^64.
    Add { d: Result, a: Word, b: Word } "{d} := {a} + {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).wrapping_add(w!(b));
    /// Subtracts modulo 2^64.
    Sub { d: Result, a: Word, b: Word } "{d} := {a} - {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).wrapping_sub(w!(b));
    /// Bitwise and.
    And { d: Result, a: Word, b: Word } "{d} := {a} & {b}",
        effects [], value Some((d, Computation::Binary { a, b, of: |a, b| a & b })), flow Flow::Next,
        run w!(d) = w!(a) & w!(b);
    /// Bitwise or.
    Or { d: Result, a: Word, b: Word } "{d} := {a} | {b}",
        effects [], value Some((d, Computation::Binary { a, b, of: |a, b| a | b })), flow Flow::Next,
        run w!(d) = w!(a) | w!(b);
    /// Bitwise exclusive or.
    Xor { d: Result, a: Word, b: Word } "{d} := {a} ^ {b}",
        effects [], value Some((d, Computation::Binary { a, b, of: |a, b| a ^ b })), flow Flow::Next,
        run w!(d) = w!(a) ^ w!(b);
    /// Shifts to the left; zero for a shift by 64 or more.
    Shl { d: Result, a: Word, b: Word } "{d} := {a} << {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = shl(w!(a), w!(b));
    /// Shifts to the right, unsigned; zero for a shift by 64 or more.
    ShrU { d: Result, a: Word, b: Word } "{d} := {a} >> {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = shr(w!(a), w!(b));

    /// Selects bits, zero-extended.
    Bits { d: Result, a: Word, low: Bit, bits: Width } "{d} := {a}[{low} +: {bits}]",
        effects [], value Some((d, Computation::Field { a, low, bits })), flow Flow::Next,
        run w!(d) = field(w!(a), low, bits);
    /// Selects the low bits of a sum.
    AddBits { d: Result, a: Word, b: Word, bits: Width } "{d} := ({a} + {b})[0 +: {bits}]",
        effects [], value None, flow Flow::Next,
        run w!(d) = field(w!(a).wrapping_add(w!(b)), 0, bits);
    /// Selects the low bits of a difference.
    SubBits { d: Result, a: Word, b: Word, bits: Width } "{d} := ({a} - {b})[0 +: {bits}]",
        effects [], value None, flow Flow::Next,
        run w!(d) = field(w!(a).wrapping_sub(w!(b)), 0, bits);
    /// Concatenates a word and bits of another one.
    Join { d: Result, a: Word, shift: Bit, b: Word, low: Bit, bits: Width }
        "{d} := {a} << {shift} | {b}[{low} +: {bits}]",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a) << (shift & 63) | field(w!(b), low, bits);
    /// Selects a bit of a difference: the order of two serial numbers.
    SubBit { d: Result, a: Word, low_a: Bit, b: Word, low_b: Bit, bit: Bit }
        "{d} := (({a} >> {low_a}) - ({b} >> {low_b}))[{bit}]",
        effects [], value None, flow Flow::Next,
        run w!(d) = sub_bit(w!(a), low_a, w!(b), low_b, bit);

    /// Tests equality.
    Eq { d: Result, a: Word, b: Word } "{d} := {a} == {b}",
        effects [], value Some((d, Computation::Equal { a, b, equal: true })), flow Flow::Next,
        run w!(d) = u64::from(w!(a) == w!(b));
    /// Tests inequality.
    Ne { d: Result, a: Word, b: Word } "{d} := {a} != {b}",
        effects [], value Some((d, Computation::Equal { a, b, equal: false })), flow Flow::Next,
        run w!(d) = u64::from(w!(a) != w!(b));
    /// Tests whether a number is less than another one, unsigned.
    LtU { d: Result, a: Word, b: Word } "{d} := {a} <u {b}",
        effects [], value Some((d, Computation::Binary { a, b, of: |a, b| u64::from(a < b) })), flow Flow::Next,
        run w!(d) = u64::from(w!(a) < w!(b));
    /// Tests whether a number is at most another one, unsigned.
    LeU { d: Result, a: Word, b: Word } "{d} := {a} <=u {b}",
        effects [], value Some((d, Computation::Binary { a, b, of: |a, b| u64::from(a <= b) })), flow Flow::Next,
        run w!(d) = u64::from(w!(a) <= w!(b));
    /// Tests whether a number is less than another one, signed.
    LtS { d: Result, a: Word, b: Word } "{d} := {a} <s {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = u64::from((w!(a) as i64) < w!(b) as i64);
    /// Tests whether a number is at most another one, signed.
    LeS { d: Result, a: Word, b: Word } "{d} := {a} <=s {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = u64::from(w!(a) as i64 <= w!(b) as i64);
    /// Conjunction of a word and an equality.
    AndEq { d: Result, x: Word, a: Word, b: Word } "{d} := {x} & ({a} == {b})",
        effects [], value Some((d, Computation::AndEqual { x, a, b, equal: true })), flow Flow::Next,
        run w!(d) = w!(x) & u64::from(w!(a) == w!(b));
    /// Conjunction of a word and an inequality.
    AndNe { d: Result, x: Word, a: Word, b: Word } "{d} := {x} & ({a} != {b})",
        effects [], value Some((d, Computation::AndEqual { x, a, b, equal: false })), flow Flow::Next,
        run w!(d) = w!(x) & u64::from(w!(a) != w!(b));
    /// Disjunction of a word and an equality.
    OrEq { d: Result, x: Word, a: Word, b: Word } "{d} := {x} | ({a} == {b})",
        effects [], value Some((d, Computation::OrEqual { x, a, b, equal: true })), flow Flow::Next,
        run w!(d) = w!(x) | u64::from(w!(a) == w!(b));
    /// Disjunction of a word and an inequality.
    OrNe { d: Result, x: Word, a: Word, b: Word } "{d} := {x} | ({a} != {b})",
        effects [], value Some((d, Computation::OrEqual { x, a, b, equal: false })), flow Flow::Next,
        run w!(d) = w!(x) | u64::from(w!(a) != w!(b));

    /// Jumps.
    Jump { to: Target } "goto {to}",
        effects [], value None, flow Flow::Jump { to },
        run jump!(to);
    /// Jumps if a word is zero.
    JumpIfZero { a: Word, to: Target } "if {a} == 0 goto {to}",
        effects [], value None, flow Flow::unless(a, Test::Ne, zero, to),
        run if w!(a) == 0 { jump!(to); };
    /// Jumps unless a comparison holds.
    JumpIfNot { a: Word, b: Word, to: Target, test: Test } "unless {a} {test} {b} goto {to}",
        effects [], value None, flow Flow::unless(a, test, b, to),
        run {
            let (a, b) = (w!(a), w!(b));
            if !test.holds(a, b) {
                jump!(to);
            }
        };
    /// Jumps unless selected bits are equal or not equal to a word.
    JumpUnlessBits { a: Word, low: Bit, bits: Width, b: Word, equal: Equality, to: Target }
        "unless {a}[{low} +: {bits}] {equal} {b} goto {to}",
        effects [], value None,
        flow Flow::Branch(Branch {
            condition: Condition::Bits { a, low, bits, b },
            falls_through_on: equal,
            to,
        }),
        run if (field(w!(a), low, bits) == w!(b)) != equal { jump!(to); };
    /// Jumps unless a bit of a difference has a value; see `SubBit`.
    JumpUnlessSubBit { a: Word, low_a: Bit, b: Word, low_b: Bit, bit: Bit, set: BitValue, to: Target }
        "unless (({a} >> {low_a}) - ({b} >> {low_b}))[{bit}] == {set} goto {to}",
        effects [], value None,
        flow Flow::Branch(Branch {
            condition: Condition::SubBit { a, low_a, b, low_b, bit },
            falls_through_on: set,
            to,
        }),
        run if (sub_bit(w!(a), low_a, w!(b), low_b, bit) == 1) != set { jump!(to); };

    /// Reads a register cell. Beyond the array, the word keeps its value.
    RegisterRead { d: MayDef, array: Register, i: Word } "{d} := {array}[{i}]",
        effects [Externs], value None, flow Flow::Next,
        run read!(d, array, i);
    /// Writes a register cell.
    RegisterWrite { array: Register, i: Word, a: Word } "{array}[{i}] := {a}",
        effects [Externs], value None, flow Flow::Next,
        run {
            vm!().state.register_accesses += 1;
            vm!().state.registers[usize::from(array)].set(w!(i), w!(a));
        };
    /// Counts the packet in a cell of a counter.
    Count { array: Counter, i: Word } "count {array}[{i}]",
        effects [Externs], value None, flow Flow::Next,
        run {
            let cells = &mut vm!().state.counters[usize::from(array)];
            if let Some(cell) = usize::try_from(w!(i)).ok().and_then(|i| cells.get_mut(i)) {
                cell.count(vm!().ctx.ingress_length);
            }
        };

    /// Looks up the packet in a table, and calls the action of the entry or the default action.
    Apply { table: Table } "apply {table}",
        effects [Tables, Words], value None, flow Flow::Table { table },
        run {
            if vm!().is_endless() {
                return;
            }
            let (action, after) = apply(&mut vm!(), phv!(), usize::from(table));
            match action {
                Some(action) => {
                    vm!().return_pc = Some(after);
                    enter!(action);
                }
                None => jump!(after),
            }
        };
    /// Calls an action.
    Call { action: Action } "call {action}",
        effects [Words], value None, flow Flow::Call,
        run {
            if vm!().is_endless() {
                return;
            }
            vm!().return_pc = Some(pc!());
            enter!(vm!().program.actions[usize::from(action)].code);
        };
    /// Ends the pipeline if the packet has executed `Exit`.
    EndIfExit "end if exit",
        effects [], value None, flow Flow::MayEnd,
        run if vm!().ctx.exit { return; };
    /// Counts an execution of this place, for coverage.
    Cover { counter: CoverageCounter } "cover {counter}",
        effects [Log], value None, flow Flow::Next,
        run vm!().state.coverage.count(counter);
    /// Returns from an action; ends the pipeline after `Exit`.
    Return "return",
        effects [], value None, flow Flow::Return,
        run match vm!().return_pc.take() {
            Some(_) if vm!().ctx.exit => return,
            Some(after) => jump!(after),
            None => return,
        };
    /// Ends a pipeline.
    End "end",
        effects [], value None, flow Flow::End,
        run return;
}
rare {
    /// Selects the low bits, sign-extended.
    Sext { d: Result, a: Word, bits: Width } "{d} := sext {a}[0 +: {bits}]",
        effects [], value None, flow Flow::Next,
        run w!(d) = wrap(w!(a), u32::from(bits), true);
    /// Multiplies modulo 2^64.
    Mul { d: Result, a: Word, b: Word } "{d} := {a} * {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).wrapping_mul(w!(b));
    /// Bitwise complement.
    Not { d: Result, a: Word } "{d} := ~{a}",
        effects [], value None, flow Flow::Next,
        run w!(d) = !w!(a);
    /// Shifts to the right, signed.
    ShrS { d: Result, a: Word, b: Word } "{d} := {a} >>s {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = (w!(a) as i64 >> w!(b).min(63)) as u64;
    /// Divides, unsigned; zero for a division by zero.
    DivU { d: Result, a: Word, b: Word } "{d} := {a} / {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).checked_div(w!(b)).unwrap_or(0);
    /// Remainder of a division, unsigned; zero for a division by zero.
    ModU { d: Result, a: Word, b: Word } "{d} := {a} % {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).checked_rem(w!(b)).unwrap_or(0);
    /// Saturates a signed number to an unsigned one.
    UsatS { d: Result, a: Word, bits: Width } "{d} := saturate signed {a} to unsigned {bits}",
        effects [], value None, flow Flow::Next,
        run w!(d) = (w!(a) as i64).max(0).unsigned_abs().min(u64::MAX >> (64 - bits));
    /// Saturates an unsigned number to an unsigned one.
    UsatU { d: Result, a: Word, bits: Width } "{d} := saturate unsigned {a} to unsigned {bits}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).min(u64::MAX >> (64 - bits));
    /// Saturates a signed number to a signed one.
    SatS { d: Result, a: Word, bits: Width } "{d} := saturate signed {a} to signed {bits}",
        effects [], value None, flow Flow::Next,
        run {
            let max = ((1u64 << (bits - 1)) - 1) as i64;
            w!(d) = (w!(a) as i64).clamp(-max - 1, max) as u64;
        };
    /// Saturates an unsigned number to a signed one.
    SatU { d: Result, a: Word, bits: Width } "{d} := saturate unsigned {a} to signed {bits}",
        effects [], value None, flow Flow::Next,
        run w!(d) = w!(a).min((1 << (bits - 1)) - 1);
    /// Copies consecutive words.
    Copy { d: DefWords, a: Words, n: Count } "{d} .. := {a} .., {n} words",
        effects [], value None, flow Flow::Next,
        run {
            let (d, a) = (usize::from(d), usize::from(a));
            phv!().copy_within(a..a + usize::from(n), d);
        };
    /// Evaluates an expression in unbounded integers: `LoadedProgram::bigs[index]`.
    Big { index: Big } "evaluate {index}",
        effects [Words, Externs], value None, flow Flow::Next,
        run run_big(&vm!().program.bigs[index as usize], vm!().program, vm!().state, phv!());

    /// Reads a field of a stack element; zero beyond the stack.
    LoadElement { d: Result, element: Element, i: Word } "{d} := {element}[{i}]",
        effects [], value None, flow Flow::Next,
        run {
            let slot = vm!().program.elements[usize::from(element)].slot(w!(i));
            w!(d) = slot.map_or(0, |slot| phv!()[slot]);
        };
    /// Writes a field of a stack element. The value must be wrapped; indexes beyond the stack are ignored.
    StoreElement { element: Element, i: Word, a: Word } "{element}[{i}] := {a}",
        effects [Words], value None, flow Flow::Next,
        run if let Some(slot) = vm!().program.elements[usize::from(element)].slot(w!(i)) {
            phv!()[slot] = w!(a);
        };

    /// Makes a header valid.
    AddHeader { h: Header } "{h} := valid",
        effects [Headers], value None, flow Flow::Next,
        run vm!().ctx.length += headers::add(&vm!().program.layout, phv!(), h);
    /// Makes a header invalid.
    RemoveHeader { h: Header } "{h} := invalid",
        effects [Headers], value None, flow Flow::Next,
        run vm!().ctx.length += headers::remove(&vm!().program.layout, phv!(), h);
    /// Copies a header.
    AssignHeader { d: Header, s: Header } "{d} := {s}",
        effects [Headers], value None, flow Flow::Next,
        run headers::assign(&vm!().program.layout, phv!(), d, s);
    /// Adds, removes or copies a stack element: `LoadedProgram::dyn_headers[op]`.
    DynHeader { op: DynHeader } "{op}",
        effects [Headers], value None, flow Flow::Next,
        run {
            let op = &vm!().program.dyn_headers[usize::from(op)];
            vm!().ctx.length += headers::run_dyn(&vm!().program.layout, phv!(), op);
        };
    /// Tests whether both headers are valid and all fields are equal.
    HeaderEq { d: Result, a: Header, b: Header } "{d} := {a} == {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = u64::from(headers::equal(&vm!().program.layout, phv!(), a, b));
    /// Tests whether two header unions are equal.
    UnionEq { d: Result, a: Union, b: Union } "{d} := {a} == {b}",
        effects [], value None, flow Flow::Next,
        run w!(d) = u64::from(headers::unions_equal(&vm!().program.layout, phv!(), a, b));
    /// Tests whether a header of a union is valid.
    UnionValid { d: Result, u: Union } "{d} := {u} is valid",
        effects [], value None, flow Flow::Next,
        run w!(d) = u64::from(headers::union_valid(&vm!().program.layout, phv!(), u));
    /// Copies a header union.
    AssignUnion { d: Union, s: Union } "{d} := {s}",
        effects [Headers], value None, flow Flow::Next,
        run headers::assign_union(&vm!().program.layout, phv!(), d, s);
    /// Copies a header stack.
    AssignStack { d: Stack, s: Stack } "{d} := {s}",
        effects [Headers], value None, flow Flow::Next,
        run headers::assign_stack(&vm!().program.layout, phv!(), d, s);
    /// Copies a stack of header unions.
    AssignUnionStack { d: UnionStack, s: UnionStack } "{d} := {s}",
        effects [Headers], value None, flow Flow::Next,
        run headers::assign_union_stack(&vm!().program.layout, phv!(), d, s);
    /// Moves the elements of a stack towards higher indexes.
    Push { stack: AnyStack, n: Word } "push {stack} by {n}",
        effects [Headers], value None, flow Flow::Next,
        run StackWords::of(&vm!().program.layout, stack).push(phv!(), w!(n));
    /// Moves the elements of a stack towards lower indexes.
    Pop { stack: AnyStack, n: Word } "pop {stack} by {n}",
        effects [Headers], value None, flow Flow::Next,
        run StackWords::of(&vm!().program.layout, stack).pop(phv!(), w!(n));
    /// Copies the variable-length field of a header.
    AssignVl { d: Header, s: Header } "varbit of {d} := varbit of {s}",
        effects [Headers], value None, flow Flow::Next,
        run headers::assign_varbit(&vm!().program.layout, phv!(), d, s);

    /// Meters the packet. `before` is its previous colour, 0 for none; beyond the array, the word keeps its value.
    Meter { d: MayDef, array: Meter, i: Word, before: Word } "{d} := meter {array}[{i}], colour {before}",
        effects [Externs], value None, flow Flow::Next,
        run if let Some(colour) = vm!().meter(array, w!(i), w!(before)) {
            w!(d) = colour;
        };
    /// Applies a low-pass filter to a value. The filter's configuration and state are cells of registers.
    Filter { d: Def, spec: Register, s: Word, memory: Register, i: Word, value: Word }
        "{d} := filter {spec}[{s}], {memory}[{i}], {value}",
        effects [Externs], value None, flow Flow::Next,
        run w!(d) = vm!().filter((spec, w!(s)), (memory, w!(i)), w!(value));
    /// Computes a hash: `hash % max + base`, where a `max` of 0 counts as 1.
    Hash { d: Result, calculation: Calculation, base: Word, max: Word }
        "{d} := {calculation} % {max} + {base}",
        effects [Externs], value None, flow Flow::Next,
        run w!(d) = (vm!().hash(calculation, phv!()) % w!(max).max(1)).wrapping_add(w!(base));
    /// Draws a uniformly distributed number.
    Random { d: Def, low: Word, high: Word } "{d} := random {low} to {high}",
        effects [Externs], value None, flow Flow::Next,
        run w!(d) = vm!().state.random.between(w!(low), w!(high));

    /// Sets the egress port to the drop port, and clears the multicast group.
    MarkToDrop { spec: Def, bits: Width, group: OptionalDef } "{spec} := drop port ({bits} bits); {group} := 0",
        effects [Drop], value None, flow Flow::Next,
        run {
            w!(spec) = wrap(u64::from(vm!().drop_port), u32::from(bits), false);
            if let Some(group) = group {
                w!(group) = 0;
            }
        };
    /// Records a register access; a second one for the same packet is a fault (Tofino).
    RegisterAccess { array: Register, site: Site } "access {array} at {site}",
        effects [Drop, Log], value None, flow Flow::Next,
        run vm!().access_register(array, site)?;
    /// Requests a digest.
    Digest { list: Word } "digest {list}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().ctx.digest = w!(list) as u32;
    /// Requests a clone of the received packet.
    CloneIngress { session: Word, list: Word } "clone received packet, session {session}, list {list}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().request_clone(w!(session), w!(list));
    /// Requests a clone of the packet in egress.
    CloneEgress { session: Word, list: Word } "clone egress packet, session {session}, list {list}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().request_clone(w!(session), w!(list));
    /// Requests a resubmission.
    Resubmit { list: Word } "resubmit {list}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().ctx.resubmit = w!(list) as u32;
    /// Requests a recirculation.
    Recirculate { list: Word } "recirculate {list}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().ctx.recirculate = w!(list) as u32;
    /// Limits the length of the packet in bytes.
    Truncate { bytes: Word } "truncate to {bytes}",
        effects [Packet], value None, flow Flow::Next,
        run vm!().ctx.truncate = w!(bytes);
    /// Logs a message of the program.
    Log { index: LogMessage } "log {index}",
        effects [Log], value None, flow Flow::Next,
        run vm!().log_message(index, phv!());
    /// Drops the packet and logs the assertion if a word is zero.
    Assert { a: Word, index: Assertion } "assert {a}: {index}",
        effects [Drop, Log], value None, flow Flow::Next,
        run vm!().assert(w!(a) != 0, index)?;
    /// Marks the pipeline to end after the action.
    Exit "exit",
        effects [Packet], value None, flow Flow::Next,
        run vm!().ctx.exit = true;
    /// Writes the text of a condition or primitive to the log.
    Note { index: Note } "note {index}",
        effects [Log], value None, flow Flow::Next,
        run note(vm!().program, vm!().state, phv!(), index);
}
fused {
    /// Two moves.
    Mov2 { d: Def, a: Word, e: Def, b: Word } "{d} := {a}; {e} := {b}",
        fuses [Mov, Mov],
        run {
            w!(d) = w!(a);
            w!(e) = w!(b);
            skip!(1u16);
        };
    /// Three moves.
    Mov3 { d: Def, a: Word, e: Def, b: Word, f: Def, c: Word } "{d} := {a}; {e} := {b}; {f} := {c}",
        fuses [Mov, Mov, Mov],
        run {
            w!(d) = w!(a);
            w!(e) = w!(b);
            w!(f) = w!(c);
            skip!(2u16);
        };
    /// Copies a word to consecutive words.
    Fill { d: DefWords, a: Word, n: Count } "{d} .. := {a}, {n} words",
        fuses [Mov, Mov, Mov, Mov],
        run {
            let value = w!(a);
            let d = usize::from(d);
            phv!()[d..d + usize::from(n)].fill(value);
            skip!(n - 1);
        };
    /// A move and a jump.
    MovJump { d: Def, a: Word, to: Target } "{d} := {a}; goto {to}",
        fuses [Mov, Jump],
        run {
            w!(d) = w!(a);
            skip!(1u16);
            jump!(to);
        };
    /// Two consecutive conditional jumps.
    JumpPair { a: Word, b: Word, x: Word, y: Word, equal: Equalities, to: Offsets }
        "unless {a} {equal.0} {b} goto {to.0}; unless {x} {equal.1} {y} goto {to.1}",
        fuses [JumpIfNot, JumpIfNot],
        run {
            if (w!(a) == w!(b)) != equal[0] {
                forward!(to[0]);
            }
            if (w!(x) == w!(y)) != equal[1] {
                forward!(to[1]);
            }
            skip!(1u16);
        };
    /// A conditional jump to another one.
    JumpElse { a: Word, b: Word, x: Word, y: Word, equal: Equalities, to: Offsets }
        "unless {a} {equal.0} {b} (if {x} {equal.1} {y} goto {to.0} else goto {to.1})",
        fuses [JumpIfNot, JumpIfNot],
        run if (w!(a) == w!(b)) != equal[0] {
            let holds = (w!(x) == w!(y)) == equal[1];
            forward!(to[usize::from(!holds)]);
        };
    /// A move and a conditional jump.
    MovJumpUnless { d: Def, a: Word, x: Word, y: Word, equal: Equality, to: Target }
        "{d} := {a}; unless {x} {equal} {y} goto {to}",
        fuses [Mov, JumpIfNot],
        run {
            w!(d) = w!(a);
            skip!(1u16);
            if (w!(x) == w!(y)) != equal {
                jump!(to);
            }
        };
    /// Two selections of bits.
    Bits2 { d: Def, a: Word, e: Def, b: Word, low: BitPair, bits: BitPair }
        "{d} := {a}[{low.0} +: {bits.0}]; {e} := {b}[{low.1} +: {bits.1}]",
        fuses [Bits, Bits],
        run {
            w!(d) = field(w!(a), low[0], bits[0]);
            w!(e) = field(w!(b), low[1], bits[1]);
            skip!(1u16);
        };
    /// A register read and a conditional jump on the value.
    ReadJump {
        d: MayDef, array: Register, i: Word, low_a: Bit, b: Word, low_b: Bit, bit: Bit, set: BitValue, to: Offset
    }
        "{d} := {array}[{i}]; unless (({d} >> {low_a}) - ({b} >> {low_b}))[{bit}] == {set} goto {to}",
        fuses [RegisterRead, JumpUnlessSubBit],
        run {
            read!(d, array, i);
            if (sub_bit(w!(d), low_a, w!(b), low_b, bit) == 1) != set {
                forward!(to);
            }
            skip!(1u16);
        };
    /// Jumps unless two words are equal.
    JumpUnlessEq { a: Word, b: Word, to: Target } "unless {a} == {b} goto {to}",
        fuses [JumpIfNot],
        run if w!(a) != w!(b) { jump!(to); };
    /// Jumps unless two words differ.
    JumpUnlessNe { a: Word, b: Word, to: Target } "unless {a} != {b} goto {to}",
        fuses [JumpIfNot],
        run if w!(a) == w!(b) { jump!(to); };
}
    } };
}
pub(super) use for_each_op;

/// Declares the roles of operands: a type of the role in [`role`], and a variant of [`Operand`].
macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident($ty:ty);)*) => {
        /// Types of operands, by role; [`Operand`] documents the roles.
        pub mod role {
            use super::{Pc, Slot};

            $(pub type $role = $ty;)*
        }

        /// An operand of an instruction, in its role.
        #[derive(Clone, Copy, Debug)]
        pub enum Operand {
            $($(#[$doc])* $role(role::$role),)*
        }

        impl Operand {
            /// Names of all roles.
            #[cfg(test)]
            pub const ROLES: &[&str] = &[$(stringify!($role)),*];
        }
    };
}

roles! {
    /// The word with the result of a computation. All operands are read before it is written, no other path writes
    /// it, and so lowering may choose another word.
    Result(Slot);
    /// A word that is always written.
    Def(Slot);
    /// A word that is written under a condition.
    MayDef(Slot);
    /// A word that is written, if the program has it.
    OptionalDef(Option<Slot>);
    /// The first of several consecutive words that are written; [`Operand::Count`] has their number.
    DefWords(Slot);
    /// A word that is read.
    Word(Slot);
    /// The first of several consecutive words that are read; [`Operand::Count`] has their number.
    Words(Slot);
    /// Number of consecutive words, for [`Operand::DefWords`] and [`Operand::Words`].
    Count(u16);
    /// Number of bits, 1 to 64.
    Width(u8);
    /// Position of a bit, 0 to 63.
    Bit(u8);
    /// Two positions of bits, or two numbers of bits.
    BitPair([u8; 2]);
    /// Value of a bit.
    BitValue(bool);
    /// Comparison operator of a conditional jump.
    Test(super::Test);
    /// `==` if true, `!=` if false.
    Equality(bool);
    /// Two comparison operators: `==` if true, `!=` if false.
    Equalities([bool; 2]);
    /// Target of a jump.
    Target(Pc);
    /// Target of a jump, as the number of instructions after the next one.
    Offset(u16);
    /// Two jump targets, each as the number of instructions after the next one.
    Offsets([u16; 2]);
    /// A header instance.
    Header(u16);
    /// A header union.
    Union(u16);
    /// A header stack.
    Stack(u16);
    /// A stack of header unions.
    UnionStack(u16);
    /// A stack of headers or of header unions. The numbers of stacks of unions follow those of stacks of headers.
    AnyStack(u16);
    /// A field of the elements of a stack.
    Element(u16);
    /// A header operation on a stack element whose index is computed at run time.
    DynHeader(u16);
    /// A register array.
    Register(u16);
    /// A counter array.
    Counter(u16);
    /// A meter array.
    Meter(u16);
    /// A calculation.
    Calculation(u16);
    /// A table.
    Table(u16);
    /// An action.
    Action(u16);
    /// An expression that is evaluated in unbounded integers.
    Big(u32);
    /// A log message.
    LogMessage(u16);
    /// An assertion.
    Assertion(u16);
    /// A source location of a register access.
    Site(u16);
    /// Text of a condition or primitive that is written to the log.
    Note(u16);
    /// A counter of the program's coverage.
    CoverageCounter(u32);
}

/// A change that an instruction makes besides writing its operand words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// May drop the packet.
    Drop,
    /// Changes words of headers: validity, fields, stacks.
    Headers,
    /// Changes words that are not operands of the instruction.
    Words,
    /// Applies a table.
    Tables,
    /// Reads or changes state of extern objects: registers, counters, meters, hashes, random numbers.
    Externs,
    /// Changes what the packet has requested: clone, resubmission, recirculation, digest, truncation or exit.
    Packet,
    /// Writes to the log.
    Log,
}

/// The computed value of an instruction, as a function of the words that it reads.
#[derive(Clone, Copy, Debug)]
pub enum Computation {
    /// The word `a`.
    Copy { a: Slot },
    /// Bits `low` to `low + bits - 1` of `a`.
    Field { a: Slot, low: u8, bits: u8 },
    /// A function of two words.
    Binary {
        a: Slot,
        b: Slot,
        of: fn(u64, u64) -> u64,
    },
    /// `(a == b) == equal`
    Equal { a: Slot, b: Slot, equal: bool },
    /// `x & ((a == b) == equal)`
    AndEqual {
        x: Slot,
        a: Slot,
        b: Slot,
        equal: bool,
    },
    /// `x | ((a == b) == equal)`
    OrEqual {
        x: Slot,
        a: Slot,
        b: Slot,
        equal: bool,
    },
}

impl Computation {
    /// Returns the words on which the value depends. One word may occur twice.
    pub fn words(self) -> [Slot; 3] {
        match self {
            Computation::Copy { a } | Computation::Field { a, .. } => [a; 3],
            Computation::Binary { a, b, .. } | Computation::Equal { a, b, .. } => [a, b, b],
            Computation::AndEqual { x, a, b, .. } | Computation::OrEqual { x, a, b, .. } => {
                [x, a, b]
            }
        }
    }
}

/// Where control continues after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// At the next instruction.
    Next,
    /// At the target of an unconditional jump.
    Jump { to: Pc },
    /// At the next instruction or at the target of a conditional jump.
    Branch(Branch),
    /// At an instruction that the table determines by hit, miss and action. An action may run before.
    Table { table: u16 },
    /// At the next instruction, after an action has run.
    Call,
    /// At the next instruction, unless the pipeline ends.
    MayEnd,
    /// After the instruction that called the action.
    Return,
    /// Nowhere: the pipeline ends.
    End,
}

impl Flow {
    /// Returns the flow of a conditional jump to `to` that is taken unless the comparison holds.
    fn unless(a: Slot, test: Test, b: Slot, to: Pc) -> Flow {
        // Inequality is the negation of equality, so that facts about one decide the other.
        let (test, falls_through_on) = match test {
            Test::Ne => (Test::Eq, false),
            Test::Eq | Test::LtU | Test::LeU | Test::LtS | Test::LeS => (test, true),
        };
        Flow::Branch(Branch {
            condition: Condition::Order { a, b, test },
            falls_through_on,
            to,
        })
    }

    /// Returns the conditional jump, if the instruction is one.
    pub fn branch(self) -> Option<Branch> {
        match self {
            Flow::Branch(branch) => Some(branch),
            Flow::Next
            | Flow::Jump { .. }
            | Flow::Table { .. }
            | Flow::Call
            | Flow::MayEnd
            | Flow::Return
            | Flow::End => None,
        }
    }
}

/// A conditional jump: its condition, the outcome with which the next instruction is executed, and the target of the
/// jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    pub condition: Condition,
    pub falls_through_on: bool,
    pub to: Pc,
}

/// Condition of a conditional jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Comparison of two words.
    Order { a: Slot, b: Slot, test: Test },
    /// Comparison of selected bits of a word with another word, as in `Op::JumpUnlessBits`.
    Bits { a: Slot, low: u8, bits: u8, b: Slot },
    /// Test of one bit of a difference, as in `Op::JumpUnlessSubBit`.
    SubBit {
        a: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
    },
}

impl Condition {
    pub fn words(&self) -> [Slot; 2] {
        match *self {
            Condition::Order { a, b, .. }
            | Condition::Bits { a, b, .. }
            | Condition::SubBit { a, b, .. } => [a, b],
        }
    }
}

/// Comparison operator of `JumpIfNot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    Eq,
    Ne,
    LtU,
    LeU,
    LtS,
    LeS,
}

impl Test {
    #[inline(always)]
    pub fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Test::Eq => a == b,
            Test::Ne => a != b,
            Test::LtU => a < b,
            Test::LeU => a <= b,
            Test::LtS => (a as i64) < b as i64,
            Test::LeS => a as i64 <= b as i64,
        }
    }
}

/// Expands to `Some` of the operand if its role is `Result`, else to `None`.
macro_rules! result {
    (Result $field:ident) => {
        Some($field)
    };
    ($role:ident $field:ident) => {
        None
    };
}

/// Expands to `Some` of the operand if its role is `Target`, else to `None`.
macro_rules! target {
    (Target $field:ident) => {
        Some($field)
    };
    ($role:ident $field:ident) => {
        None
    };
}

/// Generates the types of instructions, and the functions that describe them, from the table [`for_each_op`].
macro_rules! instructions {
    (
        names ($zero:ident)
        frequent { $(
            $(#[doc = $f_doc:literal])+
            $f:ident $({ $($f_field:ident: $f_role:ident),* })? $f_text:literal,
            effects [$($f_effect:ident),*], value $f_value:expr, flow $f_flow:expr, run $f_run:expr;
        )* }
        rare { $(
            $(#[doc = $r_doc:literal])+
            $r:ident $({ $($r_field:ident: $r_role:ident),* })? $r_text:literal,
            effects [$($r_effect:ident),*], value $r_value:expr, flow $r_flow:expr, run $r_run:expr;
        )* }
        fused { $(
            $(#[doc = $x_doc:literal])+
            $x:ident { $($x_field:ident: $x_role:ident),* } $x_text:literal,
            fuses [$($x_of:ident),*], run $x_run:expr;
        )* }
    ) => {
        /// An instruction before fusion, as the loader emits it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[doc = $f_doc])+ $f $({ $($f_field: role::$f_role),* })?,)*
            $($(#[doc = $r_doc])+ $r $({ $($r_field: role::$r_role),* })?,)*
        }

        /// An instruction as the interpreter executes it: one of [`Op`], or a fused instruction. A fused instruction
        /// has the effect of several consecutive ones and skips them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FusedOp {
            $($(#[doc = $f_doc])+ $f $({ $($f_field: role::$f_role),* })?,)*
            $($(#[doc = $r_doc])+ $r $({ $($r_field: role::$r_role),* })?,)*
            $($(#[doc = $x_doc])+ $x { $($x_field: role::$x_role),* },)*
        }

        impl From<Op> for FusedOp {
            fn from(op: Op) -> FusedOp {
                match op {
                    $(Op::$f $({ $($f_field),* })? => FusedOp::$f $({ $($f_field),* })?,)*
                    $(Op::$r $({ $($r_field),* })? => FusedOp::$r $({ $($r_field),* })?,)*
                }
            }
        }

        impl Op {
            /// Returns the changes that the instruction makes besides writing its operand words.
            pub fn effects(self) -> &'static [Effect] {
                match self {
                    $(Op::$f { .. } => &[$(Effect::$f_effect),*],)*
                    $(Op::$r { .. } => &[$(Effect::$r_effect),*],)*
                }
            }

            /// Returns the word that the instruction computes, with its value. `None` if the dataflow facts do not
            /// follow the value.
            #[allow(unused_variables)]
            pub fn value(self) -> Option<(Slot, Computation)> {
                match self {
                    $(Op::$f $({ $($f_field),* })? => $f_value,)*
                    $(Op::$r $({ $($r_field),* })? => $r_value,)*
                }
            }

            /// Returns where control continues after the instruction. `zero` is the word of the constant 0.
            #[allow(unused_variables)]
            pub fn flow(self, $zero: Slot) -> Flow {
                match self {
                    $(Op::$f $({ $($f_field),* })? => $f_flow,)*
                    $(Op::$r $({ $($r_field),* })? => $r_flow,)*
                }
            }

            /// Returns the word with the result of a computation; `None` for other instructions.
            #[allow(unused_variables)]
            pub fn result_mut(&mut self) -> Option<&mut Slot> {
                match self {
                    $(Op::$f $({ $($f_field),* })? => None $($(.or(result!($f_role $f_field)))*)?,)*
                    $(Op::$r $({ $($r_field),* })? => None $($(.or(result!($r_role $r_field)))*)?,)*
                }
            }

            /// Returns the target of a jump; `None` for other instructions.
            #[allow(unused_variables)]
            pub fn target_mut(&mut self) -> Option<&mut Pc> {
                match self {
                    $(Op::$f $({ $($f_field),* })? => None $($(.or(target!($f_role $f_field)))*)?,)*
                    $(Op::$r $({ $($r_field),* })? => None $($(.or(target!($r_role $r_field)))*)?,)*
                }
            }
        }

        impl FusedOp {
            /// Returns the instruction's text for a disassembly, with the names of its operands in braces.
            pub fn text(self) -> &'static str {
                match self {
                    $(FusedOp::$f { .. } => $f_text,)*
                    $(FusedOp::$r { .. } => $r_text,)*
                    $(FusedOp::$x { .. } => $x_text,)*
                }
            }

            /// Calls `each` with the name of every operand and the operand.
            #[allow(unused_variables)]
            pub fn operands(self, mut each: impl FnMut(&'static str, Operand)) {
                match self {
                    $(FusedOp::$f $({ $($f_field),* })? => {
                        $($(each(stringify!($f_field), Operand::$f_role($f_field));)*)?
                    })*
                    $(FusedOp::$r $({ $($r_field),* })? => {
                        $($(each(stringify!($r_field), Operand::$r_role($r_field));)*)?
                    })*
                    $(FusedOp::$x { $($x_field),* } => {
                        $(each(stringify!($x_field), Operand::$x_role($x_field));)*
                    })*
                }
            }
        }

        /// The table of instructions as text, for the book: those that the loader emits, and the fused ones.
        #[cfg(test)]
        pub const ROWS: (&[Row], &[Row]) = (
            &[
                $(Row {
                    name: stringify!($f),
                    documentation: concat!($($f_doc),+),
                    text: $f_text,
                    operands: &[$($((stringify!($f_field), stringify!($f_role))),*)?],
                    notes: &[$(stringify!($f_effect)),*],
                },)*
                $(Row {
                    name: stringify!($r),
                    documentation: concat!($($r_doc),+),
                    text: $r_text,
                    operands: &[$($((stringify!($r_field), stringify!($r_role))),*)?],
                    notes: &[$(stringify!($r_effect)),*],
                },)*
            ],
            &[$(Row {
                name: stringify!($x),
                documentation: concat!($($x_doc),+),
                text: $x_text,
                operands: &[$((stringify!($x_field), stringify!($x_role))),*],
                notes: &[$(stringify!($x_of)),*],
            },)*],
        );

        // Fused instructions name instructions that exist.
        #[allow(unreachable_patterns)]
        const _: fn(Op) = |op| match op {
            $($(Op::$x_of { .. } => {})*)*
            $(Op::$f { .. })|* | $(Op::$r { .. })|* => {}
        };
    };
}
for_each_op!(instructions);

impl Op {
    /// Calls `each` with every operand.
    pub fn operands(self, mut each: impl FnMut(Operand)) {
        FusedOp::from(self).operands(|_, operand| each(operand));
    }
}

/// A row of the table of instructions, as text.
#[cfg(test)]
pub struct Row {
    pub name: &'static str,
    pub documentation: &'static str,
    pub text: &'static str,
    /// Name and role of each operand.
    pub operands: &'static [(&'static str, &'static str)],
    /// Effects of the instruction; for a fused one, the instructions that it replaces.
    pub notes: &'static [&'static str],
}

const _: () = assert!(std::mem::size_of::<FusedOp>() <= 16);
