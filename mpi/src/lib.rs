//! A library that MPI programs load unchanged: their MPI_Bcast, MPI_Ibcast and MPI_Barrier go over Alfirk groups, or along any overlay of
//! [`alfirk_roce::collective`]; everything else, and what fails, goes by the MPI beneath.
//!
//! ```text
//!   the program ── MPI_Bcast ──▶ calls ──▶ communicator ──┬─▶ hosts ── group (alfirk_verbs)
//!                                          (ibcast: worker) ├─▶ overlay ── messages of the MPI beneath
//!                                                           └─▶ the MPI beneath
//! ```
//!
//! What members of a communicator must do alike is decided by what they all know (`settings`, `addresses`, `schedule`), or by an
//! agreement of all: no member ever goes another way than the others. Messages of ours go in a communicator of our own.
//! Programs in Fortran come in by `fortran`, which calls what programs in C call.

mod addresses;
mod calls;
mod communicator;
mod fortran;
mod hosts;
mod job;
mod joined;
mod overlay;
mod schedule;
mod settings;
mod sys;
mod worker;
