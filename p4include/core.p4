/* SPDX-License-Identifier: Apache-2.0
 *
 * The core library of P4_16 (specification 1.2.5, appendix "Core library"): what every architecture builds on.
 */

#ifndef _CORE_P4_
#define _CORE_P4_

/* Errors that parsers raise by themselves. Programs may declare more. */
error {
    NoError,                // nothing went wrong
    PacketTooShort,         // extract, lookahead or advance ran past the end of the packet
    NoMatch,                // no case of a select expression matched
    StackOutOfBounds,       // next or last of a stack that is full or empty
    HeaderTooShort,         // more bits for a varbit field than it can hold
    ParserTimeout,          // the parser took too long
    ParserInvalidArgument   // an argument that the operation cannot take
}

/* The packet being parsed. */
extern packet_in {
    /* Fills a header of fixed size from the packet, makes it valid, and moves on. */
    void extract<T>(out T hdr);
    /* The same for a header with one varbit field, which becomes variableFieldSizeInBits long. */
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /* The next bits, read as a T, without moving on. */
    @noSideEffects
    T lookahead<T>();
    /* Skips bits. */
    void advance(in bit<32> sizeInBits);
    /* Length of the packet in bytes, where the target knows it. */
    @pure
    bit<32> length();
}

/* The packet being put together. */
extern packet_out {
    /* Appends a header if it is valid; of structs, stacks and unions, the valid headers in order. */
    void emit<T>(in T hdr);
}

/* In parsers: goes on if the check holds, else sets the parser's error and rejects. */
extern void verify(in bool check, in error toSignal);

/* Checked while compiling: an error, with the message, if the check does not hold. Returns true. */
@pure
extern bool static_assert(bool check, string message);
@pure
extern bool static_assert(bool check);

/* The action of tables that say nothing else. */
@noWarn("unused")
action NoAction() {}

/* How keys of tables match. Architectures add theirs. */
match_kind {
    exact,      // equal
    ternary,    // equal where the mask has ones
    lpm         // longest prefix wins
}

#endif
