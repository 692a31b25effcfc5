/* MPICH, and what has its ABI, as Intel's: a handle is a number that mpi.h fixes.  The ABI has been
   the same since 2013 (libmpi.so.12). */
#include "base/library.h"
#include "ranks/mpi.h"

typedef struct mpich_status {
  int count_low, count_high_and_cancelled, source, tag, error;
} mpich_status_t;

static const struct {
  int world, byte, errors_return;
} mpich_handles = {0x44000000, 0x4c00010d, 0x54000001};

static const char *mpich_find_handles(void *lib) { return NULL; }

#define HANDLE int
#define FIELD number
#define STATUS mpich_status_t
#define CALLS mpich_calls
#define LOAD mpich_load
#define START mpich_start
#define HAS_ENDED mpich_has_ended
#define FINISH mpich_finish
#define SEND mpich_send
#define RECEIVE mpich_receive
#define TEST mpich_test
#define PROBE mpich_probe
#define SHOW_VERSION mpich_show_version
#define FIND_HANDLES mpich_find_handles
#define HANDLES mpich_handles
#define TABLE mr__mpi_mpich
#include "ranks/mpi_calls.inc"
