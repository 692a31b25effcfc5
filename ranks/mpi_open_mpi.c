/* Open MPI: a handle is a pointer to an object of the library, and what mpi.h calls MPI_BYTE is the
   address of one that it exports. */
#include <dlfcn.h>
#include <stddef.h>

#include "base/library.h"
#include "ranks/mpi.h"

typedef struct open_mpi_status {
  int source, tag, error, is_cancelled;
  size_t bytes;
} open_mpi_status_t;

static struct { void *world, *byte, *errors_return; } open_mpi_handles;

static const char *open_mpi_find_handles(void *lib) {
  open_mpi_handles.world = dlsym(lib, "ompi_mpi_comm_world");
  open_mpi_handles.byte = dlsym(lib, "ompi_mpi_byte");
  open_mpi_handles.errors_return = dlsym(lib, "ompi_mpi_errors_return");
  return !open_mpi_handles.world           ? "ompi_mpi_comm_world"
         : !open_mpi_handles.byte          ? "ompi_mpi_byte"
         : !open_mpi_handles.errors_return ? "ompi_mpi_errors_return"
                                           : NULL;
}

#define HANDLE void *
#define FIELD pointer
#define STATUS open_mpi_status_t
#define CALLS open_mpi_calls
#define LOAD open_mpi_load
#define START open_mpi_start
#define HAS_ENDED open_mpi_has_ended
#define FINISH open_mpi_finish
#define SEND open_mpi_send
#define RECEIVE open_mpi_receive
#define TEST open_mpi_test
#define PROBE open_mpi_probe
#define SHOW_VERSION open_mpi_show_version
#define FIND_HANDLES open_mpi_find_handles
#define HANDLES open_mpi_handles
#define TABLE mr__mpi_open_mpi
#include "ranks/mpi_calls.inc"
