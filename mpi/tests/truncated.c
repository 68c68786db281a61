/* A faulty program, whose errors return: the last rank's buffer is too short for the root's message. After its broadcast has failed, the library must
* not write to its memory any more. Prints the code of each, and whether the memory was unchanged. */

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* The chain cuts the message into three slices and the buffer into two. The first slice is too long; the second arrives after the failure. */
enum { LEN = 260000, ROOM = 140000 };

int main(int argc, char **argv) {
    static unsigned char bytes[LEN];
    int rank, ranks, code;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(bytes, rank == 0 ? 0x11 : 0x22, LEN);
    if (rank == ranks - 1) {
        code = MPI_Bcast(bytes, ROOM, MPI_BYTE, 0, MPI_COMM_WORLD);
        memset(bytes, 0x33, LEN);
        /* Messages without a receive arrive now. */
        MPI_Send(&code, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&code, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int kept = 1;
        for (int i = 0; i < LEN; i++)
            kept &= bytes[i] == 0x33;
        MPI_Send(&kept, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    } else if (rank == 0) {
        int theirs, kept, class;
        MPI_Request request;
        MPI_Irecv(&theirs, 1, MPI_INT, ranks - 1, 1, MPI_COMM_WORLD, &request);
        code = MPI_Bcast(bytes, LEN, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&code, 1, MPI_INT, ranks - 1, 2, MPI_COMM_WORLD);
        MPI_Recv(&kept, 1, MPI_INT, ranks - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(theirs, &class);
        printf("root %s, last %s, memory %s\n", code == MPI_SUCCESS ? "well" : "failed",
               class == MPI_ERR_TRUNCATE ? "truncated" : class == MPI_SUCCESS ? "well" : "failed", kept ? "kept" : "changed");
    } else {
        MPI_Bcast(bytes, LEN, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
