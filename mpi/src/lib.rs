//! A library that unchanged MPI programs load. It replaces MPI_Bcast, MPI_Ibcast and MPI_Barrier by Alfirk groups, or
//! by any overlay of [`alfirk_roce::collective`]. All other calls, and calls that fail, use the underlying MPI.
//!
//! ```text
//!   the program ── MPI_Bcast ──▶ calls ──▶ communicator ──┬─▶ hosts ── group (alfirk_verbs)
//!                                          (ibcast: worker) ├─▶ overlay ── messages of the underlying MPI
//!                                                           └─▶ the underlying MPI
//! ```
//!
//! All members of a communicator must use the same transport. They choose it from values that all of them have
//! (`settings`, `addresses`, plans), or by an agreement of all. The library's messages use a communicator of its
//! own. Fortran programs enter through `fortran`, which calls the same functions as C programs.

mod active_group;
mod addresses;
mod buffer;
mod calls;
mod communicator;
mod fortran;
mod hosts;
mod job;
mod overlay;
mod settings;
mod sys;
mod worker;
