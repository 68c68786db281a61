//! The MPI functions of this library, for Fortran programs. Open MPI's Fortran subroutines call the underlying MPI, not
//! the C functions of this library.
//!
//! Compilers write the name of a subroutine in one of four ways. The modules of `mpi_f08` call C functions with names
//! of their own. Handles are integers, all arguments are passed by address, and the last argument receives the error
//! code.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::calls::{MPI_Barrier, MPI_Bcast, MPI_Finalize, MPI_Ibcast, MPI_Init, MPI_Init_thread};
use crate::sys::{shim_buffer_of, shim_comm_of, shim_request_to, shim_type_of, Fint};

/// Defines a Fortran subroutine under the names that different compilers use for it.
macro_rules! subroutine {
    ([$($name:ident)*], $arguments:tt, $does:block) => {
        $(subroutine!(@one $name, $arguments, $does);)*
    };
    (@one $name:ident, ($($argument:ident: $type:ty),*), $does:block) => {
        /// # Safety
        /// The requirements of the MPI subroutine of the same name; the arguments are addresses.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($argument: $type,)* ierror: *mut Fint) {
            // SAFETY: the program guarantees valid arguments.
            let code: Fint = unsafe { $does };
            // SAFETY: as above. A call from C may omit it.
            if let Some(ierror) = unsafe { ierror.as_mut() } {
                *ierror = code;
            }
        }
    };
}

subroutine!([mpi_init mpi_init_ mpi_init__ MPI_INIT MPI_Init_f MPI_Init_f08 ompi_init_f], (), {
    MPI_Init(null_mut(), null_mut())
});

subroutine!(
    [mpi_init_thread mpi_init_thread_ mpi_init_thread__ MPI_INIT_THREAD MPI_Init_thread_f MPI_Init_thread_f08 ompi_init_thread_f],
    (required: *const Fint, provided: *mut Fint),
    {
        MPI_Init_thread(null_mut(), null_mut(), *required, provided)
    }
);

subroutine!(
    [mpi_finalize mpi_finalize_ mpi_finalize__ MPI_FINALIZE MPI_Finalize_f MPI_Finalize_f08 ompi_finalize_f],
    (),
    { MPI_Finalize() }
);

subroutine!(
    [mpi_bcast mpi_bcast_ mpi_bcast__ MPI_BCAST MPI_Bcast_f MPI_Bcast_f08 ompi_bcast_f],
    (buffer: *mut c_void, count: *const Fint, datatype: *const Fint, root: *const Fint, comm: *const Fint),
    {
        MPI_Bcast(
            shim_buffer_of(buffer),
            *count,
            shim_type_of(*datatype),
            *root,
            shim_comm_of(*comm),
        )
    }
);

subroutine!(
    [mpi_ibcast mpi_ibcast_ mpi_ibcast__ MPI_IBCAST MPI_Ibcast_f MPI_Ibcast_f08 ompi_ibcast_f],
    (buffer: *mut c_void, count: *const Fint, datatype: *const Fint, root: *const Fint, comm: *const Fint, request: *mut Fint),
    {
        let mut begun = null_mut();
        let code = MPI_Ibcast(
            shim_buffer_of(buffer),
            *count,
            shim_type_of(*datatype),
            *root,
            shim_comm_of(*comm),
            &mut begun,
        );
        if !begun.is_null() {
            *request = shim_request_to(begun);
        }
        code
    }
);

subroutine!(
    [mpi_barrier mpi_barrier_ mpi_barrier__ MPI_BARRIER MPI_Barrier_f MPI_Barrier_f08 ompi_barrier_f],
    (comm: *const Fint),
    { MPI_Barrier(shim_comm_of(*comm)) }
);
