/* A broadcast that can be found in captures: blocks of 64 bytes that begin with a word. Then a broadcast back, of other bytes.
*
* usage: mpirun -np N marked WORD BLOCKS */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, ranks, good = 1, all;
    MPI_Init(&argc, &argv);
    if (argc != 3 || strlen(argv[1]) >= 64 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: marked WORD BLOCKS, with a WORD shorter than 64 bytes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int blocks = atoi(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *bytes = calloc((size_t)blocks, 64);
    for (int i = 0; rank == 0 && i < blocks; i++)
        strcpy(bytes + i * 64, argv[1]);
    MPI_Bcast(bytes, blocks * 64, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < blocks; i++)
        good &= strcmp(bytes + i * 64, argv[1]) == 0;
    for (int i = 0; i < blocks * 64; i++)
        bytes[i] = rank == ranks - 1 ? ~bytes[i] : 0;
    MPI_Bcast(bytes, blocks * 64, MPI_CHAR, ranks - 1, MPI_COMM_WORLD);
    for (int i = 0; i < blocks; i++)
        good &= bytes[i * 64] == ~argv[1][0] && bytes[i * 64 + 63] == ~0;
    MPI_Reduce(&good, &all, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", argv[1], all ? "received" : "WRONG");
    free(bytes);
    MPI_Finalize();
    return 0;
}
