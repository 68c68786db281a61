/* An ordinary MPI program: broadcasts of many sizes, roots and datatypes, in communicators of many kinds, and barriers.
* It checks all received data, and prints a digest that does not depend on how the bytes were carried.
*
* usage: mpirun -np N collectives [LONGEST]     LONGEST: bytes of the longest message, default 300000 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t digest = 14695981039346656037u;
static int wrong;

static void take(const void *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

static void fail(const char *what, long size, int root) {
    if (!wrong)
        fprintf(stderr, "wrong: %s, %ld bytes from %d\n", what, size, root);
    wrong = 1;
}

static unsigned char value(long i, int root, int turn) { return (unsigned char)(i * 7 + i / 251 + root * 31 + turn); }

static void plain(MPI_Comm comm, long size, int root, int turn) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    unsigned char *bytes = malloc((size_t)size + 2);
    memset(bytes, 0xee, (size_t)size + 2);
    for (long i = 0; rank == root && i < size; i++)
        bytes[i + 1] = value(i, root, turn);
    MPI_Bcast(bytes + 1, (int)size, MPI_BYTE, root, comm);
    for (long i = 0; i < size; i++)
        if (bytes[i + 1] != value(i, root, turn))
            fail("plain", size, root);
    if (bytes[0] != 0xee || bytes[size + 1] != 0xee)
        fail("bytes beside the message", size, root);
    take(bytes + 1, (size_t)size);
    free(bytes);
}

/* The root sends a column of a matrix, the others receive it as a row: types differ, signatures match. */
static void strided(MPI_Comm comm, int count, int root) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Datatype column, row;
    MPI_Type_vector(count, 1, 3, MPI_INT, &column);
    MPI_Type_contiguous(count, MPI_INT, &row);
    MPI_Type_commit(&column);
    MPI_Type_commit(&row);
    int *ints = malloc(sizeof *ints * (size_t)count * 3);
    for (int i = 0; i < count * 3; i++)
        ints[i] = rank == root ? i * 5 + root : -1;
    MPI_Bcast(ints, 1, rank == root ? column : row, root, comm);
    for (int i = 0; i < count; i++) {
        int got = ints[rank == root ? i * 3 : i];
        if (got != i * 15 + root)
            fail("strided", count * 4L, root);
        take(&got, sizeof got);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&row);
    free(ints);
}

/* A datatype without gaps, whose elements are out of order. */
static void shuffled(MPI_Comm comm, int root) {
    int rank, lengths[2] = {1, 1}, at[2] = {1, 0}, ints[8];
    MPI_Comm_rank(comm, &rank);
    MPI_Datatype type;
    MPI_Type_indexed(2, lengths, at, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 8; i++)
        ints[i] = rank == root ? i : -1;
    if (rank == root)
        MPI_Bcast(ints, 4, type, root, comm);
    else
        MPI_Bcast(ints, 8, MPI_INT, root, comm);
    for (int i = 0; i < 8; i++)
        if (ints[i] != (rank == root ? i : i ^ 1))
            fail("shuffled", 32, root);
    struct {
        double number;
        int place;
    } pair = {rank == root ? 2.5 : 0, rank == root ? 9 : 0};
    MPI_Bcast(&pair, 1, MPI_DOUBLE_INT, root, comm);
    if (pair.number != 2.5 || pair.place != 9)
        fail("a pair", 12, root);
    MPI_Type_free(&type);
}

/* Several broadcasts at once, whose datatype is freed before they complete. */
static void begun(MPI_Comm comm, int size) {
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    MPI_Request requests[6];
    unsigned char *bytes[6];
    for (int turn = 0; turn < 6; turn++) {
        int root = turn % ranks;
        bytes[turn] = calloc(1, (size_t)size + 1);
        for (int i = 0; rank == root && i < size; i++)
            bytes[turn][i] = value(i, root, turn);
        MPI_Datatype type;
        MPI_Type_contiguous(size, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Ibcast(bytes[turn], 1, type, root, comm, &requests[turn]);
        MPI_Type_free(&type);
    }
    /* This broadcast is ordered after those. */
    plain(comm, size, ranks - 1, 99);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < size; i++)
            if (bytes[turn][i] != value(i, turn % ranks, turn))
                fail("begun", size, turn % ranks);
        take(bytes[turn], (size_t)size);
        free(bytes[turn]);
    }
}

/* No rank leaves a barrier before the slowest rank has entered. */
static void barriers(MPI_Comm comm) {
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int slowest = 0; slowest < ranks; slowest++) {
        double came, *all = malloc(sizeof *all * (size_t)ranks);
        int late = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank == slowest) {
            usleep(30000);
            for (int to = 0; to < ranks; to++)
                if (to != rank)
                    MPI_Send(&slowest, 1, MPI_INT, to, 5, comm);
        } else {
            MPI_Irecv(&late, 1, MPI_INT, slowest, 5, comm, &request);
        }
        MPI_Barrier(comm);
        came = MPI_Wtime();
        (void)came;
        if (rank != slowest) {
            /* A message sent before the barrier can be found soon after it; MPI promises no more. */
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (late != slowest)
                fail("barrier", 0, slowest);
        }
        free(all);
    }
}

/* A long message is started before a barrier and completed after it, as MPI allows. It is sent only while its sender, in the barrier,
* makes progress in MPI, and its receivers enter the barrier only when they have it. */
static void barrier_with_a_message_under_way(MPI_Comm comm) {
    enum { LONG = 1 << 20 };
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    unsigned char *bytes = malloc(LONG);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)ranks);
    for (int sender = 0; sender < ranks; sender++) {
        if (rank == sender) {
            for (int i = 0; i < LONG; i++)
                bytes[i] = value(i, sender, 7);
            for (int to = 0; to < ranks; to++) {
                requests[to] = MPI_REQUEST_NULL;
                if (to != rank)
                    MPI_Isend(bytes, LONG, MPI_BYTE, to, 6, comm, &requests[to]);
            }
        } else {
            MPI_Recv(bytes, LONG, MPI_BYTE, sender, 6, comm, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(comm);
        if (rank == sender)
            MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < LONG; i++)
            if (bytes[i] != value(i, sender, 7))
                fail("under way", LONG, sender);
    }
    free(requests);
    free(bytes);
}

/* Communicators in which the same two ranks start broadcasts in different orders. */
static void crossed(MPI_Comm a, MPI_Comm b) {
    int rank, one = 0, two = 0;
    MPI_Request requests[2];
    MPI_Comm_rank(a, &rank);
    if (rank == 0)
        one = 11, two = 22;
    if (rank % 2) {
        MPI_Ibcast(&two, 1, MPI_INT, 0, b, &requests[1]);
        MPI_Ibcast(&one, 1, MPI_INT, 0, a, &requests[0]);
    } else {
        MPI_Ibcast(&one, 1, MPI_INT, 0, a, &requests[0]);
        MPI_Ibcast(&two, 1, MPI_INT, 0, b, &requests[1]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (one != 11 || two != 22)
        fail("crossed", 4, 0);
}

static void all_of(MPI_Comm comm, long longest) {
    static const long sizes[] = {0, 1, 7, 64, 1023, 1024, 4097, 65536, 70001, 300000, 2097153};
    int ranks;
    MPI_Comm_size(comm, &ranks);
    for (int turn = 0; turn < (int)(sizeof sizes / sizeof *sizes); turn++)
        for (int root = 0; root < ranks && sizes[turn] <= longest; root += sizes[turn] > 5000 ? 2 : 1)
            plain(comm, sizes[turn], root, turn);
    strided(comm, 1, 0);
    strided(comm, 3000, ranks - 1);
    shuffled(comm, ranks / 2);
    begun(comm, 5000);
    barriers(comm);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    long longest = argc > 1 ? atol(argv[1]) : 300000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    all_of(MPI_COMM_WORLD, longest);
    barrier_with_a_message_under_way(MPI_COMM_WORLD);
    all_of(MPI_COMM_SELF, 4097);
    MPI_Comm twin, half, reversed;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    all_of(twin, 4097);
    all_of(half, 70001);
    all_of(reversed, 4097);
    crossed(MPI_COMM_WORLD, twin);
    if (ranks > 1) {
        MPI_Comm inter;
        int sent = rank == 0 ? 42 : 0;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 3, &inter);
        MPI_Bcast(&sent, 1, MPI_INT, rank % 2 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
        if ((rank % 2 || rank == 0) && sent != 42)
            fail("between two groups", 4, 0);
        MPI_Barrier(inter);
        MPI_Comm_free(&inter);
    }
    MPI_Comm_free(&reversed);
    MPI_Comm_free(&half);
    MPI_Comm_free(&twin);
    uint64_t *digests = malloc(sizeof *digests * (size_t)ranks);
    int any = 0;
    MPI_Gather(&digest, 1, MPI_UINT64_T, digests, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &any, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks; i++)
        printf("rank %d: %016llx\n", i, (unsigned long long)digests[i]);
    free(digests);
    MPI_Finalize();
    return rank == 0 && any;
}
