! An ordinary Fortran MPI program. It checks all received data, and prints a digest for each rank.
!
! mpif90 -DUSE_MPI_F08 has it use the module mpi_f08, -DUSE_MPI the module mpi; otherwise it includes mpif.h.
!
! usage: mpirun -np N fortran

program fortran
#if defined(USE_MPI_F08)
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  implicit none
#if !defined(USE_MPI_F08) && !defined(USE_MPI)
  include 'mpif.h'
#endif
#if defined(USE_MPI_F08)
  type(MPI_Request) :: request
  type(MPI_Datatype) :: column
#else
  integer :: request, column
#endif
  integer, parameter :: longest = 40000
  integer :: numbers(longest), strided(3, 500)
  double precision :: reals(longest)
  integer :: rank, ranks, root, turn, count, i, provided, ierror
  integer :: digest, wrong, any
  integer, allocatable :: digests(:)

  call MPI_Init_thread(MPI_THREAD_SINGLE, provided, ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  digest = 1
  wrong = 0

  do turn = 0, 3
    count = merge(longest, 1 + 700 * turn, turn == 3)
    root = mod(turn, ranks)
    do i = 1, count
      numbers(i) = merge(i * 3 + turn, -1, rank == root)
    end do
    call MPI_Bcast(numbers, count, MPI_INTEGER, root, MPI_COMM_WORLD, ierror)
    if (ierror /= MPI_SUCCESS) wrong = 1
    do i = 1, count
      if (numbers(i) /= i * 3 + turn) wrong = 1
      digest = ieor(ishftc(digest, 5), numbers(i))
    end do
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierror)

  ! One that is begun, and waited for later.
  root = ranks - 1
  do i = 1, longest
    reals(i) = merge(dble(i) / 2, 0d0, rank == root)
  end do
  call MPI_Ibcast(reals, longest, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  do i = 1, longest
    if (reals(i) /= dble(i) / 2) wrong = 1
    digest = ieor(ishftc(digest, 3), int(reals(i)))
  end do

  ! Every third number.
  call MPI_Type_vector(500, 1, 3, MPI_INTEGER, column, ierror)
  call MPI_Type_commit(column, ierror)
  do i = 1, 500
    strided(:, i) = rank
    if (rank == 0) strided(1, i) = 7 * i
  end do
  call MPI_Bcast(strided, 1, column, 0, MPI_COMM_WORLD, ierror)
  do i = 1, 500
    if (strided(1, i) /= 7 * i .or. strided(2, i) /= rank) wrong = 1
    digest = ieor(ishftc(digest, 7), strided(1, i))
  end do
  call MPI_Type_free(column, ierror)

  allocate(digests(ranks))
  call MPI_Gather(digest, 1, MPI_INTEGER, digests, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
  call MPI_Reduce(wrong, any, 1, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
  if (rank == 0) then
    do i = 1, ranks
      print '(A, I0, A, Z8.8)', 'rank ', i - 1, ': ', digests(i)
    end do
    if (any /= 0) print '(A)', 'wrong'
  end if
  call MPI_Finalize(ierror)
end program fortran
