/* Constants of MPI that only its header defines, and calls that use them. Declared in sys.rs; each function returns MPI's code. */

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

_Static_assert(sizeof(MPI_Comm) == sizeof(void *) && sizeof(MPI_Datatype) == sizeof(void *) &&
                   sizeof(MPI_Request) == sizeof(void *),
               "handles of this MPI are not pointers: Open MPI is needed");

/* Tags of the messages of plans, and of notices that a group has failed. */
enum { DATA = 1, NOTICE = 2 };

int shim_success(void) { return MPI_SUCCESS; }
int shim_internal(void) { return MPI_ERR_INTERN; }
int shim_thread_multiple(void) { return MPI_THREAD_MULTIPLE; }
int shim_thread_single(void) { return MPI_THREAD_SINGLE; }
MPI_Comm shim_world(void) { return MPI_COMM_WORLD; }

/* Whether the communicator is valid and has a single group of members. */
int shim_is_intra(MPI_Comm comm) {
    int inter = 1;
    return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter;
}

int shim_rank(MPI_Comm comm, int *rank) { return PMPI_Comm_rank(comm, rank); }
int shim_size(MPI_Comm comm, int *size) { return PMPI_Comm_size(comm, size); }

/* The ranks of all members in MPI_COMM_WORLD; -1 for a process outside it. */
int shim_world_ranks(MPI_Comm comm, int size, int *ranks) {
    MPI_Group members, world;
    int code = PMPI_Comm_group(comm, &members);
    if (code != MPI_SUCCESS)
        return code;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    int *all = malloc(sizeof *all * (size_t)(size ? size : 1));
    if (!all)
        code = MPI_ERR_NO_MEM;
    else {
        for (int rank = 0; rank < size; rank++)
            all[rank] = rank;
        code = PMPI_Group_translate_ranks(members, size, all, world, ranks);
        for (int rank = 0; rank < size; rank++)
            if (ranks[rank] == MPI_UNDEFINED)
                ranks[rank] = -1;
    }
    free(all);
    PMPI_Group_free(&members);
    PMPI_Group_free(&world);
    return code;
}

/* A communicator of the same members, for this library's messages. Unlike MPI_Comm_dup() it is not a collective of `comm`, and calls no attribute
* functions. */
int shim_duplicate(MPI_Comm comm, int tag, MPI_Comm *duplicate) {
    MPI_Group members;
    int code = PMPI_Comm_group(comm, &members);
    if (code != MPI_SUCCESS)
        return code;
    code = PMPI_Comm_create_group(comm, members, tag, duplicate);
    PMPI_Group_free(&members);
    return code;
}

/* A communicator of the members on this host. */
int shim_on_host(MPI_Comm comm, int rank, MPI_Comm *host) {
    return PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, host);
}

/* A communicator of some of the members; NULL at the others. */
int shim_subset(MPI_Comm comm, int is_member, int rank, MPI_Comm *subset) {
    int code = PMPI_Comm_split(comm, is_member ? 0 : MPI_UNDEFINED, rank, subset);
    if (code == MPI_SUCCESS && *subset == MPI_COMM_NULL)
        *subset = NULL;
    return code;
}

int shim_free(MPI_Comm *comm) { return PMPI_Comm_free(comm); }
int shim_min(MPI_Comm comm, int *value) { return PMPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MIN, comm); }
int shim_gather(MPI_Comm comm, uint64_t own, uint64_t *all) {
    return PMPI_Allgather(&own, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, comm);
}
int shim_bcast(MPI_Comm comm, void *bytes, int len, int root) { return PMPI_Bcast(bytes, len, MPI_BYTE, root, comm); }
int shim_barrier(MPI_Comm comm) { return PMPI_Barrier(comm); }

int shim_isend(MPI_Comm comm, const void *bytes, int len, int to, MPI_Request *request) {
    return PMPI_Isend(bytes, len, MPI_BYTE, to, DATA, comm, request);
}
int shim_irecv(MPI_Comm comm, void *bytes, int len, int from, MPI_Request *request) {
    return PMPI_Irecv(bytes, len, MPI_BYTE, from, DATA, comm, request);
}
/* *which is -1 when no request is left. */
int shim_wait_any(int count, MPI_Request *requests, int *which) {
    int code = PMPI_Waitany(count, requests, which, MPI_STATUS_IGNORE);
    if (*which == MPI_UNDEFINED)
        *which = -1;
    return code;
}
int shim_wait_all(int count, MPI_Request *requests) { return PMPI_Waitall(count, requests, MPI_STATUSES_IGNORE); }

/* Cancels receives; none of them writes to its memory after this. */
void shim_cancel(int count, MPI_Request *requests) {
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL && PMPI_Cancel(&requests[i]) == MPI_SUCCESS)
            PMPI_Wait(&requests[i], MPI_STATUS_IGNORE);
}

int shim_send_notice(MPI_Comm comm, int to, uint64_t notice) { return PMPI_Send(&notice, 1, MPI_UINT64_T, to, NOTICE, comm); }
int shim_has_notice(MPI_Comm comm, int *here) {
    return PMPI_Iprobe(MPI_ANY_SOURCE, NOTICE, comm, here, MPI_STATUS_IGNORE);
}
int shim_receive_notice(MPI_Comm comm, uint64_t *notice) {
    return PMPI_Recv(notice, 1, MPI_UINT64_T, MPI_ANY_SOURCE, NOTICE, comm, MPI_STATUS_IGNORE);
}

/* Whether the elements are contiguous in memory, without gaps, in the order in which they are sent. */
static int is_plain(MPI_Datatype type, int depth) {
    int integers, addresses, types, combiner, size;
    MPI_Aint lower, extent;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS ||
        PMPI_Type_size(type, &size) != MPI_SUCCESS || PMPI_Type_get_extent(type, &lower, &extent) != MPI_SUCCESS ||
        lower != 0 || extent != size)
        return 0;
    if (combiner == MPI_COMBINER_NAMED)
        return 1;
    if ((combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP) || integers > 1 || addresses || types != 1 || !depth)
        return 0;
    int count;
    MPI_Aint none;
    MPI_Datatype of;
    if (PMPI_Type_get_contents(type, integers, 0, 1, &count, &none, &of) != MPI_SUCCESS)
        return 0;
    int plain = is_plain(of, depth - 1);
    if (PMPI_Type_get_envelope(of, &integers, &addresses, &types, &combiner) == MPI_SUCCESS && combiner != MPI_COMBINER_NAMED)
        PMPI_Type_free(&of);
    return plain;
}

/* Length of one element in bytes, and whether elements are contiguous. */
int shim_layout(MPI_Datatype type, uint64_t *size, int *plain) {
    MPI_Count bytes;
    if (type == MPI_DATATYPE_NULL)
        return MPI_ERR_TYPE;
    int code = PMPI_Type_size_x(type, &bytes);
    if (code != MPI_SUCCESS)
        return code;
    if (bytes < 0)
        return MPI_ERR_TYPE;
    *size = (uint64_t)bytes;
    *plain = is_plain(type, 16);
    return MPI_SUCCESS;
}
int shim_pack_size(int count, MPI_Datatype type, MPI_Comm comm, int *size) { return PMPI_Pack_size(count, type, comm, size); }
int shim_pack(const void *from, int count, MPI_Datatype type, void *to, int len, int *used, MPI_Comm comm) {
    *used = 0;
    return PMPI_Pack(from, count, type, to, len, used, comm);
}
int shim_unpack(const void *from, int len, void *to, int count, MPI_Datatype type, MPI_Comm comm) {
    int used = 0;
    return PMPI_Unpack(from, len, &used, to, count, type, comm);
}
int shim_type_dup(MPI_Datatype type, MPI_Datatype *dup) { return PMPI_Type_dup(type, dup); }
int shim_type_free(MPI_Datatype *type) { return PMPI_Type_free(type); }

/* Called when a communicator with attached state is freed. */
void alfirk_mpi_detach(void *attached);

static int keyval = MPI_KEYVAL_INVALID;

static int detach(MPI_Comm comm, int key, void *attached, void *extra) {
    (void)comm, (void)key, (void)extra;
    alfirk_mpi_detach(attached);
    return MPI_SUCCESS;
}

int shim_make_attribute(void) { return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, detach, &keyval, NULL); }
int shim_attach(MPI_Comm comm, void *value) { return PMPI_Comm_set_attr(comm, keyval, value); }
/* The attached state; NULL if there is none. */
void *shim_attached(MPI_Comm comm) {
    void *value;
    int found = 0;
    return PMPI_Comm_get_attr(comm, keyval, &value, &found) == MPI_SUCCESS && found ? value : NULL;
}

/* Conversion of Fortran handles, which are integers. */
MPI_Comm shim_comm_of(MPI_Fint comm) { return PMPI_Comm_f2c(comm); }
MPI_Datatype shim_type_of(MPI_Fint type) { return PMPI_Type_f2c(type); }
MPI_Fint shim_request_to(MPI_Request request) { return PMPI_Request_c2f(request); }

/* In Fortran MPI_BOTTOM is a variable whose symbol depends on the compiler; a program without these symbols does not use it. */
extern char mpi_fortran_bottom __attribute__((weak)), mpi_fortran_bottom_ __attribute__((weak));
extern char mpi_fortran_bottom__ __attribute__((weak)), MPI_FORTRAN_BOTTOM __attribute__((weak));

void *shim_buffer_of(char *buffer) {
    if (buffer && (buffer == &mpi_fortran_bottom || buffer == &mpi_fortran_bottom_ || buffer == &mpi_fortran_bottom__ ||
                   buffer == &MPI_FORTRAN_BOTTOM))
        return MPI_BOTTOM;
    return buffer;
}

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
static int nothing_to_free(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}
static int no_cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}
int shim_request(MPI_Request *request) { return PMPI_Grequest_start(query, nothing_to_free, no_cancel, NULL, request); }
int shim_complete(MPI_Request request) { return PMPI_Grequest_complete(request); }
